// Something in front of the middleware, such as a limit on duration, answers or ends a response
// that is to be written later. Requests are pipelined behind an open one, so that nothing tells us
// of it: their `close` does not come.

import { describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import type { OutgoingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { rawEndpoint, type RawCall, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { Awaitable, gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { callTool, get, headersFor, notification, post, request } from '../../helpers/mcp.js'
import { serve, type Served, streamUrl } from '../../helpers/serve.js'
import { answerJson, serveResources } from '../resources/setup.js'
import { open, requestText } from './wire.js'

const HEADERS = headersFor({ version: '2025-11-25' })
const LIMITED = { 'X-Limited': '1' }
const NEWS = notification('notifications/message', { level: 'info', data: 'news' })

const portOf = (server: Server) => (server.address() as AddressInfo).port

/** Responses that are limited, for a spec to end. */
function limiter() {
  const limited = new Awaitable<ServerResponse>()
  const front: RequestHandler = (req, res, next) => {
    if (req.headers['x-limited'] !== undefined) limited.push(res)
    next()
  }
  return { limited, front }
}

const tooSlow = (res: ServerResponse) =>
  res.writeHead(503, { 'Content-Type': 'text/plain' }).end('too slow')

/** An endpoint whose listen channels stay open: what is pipelined behind one waits for it. */
const listening = (script: (call: RawCall) => unknown): RawEndpoint =>
  rawEndpoint(call => (call.req.method === 'GET' ? call.open() : script(call)))

/** A socket whose first response stays open. */
async function busySocket({ server, streams }: Served) {
  const wire = open(portOf(server))
  const { connections } = streams.stats()
  wire.socket.write(
    requestText({ method: 'GET', headers: { ...HEADERS, 'Mcp-Session-Id': 'busy' } })
  )
  await until(() => streams.stats().connections > connections)
  return wire
}

async function serveLimited(endpoint: RawEndpoint, options?: McpStreamsOptions) {
  const { limited, front } = limiter()
  return { ...(await serve(endpoint, options, [front])), limited }
}

const pathOf = (url: string) => new URL(url).pathname + new URL(url).search

describe('a response that somebody in front has answered', () => {
  it('is no place for the answer of a call that is repeated under its key', async () => {
    const endpoint = listening(() => undefined)
    const served = await serveLimited(endpoint)
    const keyed = { ...HEADERS, 'Idempotency-Key': '0123456789abcdef' }
    const first = post(served.url, callTool(1, 'any'), keyed)
    const call = await endpoint.calls.nth(1)
    const wire = await busySocket(served)
    wire.socket.write(requestText({ headers: { ...keyed, ...LIMITED } }, callTool(1, 'any')))
    tooSlow(await served.limited.nth(1))
    answerJson(call)
    expect((await first).status).toBe(200)
    await turn()
    endpoint.calls[1]!.res.end()
    await until(() => wire.text().includes('too slow'))
    expect(wire.text()).not.toContain('"result"')
  })

  it('gets nothing of a resource that has been opened meanwhile', async () => {
    const { limited, front } = limiter()
    const opening = gate()
    const body = async () => {
      await opening.opened
      return Readable.from([Buffer.from('bytes')])
    }
    const server = await serveResources(() => ({ body }), { inFront: [front] })
    const asked = server.ask('x:1', LIMITED)
    tooSlow(await limited.nth(1))
    opening.open()
    const response = await asked
    expect(await response.ended).toBe('end')
    expect([response.status, response.text]).toEqual([503, 'too slow'])
    expect(server.errors).toEqual([])
  })

  it('while its body came, has no endpoint any more', async () => {
    const endpoint = rawEndpoint(({ result }) => result())
    const { server, limited } = await serveLimited(endpoint)
    const wire = open(portOf(server))
    const whole = requestText({ headers: { ...HEADERS, ...LIMITED } }, callTool(1, 'any'))
    wire.socket.write(whole.slice(0, -5))
    tooSlow(await limited.nth(1))
    wire.socket.write(whole.slice(-5) + requestText({ headers: HEADERS }, callTool(2, 'any')))
    const call = await endpoint.calls.nth(1)
    expect(call.message.id).toBe(2)
    expect(endpoint.calls).toHaveLength(1)
  })

  it('gets no answer of the streams that had to be asked of the endpoint first', async () => {
    const asked = new Awaitable<RawCall>()
    const endpoint = rawEndpoint(
      call => void (call.message.method === 'ping' ? asked.push(call) : call.emit(NEWS))
    )
    const served = await serveLimited(endpoint)
    await (await post(served.url, callTool(1, 'any'), HEADERS)).nextMessage()
    const polled = post(served.url, request(2, 'stream/poll/all', {}), { ...HEADERS, ...LIMITED })
    const ping = await asked.nth(1)
    tooSlow(await served.limited.nth(1))
    answerJson(ping)
    expect((await polled).status).toBe(503)
  })
})

describe('a response whose head somebody in front has written', () => {
  it.each<[how: string, begin: (res: ServerResponse) => unknown]>([
    ['writeHead()', res => res.writeHead(200, { 'Content-Type': 'text/event-stream' })],
    ['flushHeaders()', res => res.setHeader('Content-Type', 'text/event-stream').flushHeaders()]
  ])('by %s is for the endpoint to go on with', async (_how, begin) => {
    const front: RequestHandler = (_req, res, next) => {
      begin(res)
      next()
    }
    const { url } = await serve(
      rawEndpoint(call => call.result({ ran: true })),
      {},
      [front]
    )
    const response = await post(url, callTool(1, 'any'), HEADERS)
    expect(await response.ended).toBe('end')
    expect(response.messages()).toMatchObject([{ id: 1, result: { ran: true } }])
    expect(response.headers.link).toBeUndefined()
  })
})

describe('a response that somebody in front has ended', () => {
  it('follows its stream no longer; the stream goes on', async () => {
    const endpoint = listening(({ emit }) => emit(NEWS))
    const served = await serveLimited(endpoint)
    const first = await post(served.url, callTool(1, 'any'), HEADERS)
    await first.nextMessage()
    const url = streamUrl(first, served.url)
    const wire = await busySocket(served)
    wire.socket.write(requestText({ method: 'GET', path: pathOf(url), headers: LIMITED }))
    const limited = await served.limited.nth(1)
    await until(() => served.streams.stats().resumes === 1)
    limited.end()
    const [call] = endpoint.calls
    call!.emit(NEWS)
    await until(() => served.streams.stats().connections === 1)
    call!.result()
    const again = await get(url, HEADERS)
    await again.ended
    expect(again.messages()).toEqual([NEWS, NEWS, { jsonrpc: '2.0', id: 1, result: {} }])
  })

  it('underneath what we have patched, neither', async () => {
    const endpoint = listening(({ emit }) => emit(NEWS))
    const served = await serveLimited(endpoint)
    const wire = await busySocket(served)
    wire.socket.write(requestText({ headers: { ...HEADERS, ...LIMITED } }, callTool(1, 'any')))
    const limited = await served.limited.nth(1)
    await until(() => served.streams.stats().connections === 2)
    const { end } = Object.getPrototypeOf(Object.getPrototypeOf(limited)) as OutgoingMessage
    Reflect.apply(end, limited, [])
    const call = await endpoint.calls.nth(2)
    call.emit(NEWS)
    await until(() => served.streams.stats().connections === 1)
    expect(served.streams.stats().live).toBe(2)
  })

  it('gets no more bytes of a resource, whose source is let go', async () => {
    const { limited, front } = limiter()
    const source = new Readable({ read: () => undefined })
    const server = await serveResources(() => ({ body: source }), { inFront: [front] })
    const asked = server.ask('x:1', LIMITED)
    source.push('half')
    const response = await asked
    ;(await limited.nth(1)).end()
    source.push('of it')
    await response.ended
    await until(() => source.destroyed)
    expect(response.text).toBe('half')
    expect(server.errors).toEqual([])
  })

  it('has ended a call with resume tokens, too, as its endpoint would: there is one response', async () => {
    const endpoint = rawEndpoint(({ emit }) => emit(NEWS))
    const { url, limited, streams } = await serveLimited(endpoint)
    // A revision whose event streams are not kept.
    const headers = {
      ...headersFor({ version: '2026-07-28' }),
      ...LIMITED,
      Prefer: 'respond-async, wait=20'
    }
    const response = await post(url, callTool(1, 'any'), headers)
    await response.nextMessage()
    ;(await limited.nth(1)).end()
    const [call] = endpoint.calls
    call!.emit(NEWS)
    call!.result()
    await response.ended
    await until(() => streams.stats().connections === 0)
    expect(response.messages()).toEqual([
      NEWS,
      expect.objectContaining({
        id: 1,
        error: expect.objectContaining({ data: { reason: 'no-response' } })
      })
    ])
  })
})
