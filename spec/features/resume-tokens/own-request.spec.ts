// The endpoint works on a call with tokens in its client's own request: everything in front runs
// once, and what the endpoint does to its response is for whoever asks for the call.

import { describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { once } from 'node:events'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { mcpStreams } from '../../../lib/index.js'
import { closeLater, type Handler, listen } from '../../helpers/listen.js'
import { headersFor, initializeSession, notification, post, request } from '../../helpers/mcp.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { serve } from '../../helpers/serve.js'
import { answerJson, answerOf, ask, report, serveTokens, SOON, TEXT, tokenOf } from './setup.js'

const PATIENT = { resumeToken: null, 'express-mcp-streams/wait': 60_000 }
const HEADERS = headersFor({ version: '2025-11-25' })

/** A call, and another one of the same client behind it, which may have the same connection. */
async function collect(url: string, resumeToken: string): Promise<unknown> {
  return ask(url, report(2, { resumeToken, 'express-mcp-streams/wait': 60_000 }))
}

describe('the request of a call', () => {
  it('passes what stands in front once, and so does each that asks for its result', async () => {
    let passed = 0
    const count: RequestHandler = (_req, _res, next) => {
      passed++
      next()
    }
    const endpoint = rawEndpoint(() => undefined, { stateless: true })
    const { url } = await serve(endpoint, { resumeTokens: { after: SOON } }, [count])
    const first = await ask(url, report(1, { resumeToken: null }))
    expect(passed).toBe(1)
    answerJson(endpoint.calls[0]!, TEXT)
    expect(await collect(url, tokenOf(first))).toMatchObject({ id: 2, result: TEXT })
    expect(passed).toBe(2)
  })

  it.each(['parsed in front', 'read by the endpoint'])(
    'has the body that its endpoint is to see, %s, in whatever charset it came',
    async how => {
      const endpoint = rawEndpoint(() => undefined, { stateless: true })
      const parsers = how === 'parsed in front' ? [express.json()] : []
      const { url } = await serve(endpoint, { resumeTokens: { after: SOON } }, parsers)
      const message = report(1, { resumeToken: null }, { name: 'Zoë' })
      const response = await fetch(url, {
        method: 'POST',
        body: Buffer.from(JSON.stringify(message), 'utf16le'),
        headers: { 'Content-Type': 'application/json; charset=utf-16le' }
      })
      tokenOf((await response.json()) as object)
      const { message: seen, req } = await endpoint.calls.nth(1)
      expect(seen.params).toEqual({ name: 'report', arguments: { name: 'Zoë' } })
      expect(req.headers['content-type']).toBe('application/json')
    }
  )

  it.each([
    ['text', express.text({ type: () => true })],
    ['bytes', express.raw({ type: () => true })]
  ])('has the body that a parser in front has left as %s', async (_as, parser) => {
    const seen = gate<unknown>()
    const endpoint: Handler = req => seen.open((req as { body?: unknown }).body)
    const { url } = await serve(endpoint, { resumeTokens: { after: SOON } }, [parser])
    const response = await fetch(url, {
      method: 'POST',
      body: JSON.stringify(report(1, { resumeToken: null })),
      headers: { 'Content-Type': 'application/json' }
    })
    tokenOf((await response.json()) as object)
    expect(JSON.parse(String(await seen.opened))).toMatchObject({ params: { name: 'report' } })
  })

  it('has a valid head, without anything about tokens', async () => {
    const { url, endpoint } = await serveTokens()
    const response = await post(url, report(1), {
      ...HEADERS,
      accept: 'application/json',
      prefer: 'respond-async, wait=0, rel=stream; x=1'
    })
    expect(response.headers['preference-applied']).toBe('respond-async')
    const { req } = await endpoint.calls.nth(1)
    expect(req.headers).toMatchObject({
      accept: 'application/json, text/event-stream',
      prefer: 'rel=stream; x=1'
    })
    const raw = req.rawHeaders.join('\n').toLowerCase()
    expect(raw).not.toContain('respond-async')
    expect(raw.match(/^accept$/gm)).toHaveLength(1)
  })

  it('can have its body read when its client has long been answered', async () => {
    const read = gate()
    const endpoint = rawEndpoint(call => answerJson(call, { got: call.message.params.arguments }))
    const { url } = await serve(
      async (req, res) => {
        await read.opened
        return endpoint(req, res)
      },
      { resumeTokens: { after: SOON } }
    )
    const args = { text: 'x'.repeat(5000) }
    const asked = { resumeToken: null, 'express-mcp-streams/wait': 0 }
    const token = tokenOf(await ask(url, report(1, asked, args)))
    read.open()
    const resume = { resumeToken: token, 'express-mcp-streams/wait': 60_000 }
    expect(await ask(url, report(2, resume, args))).toMatchObject({ result: { got: args } })
  })

  it('is made after a body that arrives slowly', async () => {
    const { url, endpoint } = await serveTokens()
    const args = { text: 'x'.repeat(300_000) }
    const first = await ask(url, report(1, { resumeToken: null }, args))
    const calls = endpoint.calls.filter(({ message }) => message !== undefined)
    expect(calls).toHaveLength(1)
    expect(calls[0]!.message.params).toEqual(report(1, undefined, args).params)
    calls[0]!.emit(notification('notifications/message', { data: 1 }))
    calls[0]!.result(TEXT)
    const resume = { resumeToken: tokenOf(first), 'express-mcp-streams/wait': 60_000 }
    expect(await ask(url, report(2, resume, args))).toMatchObject({ id: 2, result: TEXT })
  })
})

const gzipped = ({ res, message }: RawCall, status = 200): void => {
  const json = JSON.stringify({ jsonrpc: '2.0', id: message.id, result: TEXT })
  res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' })
  res.end(gzipSync(json))
}

describe('the response to a call', () => {
  it('may be compressed behind us', async () => {
    const { url, endpoint } = await serveTokens({ resumeTokens: { after: 5000 } })
    const answer = post(url, report(1, { resumeToken: null }), HEADERS)
    gzipped(await endpoint.calls.nth(1))
    const response = await answer
    expect(await answerOf(response)).toEqual({ jsonrpc: '2.0', id: 1, result: TEXT })
    expect(response.headers['content-encoding']).toBeUndefined()

    const refusal = post(url, report(2, { resumeToken: null }), HEADERS)
    gzipped(await endpoint.calls.nth(2), 400)
    expect((await refusal).status).toBe(400)
    expect(await answerOf(await refusal)).toMatchObject({ id: 2 })
  })

  it.each<[string, (call: RawCall) => unknown]>([
    ['its response', ({ res }) => res.destroy()],
    ['its socket', ({ req }) => req.socket.destroy()],
    ['its response, when its client has the token', ({ res }) => res.destroy()]
  ])('may be missing: the endpoint destroys %s', async (what, destroy) => {
    const endpoint = rawEndpoint(
      async call => {
        if (what.includes('token')) await taken.opened
        destroy(call)
      },
      { stateless: true }
    )
    const taken = gate()
    const { url } = await serve(endpoint, {
      resumeTokens: { after: what.includes('token') ? SOON : 5000 }
    })
    let answer = await ask(url, report(1, { resumeToken: null }))
    if (what.includes('token')) {
      taken.open()
      answer = (await collect(url, tokenOf(answer))) as typeof answer
    }
    expect(answer).toMatchObject({ error: { code: -31000, data: { reason: 'endpoint-failed' } } })
  })

  it('emits `finish` and `close` also where the endpoint answers at once', async () => {
    const over: string[] = []
    const { url } = await serve(
      (req, res) => {
        res.on('finish', () => over.push('finish')).on('close', () => over.push('close'))
        const { id } = (req as unknown as { body: { id: string } }).body
        res.writeHead(200, { 'Content-Type': 'application/json' })
        res.end(JSON.stringify({ jsonrpc: '2.0', id, result: TEXT }))
      },
      { resumeTokens: { after: 5000 } },
      [express.json()]
    )
    expect(await ask(url, report(1, { resumeToken: null }))).toMatchObject({ result: TEXT })
    await until(() => over.length === 2)
    expect(over).toEqual(['finish', 'close'])
  })

  it('is the error page of Express where its handler throws', async () => {
    const streams = mcpStreams({ resumeTokens: { after: 5000 } })
    closeLater(() => streams.close({ drain: 0 }))
    const app = express().use(streams)
    app.post('/', () => {
      throw Object.assign(new Error('no'), { status: 418, expose: true })
    })
    const { url } = await listen(app.set('env', 'test'))
    const response = await post(url, report(1, { resumeToken: null }), HEADERS)
    await response.ended
    expect(response.status).toBe(418)
  })

  it('can be written to after the result, and closes soon after that', async () => {
    const { url, endpoint } = await serveTokens({ resumeTokens: { after: 5000 } })
    const answer = ask(url, report(1, { resumeToken: null }))
    const call = await endpoint.calls.nth(1)
    call.emit({ jsonrpc: '2.0', id: call.message.id, result: TEXT })
    expect(await answer).toMatchObject({ id: 1, result: TEXT })
    expect(call.isClosed).toBe(false)
    call.emit(notification('notifications/message', { data: 1 }))
    call.res.end()
    await call.closed

    const open = ask(url, report(2, { resumeToken: null }))
    const second = await endpoint.calls.nth(2)
    second.emit({ jsonrpc: '2.0', id: second.message.id, result: TEXT })
    await open
    // It does not end its response, and nobody waits for that.
    await second.closed
  })

  it('that refuses the session ends it, also long after the token', async () => {
    const { url, endpoint, streams } = await serveTokens({}, { session: 'one' })
    const { headers } = await initializeSession(url, '2025-11-25')
    const other = post(url, request(9, 'other'), headers)
    ;(await endpoint.calls.nth(1)).emit(notification('notifications/message', { data: 1 }))
    await (await other).nextMessage()
    const first = await answerOf(await post(url, report(1, { resumeToken: null }), headers))
    ;(await endpoint.calls.nth(2)).res.writeHead(404).end()
    expect(await answerOf(await other)).toMatchObject({
      error: { data: { reason: 'session-ended' } }
    })
    expect(streams.stats().live).toBe(0)
    const last = await post(url, report(2, { resumeToken: tokenOf(first) }), headers)
    expect(last.status).toBe(404)
  })

  it('does not end with its client’s connection, which serves other requests', async () => {
    const { url, endpoint } = await serveTokens()
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    const send = (message: object): void => {
      const body = JSON.stringify(message)
      socket.write(
        `POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n` +
          `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
      )
    }
    send(report(1, { resumeToken: null }))
    const token = /"nextResumeToken":"([^"]+)"/.exec(String((await once(socket, 'data'))[0]))?.[1]
    send(report(2, { resumeToken: null, 'express-mcp-streams/wait': 0 }, { other: true }))
    await once(socket, 'data')
    socket.destroy()
    await until(() => endpoint.calls.length === 2)
    const [first] = endpoint.calls
    expect([first!.isClosed, first!.res.writableEnded, first!.res.destroyed]).toEqual([
      false,
      false,
      false
    ])
    first!.emit(notification('notifications/message', { data: 1 }))
    first!.result(TEXT)
    expect(await collect(url, token!)).toMatchObject({ id: 2, result: TEXT })
    await first!.closed
  })
})

describe('a call whose client reads nothing', () => {
  it('is slowed down, and goes on when it reads', async () => {
    const { url, endpoint } = await serveTokens({ maxStreamBytes: 100_000 })
    const opening = post(url, report(1, PATIENT), headersFor({ version: '2026-07-28' }))
    const call = await endpoint.calls.nth(1)
    const message = notification('notifications/message', { data: 'x'.repeat(20_000) })
    call.emit(message)
    const open = await opening
    open.pause()
    while (call.emit(message)) await new Promise(resolve => setImmediate(resolve))
    expect(call.res.writableNeedDrain).toBe(true)
    const drained = once(call.res, 'drain')
    open.resume()
    await drained
    call.result(TEXT)
    expect(await answerOf(open)).toMatchObject({ id: 1, result: TEXT })
  })
})
