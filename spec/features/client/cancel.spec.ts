// DELETE on a stream URL: the tool's signal fires, whatever the endpoint is made of.

import { describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful, sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler, sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { happenings, until } from '../../helpers/happenings.js'
import {
  callTool,
  del,
  ended,
  get,
  headersFor,
  initializeSession,
  post,
  withEnvelope
} from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'

const PREFER = { prefer: 'rel=stream' }
const KEY = { 'idempotency-key': 'a-key-that-nobody-guesses' }
const hang = callTool(7, 'hang', { key: 'h' }, 'token')

const ENDPOINTS = {
  'SDK v1 with sessions': { make: sdkV1Stateful, version: '2025-11-25', hasSession: true },
  'SDK v1 without sessions': { make: sdkV1Stateless, version: '2025-11-25', hasSession: false },
  'SDK v2 with sessions': { make: sdkV2Stateful, version: '2025-11-25', hasSession: true },
  'SDK v2 at 2026-07-28': {
    make: () => sdkV2Handler({ responseMode: 'sse' }),
    version: '2026-07-28',
    hasSession: false
  }
} as const

type Name = keyof typeof ENDPOINTS

async function start(name: Name, inFront: RequestHandler[] = []) {
  const { make, version, hasSession } = ENDPOINTS[name]
  const endpoint = make()
  const { url, streams } = await serve(endpoint, { retry: 5, resumeInterval: { min: 0 } }, inFront)
  const base = { ...PREFER, authorization: 'Bearer me' }
  const headers = hasSession
    ? (await initializeSession(url, version, base)).headers
    : { ...base, ...headersFor({ version, ...(version === '2026-07-28' && { message: hang }) }) }
  const body = version === '2026-07-28' ? withEnvelope(hang) : hang
  return { endpoint, log: endpoint.log, url, streams, headers, body }
}

describe.each(Object.keys(ENDPOINTS) as Name[])('%s', name => {
  it('fires the signal of its tool', async () => {
    const { log, url, headers, body } = await start(name)
    const cancelled = happenings('cancelled')
    const answer = await post(url, body, { ...headers, ...KEY })
    const call = await log.calls.nth(1)
    const { status, text } = await del(streamUrl(answer, url), headers)
    expect([status, text]).toEqual([204, ''])
    await until(() => call.signal.aborted)
    await answer.ended
    expect(answer.messages()).toEqual([])
    await cancelled.nth(1)
    // It is over, and stays so.
    expect((await get(streamUrl(answer, url), headers)).status).toBe(204)
    expect((await del(streamUrl(answer, url), headers)).status).toBe(204)
    const again = await ended(post(url, body, { ...headers, ...KEY }))
    expect([200, 409]).toContain(again.status)
    expect(log.calls.length).toBe(1)
  })

  it('fires the signal of its tool when nobody is connected any more', async () => {
    const { log, url, headers, body } = await start(name)
    const answer = await post(url, body, { ...headers, ...KEY })
    const call = await log.calls.nth(1)
    answer.destroy()
    await answer.ended
    expect((await del(streamUrl(answer, url), headers)).status).toBe(204)
    await until(() => call.signal.aborted)
  })

  it('is not cancelled by a stranger, or by another session', async () => {
    const { log, url, headers, body } = await start(name)
    const answer = await post(url, body, { ...headers, ...KEY })
    const call = await log.calls.nth(1)
    const foreign: Record<string, string>[] = [{ ...headers, authorization: 'Bearer them' }]
    if (ENDPOINTS[name].hasSession) foreign.push({ ...headers, 'mcp-session-id': 'theirs' })
    for (const theirs of foreign) {
      expect((await del(streamUrl(answer, url), theirs)).status).toBe(404)
      expect((await del(`${url}?stream=${KEY['idempotency-key']}`, theirs)).status).toBe(404)
    }
    expect(call.signal.aborted).toBe(false)
  })

  it('does not cancel other calls of the same session', async () => {
    const { log, url, headers, body } = await start(name)
    const other = { ...body, id: 8 }
    const answers = [await post(url, body, headers), await post(url, other, headers)]
    await log.calls.nth(2)
    await del(streamUrl(answers[0]!, url), headers)
    await until(() => log.calls.some(({ signal }) => signal.aborted))
    expect(log.calls.filter(({ signal }) => signal.aborted)).toHaveLength(1)
  })
})

describe('a call that has no response yet', () => {
  it.each<[string, typeof sdkV1Stateful | typeof sdkV1Stateless]>([
    ['with sessions', sdkV1Stateful],
    ['without sessions', sdkV1Stateless]
  ])('is cancelled by its key, %s', async (_name, make) => {
    const endpoint = make({ enableJsonResponse: true })
    const { url } = await serve(endpoint)
    const { headers } = await initializeSession(url, '2025-11-25', PREFER)
    const pending = post(url, hang, { ...headers, ...KEY })
    pending.catch(() => undefined)
    const call = await endpoint.log.calls.nth(1)
    expect((await del(`${url}?stream=${KEY['idempotency-key']}`, headers)).status).toBe(204)
    await until(() => call.signal.aborted)
    expect((await post(url, hang, { ...headers, ...KEY })).status).toBe(409)
    expect(endpoint.log.calls.length).toBe(1)
  })

  it('is cancelled by its key at 2026-07-28', async () => {
    const endpoint = sdkV2Handler()
    const { url } = await serve(endpoint)
    const headers = { ...PREFER, ...KEY, ...headersFor({ version: '2026-07-28', message: hang }) }
    const pending = post(url, withEnvelope(hang), headers)
    pending.catch(() => undefined)
    const call = await endpoint.log.calls.nth(1)
    expect((await del(`${url}?stream=${KEY['idempotency-key']}`, headers)).status).toBe(204)
    await until(() => call.signal.aborted)
  })

  it('is not cancelled by DELETE once it has been answered; a DELETE that names no known key goes to the endpoint', async () => {
    const endpoint = rawEndpoint(
      ({ res }) => void res.writeHead(200, { 'Content-Type': 'application/json' }).end('{}')
    )
    const { url } = await serve(endpoint)
    await ended(post(url, hang, { ...PREFER, ...KEY }))
    expect((await del(`${url}?stream=${KEY['idempotency-key']}`, PREFER)).status).toBe(204)
    expect(endpoint.calls.length).toBe(1)
    // A parameter that names nothing of ours is somebody else's: the endpoint's to answer.
    for (const name of ['another-key-nobody-knows', 'short', ''])
      await (
        await del(`${url}?stream=${name}`, PREFER)
      ).ended
    expect(endpoint.calls.map(({ req }) => req.method)).toEqual([
      'POST',
      'DELETE',
      'DELETE',
      'DELETE'
    ])
  })

  it('cannot be read by GET with its key, only cancelled', async () => {
    const endpoint = rawEndpoint(call =>
      call.req.method === 'POST' ? call.open() : call.res.writeHead(405).end()
    )
    const { url } = await serve(endpoint)
    await post(url, hang, { ...PREFER, ...KEY })
    expect((await get(`${url}?stream=${KEY['idempotency-key']}`, PREFER)).status).toBe(405)
    expect((await del(`${url}?stream=${KEY['idempotency-key']}`, PREFER)).status).toBe(204)
    await endpoint.calls[0]!.closed
  })
})

describe('the notification that an endpoint with sessions gets', () => {
  it("is a POST with the client's credentials, which passes the guards behind the middleware", async () => {
    const endpoint = rawEndpoint(call => call.open(), { session: 'S' })
    const seen: unknown[] = []
    const guarded: RequestHandler = (req, res, next) => {
      if (req.method === 'POST' && req.headers.authorization !== 'Bearer me')
        return void res.status(401).end()
      const { method, url, originalUrl, headers } = req
      seen.push([
        method,
        url,
        originalUrl,
        headers['content-type'],
        headers['mcp-session-id'],
        headers['x-custom']
      ])
      next()
    }
    const handler = (
      req: Parameters<typeof endpoint>[0],
      res: Parameters<typeof endpoint>[1]
    ): void => {
      void guarded(req as never, res as never, () => void endpoint(req, res))
    }
    const { url } = await serve(handler)
    const headers = {
      ...PREFER,
      authorization: 'Bearer me',
      'mcp-session-id': 'S',
      'x-custom': 'kept'
    }
    const answer = await post(`${url}?tenant=a`, hang, {
      ...headers,
      ...headersFor({ version: '2025-11-25' })
    })
    const target = streamUrl(answer, `${url}?tenant=a`)
    expect(new URL(target).searchParams.get('tenant')).toBe('a')
    const deleted = await del(target, headers)
    expect([
      deleted.status,
      deleted.headers['content-type'],
      deleted.headers['content-length']
    ]).toEqual([204, undefined, undefined])
    expect(seen.at(-1)).toEqual([
      'POST',
      '/mcp?tenant=a',
      '/mcp?tenant=a',
      'application/json',
      'S',
      'kept'
    ])
    expect(endpoint.requests.at(-1)?.message).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: 7, reason: expect.any(String) }
    })
    await endpoint.calls[0]!.closed
  })

  it('is a batch where the call was a batch', async () => {
    const endpoint = rawEndpoint(call =>
      call.message[0].id === undefined ? void call.res.writeHead(202).end() : call.open()
    )
    const { url } = await serve(endpoint)
    const headers = { ...PREFER, 'mcp-session-id': 'S', ...headersFor({ version: '2025-03-26' }) }
    const answer = await post(url, [hang, { ...hang, id: 'b' }], headers)
    expect((await del(streamUrl(answer, url), headers)).status).toBe(204)
    expect(endpoint.calls[1]!.message).toMatchObject([
      { params: { requestId: 7 } },
      { params: { requestId: 'b' } }
    ])
  })

  it.each([
    ['refuses it', 403],
    ['knows its session no more', 404],
    ['breaks', 500]
  ])(
    'does not change the 204 that the client gets, where the endpoint %s',
    async (_name, status) => {
      const endpoint = rawEndpoint(call =>
        call.message.id === undefined ? call.res.writeHead(status).end('no') : call.open()
      )
      const { url } = await serve(endpoint)
      const headers = { ...PREFER, 'mcp-session-id': 'S', ...headersFor({ version: '2025-11-25' }) }
      const answer = await post(url, hang, headers)
      const deleted = await ended(del(streamUrl(answer, url), headers))
      expect([deleted.status, deleted.text]).toEqual([204, ''])
    }
  )

  it('may be answered by an event stream', async () => {
    const endpoint = rawEndpoint(call => {
      call.open()
      if (call.message.id !== undefined) return
      call.emit({})
      call.res.end()
    })
    const { url } = await serve(endpoint)
    const headers = { ...PREFER, 'mcp-session-id': 'S', ...headersFor({ version: '2025-11-25' }) }
    const answer = await post(url, hang, headers)
    const deleted = await ended(del(streamUrl(answer, url), headers))
    expect([deleted.status, deleted.text, deleted.headers['content-type']]).toEqual([
      204,
      '',
      undefined
    ])
  })

  it('is not sent for a listen channel, nor for a stream that is finished', async () => {
    const endpoint = rawEndpoint(call =>
      call.req.method === 'GET' ? call.open() : call.result('done')
    )
    const { url } = await serve(endpoint)
    const headers = { ...PREFER, 'mcp-session-id': 'S', ...headersFor({ version: '2025-11-25' }) }
    const listening = await get(url, { ...headers, accept: 'text/event-stream' })
    const finished = await ended(post(url, hang, headers))
    for (const answer of [listening, finished])
      expect((await del(streamUrl(answer, url), headers)).status).toBe(204)
    expect(endpoint.calls.length).toBe(2)
    await endpoint.calls[0]!.closed
  })
})
