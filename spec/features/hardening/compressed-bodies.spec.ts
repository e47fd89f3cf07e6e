// A compressed body is never inflated by us, as that would undo the limit of the parser behind us:
// the request passes, and what the parser makes of it counts.

import { describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { mcpStreams } from '../../../lib/index.js'
import { type RawCall, rawEndpoint } from '../../helpers/endpoints/raw.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { callTool, headersFor, initialize, post } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'

const HEADERS = headersFor({ version: '2025-11-25', prefer: 'rel=stream' })
const KEY = { 'idempotency-key': 'a-key-that-nobody-guesses' }
const NOBODY: RequestHandler[] = []
const NO_RESPONSE = { id: 1, error: { data: { reason: 'no-response' } } }

const nothing = (call: RawCall): void => {
  call.open()
  call.res.end()
}

/** An endpoint behind the middleware and a parser, or without one. */
async function world({ endpoint = rawEndpoint(nothing), behind = NOBODY, inFront = NOBODY } = {}) {
  const streams = mcpStreams()
  closeLater(() => streams.close({ drain: 0 }))
  const app = express().use('/mcp', ...inFront, streams, ...behind, endpoint as RequestHandler)
  const url = `${(await listen(app)).url}/mcp`
  const send = async (message: unknown, headers: Record<string, string> = {}, pack = gzipSync) => {
    const response = await openStream(url, {
      method: 'POST',
      headers: { ...HEADERS, 'Content-Encoding': 'gzip', ...headers },
      body: pack(JSON.stringify(message))
    })
    await response.ended
    return response
  }
  return { url, endpoint, streams, send }
}

describe('a compressed call', () => {
  it.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync]
  ])('(%s) has the ids that the parser behind us finds', async (coding, pack) => {
    const { send } = await world({ behind: [express.json()] })
    const response = await send(callTool(1, 'any'), { 'Content-Encoding': coding }, pack)
    expect(response.headers['link']).toMatch(/rel="stream"/)
    expect(response.messages()).toMatchObject([NO_RESPONSE])
  })

  it('has none where nothing behind us says what is in it', async () => {
    const { send, endpoint } = await world()
    const response = await send(callTool(1, 'any'))
    expect(response.headers['link']).toMatch(/rel="stream"/)
    expect(response.messages()).toEqual([])
    expect(endpoint.calls).toHaveLength(1)
  })

  it('gets the 413 of the parser behind us, and nothing is kept of it', async () => {
    const { send, endpoint, streams } = await world({ behind: [express.json()] })
    const response = await send(callTool(1, 'any', { text: 'x'.repeat(3_000_000) }))
    expect(response.status).toBe(413)
    expect(endpoint.calls).toHaveLength(0)
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, bytes: 0 })
  })

  it('has a key that counts where a parser in front of us has read it', async () => {
    const { send, endpoint } = await world({ inFront: [express.json()] })
    const responses = [await send(callTool(1, 'any'), KEY), await send(callTool(1, 'any'), KEY)]
    for (const each of responses) expect(each.messages()).toMatchObject([NO_RESPONSE])
    expect(endpoint.calls).toHaveLength(1)
  })
})

describe('a compressed initialize', () => {
  it.each(['sse', 'json'] as const)('agrees upon a revision, answered by %s', async as => {
    const endpoint = rawEndpoint(({ result }) => result(), { session: 's', initializeAs: as })
    const { url, send } = await world({ endpoint, behind: [express.json()] })
    expect((await send(initialize('2025-06-18'))).status).toBe(200)
    const response = await post(
      url,
      callTool(1, 'any'),
      headersFor({ session: 's', version: '2025-11-25' })
    )
    // The first block of 2025-06-18, whatever the request says.
    expect((await response.next()).event).toBe('prime')
  })
})
