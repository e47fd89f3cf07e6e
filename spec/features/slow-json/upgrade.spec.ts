// A slow endpoint that answers in JSON: its client gets an event stream in the meantime, and the
// answer as its event.

import { describe, expect, it, jest } from '@jest/globals'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { until } from '../../helpers/happenings.js'
import { callTool, del, get, headersFor, post, postModern, result } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import type { McpStreamsOptions } from '../../../lib/index.js'

const BOTH = 'application/json, text/event-stream'
/** A client that has announced itself, so that it does not wait five times as long. */
const announced = (version = '2025-11-25'): Record<string, string> =>
  headersFor({ version, prefer: 'rel=stream', accept: BOTH })

const TASK = callTool(7, 'slow')

/** Answers when the spec says so. */
async function slow(options: McpStreamsOptions = {}) {
  const endpoint = rawEndpoint(() => undefined)
  const served = await serve(endpoint, { upgradeAfter: 20, ...options })
  return { ...served, endpoint }
}

const answer = ({ res }: RawCall, body: unknown = result(7, { content: [] }), headers = {}): void =>
  void res
    .writeHead(200, { 'Content-Type': 'application/json', ...headers })
    .end(typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body))

/** The messages of a whole response, but for the first id. */
const messagesOf = async (response: OpenStream): Promise<unknown[]> => {
  await response.ended
  return response.events
    .filter(event => event.data?.startsWith('{') && event.data !== '{}')
    .map(event => JSON.parse(event.data!))
}

describe('an endpoint that has given no head in time', () => {
  it.each(['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'])(
    'has its client given a durable stream: %s, announced',
    async version => {
      const { url, endpoint } = await slow()
      const response = await post(url, TASK, announced(version))
      expect(response.status).toBe(200)
      expect(response.headers['content-type']).toBe('text/event-stream')
      expect(response.headers['cache-control']).toBe('no-cache, no-transform')
      expect(response.headers['transfer-encoding']).toBe('chunked')
      const primer = await response.next()
      expect(primer.id).toMatch(/^[\w-]{21}\./)
      answer(await endpoint.calls.nth(1))
      expect(await response.ended).toBe('end')
      expect(response.events.at(-1)).toMatchObject({
        data: JSON.stringify(result(7, { content: [] }))
      })

      const again = await get(
        streamUrl(response, url),
        headersFor({ version, lastEventId: primer.id! })
      )
      expect(await messagesOf(again)).toEqual([result(7, { content: [] })])
    }
  )

  it.each(['chunked', undefined])(
    'has a body whose cut is no end, whatever head the endpoint had begun: transfer-encoding %s',
    async encoding => {
      const { url, endpoint } = await slow({ upgradeAfter: 100 })
      const asked = post(url, TASK, announced())
      const { res } = await endpoint.calls.nth(1)
      res.setHeader('Content-Length', 36)
      if (encoding !== undefined) res.setHeader('Transfer-Encoding', encoding)
      const response = await asked
      expect(response.headers['transfer-encoding']).toBe('chunked')
      expect(response.headers['content-length']).toBeUndefined()
      const call = await endpoint.calls.nth(1)
      call.req.socket.destroySoon()
      expect(await response.ended).not.toBe('end')
      call.res.end()
    }
  )

  it('leaves what comes in time as it is', async () => {
    const { url, endpoint } = await slow({ upgradeAfter: 60_000 })
    const asked = post(url, TASK, announced())
    answer(await endpoint.calls.nth(1), undefined, { 'X-Own': 'kept' })
    const response = await asked
    expect(response.headers['content-type']).toBe('application/json')
    expect(response.headers['x-own']).toBe('kept')
    await response.ended
    expect(response.text).toBe(JSON.stringify(result(7, { content: [] })))
  })

  it('has its client given a connection without ids, from 2026-07-28 on unannounced; a cut cancels', async () => {
    const { url, endpoint, streams } = await slow({ keepAlive: 20 })
    const response = await postModern(url, TASK, { accept: BOTH })
    expect(response.headers['content-type']).toBe('text/event-stream')
    expect(response.headers.link).toBeUndefined()
    const call = await endpoint.calls.nth(1)
    answer(call)
    await response.ended
    expect(response.text).not.toMatch(/^(?:id|retry)/m)
    expect(response.text).toMatch(/^: keep-alive$/m)
    expect(await messagesOf(response)).toEqual([result(7, { content: [] })])
    await until(() => streams.stats().bytes === 0)
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, remembered: 0 })

    const second = await postModern(url, TASK, { accept: BOTH })
    const other = await endpoint.calls.nth(2)
    second.destroy()
    await other.closed
    expect(streams.stats()).toMatchObject({ live: 0 })
  })
})

describe('what the endpoint answers too late for its own head', () => {
  async function late(
    respond: (call: RawCall) => unknown,
    message: unknown = TASK,
    options: McpStreamsOptions = {}
  ) {
    const { url, endpoint } = await slow(options)
    const response = await post(url, message, announced())
    await response.next()
    await respond(await endpoint.calls.nth(1))
    return messagesOf(response)
  }

  it('is one event per response of a batch, each as it was written', async () => {
    const batch = [callTool(7, 'slow'), callTool('b', 'slow')]
    const body =
      '[ {"jsonrpc":"2.0","id":"b","result":{"n":12345678901234567890}},\n{"jsonrpc":"2.0","id":7,"result":{}} ]'
    const { url, endpoint } = await slow()
    const response = await post(url, batch, announced('2025-03-26'))
    await response.next()
    answer(await endpoint.calls.nth(1), body)
    await response.ended
    expect(response.events.slice(-2).map(({ data }) => data)).toEqual([
      '{"jsonrpc":"2.0","id":"b","result":{"n":12345678901234567890}}',
      '{"jsonrpc":"2.0","id":7,"result":{}}'
    ])
  })

  const refusedWith = (status: number) => [
    {
      jsonrpc: '2.0',
      id: 7,
      error: {
        code: expect.any(Number),
        message: 'The endpoint refused the request',
        data: { reason: 'endpoint-refused', status }
      }
    }
  ]
  const noResponse = [
    {
      jsonrpc: '2.0',
      id: 7,
      error: {
        code: expect.any(Number),
        message: expect.any(String),
        data: { reason: 'no-response' }
      }
    }
  ]

  it.each([401, 404, 429, 500, 503, 302])('is an error, of status %d', async status => {
    expect(await late(({ res }) => res.writeHead(status).end('no'))).toEqual(refusedWith(status))
  })

  it("is the endpoint's own error, where its refusal has one", async () => {
    const error = { code: -32001, message: 'Session not found' }
    const refuse = ({ res }: RawCall) => {
      res.statusCode = 404
      res.setHeader('Content-Type', 'application/json')
      res.end(JSON.stringify({ jsonrpc: '2.0', id: null, error }))
    }
    expect(await late(refuse)).toEqual([{ jsonrpc: '2.0', id: 7, error }])
  })

  it('is an error that names no request', async () => {
    const error = { code: -32603, message: 'Oh' }
    expect(await late(call => answer(call, { jsonrpc: '2.0', id: null, error }))).toEqual([
      { jsonrpc: '2.0', id: 7, error }
    ])
  })

  it('is an error, where it has thrown', async () => {
    expect(
      await late(({ res }) => {
        res.statusCode = 500
        res.end('Error: oh')
      })
    ).toEqual(refusedWith(500))
    expect(await late(({ res }) => res.destroy())).toEqual(noResponse)
  })

  it('is an error, where it ends without a head or a body', async () => {
    expect(await late(({ res }) => res.end())).toEqual(noResponse)
    expect(await late(({ res }) => res.writeHead(204).end())).toEqual(noResponse)
  })

  it.each([
    ['no body', ''],
    ['half a JSON', '{"jsonrpc":"2.0","id":7,"res'],
    ['two JSONs', '{"jsonrpc":"2.0","id":7,"result":{}}{"jsonrpc":"2.0","id":7,"result":{}}'],
    ['something else', '<p>Hello</p>']
  ])('is an error: %s', async (_, body) => {
    expect(await late(call => answer(call, body))).toEqual(noResponse)
  })

  it('is read with a byte order mark, in another charset, and compressed', async () => {
    const { gzipSync, brotliCompressSync } = await import('node:zlib')
    const value = result(7, { text: 'größer' })
    const json = JSON.stringify(value, null, 2)
    expect(await late(call => answer(call, `\ufeff${json}`))).toEqual([value])
    const latin = { 'Content-Type': 'application/json; charset=ISO-8859-1' }
    expect(await late(call => answer(call, Buffer.from(json, 'latin1'), latin))).toEqual([value])
    expect(
      await late(call => answer(call, gzipSync(json), { 'Content-Encoding': 'gzip' }))
    ).toEqual([value])
    expect(
      await late(call => answer(call, brotliCompressSync(json), { 'Content-Encoding': 'br' }))
    ).toEqual([value])
    expect(await late(call => answer(call, 'x', { 'Content-Encoding': 'zstd-9' }))).toEqual(
      noResponse
    )
    expect(await late(call => answer(call, 'no gzip', { 'Content-Encoding': 'gzip' }))).toEqual(
      noResponse
    )
  })

  it('may come in pieces', async () => {
    const json = JSON.stringify(result(7, { content: [] }))
    const pieces = async ({ res }: RawCall): Promise<void> => {
      res.writeHead(200, { 'Content-Type': 'application/json' })
      for (const piece of json.match(/.{1,9}/g)!) res.write(piece)
      res.end()
    }
    expect(await late(pieces)).toEqual([result(7, { content: [] })])
  })

  it('is too large to be kept: an error, and the endpoint is told', async () => {
    const call = async (one: RawCall): Promise<void> => {
      one.res.writeHead(200, { 'Content-Type': 'application/json' })
      for (let i = 0; i < 20; i++) one.res.write(' '.repeat(1024))
      await one.closed
    }
    expect(await late(call, TASK, { maxStreamBytes: 10_000 })).toMatchObject([
      { id: 7, error: { data: { reason: 'overflow' } } }
    ])
  })

  it('is too large once it is decoded: an error that says so', async () => {
    const { gzipSync } = await import('node:zlib')
    const body = gzipSync(JSON.stringify(result(7, { text: ' '.repeat(20_000) })))
    expect(body.length).toBeLessThan(1000)
    const call = (one: RawCall) => answer(one, body, { 'Content-Encoding': 'gzip' })
    expect(await late(call, TASK, { maxStreamBytes: 10_000 })).toMatchObject([
      { id: 7, error: { data: { reason: 'overflow' } } }
    ])
  })

  it('may be of any size: one of 100 MB is let go once it is more than there is room for', async () => {
    const { url, endpoint, streams } = await slow()
    const response = await post(url, TASK, announced())
    const { res, closed } = await endpoint.calls.nth(1)
    let isClosed = false
    void closed.then(() => (isClosed = true))
    const piece = Buffer.alloc(1024 * 1024, ' ')
    res.writeHead(200, { 'Content-Type': 'application/json' })
    let written = 0
    for (; written < 100 && !isClosed; written++) {
      res.write(piece)
      await new Promise(setImmediate)
    }
    expect(written).toBeLessThan(20)
    expect(await messagesOf(response)).toMatchObject([
      { id: 7, error: { data: { reason: 'overflow' } } }
    ])
    expect(streams.stats().bytes).toBeLessThan(1024)
  })

  it('is counted while it comes, and no longer once its client has cancelled it', async () => {
    const { url, endpoint, streams } = await slow()
    const response = await post(url, TASK, announced())
    const { res, closed } = await endpoint.calls.nth(1)
    res.writeHead(200, { 'Content-Type': 'application/json' }).write(Buffer.alloc(50_000, ' '))
    expect(streams.stats().bytes).toBeGreaterThanOrEqual(50_000)
    await del(streamUrl(response, url), announced())
    await closed
    expect(streams.stats().bytes).toBe(0)
  })

  it('is an event stream of the old transport: it stays ours', async () => {
    const { url, endpoint } = await slow()
    const response = await post(url, TASK, announced())
    const { res } = await endpoint.calls.nth(1)
    res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    res.end('event: endpoint\ndata: /messages\n\n')
    await response.ended
    const next = await post(url, TASK, announced())
    expect(next.headers.link).toBeDefined()
  })

  it('is an event stream that is followed, without the ids of its own', async () => {
    const { url, endpoint } = await slow()
    const response = await post(url, TASK, announced())
    await response.next()
    const { res } = await endpoint.calls.nth(1)
    res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    res.write('id: own-1\ndata: {"jsonrpc":"2.0","method":"notifications/message"}\n\n')
    res.end(`id: own-2\ndata: ${JSON.stringify(result(7, {}))}\n\n`)
    await response.ended
    expect(response.text).not.toContain('own-')
    expect(response.events.slice(-2).map(({ data }) => JSON.parse(data!))).toEqual([
      { jsonrpc: '2.0', method: 'notifications/message' },
      result(7, {})
    ])
  })

  it('tells once in a process which headers have come too late', async () => {
    const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
    try {
      const headers = { 'Set-Cookie': 'a=b', 'Mcp-Session-Id': 'new', 'WWW-Authenticate': 'Basic' }
      for (let i = 0; i < 2; i++) await late(call => answer(call, undefined, headers))
      expect(warn.mock.calls).toEqual([
        [
          expect.stringMatching(/set-cookie, mcp-session-id, www-authenticate .*upgradeAfter/),
          { code: 'MCP_STREAMS_LATE_HEADER' }
        ]
      ])
    } finally {
      warn.mockRestore()
    }
  })

  it('lets the endpoint make a head of its own in peace', async () => {
    const seen: unknown[] = []
    await late(({ res }) => {
      seen.push(
        res.headersSent,
        res.statusCode,
        res.getHeader('content-type'),
        res.hasHeader('link')
      )
      res.setHeader('X-Late', 'a')
      expect(res.appendHeader('X-Late', 'b')).toBe(res)
      res.removeHeader('Cache-Control')
      seen.push(res.getHeader('x-late'), res.getHeaderNames().includes('x-late'), res.headersSent)
      res.writeHead(201, { 'Content-Type': 'application/json' })
      seen.push(res.headersSent, res.statusCode)
      expect(() => res.setHeader('a', 'b')).toThrow(
        expect.objectContaining({ code: 'ERR_HTTP_HEADERS_SENT' })
      )
      expect(() => res.writeHead(200)).toThrow(
        expect.objectContaining({ code: 'ERR_HTTP_HEADERS_SENT' })
      )
      res.end(JSON.stringify(result(7, {})))
    }).catch(error => seen.push(error))
    expect(seen).toEqual([false, 200, undefined, false, ['a', 'b'], true, false, true, 201])
  })
})
