// What ends a stream before its endpoint does, or without its response: nobody is left waiting, and
// nobody else is touched.

import { describe, expect, it } from '@jest/globals'
import type { IncomingMessage, ServerResponse } from 'node:http'
import supertest from 'supertest'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { Awaitable } from '../../helpers/gate.js'
import { happenings } from '../../helpers/happenings.js'
import {
  callTool,
  cancelled,
  del,
  headersFor,
  initializeSession,
  post,
  request
} from '../../helpers/mcp.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'
import {
  call,
  gist,
  isEvent,
  leave,
  MODERN,
  note,
  resume,
  resumeAtEndpoint,
  turn
} from './setup.js'

/**
 * An endpoint with as many sessions as it is asked for: calls write a note and stay open;
 * notifications are accepted, a DELETE ends a session, and a session that is lost is answered 404.
 */
function sessionful() {
  const ended = new Set<string>()
  const notifications = new Awaitable<{ method: string }>()
  const script = (rawCall: RawCall) => {
    const { req, res, message } = rawCall
    if (ended.has(String(req.headers['mcp-session-id']))) return void res.writeHead(404).end()
    if (req.method === 'DELETE') return void res.writeHead(200).end()
    if (message !== undefined && message.id === undefined) {
      notifications.push(message)
      if (req.headers['x-answer'] === 'error') {
        res.writeHead(200, { 'Content-Type': 'application/json' })
        res.write(REFUSED.slice(0, 20))
        return void res.end(REFUSED.slice(20))
      }
      return void res.writeHead(req.headers['x-answer'] === '400' ? 400 : 202).end()
    }
    rawCall.emit(note(1))
  }
  return Object.assign(rawEndpoint(script), { ended, notifications })
}

const REFUSED = JSON.stringify({
  jsonrpc: '2.0',
  id: null,
  error: { code: -32600, message: 'Not you' }
})

const as = (session: string | undefined, auth?: string) => ({
  ...MODERN,
  ...headersFor({ session, auth })
})

async function world() {
  const endpoint = sessionful()
  const errors: unknown[] = []
  const served = await serve(endpoint, {
    onError: error => errors.push((error as { code?: string }).code)
  })
  const start = async (headers: Record<string, string>, id: string | number = 1) => {
    const n = endpoint.calls.length
    const response = await call(served.url, id, headers)
    await response.take(1, isEvent)
    return {
      response,
      rawCall: await endpoint.calls.nth(n + 1),
      link: streamUrl(response, served.url),
      id: streamId(response)
    }
  }
  const cancel = async (headers: Record<string, string>, id: string | number = 1) => {
    const answer = await post(served.url, cancelled(id), headers)
    await answer.ended
    return answer.status
  }
  return { ...served, endpoint, errors, start, cancel }
}

describe('notifications/cancelled', () => {
  it('ends its stream and its connection, without an answer, and reaches the endpoint', async () => {
    const { start, cancel, endpoint, streams, errors } = await world()
    const { response, rawCall, link } = await start(as('a'))
    const done = happenings('cancelled')
    expect(await cancel(as('a'))).toBe(202)
    await rawCall.closed
    expect(await response.ended).toBe('end')
    expect(gist(response.messages())).toEqual([1])
    expect(endpoint.notifications.map(({ method }) => method)).toEqual(['notifications/cancelled'])
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, bytes: 0, connections: 0 })
    expect([done.length, errors]).toEqual([1, []])
    for (const cursor of [undefined, `${streamId(response)}.0.1`]) {
      expect((await resume(link, cursor, as('a'))).status).toBe(204)
    }
    expect(
      (await resumeAtEndpoint(link.split('?')[0]!, `${streamId(response)}.0.1`, as('a'))).status
    ).toBe(204)
  })

  it('ends its stream also while its client is away', async () => {
    const w = await world()
    const { response, rawCall } = await w.start(as('a'))
    await leave(response, w)
    expect(await w.cancel(as('a'))).toBe(202)
    await rawCall.closed
  })

  it("ends nobody else's: another session's, another owner's, another request's, with the same request id or not", async () => {
    const { start, cancel } = await world()
    const others = [
      await start(as('b')),
      await start(as('a', 'other')),
      await start(as(undefined)),
      await start(as(undefined, 'me')),
      await start(as('a', 'me'), 2),
      await start(as('a', 'me'), '1')
    ]
    const mine = await start(as('a', 'me'))
    for (const headers of [as('a'), as('c', 'me'), as(undefined, 'you')])
      expect(await cancel(headers)).toBe(202)
    expect(mine.rawCall.isClosed).toBe(false)
    expect(await cancel(as('a', 'me'))).toBe(202)
    await mine.rawCall.closed
    for (let i = 0; i < 5; i++) await turn()
    expect(others.map(({ rawCall }) => rawCall.isClosed)).toEqual(others.map(() => false))
  })

  it('without a session ends the stream of the owner who says so, and of nobody in particular none', async () => {
    const { start, cancel } = await world()
    const [mine, nobodys] = [await start(as(undefined, 'me'), 7), await start(as(undefined), 7)]
    const inSession = await start(as('a', 'me'), 8)
    await cancel(as(undefined), 7)
    await cancel(as(undefined, 'me'), 8)
    await cancel(as(undefined, 'me'), 7)
    await mine.rawCall.closed
    expect([nobodys.rawCall.isClosed, inSession.rawCall.isClosed]).toEqual([false, false])
  })

  it('ends nothing where the endpoint does not accept it, nor where it is not certain what', async () => {
    const { start, cancel } = await world()
    const mine = await start(as('a'))
    expect(await cancel({ ...as('a'), 'x-answer': '400' })).toBe(400)
    const again = await start(as('a'))
    expect(await cancel(as('a'))).toBe(202)
    for (let i = 0; i < 5; i++) await turn()
    expect([mine.rawCall.isClosed, again.rawCall.isClosed]).toEqual([false, false])
  })

  it('ends nothing where the endpoint refuses it by a JSON-RPC error, whatever the status', async () => {
    const { start, cancel, url } = await world()
    const mine = await start(as('a'))
    const refused = await post(url, cancelled(1), { ...as('a'), 'x-answer': 'error' })
    await refused.ended
    expect([refused.status, refused.text]).toEqual([200, REFUSED])
    for (let i = 0; i < 5; i++) await turn()
    expect(mine.rawCall.isClosed).toBe(false)
    expect(await cancel(as('a'))).toBe(202)
    await mine.rawCall.closed
  })

  it('is understood in a batch, and not where it is something else', async () => {
    const { start, url } = await world()
    const [one, two, three] = [
      await start(as('a'), 1),
      await start(as('a'), 2),
      await start(as('a'), 3)
    ]
    const send = async (message: unknown) => (await post(url, message, as('a'))).status
    await send({ ...cancelled(3), params: { requestId: { id: 3 } } })
    await send({ ...cancelled(3), params: undefined })
    await send({ ...cancelled(3), method: 'notifications/progress' })
    const response = await post(
      url,
      request('x', 'notifications/cancelled', { requestId: 3 }),
      as('a')
    )
    response.destroy()
    await send([cancelled(1), cancelled(2)]).catch(() => undefined)
    await Promise.all([one.rawCall.closed, two.rawCall.closed])
    expect(three.rawCall.isClosed).toBe(false)
  })

  it('ends a tool of the SDK, whose transport would keep its response open', async () => {
    const endpoint = sdkV1Stateful()
    const { url, streams } = await serve(endpoint)
    const { headers } = await initializeSession(url, '2025-11-25')
    const response = await post(url, callTool(1, 'hang', { key: 'x' }), headers)
    await endpoint.log.calls.nth(1)
    await (
      await post(url, cancelled(1), headers)
    ).ended
    expect((await endpoint.log.ended.nth(1)).state).toBe('aborted')
    await response.ended
    expect(response.messages()).toEqual([])
    expect(streams.stats().live).toBe(0)
  })
})

describe('DELETE of a stream URL', () => {
  it('ends the stream and its connection; then there is nothing', async () => {
    const { start, streams, errors } = await world()
    const { response, rawCall, link } = await start(as(undefined))
    const gone = await del(link)
    expect([gone.status, gone.text]).toEqual([204, ''])
    await rawCall.closed
    expect(await response.ended).toBe('end')
    expect(gist(response.messages())).toEqual([1])
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, bytes: 0 })
    expect(errors).toEqual([])
    expect([(await del(link)).status, (await resume(link)).status]).toEqual([204, 204])
  })

  it('tells an endpoint with sessions what its client could have told it', async () => {
    const { start, endpoint } = await world()
    const { rawCall, link } = await start(as('a', 'me'), 'my call')
    await supertest(link).delete('').set(as('a', 'me')).expect(204)
    await rawCall.closed
    expect(await endpoint.notifications.nth(1)).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: 'my call' }
    })
  })

  it('lets a stream go that has ended', async () => {
    const { start, streams } = await world()
    const { response, rawCall, link } = await start(as(undefined))
    rawCall.result()
    await response.ended
    expect(streams.stats()).toMatchObject({ finished: 1 })
    await supertest(link).delete('').expect(204)
    expect(streams.stats()).toMatchObject({ finished: 0, bytes: 0, evictions: 0 })
    expect((await resume(link)).status).toBe(410)
    expect((await resume(link, `${streamId(response)}.2`)).status).toBe(204)
  })

  it('is for its owner and its session only, and says nothing to others', async () => {
    const { start, url } = await world()
    const { rawCall, link } = await start(as('a', 'me'))
    const foreign = [
      await del(link),
      await del(link, as('a', 'you')),
      await del(link, as('b', 'me'))
    ]
    const madeUp = await del(`${url}?stream=${'x'.repeat(21)}`)
    for (const answer of foreign)
      expect([answer.status, await answer.json()]).toEqual([404, await madeUp.json()])
    expect(rawCall.isClosed).toBe(false)
  })
})

describe('the end of a session', () => {
  it('by DELETE ends its streams, running and kept, and those of no other', async () => {
    const { start, url, streams } = await world()
    const [running, ended, other] = [
      await start(as('a'), 1),
      await start(as('a'), 2),
      await start(as('b'), 3)
    ]
    ended.rawCall.result()
    await ended.response.ended
    expect(streams.stats()).toMatchObject({ live: 2, finished: 1 })
    const gone = await del(url, as('a'))
    await gone.ended
    expect(gone.status).toBe(200)
    await running.rawCall.closed
    expect(await running.response.ended).toBe('end')
    expect(gist(running.response.messages())).toEqual([1])
    expect(streams.stats()).toMatchObject({ live: 1, finished: 0 })
    expect([
      (await resume(running.link, undefined, as('a'))).status,
      (await resume(ended.link)).status
    ]).toEqual([204, 410])
    expect(other.rawCall.isClosed).toBe(false)
  })

  it('by an endpoint that knows it no longer gives an error to each of its calls, connected or not', async () => {
    const w = await world()
    const [here, away, other] = [
      await w.start(as('a'), 'here'),
      await w.start(as('a'), 'away'),
      await w.start(as('b'))
    ]
    await leave(away.response, w)
    w.endpoint.ended.add('a')
    const lost = await post(w.url, callTool(9, 'any'), as('a'))
    expect(lost.status).toBe(404)
    await here.response.ended
    expect(gist(here.response.messages())).toEqual([1, ['here', 'session-ended']])
    await Promise.all([here.rawCall.closed, away.rawCall.closed])
    expect(w.errors).toEqual(['session-ended', 'session-ended'])
    const rest = await resume(away.link, `${away.id}.1`)
    await rest.ended
    expect(gist(rest.messages())).toEqual([['away', 'session-ended']])
    expect(other.rawCall.isClosed).toBe(false)
  })

  it('is not a DELETE that the endpoint refuses, another method that it does not know, or a stranger', async () => {
    const refusing = new Map([
      ['DELETE', 405],
      ['PUT', 404]
    ])
    const endpoint = sessionful()
    const handler = Object.assign(
      (req: IncomingMessage, res: ServerResponse) => {
        const status = refusing.get(req.method!)
        return status === undefined ? endpoint(req, res) : void res.writeHead(status).end()
      },
      { requests: endpoint.requests }
    )
    const { url } = await serve(handler)
    const response = await call(url, 1, as('a', 'me'))
    const rawCall = await endpoint.calls.nth(1)
    for (const method of refusing.keys()) await fetch(url, { method, headers: as('a', 'me') })
    refusing.clear()
    const stranger = await del(url, as('a', 'you'))
    expect(stranger.status).toBe(200)
    for (let i = 0; i < 5; i++) await turn()
    expect([rawCall.isClosed, response.ending]).toEqual([false, undefined])
  })
})

describe('an endpoint that ends without its response', () => {
  it('tells nothing to a client that has cancelled', async () => {
    const { start, cancel } = await world()
    const { response, rawCall, link } = await start(as('a'))
    await cancel(as('a'))
    rawCall.res.end()
    await response.ended
    expect(gist(response.messages())).toEqual([1])
    expect((await resume(link)).status).toBe(204)
  })
})
