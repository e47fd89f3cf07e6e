// Large files: every byte arrives though their memory is used again, and nobody who looks on sees
// it change.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serveResources, sha256, testBytes, whole } from './setup.js'

const CONTENT = testBytes(24 * 1024 * 1024 + 12_345)
const SUM = sha256(CONTENT)
let folder: string
let file: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mcp-resources-'))
  file = join(folder, 'large')
  await writeFile(file, CONTENT)
})
afterAll(() => rm(folder, { recursive: true }))

describe('a large file', () => {
  it('arrives whole at a client that reads with pauses', async () => {
    const { ask } = await serveResources(() => ({ path: file }))
    const response = await ask('a:1')
    response.response.on('data', () => {
      response.pause()
      setImmediate(() => response.resume())
    })
    await response.ended
    expect(sha256(response.bytes)).toBe(SUM)
  })

  it('arrives whole at a dozen clients at once', async () => {
    const { ask } = await serveResources(() => ({ path: file }))
    const responses = await Promise.all(Array.from({ length: 12 }, () => whole(ask('a:1'))))
    for (const { bytes } of responses) expect(sha256(bytes)).toBe(SUM)
  })

  it('arrives whole where it is asked for in the middle', async () => {
    const { ask } = await serveResources(() => ({ path: file }))
    const { status, bytes } = await whole(ask('a:1', { range: 'bytes=1000001-20000002' }))
    expect([status, sha256(bytes)]).toEqual([206, sha256(CONTENT.subarray(1_000_001, 20_000_003))])
  })

  it('is not changed in the buffers that a logger in front has been given', async () => {
    const chunks: Uint8Array[] = []
    const logger: RequestHandler = (req, res, next) => {
      const { write } = res
      if (req.headers.range !== undefined)
        res.write = ((...args: Parameters<typeof write>) => {
          if (args[0] instanceof Uint8Array) chunks.push(args[0])
          return write.apply(res, args)
        }) as typeof write
      next()
    }
    const { ask } = await serveResources(() => ({ path: file }), { inFront: [logger] })
    const { bytes } = await whole(ask('a:1', { range: 'bytes=0-' }))
    const logged = Buffer.concat(chunks)
    expect(logged.length).toBeGreaterThan(CONTENT.length / 2)
    expect(logged.equals(bytes.subarray(0, logged.length))).toBe(true)
  })
})
