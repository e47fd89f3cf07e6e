// Code in front that patches `res.write` and does not hand on what that returns, such as the
// well-known snippet that logs bodies: it stops no response, whoever of us writes it.

import { describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { createGzip } from 'node:zlib'
import { Hub } from '../../helpers/backplane/memory.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { countMessage, sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { gate } from '../../helpers/gate.js'
import { callTool, get, headersFor, notification, post, result } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { serveResources, whole } from '../resources/setup.js'

type Write = (...args: unknown[]) => boolean

/** Patches `write`; `how` gets the one that was there. */
const patching =
  (how: (write: Write) => (...args: unknown[]) => unknown): RequestHandler =>
  (_req, res, next) => {
    Object.assign(res, { write: how((res.write as Write).bind(res)) })
    next()
  }

const FRONTS: [what: string, front: RequestHandler][] = [
  [
    'nothing',
    patching(
      write =>
        (...args) =>
          void write(...args)
    )
  ],
  ['nothing, and takes no callback', patching(write => chunk => void write(chunk))],
  [
    'a promise',
    patching(
      write =>
        async (...args) => (await null, write(...args))
    )
  ],
  [
    '`true`',
    patching(
      write =>
        (...args) => (write(...args), true)
    )
  ],
  [
    '`false`',
    patching(
      write =>
        (...args) => (write(...args), false)
    )
  ]
]

const HEADERS = headersFor({ version: '2025-11-25' })
const note = (data: unknown) => notification('notifications/message', { level: 'info', data })
const NOTES = [1, 2, 3].map(note)

/** Events in separate ticks, and then the result. */
async function talk(call: RawCall): Promise<void> {
  for (const each of NOTES) {
    call.emit(each)
    await new Promise(resolve => setImmediate(resolve))
  }
  call.result({})
}

describe.each(FRONTS)('behind a `write` that returns %s', (_what, front) => {
  it('a stream comes to its end', async () => {
    const { url } = await serve(rawEndpoint(talk), {}, [front])
    const response = await post(url, callTool(1, 'any'), HEADERS)
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([...NOTES, result(1, {})])
  })

  it('a stream of the official SDK comes to its end', async () => {
    const { url } = await serve(sdkV1Stateless(), {}, [front])
    const response = await post(url, callTool(1, 'count', { key: 'k', n: 5 }), HEADERS)
    expect(await response.ended).toBe('end')
    const said = response.messages().map(({ params }) => params?.data)
    expect(said).toEqual([...[1, 2, 3, 4, 5].map(i => countMessage(i)), undefined])
  })

  it('a resumed stream comes to its end', async () => {
    const go = gate()
    const { url } = await serve(
      rawEndpoint(async call => {
        call.open()
        await go.opened
        await talk(call)
      }),
      {},
      [front]
    )
    const first = await post(url, callTool(1, 'any'), HEADERS)
    first.destroy()
    const again = get(streamUrl(first, url), HEADERS)
    go.open()
    expect(await (await again).ended).toBe('end')
    expect((await again).messages()).toEqual([...NOTES, result(1, {})])
  })

  it('a stream of another instance comes to its end', async () => {
    const hub = new Hub()
    const endpoint = rawEndpoint(async call => {
      call.open()
      await go.opened
      await talk(call)
    })
    const go = gate()
    const [first, second] = [
      await serve(endpoint, { backplane: hub.option() }, [front]),
      await serve(endpoint, { backplane: hub.option() }, [front])
    ]
    const begun = await post(first.url, callTool(1, 'any'), HEADERS)
    const relayed = await get(second.url + new URL(streamUrl(begun, first.url)).search, HEADERS)
    go.open()
    expect(await relayed.ended).toBe('end')
    expect(relayed.messages()).toEqual([...NOTES, result(1, {})])
  })

  it('a slow answer reaches a client that takes only JSON', async () => {
    const go = gate()
    const { url } = await serve(
      async (_req, res) => {
        await go.opened
        res.setHeader('Content-Type', 'application/json')
        res.end(JSON.stringify(result(1, {})))
      },
      { jsonKeepAlive: 5 },
      [front]
    )
    const response = await post(url, callTool(1, 'any'), { ...HEADERS, accept: 'application/json' })
    go.open()
    expect(await response.ended).toBe('end')
    expect(JSON.parse(response.text)).toEqual(result(1, {}))
  })

  it('a resource arrives whole', async () => {
    const pieces = [1, 2, 3, 4].map(() => randomBytes(100_000))
    const { ask } = await serveResources(async () => ({ body: Readable.from(pieces) }), {
      inFront: [front]
    })
    const response = await whole(ask('test:///x'))
    expect([response.ending, response.bytes.equals(Buffer.concat(pieces))]).toEqual(['end', true])
  })
})

it('a source waits for its client where code in front compresses, which has a queue of its own', async () => {
  const compressing: RequestHandler = (req, res, next) => {
    if (req.headers['x-compressed'] === undefined) return next()
    res.setHeader('Content-Encoding', 'gzip')
    const packed = createGzip()
    const [write, end, on] = [res.write.bind(res), res.end.bind(res), res.on.bind(res)]
    packed.on('data', chunk => (write(chunk) ? undefined : packed.pause()))
    packed.on('end', () => end())
    on('drain', () => packed.resume())
    Object.assign(res, {
      write: (chunk: Buffer) => packed.write(chunk),
      end: (chunk?: Buffer) => packed.end(chunk),
      on: (event: string, listener: () => void) =>
        event === 'drain' ? packed.on(event, listener) : on(event, listener)
    })
    next()
  }
  let given = 0
  const body = new Readable({
    read() {
      given++
      this.push(given > 1000 ? null : randomBytes(100_000))
    }
  })
  const { ask } = await serveResources(async () => ({ body }), { inFront: [compressing] })
  const response = await ask('test:///x', { 'x-compressed': 'yes' })
  response.response.pause()
  let before: number
  do {
    before = given
    for (let i = 0; i < 200; i++) await new Promise(resolve => setImmediate(resolve))
  } while (given > before && given < 1000)
  expect(given).toBeLessThan(300)
  response.destroy()
})
