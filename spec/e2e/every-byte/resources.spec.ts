// Whatever byte the wire is cut at, as often as it is: the bytes of the resource come once, in
// order, and all of them.

import { describe, expect, it } from '@jest/globals'
import { fc, times } from '../../helpers/property.js'
import { createCutProxy, type Cut, type CutBy } from '../../helpers/cut-proxy.js'
import { closeAll, listen } from '../../helpers/listen.js'
import {
  bytesOf,
  drain,
  HEAD,
  RESOURCE,
  sha256,
  stream,
  TAG
} from '../../features/client/resource-server.js'

type Mode = 'direct' | 'redirect' | 'download'

/**
 * A server with ranges, written from the RFC and not from the library; `whole`: it does not know
 * ranges.
 */
async function resourceServer(
  bytes: Buffer,
  mode: Mode,
  { whole, origin }: { whole: boolean; origin: () => string }
) {
  return listen(async (req, res) => {
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk as Buffer)
    if (req.method === 'POST' && mode === 'redirect') {
      res.writeHead(302, { Location: '/blob', 'MCP-Resource-Uri': RESOURCE }).end()
      return
    }
    if (req.method === 'POST' && mode === 'download') {
      const { id } = JSON.parse(Buffer.concat(chunks).toString())
      const result = { uri: RESOURCE, downloadUrl: `${origin()}/blob`, size: bytes.length }
      res
        .writeHead(200, { 'Content-Type': 'application/json' })
        .end(JSON.stringify({ jsonrpc: '2.0', id, result }))
      return
    }
    const [, first] = /^bytes=(\d+)-$/.exec(req.headers.range ?? '') ?? []
    const start = !whole && req.headers['if-range'] === TAG.ETag ? Number(first) : 0
    if (start >= bytes.length && start > 0) {
      res.writeHead(416, { ...HEAD, 'Content-Range': `bytes */${bytes.length}` }).end()
      return
    }
    const range =
      start > 0 ? { 'Content-Range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` } : {}
    res.writeHead(start > 0 ? 206 : 200, {
      ...HEAD,
      ...TAG,
      ...range,
      'Content-Length': bytes.length - start
    })
    res.end(bytes.subarray(start))
  })
}

const LARGEST = 200_000
const BYTES = bytesOf(LARGEST)

const cut = fc.record({
  by: fc.constantFrom<CutBy>('fin', 'rst', 'silence'),
  afterBytes: fc.integer({ min: 0, max: LARGEST + 400 }),
  direction: fc.constantFrom<'response' | 'request'>('response', 'response', 'response', 'request')
})

describe.each<Mode>(['direct', 'redirect', 'download'])('%s, over a wire that is cut', mode => {
  it('brings every byte, once and in order', async () => {
    let resumed = 0
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: LARGEST }),
        fc.array(cut, { minLength: 1, maxLength: 6 }),
        fc.boolean(),
        async (size, cuts, whole) => {
          const bytes = BYTES.subarray(0, size)
          let origin = ''
          const { port } = await resourceServer(bytes, mode, { whole, origin: () => origin })
          const plan = cuts.map((each): Cut =>
            each.direction === 'request' ? { ...each, afterBytes: 40 } : each
          )
          const proxy = await createCutProxy({ target: port, plan })
          origin = proxy.url
          const found = await stream(`${proxy.url}/mcp`, {
            maxRetries: 100,
            idleTimeout: 100,
            onReconnect: ({ received }) => void (received > 0 && resumed++)
          })
          const got = await drain(found)
          expect(got.error).toBeUndefined()
          expect([got.bytes.length, sha256(got.bytes)]).toEqual([size, sha256(bytes)])
          await closeAll()
        }
      ),
      { numRuns: times(40), endOnFailure: true }
    )
    expect(resumed).toBeGreaterThan(0)
  })
})
