// A stream that waits for its client: what is held, what an operator sees, and what happens to it
// meanwhile.

import { describe, expect, it } from '@jest/globals'
import { Awaitable, gate } from '../../helpers/gate.js'
import { happenings, until } from '../../helpers/happenings.js'
import {
  callTool,
  cancelled,
  del,
  ended,
  get,
  headersFor,
  notification,
  post
} from '../../helpers/mcp.js'
import { openStream, type Json, type OpenStream } from '../../helpers/open-stream.js'
import { serve, streamUrl, type Served } from '../../helpers/serve.js'
import {
  ANNOUNCED,
  askingEndpoint,
  elicitation,
  QUICK,
  UNANNOUNCED,
  yes,
  type Tool
} from './asking.js'

const note = (text: string) => notification('notifications/message', { data: text })
const gist = (stream: OpenStream): Json[] =>
  stream.messages().map(({ id, params }) => id ?? params.data)
const lastId = (stream: OpenStream): string =>
  stream.blocks.findLast(({ id }) => id !== undefined)!.id!

const connections = ({ server }: Served) =>
  new Promise<number>(resolve => server.getConnections((_error, count) => resolve(count)))

/** A call that has asked `a`, and waits. */
async function waiting(
  tool: Tool = async (call, ask) => (await ask('a'), call.result()),
  options = {}
) {
  const notices = happenings('waiting')
  const endpoint = askingEndpoint(tool)
  const served = await serve(endpoint, { ...QUICK, ...options })
  const first = await ended(post(served.url, callTool(1, 'any'), ANNOUNCED))
  await notices.nth(1)
  const call = await endpoint.runs.nth(1)
  const link = streamUrl(first, served.url)
  const resume = (lastEventId?: string) =>
    get(link, { ...ANNOUNCED, ...headersFor({ lastEventId }) })
  return { ...served, endpoint, first, call, link, notices, resume }
}

describe('a call that is handed off', () => {
  it('has had its client disconnected, with an id and a time to come back', async () => {
    const { first } = await waiting(undefined, { retry: 30, resumeInterval: { min: 0.02 } })
    expect(first.ending).toBe('end')
    expect(gist(first)).toEqual(['a'])
    expect(first.blocks.at(-1)).toMatchObject({ data: '', retry: 30 })
    expect(lastId(first)).toMatch(/^[\w-]{21}\.r1\.1\.\d+$/)
  })

  it('is counted, announced, and holds no connection', async () => {
    const w = await waiting(
      async (call, ask) => (await ask(`of ${call.message.id}`), call.result())
    )
    for (let i = 2; i <= 20; i++) await (await post(w.url, callTool(i, 'any'), ANNOUNCED)).ended
    await w.notices.nth(20)
    expect(w.notices[0]).toMatchObject({ state: 'waiting', reason: undefined })
    expect(w.streams.stats()).toMatchObject({ live: 0, waiting: 20, finished: 0, connections: 0 })
    while ((await connections(w)) > 0) await new Promise(setImmediate)
    await ended(post(w.link, [yes('of 1')], ANNOUNCED))
    expect(w.streams.stats()).toMatchObject({ live: 0, waiting: 19, finished: 1, connections: 0 })
  })

  it('answers each GET with an empty 204', async () => {
    const { first, resume } = await waiting()
    for (let i = 0; i < 3; i++) {
      const response = await resume(lastId(first))
      expect(await response.ended).toBe('end')
      expect([response.status, response.text, response.headers.link]).toEqual([204, '', undefined])
      expect(response.headers['cache-control']).toBe('no-store')
    }
  })

  it('answers HEAD as GET, and takes nothing from it', async () => {
    const { first, link } = await waiting()
    const head = (headers = {}): Promise<OpenStream> =>
      openStream(link, { method: 'HEAD', headers: { ...ANNOUNCED, ...headers } })
    expect((await head({ 'last-event-id': lastId(first) })).status).toBe(204)
    expect(
      (await head({ 'last-event-id': lastId(first).replace(/\.1\.\d+$/, '.0.1') })).status
    ).toBe(200)
    // Nor does it speak for whoever comes next without a cursor.
    for (let i = 0; i < 3; i++) expect((await head()).status).toBe(200)
    await ended(get(link, ANNOUNCED))
    for (let i = 0; i < 3; i++) expect((await head()).status).toBe(204)
    expect((await get(link, ANNOUNCED)).status).toBe(204)
    expect((await head()).status).toBe(200)
    expect((await get(link, ANNOUNCED)).status).toBe(200)
  })

  it('gives a client first what it has missed, and disconnects', async () => {
    const { first, resume } = await waiting()
    const id = lastId(first).replace(/\.1\.\d+$/, '.0.1')
    const resumed = await resume(id)
    expect(resumed.status).toBe(200)
    expect(await resumed.ended).toBe('end')
    expect(gist(resumed)).toEqual(['a'])
    expect((await resume(lastId(resumed))).status).toBe(204)
  })

  it('gives a client without a cursor everything and 204 in turn, as nobody knows what it has', async () => {
    const { resume } = await waiting()
    for (let i = 0; i < 3; i++) {
      const again = await resume()
      expect([again.status, await again.ended, gist(again)]).toEqual([200, 'end', ['a']])
      expect((await resume()).status).toBe(204)
    }
  })

  it('repeats a question whose connection broke behind the response head', async () => {
    const endpoint = askingEndpoint(async (call, ask) => (await ask('a'), call.result()))
    const served = await serve(endpoint, QUICK)
    // Nothing but its head has arrived, as far as this client is concerned.
    const first = await post(served.url, callTool(1, 'any'), ANNOUNCED)
    await until(() => served.streams.stats().waiting === 1)
    const link = streamUrl(first, served.url)
    const resumed = await get(link, ANNOUNCED)
    expect([resumed.status, await resumed.ended, gist(resumed)]).toEqual([200, 'end', ['a']])
    expect((await get(link, { ...ANNOUNCED, 'last-event-id': lastId(resumed) })).status).toBe(204)
  })

  it('gives a client without a cursor everything, if its connection was cut', async () => {
    const asked = gate()
    const endpoint = askingEndpoint(async (call, ask) => {
      call.emit(note('before'))
      await asked.opened
      await ask('a')
      call.result()
    })
    const served = await serve(endpoint, QUICK)
    const first = await post(served.url, callTool(1, 'any'), ANNOUNCED)
    await first.nextMessage()
    first.reset()
    await until(() => served.streams.stats().connections === 0)
    asked.open()
    await until(() => served.streams.stats().waiting === 1)
    const link = streamUrl(first, served.url)
    const resumed = await get(link, ANNOUNCED)
    expect([resumed.status, await resumed.ended, gist(resumed)]).toEqual([
      200,
      'end',
      ['before', 'a']
    ])
    expect((await get(link, ANNOUNCED)).status).toBe(204)
  })

  it('delivers what comes meanwhile with the next GET, and answers 204 to the one after it', async () => {
    const { call, first, resume } = await waiting()
    expect((await resume(lastId(first))).status).toBe(204)
    call.emit(note('meanwhile'))
    const resumed = await resume(lastId(first))
    expect([resumed.status, await resumed.ended, gist(resumed)]).toEqual([
      200,
      'end',
      ['meanwhile']
    ])
    expect((await resume(lastId(resumed))).status).toBe(204)
  })

  it('delivers what comes after the 204 with the turn, to a client that does not ask again', async () => {
    const { call, first, link, resume } = await waiting()
    expect((await resume(lastId(first))).status).toBe(204)
    call.emit(note('meanwhile'))
    const next = await ended(post(link, [yes('a')], ANNOUNCED))
    expect(gist(next)).toEqual(['meanwhile', 1])
  })

  it('may ask more: the client gets that before it answers', async () => {
    const { call, first, resume, link, streams } = await waiting()
    call.emit(elicitation('b'))
    const resumed = await resume(lastId(first))
    expect([resumed.status, await resumed.ended, gist(resumed)]).toEqual([200, 'end', ['b']])
    expect((await resume(lastId(resumed))).status).toBe(204)
    const part = await post(link, [yes('b')], ANNOUNCED)
    expect(part.status).toBe(200)
    part.destroy()
    expect(streams.stats().finished).toBe(0)
  })

  it('may end without the answers: the next GET has the response', async () => {
    const { call, first, link, resume, streams } = await waiting()
    expect((await resume(lastId(first))).status).toBe(204)
    call.result({ early: true })
    const resumed = await resume(lastId(first))
    expect([resumed.status, await resumed.ended]).toEqual([200, 'end'])
    expect(resumed.messages()).toMatchObject([{ id: 1, result: { early: true } }])
    expect(streams.stats()).toMatchObject({ waiting: 0, finished: 1 })
    // What still comes is not passed on, and has the response too.
    const late = await ended(post(link, [yes('a')], ANNOUNCED))
    expect(gist(late)).toEqual([1])
  })

  it('may fail: its client gets the error', async () => {
    const { call, first, resume } = await waiting()
    call.res.end()
    const resumed = await ended(resume(lastId(first)))
    expect(resumed.messages()).toMatchObject([
      { id: 1, error: { code: -31000, data: { reason: 'no-response' } } }
    ])
  })

  it('goes on when the server takes its request back', async () => {
    const { call, first, resume, streams } = await waiting()
    call.emit(cancelled('a'))
    expect(streams.stats()).toMatchObject({ waiting: 0, live: 1 })
    const resumed = await resume(lastId(first))
    expect(resumed.status).toBe(200)
    expect(await resumed.nextMessage()).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: 'a' }
    })
    call.result()
    await resumed.ended
    expect(resumed.messages().at(-1)).toMatchObject({ id: 1 })
  })

  it('goes on waiting when the server takes back one request of two, or none of its own', async () => {
    const { call, endpoint, first, link, resume, streams } = await waiting((_call, ask) => [
      ask('a'),
      ask('b')
    ])
    call.emit(cancelled('c'))
    expect(streams.stats()).toMatchObject({ waiting: 1 })
    call.emit(cancelled('a'))
    await until(() => streams.stats().waiting === 1)
    const resumed = await ended(resume(lastId(first)))
    expect((await resume(lastId(resumed))).status).toBe(204)
    // The client had answered by then; what is not wanted any more does not reach the endpoint.
    const next = await post(link, [yes('a'), yes('b')], ANNOUNCED)
    expect(next.status).toBe(200)
    expect(endpoint.answers.map(({ message }) => message.id)).toEqual(['b'])
    call.result()
    await next.ended
    expect(gist(next)).toEqual([1])
  })

  it('is cancelled by DELETE: its endpoint is told, and nothing more comes', async () => {
    const { call, link, streams } = await waiting()
    expect((await del(link, ANNOUNCED)).status).toBe(204)
    await call.closed
    expect(streams.stats()).toMatchObject({ waiting: 0, live: 0 })
    expect((await get(link, ANNOUNCED)).status).toBe(204)
    expect((await post(link, [yes('a')], ANNOUNCED)).status).toBe(204)
  })

  it('survives a client that comes back for something else: its call, sent again', async () => {
    const endpoint = askingEndpoint(async (call, ask) => (await ask('a'), call.result()))
    const { url, streams } = await serve(endpoint, QUICK)
    const headers = { ...ANNOUNCED, 'idempotency-key': '"a-key-of-this-spec"' }
    await ended(post(url, callTool(1, 'any'), headers))
    const again = await post(url, callTool(1, 'any'), headers)
    // It must be told that it is to answer.
    expect([again.status, await again.ended, gist(again)]).toEqual([200, 'end', ['a']])
    expect(
      (await get(streamUrl(again, url), { ...ANNOUNCED, 'last-event-id': lastId(again) })).status
    ).toBe(204)
    const next = await ended(post(streamUrl(again, url), [yes('a')], ANNOUNCED))
    expect(gist(next)).toEqual([1])
    expect(endpoint.runs).toHaveLength(1)
    expect(streams.stats()).toMatchObject({ waiting: 0, finished: 1 })
  })
})

describe('the quiet before a hand-off', () => {
  it('counts from the last event on: a burst of events is delivered on one connection', async () => {
    const { first } = await waiting(async (call, ask) => {
      const answers = [ask('a'), ask('b')]
      call.emit(note('one'))
      setTimeout(() => call.emit(note('two')), 5)
      await Promise.all(answers)
      call.result()
    })
    expect(gist(first)).toEqual(['a', 'b', 'one', 'two'])
  })

  it('does not keep a call that goes on reporting from being handed off', async () => {
    const notices = happenings('waiting')
    const endpoint = askingEndpoint(async (call, ask) => {
      const answer = ask('a')
      let n = 0
      const noise = setInterval(() => call.emit(note(`${++n}`)), 2)
      await answer
      clearInterval(noise)
      call.result()
    })
    const { url } = await serve(endpoint, QUICK)
    const first = await post(url, callTool(1, 'any'), ANNOUNCED)
    const received = new Awaitable<Json>()
    const collect = (stream: OpenStream) => received.push(...gist(stream))
    let response = first
    let requests = 0
    while (response.status === 200 && requests++ < 20) {
      expect(await response.ended).toBe('end')
      collect(response)
      response = await get(streamUrl(first, url), {
        ...ANNOUNCED,
        'last-event-id': lastId(response)
      })
    }
    // Not once for every note that comes between two polls.
    expect([response.status, requests]).toEqual([204, expect.any(Number)])
    expect(requests).toBeLessThan(4)
    expect(notices).toHaveLength(1)
    const next = await ended(post(streamUrl(first, url), [yes('a')], ANNOUNCED))
    collect(next)
    const notes = received.filter(value => value !== 'a' && value !== 1).map(Number)
    // Every note, once and in order.
    expect(notes).toEqual(notes.map((_, i) => i + 1))
    expect(received.at(-1)).toBe(1)
  })

  it('has no effect on a call that asks nothing', async () => {
    const notices = happenings('waiting')
    const endpoint = askingEndpoint(call => call.emit(note('one')))
    const { url } = await serve(endpoint, QUICK)
    const first = await post(url, callTool(1, 'any'), ANNOUNCED)
    await first.nextMessage()
    await new Promise(resolve => setTimeout(resolve, 30))
    expect([first.ending, notices.length]).toEqual([undefined, 0])
    const call = await endpoint.runs.nth(1)
    call.result()
    await first.ended
  })
})

describe('a client that has not announced itself', () => {
  it('is disconnected once where it leaves the ping unanswered, and not again where it comes back to the endpoint', async () => {
    const endpoint = askingEndpoint(async (call, ask) => (await ask('a'), call.result()))
    const { url, streams } = await serve(endpoint, { ...QUICK, handoffAfter: 5 })
    const first = await post(url, callTool(1, 'any'), UNANNOUNCED)
    expect(await first.ended).toBe('end')
    expect(streams.stats()).toMatchObject({ live: 1, waiting: 0 })
    const resumed = await get(url, { ...UNANNOUNCED, 'last-event-id': lastId(first) })
    expect(resumed.status).toBe(200)
    await new Promise(resolve => setTimeout(resolve, 30))
    expect([resumed.ending, streams.stats().waiting]).toEqual([undefined, 0])
    await post(url, yes('a'), UNANNOUNCED)
    expect(await resumed.ended).toBe('end')
    expect(gist(resumed)).toEqual([1])
  })

  it('is handed off to from its first GET of the stream URL on', async () => {
    const endpoint = askingEndpoint(
      async (call, ask) => (await ask('a'), await ask('b'), call.result())
    )
    const { url, streams } = await serve(endpoint, { ...QUICK, handoffAfter: 5 })
    const first = await ended(post(url, callTool(1, 'any'), UNANNOUNCED))
    const link = streamUrl(first, url)
    expect((await get(link, { ...UNANNOUNCED, 'last-event-id': lastId(first) })).status).toBe(204)
    expect(streams.stats().waiting).toBe(1)
    const second = await post(link, [yes('a')], UNANNOUNCED)
    // By quiet now, not by patience.
    expect([await second.ended, gist(second)]).toEqual(['end', ['b']])
    expect(streams.stats().waiting).toBe(1)
  })

  it('is handed off to in all calls of its session, once it has fetched the stream URL of one', async () => {
    const tool: Tool = async (call, ask) => (await ask(`of ${call.message.id}`), call.result())
    const { url, streams } = await serve(askingEndpoint(tool, { session: 's' }), {
      ...QUICK,
      handoffAfter: 5_000
    })
    const headers = { ...UNANNOUNCED, ...headersFor({ session: 's' }) }
    const [one, other] = [
      await post(url, callTool(1, 'any'), headers),
      await post(url, callTool(2, 'any'), headers)
    ]
    for (const call of [one, other]) await call.nextMessage()
    await get(streamUrl(one, url), { ...headers, 'last-event-id': lastId(one) })
    expect([await one.ended, await other.ended]).toEqual(['end', 'end'])
    expect(streams.stats()).toMatchObject({ waiting: 2, connections: 0 })
    const later = await post(url, callTool(3, 'any'), headers)
    expect([await later.ended, streams.stats().waiting]).toEqual(['end', 3])
  })

  it('stays connected where it answers before handoffAfter', async () => {
    const endpoint = askingEndpoint(async (call, ask) => (await ask('a'), call.result()), {
      session: 's'
    })
    const { url, streams } = await serve(endpoint, { ...QUICK, handoffAfter: 5_000 })
    const headers = { ...UNANNOUNCED, ...headersFor({ session: 's' }) }
    const first = await post(url, callTool(1, 'any'), headers)
    expect(await first.nextMessage()).toMatchObject({ method: 'ping' })
    expect(await first.nextMessage()).toMatchObject({ id: 'a' })
    await post(url, yes('a'), headers)
    expect(await first.ended).toBe('end')
    expect(gist(first)).toEqual([expect.stringContaining('ping'), 'a', 1])
    expect(streams.stats().resumes).toBe(0)
  })
})
