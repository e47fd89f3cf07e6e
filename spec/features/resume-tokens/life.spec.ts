// The end of a call: abandoned, cancelled, failed, refused, or cut short by the end of the process.

import { describe, expect, it, jest } from '@jest/globals'
import express from 'express'
import { connect } from 'node:net'
import { currentStream, mcpStreams } from '../../../lib/index.js'
import { gate } from '../../helpers/gate.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { closeLater, listen } from '../../helpers/listen.js'
import {
  cancelled,
  del,
  headersFor,
  initializeSession,
  post,
  type HeaderOptions
} from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { stopTheClock, turn } from '../limits/setup.js'
import { answerJson, answerOf, ask, report, serveTokens, SOON, TEXT, tokenOf } from './setup.js'

const PATIENT = { 'express-mcp-streams/wait': 60_000 }

describe('a call with a token that nobody uses any more', () => {
  it('is abandoned after `resumeInterval.max`: its endpoint sees the close, its handler the abort', async () => {
    const ended = gate<string>()
    const endpoint = rawEndpoint(
      () => {
        const { signal } = currentStream()!
        const stream = currentStream()!
        signal.addEventListener('abort', () => ended.open(stream.state))
      },
      { stateless: true }
    )
    const { url } = await serve(endpoint, {
      resumeTokens: { after: SOON },
      resumeInterval: { max: 0.2 }
    })
    await ask(url, report(1, { resumeToken: null }))
    expect(endpoint.calls[0]!.isClosed).toBe(false)
    expect(await ended.opened).toBe('abandoned')
    await endpoint.calls[0]!.closed
  })

  it('is not abandoned as long as its client comes back', async () => {
    const { url, endpoint } = await serveTokens({ resumeInterval: { max: 60 } })
    let answer = await ask(url, report(1, { resumeToken: null }))
    stopTheClock()
    try {
      for (let n = 0; n < 5; n++) {
        jest.advanceTimersByTime(40_000)
        const next = ask(url, report(2, { resumeToken: tokenOf(answer) }))
        let isAnswered = false
        void next.finally(() => (isAnswered = true))
        // The token that follows is given when some time has passed.
        while (!isAnswered) {
          jest.advanceTimersByTime(1)
          await turn()
        }
        answer = await next
      }
    } finally {
      jest.useRealTimers()
    }
    expect(endpoint.calls[0]!.isClosed).toBe(false)
  })

  it('is ended at once where its client leaves before it has a token', async () => {
    const { url, endpoint } = await serveTokens()
    const client = leaveWith(url, report(1, { resumeToken: null, ...PATIENT }))
    const call = await endpoint.calls.nth(1)
    client.abort()
    await call.closed
  })

  it.each(['2025-11-25', '2026-07-28'])(
    'is ended at once also where it is pipelined behind another one, at %s',
    async version => {
      const { url, endpoint } = await serveTokens({ resumeTokens: { after: 5000 } })
      const { port } = new URL(url)
      const body = JSON.stringify(report(1, { resumeToken: null }))
      const head = `POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nMCP-Protocol-Version: ${version}`
      const socket = connect(Number(port), '127.0.0.1')
      socket.write(`${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`.repeat(3))
      await endpoint.calls.nth(3)
      socket.destroy()
      await Promise.all(endpoint.calls.map(({ closed }) => closed))
    }
  )

  it('runs on without a connection where its client has a token', async () => {
    const { url, endpoint } = await serveTokens()
    const first = await ask(url, report(1, { resumeToken: null }))
    const client = leaveWith(url, report(2, { resumeToken: tokenOf(first), ...PATIENT }))
    await new Promise(resolve => setTimeout(resolve, SOON))
    client.abort()
    await new Promise(resolve => setTimeout(resolve, SOON))
    expect(endpoint.calls[0]!.isClosed).toBe(false)
    answerJson(endpoint.calls[0]!, TEXT)
    expect(await ask(url, report(3, { resumeToken: tokenOf(first) }))).toMatchObject({
      id: 3,
      result: TEXT
    })
  })
})

/** Sends a request and hangs up when told to. */
function leaveWith(url: string, message: unknown): AbortController {
  const controller = new AbortController()
  const leaving = fetch(url, {
    method: 'POST',
    body: JSON.stringify(message),
    headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
    signal: controller.signal
  })
  leaving.catch(() => undefined)
  return controller
}

describe('cancelling a call with a token', () => {
  const inSession = async () => {
    const setup = await serveTokens({}, { session: 'one' })
    const { headers } = await initializeSession(setup.url, '2025-11-25')
    const first = await answerOf(await post(setup.url, report(1, { resumeToken: null }), headers))
    const send = (message: unknown, more: HeaderOptions = {}) =>
      post(setup.url, message, { ...headers, ...headersFor(more) })
    return { ...setup, headers, token: tokenOf(first), send }
  }

  it('works by a notification for the request that waits, and tells the endpoint the first id of the call', async () => {
    const { endpoint, send, token } = await inSession()
    const waiting = send(report(2, { resumeToken: token, ...PATIENT }))
    await new Promise(resolve => setTimeout(resolve, SOON))
    await send(cancelled(2))
    expect(await answerOf(await waiting)).toMatchObject({
      id: 2,
      error: { data: { reason: 'token-cancelled' } }
    })
    await endpoint.calls[0]!.closed
    const told = (await endpoint.requests.nth(endpoint.requests.length)).message
    expect(told).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: endpoint.calls[0]!.message.id }
    })
    expect(await answerOf(await send(report(3, { resumeToken: token })))).toMatchObject({
      error: { code: -32602, data: { reason: 'token-cancelled' } }
    })
    expect(endpoint.calls).toHaveLength(1)
  })

  it('does not work by a notification for a request that has been answered', async () => {
    const { endpoint, send, token } = await inSession()
    await (
      await send(cancelled(1))
    ).ended
    expect(endpoint.calls[0]!.isClosed).toBe(false)
    expect(tokenOf(await answerOf(await send(report(2, { resumeToken: token }))))).toBeDefined()
  })

  it('works by ending its session', async () => {
    const setup = await inSession()
    setup.endpoint.calls[0]!.res.on('close', () => undefined)
    const deleting = del(setup.url, setup.headers)
    const call = await setup.endpoint.calls.nth(2)
    call.res.writeHead(204).end()
    await (
      await deleting
    ).ended
    await setup.endpoint.calls[0]!.closed
    expect(await answerOf(await setup.send(report(2, { resumeToken: setup.token })))).toMatchObject(
      {
        error: { data: { reason: 'token-cancelled' } }
      }
    )
  })

  it('does not work by a notification where neither owner nor session is known', async () => {
    const { url, endpoint } = await serveTokens()
    const token = tokenOf(await ask(url, report(1, { resumeToken: null })))
    const waiting = ask(url, report(2, { resumeToken: token, ...PATIENT }))
    await new Promise(resolve => setTimeout(resolve, SOON))
    await (
      await post(url, cancelled(2))
    ).ended
    answerJson(endpoint.calls[0]!, TEXT)
    expect(await waiting).toMatchObject({ id: 2, result: TEXT })
  })

  it('does not happen where its endpoint has lost the session: the call fails', async () => {
    const { endpoint, send, token } = await inSession()
    const lost = send(report(2))
    const call = await endpoint.calls.nth(2)
    call.res.writeHead(404).end()
    await (
      await lost
    ).ended
    await endpoint.calls[0]!.closed
    expect(await answerOf(await send(report(3, { resumeToken: token })))).toMatchObject({
      error: { code: -31000, data: { reason: 'session-ended' } }
    })
  })

  it('works by DELETE of the stream that answers its request', async () => {
    const { endpoint, send, token, url } = await inSession()
    const waiting = send(report(2, { resumeToken: token, progressToken: 'a', ...PATIENT }))
    await new Promise(resolve => setTimeout(resolve, SOON))
    endpoint.calls[0]!.emit({
      jsonrpc: '2.0',
      method: 'notifications/message',
      params: { data: 1 }
    })
    const open = await waiting
    await open.nextMessage()
    expect((await del(streamUrl(open, url))).status).toBe(204)
    await endpoint.calls[0]!.closed
    expect(await answerOf(await send(report(3, { resumeToken: token })))).toMatchObject({
      error: { data: { reason: 'token-cancelled' } }
    })
  })
})

describe('what the endpoint answers instead of a result', () => {
  it('is an error that is given to each later request', async () => {
    const { url, endpoint } = await serveTokens()
    const first = await ask(url, report(1, { resumeToken: null }))
    endpoint.calls[0]!.error(-32603, 'out of paper')
    const failed = { jsonrpc: '2.0', id: 2, error: { code: -32603, message: 'out of paper' } }
    for (let n = 0; n < 2; n++)
      expect(await ask(url, report(2, { resumeToken: tokenOf(first) }))).toEqual(failed)
    expect(endpoint.calls).toHaveLength(1)
  })

  it('is passed on where it has an HTTP status of its own', async () => {
    const { url, endpoint } = await serveTokens()
    const opening = post(url, report(1, { resumeToken: null }))
    const { res } = await endpoint.calls.nth(1)
    res
      .writeHead(401, {
        'WWW-Authenticate': 'Bearer scope="reports"',
        'Content-Type': 'text/plain'
      })
      .end('no')
    const response = await opening
    await response.ended
    expect(response.status).toBe(401)
    expect(response.headers).toMatchObject({
      'www-authenticate': 'Bearer scope="reports"',
      'content-type': 'text/plain'
    })
    expect(response.text).toBe('no')
  })

  it('is passed on under the client’s own id where it has one', async () => {
    const { url, endpoint } = await serveTokens()
    const opening = post(url, report(1, { resumeToken: null }))
    const { res, message } = await endpoint.calls.nth(1)
    res.writeHead(400, { 'Content-Type': 'application/json' })
    res.end(
      JSON.stringify({ jsonrpc: '2.0', id: message.id, error: { code: -32600, message: 'no' } })
    )
    const response = await opening
    expect(response.status).toBe(400)
    expect(await answerOf(response)).toEqual({
      jsonrpc: '2.0',
      id: 1,
      error: { code: -32600, message: 'no' }
    })
  })

  it('is an error of code -31000 where the endpoint gives no response', async () => {
    const { url, endpoint } = await serveTokens()
    const cases: [(res: (typeof endpoint.calls)[0]['res']) => unknown, string][] = [
      [res => res.destroy(), 'endpoint-failed'],
      [
        res => res.writeHead(200, { 'Content-Type': 'application/json' }).end('{"half":'),
        'no-response'
      ],
      [
        res => res.writeHead(200, { 'Content-Type': 'text/event-stream' }).end('data: {}\n\n'),
        'no-response'
      ],
      [res => res.writeHead(200).end(), 'no-response']
    ]
    for (const [i, [end, reason]] of cases.entries()) {
      const answer = ask(url, report(i, { resumeToken: null, ...PATIENT }))
      end((await endpoint.calls.nth(i + 1)).res)
      expect(await answer).toMatchObject({ id: i, error: { code: -31000, data: { reason } } })
    }
    const cut = ask(url, report(9, { resumeToken: null, ...PATIENT }))
    const { res } = await endpoint.calls.nth(cases.length + 1)
    res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': 100 })
    res.write('{"jsonrpc":')
    setImmediate(() => res.destroy())
    expect(await cut).toMatchObject({
      id: 9,
      error: { code: -31000, data: { reason: 'no-response' } }
    })
  })

  it('keeps the endpoint’s header fields, except those of the middleware', async () => {
    const { url, endpoint } = await serveTokens({}, { stateless: true })
    const first = await ask(url, report(1, { resumeToken: null }))
    const { res } = endpoint.calls[0]!
    res.setHeader('Set-Cookie', ['a=1', 'b=2'])
    res.setHeader('X-Quota', '7')
    res.setHeader('X-Powered-By', 'the endpoint')
    res.setHeader('Cache-Control', 'max-age=9')
    answerJson(endpoint.calls[0]!, TEXT)
    const response = await post(url, report(2, { resumeToken: tokenOf(first) }))
    await response.ended
    expect(response.headers).toMatchObject({
      'set-cookie': ['a=1', 'b=2'],
      'x-quota': '7',
      'cache-control': 'no-store'
    })
    expect(response.headers['x-powered-by']).toBe('Express')
  })

  it('is an error where the endpoint’s own names no request', async () => {
    const { url, endpoint } = await serveTokens()
    const answer = ask(url, report(1, { resumeToken: null }))
    const { res } = await endpoint.calls.nth(1)
    res.writeHead(200, { 'Content-Type': 'application/json' })
    res.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}')
    expect(await answer).toEqual({
      jsonrpc: '2.0',
      id: 1,
      error: { code: -32700, message: 'Parse error' }
    })
  })

  it('is an error where it is too large', async () => {
    const { url, endpoint } = await serveTokens({ maxStreamBytes: 1000 })
    const text = 'x'.repeat(2000)
    const json = ask(url, report(1, { resumeToken: null, ...PATIENT }))
    answerJson(await endpoint.calls.nth(1), { content: [{ type: 'text', text }] })
    expect(await json).toMatchObject({ error: { code: -31000, data: { reason: 'overflow' } } })
    const sse = ask(url, report(2, { resumeToken: null, ...PATIENT }))
    ;(await endpoint.calls.nth(2)).result({ content: [{ type: 'text', text }] })
    expect(await sse).toMatchObject({ error: { code: -31000, data: { reason: 'overflow' } } })
    const never = ask(url, report(3, { resumeToken: null, ...PATIENT }))
    ;(await endpoint.calls.nth(3)).write(`data: ${text}`)
    expect(await never).toMatchObject({
      error: { code: -31000, data: { reason: 'event-too-large' } }
    })
  })
})

describe('what stands in front of the endpoint', () => {
  it('may refuse the call', async () => {
    const endpoint = rawEndpoint(() => undefined, { stateless: true })
    const streams = mcpStreams({ resumeTokens: { after: SOON } })
    closeLater(() => streams.close({ drain: 0 }))
    const app = express()
    app.use('/mcp', streams)
    app.use('/mcp', (_req, res) => void res.status(403).send('not you'))
    app.all('/mcp', endpoint)
    const { url } = await listen(app)
    const response = await post(`${url}/mcp`, report(1, { resumeToken: null }))
    await response.ended
    expect([response.status, response.text]).toEqual([403, 'not you'])
    expect(endpoint.calls).toHaveLength(0)
  })
})

describe('limits', () => {
  it('give a call no tokens where as many run as may', async () => {
    const { url, endpoint, streams } = await serveTokens({ maxStreams: 2 })
    const tokens = [
      tokenOf(await ask(url, report(1, { resumeToken: null }))),
      tokenOf(await ask(url, report(2, { resumeToken: null })))
    ]
    const third = ask(url, report(3, { resumeToken: null }))
    const call = await endpoint.calls.nth(3)
    expect(call.message.id).toBe(3)
    answerJson(call, TEXT)
    expect(await third).toMatchObject({ id: 3, result: TEXT })
    expect(streams.stats().refusals).toBe(1)
    for (const [i, resumeToken] of tokens.entries()) {
      answerJson(endpoint.calls[i]!, TEXT)
      expect(await ask(url, report(4, { resumeToken }))).toMatchObject({ result: TEXT })
    }
    expect(tokenOf(await ask(url, report(5, { resumeToken: null })))).toBeDefined()
  })

  it('evict older results for newer ones, with an error for their tokens', async () => {
    const { url, endpoint } = await serveTokens({ maxBytes: 2000, maxStreamBytes: 2000 })
    const big = { content: [{ type: 'text', text: 'x'.repeat(1200) }] }
    const tokens = []
    for (const id of [1, 2]) {
      const first = await ask(url, report(id, { resumeToken: null }))
      tokens.push(tokenOf(first))
      answerJson(endpoint.calls.at(-1)!, big)
      expect(await ask(url, report(id, { resumeToken: tokenOf(first) }))).toMatchObject({
        result: big
      })
    }
    expect(await ask(url, report(1, { resumeToken: tokens[0] }))).toMatchObject({
      error: { code: -32602, data: { reason: 'token-completed' } }
    })
    expect(await ask(url, report(2, { resumeToken: tokens[1] }))).toMatchObject({ result: big })
  })
})

describe('close()', () => {
  it('lets calls be answered, and gives no tokens after the server has stopped to listen', async () => {
    const { url, endpoint, streams, server } = await serveTokens()
    const asked = ask(url, report(1, { resumeToken: null }))
    const call = await endpoint.calls.nth(1)
    server.close()
    const closing = streams.close()
    await new Promise(resolve => setTimeout(resolve, 4 * SOON))
    answerJson(call, TEXT)
    expect(await asked).toEqual({ jsonrpc: '2.0', id: 1, result: TEXT })
    await closing
  })

  it('gives and takes tokens while the server still listens', async () => {
    const { url, endpoint, streams } = await serveTokens()
    const asked = ask(url, report(1, { resumeToken: null }))
    const call = await endpoint.calls.nth(1)
    const closing = streams.close()
    const collected = ask(url, report(2, { resumeToken: tokenOf(await asked), ...PATIENT }))
    answerJson(call, TEXT)
    expect(await collected).toEqual({ jsonrpc: '2.0', id: 2, result: TEXT })
    await closing
  })

  it('abandons a call soon whose token nobody uses', async () => {
    const { url, endpoint, streams } = await serveTokens({ retry: 10 })
    await ask(url, report(1, { resumeToken: null }))
    await streams.close()
    await endpoint.calls[0]!.closed
    expect(streams.stats().calls).toBe(0)
  })

  it('answers waiting requests with an error when the time is up, and gives no tokens after that', async () => {
    const { url, endpoint, streams } = await serveTokens()
    const first = await ask(url, report(1, { resumeToken: null }))
    const parked = await ask(url, report(2, { resumeToken: null }))
    const waiting = ask(url, report(3, { resumeToken: tokenOf(first), ...PATIENT }))
    await new Promise(resolve => setTimeout(resolve, SOON))
    const closing = streams.close({ drain: 0 })
    expect(await waiting).toMatchObject({
      id: 3,
      error: { code: -31000, data: { reason: 'closing' } }
    })
    await closing
    await Promise.all(endpoint.calls.map(({ closed }) => closed))
    expect(await ask(url, report(4, { resumeToken: tokenOf(parked) }))).toMatchObject({
      error: { code: -31000, data: { reason: 'closing' } }
    })
    const untouched = ask(url, report(5, { resumeToken: null }))
    const call = await endpoint.calls.nth(3)
    expect(call.message.id).toBe(5)
    answerJson(call, TEXT)
    expect(await untouched).toMatchObject({ id: 5, result: TEXT })
  })
})
