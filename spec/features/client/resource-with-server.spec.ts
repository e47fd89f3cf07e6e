// Our client and our server, with the official transports in between, over wires that are cut at
// random.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { fc, times } from '../../helpers/property.js'
import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { resumableFetch, streamResource } from '../../../lib/client/index.js'
import { mcpStreams } from '../../../lib/index.js'
import { fileResources, resources, type ResourcesOptions } from '../../../lib/resources/index.js'
import { createCutProxy, type Cut, type CutBy, type CutProxy } from '../../helpers/cut-proxy.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { bytesOf, drain, sha256 } from './resource-server.js'
import { SETUPS, type Setup } from './setups.js'

const BYTES = bytesOf(150_000)
const SUM = sha256(BYTES)
const FILE = 'files:///report.pdf'
const FAST = { minTimeout: 1, maxTimeout: 20, idleTimeout: 50, maxRetries: 100 }

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'resources-'))
  await writeFile(join(folder, 'report.pdf'), BYTES)
  // Old enough to be told apart from what may be written in the same second.
  await utimes(join(folder, 'report.pdf'), 1e9, 1e9)
})
afterAll(() => rm(folder, { recursive: true }))
type Mode = 'direct' | 'redirect' | 'download'

/** A server behind a proxy; clients see the proxy, so download URLs are made from its address. */
async function serve(setup: Setup, mode: Mode): Promise<{ url: string; proxy: CutProxy }> {
  const app = express()
  const { port } = await listen(app)
  const proxy = await createCutProxy({ target: port })
  const url = `${proxy.url}/mcp`
  const files = fileResources(folder, { baseUri: 'files:///' })
  const provider: ResourcesOptions = {
    ...files,
    open: async (uri, context) => {
      if (mode === 'redirect' && uri === FILE) return { redirect: `${proxy.url}/storage` }
      if (uri === 'bytes:1') return { body: BYTES, mimeType: 'a/b', name: 'b' }
      if (uri !== 'range:1') return files.open(uri, context)
      const range = (start: number, end: number) => BYTES.subarray(start, end + 1)
      return { range, size: BYTES.length, etag: 'v1', mimeType: 'a/b' }
    },
    ...(mode === 'download' && { mode, publicUrl: url })
  }
  const streams = mcpStreams({ resources: resources(provider) })
  closeLater(() => streams.close({ drain: 0 }))
  app
    .get(
      '/storage',
      (_req, res) => void res.set('ETag', '"stored"').sendFile(join(folder, 'report.pdf'))
    )
    .use('/mcp', streams)
    .all('/mcp', setup.endpoint() as RequestHandler)
  return { url, proxy }
}

const cuts = fc.array(
  fc.record({
    by: fc.constantFrom<CutBy>('fin', 'rst', 'silence'),
    afterBytes: fc.integer({ min: 0, max: BYTES.length + 1000 })
  }),
  { minLength: 1, maxLength: 5 }
)

// A reset would take along what a busy client has not read yet.
const IN_THE_MIDDLE = { by: 'fin', afterBytes: BYTES.length / 2 } as const

describe.each(SETUPS.map(setup => [setup.name, setup] as const))('with %s', (_name, setup) => {
  it.each<Mode>(['direct', 'redirect', 'download'])(
    'every byte comes, once and in order: %s',
    async mode => {
      const { url, proxy } = await serve(setup, mode)
      const { transport, errors } = await setup.connect(url, resumableFetch())
      let resumed = 0
      const onReconnect = ({ received }: { received: number }): void =>
        void (received > 0 && resumed++)
      const uris = mode === 'redirect' ? [FILE] : [FILE, 'bytes:1', 'range:1']
      await fc.assert(
        fc.asyncProperty(cuts, fc.constantFrom(...uris), async (plan, uri) => {
          const left: Cut[] = [...plan]
          // What is not about the resource is left alone.
          proxy.plan = ({ message, method, url }) =>
            message?.method === 'resources/stream' || (method === 'GET' && url !== '/mcp')
              ? left.shift()
              : undefined
          const found = await streamResource(transport, uri, { ...FAST, onReconnect })
          expect(found).toMatchObject({
            uri,
            size: mode === 'redirect' ? expect.any(Number) : BYTES.length
          })
          const { bytes, error } = await drain(found)
          expect(error).toBeUndefined()
          expect([bytes.length, sha256(bytes)]).toEqual([BYTES.length, SUM])
        }),
        // The first cuts a body in its middle, whichever request carries it.
        {
          numRuns: times(3),
          endOnFailure: true,
          examples: [[[IN_THE_MIDDLE, IN_THE_MIDDLE], FILE]]
        }
      )
      expect(resumed).toBeGreaterThan(0)
      expect(errors).toEqual([])
    }
  )

  it('what is wrong is said in the same words', async () => {
    const { url } = await serve(setup, 'direct')
    const { transport } = await setup.connect(url, resumableFetch())
    await expect(streamResource(transport, 'files:///missing', FAST)).rejects.toMatchObject({
      code: 'not-found',
      message: 'The resource cannot be streamed: Resource not found'
    })
    await expect(streamResource(transport, 'files:///../passwd', FAST)).rejects.toMatchObject({
      code: 'not-found'
    })
    const limited = streamResource(transport, FILE, { ...FAST, maxStreamSize: BYTES.length - 1 })
    await expect(limited).rejects.toMatchObject({ code: 'too-large' })
    const { stream } = await streamResource(transport, FILE, {
      ...FAST,
      maxStreamSize: BYTES.length
    })
    await stream.cancel()
  })
})

describe('an endpoint that has no resources/stream', () => {
  it.each(SETUPS.map(setup => [setup.name, setup] as const))(
    'says so: %s',
    async (_name, setup) => {
      const app = express().all('/mcp', setup.endpoint() as RequestHandler)
      const { url } = await listen(app)
      const { transport, errors } = await setup.connect(`${url}/mcp`, fetch as never)
      await expect(streamResource(transport, FILE, FAST)).rejects.toMatchObject({
        code: 'not-streamable'
      })
      expect(errors).toEqual([])
    }
  )
})
