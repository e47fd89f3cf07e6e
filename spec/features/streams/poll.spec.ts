// `stream/poll` tells what lies after a cursor, and `stream/poll/all` does of all that is the
// caller's. Neither consumes anything.

import { describe, expect, it, jest } from '@jest/globals'
import { EmptyResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { z } from 'zod'
import { connectV1 } from '../../helpers/clients.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { Awaitable } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { callTool, get, headersFor, initializeSession, post, request } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { stopTheClock } from '../limits/setup.js'
import {
  client,
  cutAfter,
  draftEndpoint,
  finish,
  note,
  streamId,
  UNKNOWN,
  world,
  type World
} from './setup.js'

const ELICIT = request('q', 'elicitation/create', { message: '?' })
const isError = { jsonrpc: '2.0', id: 'call', result: { isError: true, content: [] } }

describe('what lies after the cursor', () => {
  let w: World
  let id: string
  const poll = async (cursor?: unknown) =>
    (await w.answer('stream/poll', { streamId: id, cursor })).result
  /** Each event is one of the endpoint's. */
  const NO_PINGS = { handoff: 'never' } as const
  const flags = async (cursor?: unknown) => {
    const { pendingMessages, hasRequest, hasError } = await poll(cursor)
    return [pendingMessages, hasRequest, hasError]
  }

  it('is what its last connection was not given, without one', async () => {
    w = await world()
    id = await cutAfter(2, await w.call(), w)
    expect(await flags()).toEqual([false, false, false])
    w.endpoint.own[0]!.emit(ELICIT)
    expect(await flags()).toEqual([true, true, false])
    w.endpoint.own[0]!.emit(isError)
    w.endpoint.own[0]!.res.end()
    expect(await flags()).toEqual([true, true, true])
    expect(await poll()).toMatchObject({ status: 'completed' })
  })

  it('is counted from an event id, or from a number of messages', async () => {
    w = await world(({ emit, res }) => {
      emit(note(1)) // 2
      emit(ELICIT) // 3
      emit(note(2)) // 4
      emit({ jsonrpc: '2.0', id: 'call', error: { code: 1, message: 'x' } }) // 5
      res.end() // 6
    }, NO_PINGS)
    const response = await w.call()
    await response.ended
    id = streamId(response)
    const all = [0, 1, 2, 3, 4, 5, 6]
    const expected = all.map(n => [n < 6, n < 3, n < 5])
    expect(await Promise.all(all.map(n => flags(n)))).toEqual(expected)
    expect(await Promise.all(all.map(n => flags(`${id}.${n}`)))).toEqual(expected)
    expect(await flags(`${id}.3.7`)).toEqual([true, false, true])
    expect(await flags()).toEqual([false, false, false])
  })

  it('is an error where the endpoint has ended without a response', async () => {
    w = await world()
    id = await cutAfter(2, await w.call(), w)
    w.endpoint.own[0]!.res.destroy()
    expect(await poll()).toMatchObject({
      status: 'completed',
      pendingMessages: true,
      hasError: true
    })
  })

  it('is nothing new for a poll: the next one says the same, and a resume has it all', async () => {
    w = await world()
    id = await cutAfter(2, await w.call(), w)
    w.endpoint.own[0]!.emit(note(2))
    const first = await poll()
    for (let i = 0; i < 5; i++) expect(await poll()).toEqual(first)
    expect(await poll(0)).toMatchObject({ pendingMessages: true })
    expect(await poll()).toEqual(first)
    const resumed = await w.ask('stream/resume', { streamId: id, cursor: 2 }, { id: null })
    expect(await resumed.nextMessage()).toEqual(note(2))
  })

  it('is known for longer than the messages are kept', async () => {
    stopTheClock()
    w = await world(undefined, { resumeInterval: { min: 0, max: 60 }, window: 1000, ...NO_PINGS })
    id = await cutAfter(2, await w.call(), w)
    w.endpoint.own[0]!.emit(ELICIT)
    w.endpoint.own[0]!.emit(isError)
    w.endpoint.own[0]!.res.end()
    jest.advanceTimersByTime(120_000)
    expect(w.streams.stats()).toMatchObject({ finished: 0, bytes: 0 })
    expect(await poll()).toEqual({
      streamId: id,
      status: 'completed',
      pendingMessages: true,
      hasRequest: true,
      hasError: true
    })
    expect(await flags(5)).toEqual([false, false, false])
    expect((await w.answer('stream/resume', { streamId: id, cursor: 2 })).error).toEqual({
      code: -32602,
      message: 'The stream is no longer kept',
      data: { reason: 'stream-expired' }
    })
  })

  it('does not disturb who follows the stream', async () => {
    w = await world()
    const response = await w.call()
    id = streamId(response)
    await response.take(2, block => block.data !== '')
    expect(await poll()).toMatchObject({ status: 'live', pendingMessages: false })
    finish(w.endpoint)
    expect(await response.ended).toBe('end')
    expect(w.streams.stats().resumes).toBe(0)
  })
})

describe('stream/poll/all', () => {
  it('lists all streams of the session, and no others', async () => {
    const w = await world(({ message, emit, result }) =>
      message.id === 'done' ? result() : emit(note(1))
    )
    const [one, two, done] = [await w.call('one'), await w.call('two'), await w.call('done')]
    await done.ended
    expect((await w.answer('stream/poll/all')).result.streams).toHaveLength(3)
    const id = await cutAfter(2, one, w)
    w.endpoint.own[0]!.emit(note(2))
    const { streams } = (await w.answer('stream/poll/all', {}, { id: 7 })).result
    const flags = { hasRequest: false, hasError: false }
    expect(streams).toEqual([
      { streamId: id, status: 'live', pendingMessages: true, ...flags },
      { streamId: streamId(two), status: 'live', pendingMessages: false, ...flags },
      { streamId: streamId(done), status: 'completed', pendingMessages: false, ...flags }
    ])
  })

  it('lists what a caller without a session owns, and nothing to nobody in particular', async () => {
    const endpoint = draftEndpoint(({ emit }) => emit(note(1)), { stateless: true })
    const { url } = await serve(endpoint)
    const as = (auth?: string) => client(url, headersFor({ version: '2025-11-25', auth }))
    const listed = async (auth?: string) => {
      const { streams } = (await as(auth).answer('stream/poll/all')).result
      return streams.map((stream: { streamId: string }) => stream.streamId)
    }
    const [a, b] = [await as('a').call(), await as('b').call()]
    await as().call()
    expect(await listed('a')).toEqual([streamId(a)])
    expect(await listed('b')).toEqual([streamId(b)])
    expect(await listed('c')).toEqual([])
    expect(await listed()).toEqual([])
  })

  it('lists of two owners of one session id only the own ones, and of one owner only those of the session', async () => {
    const endpoint = draftEndpoint(({ emit }) => emit(note(1)), { stateless: true })
    const { url } = await serve(endpoint)
    const as = (auth: string, session: string) =>
      client(url, headersFor({ version: '2025-11-25', auth, session }))
    const own = await as('a', 's').call()
    await as('b', 's').call()
    await as('a', 't').call()
    const { streams } = (await as('a', 's').answer('stream/poll/all')).result
    expect(streams).toMatchObject([{ streamId: streamId(own) }])
  })

  it('does not list what has ended for good', async () => {
    const w = await world()
    const response = await w.call()
    await (await post(w.url, callTool(2, 'any'), w.headers)).next()
    await fetch(streamUrl(response, w.url), { method: 'DELETE' })
    expect((await w.answer('stream/poll/all')).result.streams).toHaveLength(1)
  })
})

describe('a storm of polls', () => {
  it('leaves nothing behind', async () => {
    const w = await world()
    const id = await cutAfter(2, await w.call(), w)
    const before = w.streams.stats()
    const requests = () => w.endpoint.requests.splice(0).length
    requests()
    const handles = () => process.getActiveResourcesInfo().filter(name => name !== 'Timeout').length
    await w.answer('stream/poll', { streamId: id })
    const open = handles()
    for (let round = 0; round < 4; round++) {
      const polls = Array.from({ length: 50 }, (_, i) =>
        i % 5 === 0
          ? w.answer('stream/poll/all')
          : w.answer('stream/poll', { streamId: i % 5 === 1 ? 'x'.repeat(21) : id }, { id: i })
      )
      const answers = await Promise.all(polls)
      expect(
        answers.every(answer => answer.result !== undefined || answer.error.code === -32602)
      ).toBe(true)
    }
    // Each was a question to the endpoint, and nothing more.
    expect(requests()).toBe(201)
    expect(w.streams.stats()).toEqual({ ...before, refusals: before.refusals + 40 })
    await until(() => handles() <= open)
  })
})

describe('the official client', () => {
  it('polls and resumes, and its call is answered on the response to its resume', async () => {
    const endpoint = sdkV1Stateful()
    const { url, streams } = await serve(endpoint)
    const heads = new Awaitable<Response>()
    const cut = new AbortController()
    const { client, errors } = await connectV1(url, {
      capabilities: { experimental: { streams: {} } },
      reconnection: { maxRetries: 0 },
      // Its own way of resuming is taken from it: the wire of the call breaks, and stays broken.
      fetch: async (target, init) => {
        const isCall = String(init?.body).includes('tools/call')
        const signal = isCall ? AbortSignal.any([cut.signal, init!.signal!]) : init?.signal
        const response = await fetch(target, { ...init, ...(signal && { signal }) })
        if (isCall) heads.push(response)
        return response
      }
    })
    const call = client.callTool({ name: 'count', arguments: { key: 'k', n: 2, paced: true } })
    const link = (await heads.nth(1)).headers.get('link')!
    const id = /stream=([\w-]{21})/.exec(link)![1]!
    cut.abort()
    const pollSchema = z.object({ status: z.string(), pendingMessages: z.boolean() })
    const poll = () =>
      client.request({ method: 'stream/poll', params: { streamId: id } }, pollSchema)
    expect(await poll()).toMatchObject({ status: 'live' })
    endpoint.log.release('k', 3)
    await endpoint.log.ended.nth(1)
    while ((await poll()).status === 'live') await new Promise(resolve => setImmediate(resolve))
    const resumed = client.request(
      { method: 'stream/resume', params: { streamId: id } },
      EmptyResultSchema.loose()
    )
    expect(await call).toMatchObject({ content: [{ text: 'counted to 2' }] })
    expect(await resumed).toEqual({ streamId: id, status: 'completed' })
    expect(endpoint.log.executions('k')).toBe(1)
    expect(streams.stats().resumes).toBe(1)
    expect(
      errors
        .map(error => error.message)
        .filter(message => !/abort|disconnect|reconnect/i.test(message))
    ).toEqual([])
  })
})

it('the endpoint never sees a method of the draft, however it is asked', async () => {
  const w = await world()
  const id = await cutAfter(2, await w.call(), w)
  for (const method of ['stream/resume', 'stream/poll', 'stream/poll/all']) {
    for (const params of [{ streamId: id }, { streamId: 'nope' }, undefined]) {
      const response = await w.ask(method, params, { id: method === 'stream/resume' ? null : 1 })
      response.destroy()
    }
  }
  const seen = w.endpoint.requests.map(({ message }) => message?.method)
  expect(seen.filter(method => method?.startsWith('stream/'))).toEqual([])
  expect(new Set(seen)).toEqual(
    new Set(['initialize', 'notifications/initialized', 'tools/call', 'ping'])
  )
  const { headers } = await initializeSession(w.url, '2025-11-25')
  expect(
    (
      await (
        await post(w.url, request(1, 'stream/poll', { streamId: id }), {
          ...headers,
          'mcp-session-id': 'other'
        })
      ).json()
    ).error
  ).toEqual(UNKNOWN)
  await (await get(w.url, w.headers)).next()
})
