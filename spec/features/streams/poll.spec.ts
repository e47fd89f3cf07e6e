// `stream/poll` tells what lies after a cursor, and `stream/poll/all` does of all that is the
// caller's. Neither consumes anything.

import { describe, expect, it } from '@jest/globals'
import { EmptyResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { z } from 'zod'
import { connectV1 } from '../../helpers/clients.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { Awaitable } from '../../helpers/gate.js'
import { until as untilIt } from '../../helpers/happenings.js'
import { initializeSession, request as requestOf } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { counts, cut, drop, end, go, listen, on } from '../../helpers/talk/client.js'
import { pass, post, send, take, type Word } from '../../helpers/talk/client.js'
import { asks, destroy, emit, hold, leave, note, result } from '../../helpers/talk/endpoint.js'
import { conversation, talk, upTo } from '../../helpers/talk/index.js'
import { resume, STREAMS, UNKNOWN } from './setup.js'

const DRAFT = { session: 'mine', capabilities: STREAMS, options: { retry: 10 } }
const CALL = { ...DRAFT, endpoint: [note(1), hold, note(2), result] }
/** It has read that its stream begins, and the first note, and has gone. */
const AWAY = [post, take(3), cut]
const FAILED = emit({ jsonrpc: '2.0', id: 1, result: { isError: true, content: [] } })
const none = { hasRequest: false, hasError: false }

const MEMBERS = ['hasError', 'hasRequest', 'pendingMessages', 'status', 'streamId']
/** Polls, and expects at least this of the answer. */
const poll =
  (expected: object, cursor?: unknown): Word =>
  async made => {
    const { stream } = made
    const own = typeof cursor === 'string' ? cursor.replace(/^ID/, stream) : cursor
    const body = requestOf('poll', 'stream/poll', { streamId: stream, cursor: own })
    const { response } = await made.send({ body })
    const { result } = await response.json()
    expect(result).toMatchObject({ streamId: stream, ...expected })
    expect(Object.keys(result).sort()).toEqual(MEMBERS)
    made.wires.pop()
  }
/** `pendingMessages`, `hasRequest`, `hasError`. */
const flags = (
  [pendingMessages, hasRequest, hasError]: [boolean, boolean, boolean],
  cursor?: unknown
): Word => poll({ pendingMessages, hasRequest, hasError }, cursor)

describe('what lies after the cursor', () => {
  /** Each event is one of the endpoint's. */
  const NO_PINGS = { ...DRAFT, options: { ...DRAFT.options, handoff: 'never' as const } }

  conversation('is what its last connection was not given, without one', {
    ...DRAFT,
    endpoint: [note(1), hold, asks('q'), hold, FAILED, leave],
    client: [
      ...[...AWAY, flags([false, false, false]), go, flags([true, true, false])],
      ...[go, flags([true, true, true]), poll({ status: 'completed' })]
    ]
  })

  const ALL = [0, 1, 2, 3, 4, 5, 6]
  conversation('is counted from an event id, or from a number of messages', {
    ...NO_PINGS,
    endpoint: [
      note(1), // 2
      asks('q'), // 3
      note(2), // 4
      emit({ jsonrpc: '2.0', id: 1, error: { code: 1, message: 'x' } }), // 5
      leave // 6
    ],
    client: [
      ...[post, end],
      ...ALL.flatMap(n => [n, `ID.${n}`].map(at => flags([n < 6, n < 3, n < 5], at))),
      ...[flags([true, false, true], 'ID.3.7'), flags([false, false, false])]
    ]
  })

  conversation('is an error where the endpoint has ended without a response', {
    ...DRAFT,
    endpoint: [note(1), hold, destroy],
    client: [...AWAY, go, poll({ status: 'completed', pendingMessages: true, hasError: true })]
  })

  conversation('is nothing new for a poll: the next one says the same, and a resume has it all', {
    ...DRAFT,
    endpoint: [note(1), hold, note(2), hold],
    client: [
      ...[
        ...AWAY,
        go,
        ...upTo(6).map(() => poll({ status: 'live', pendingMessages: true, ...none }))
      ],
      ...[poll({ pendingMessages: true }, 0), poll({ pendingMessages: true, ...none })],
      ...[resume(2, { id: null }), take(2)]
    ],
    then: made => expect(made.words().at(-1)).toBe(2)
  })

  conversation('is known for longer than the messages are kept', {
    ...{ ...NO_PINGS, clock: 'stopped' },
    options: { ...NO_PINGS.options, resumeInterval: { min: 0, max: 60 }, window: 1000 },
    endpoint: [note(1), hold, asks('q'), FAILED, leave],
    client: [
      ...[...AWAY, go, pass(120_000), counts({ finished: 0, bytes: 0 })],
      poll({ status: 'completed', pendingMessages: true, hasRequest: true, hasError: true }),
      ...[flags([false, false, false], 5), resume(2), end]
    ],
    then: async ({ response }) =>
      expect((await response.json()).error).toEqual({
        code: -32602,
        message: 'The stream is no longer kept',
        data: { reason: 'stream-expired' }
      })
  })

  conversation('does not disturb who follows the stream', {
    ...CALL,
    client: [post, take(3), poll({ status: 'live', pendingMessages: false }), go, end],
    counts: { resumes: 0 },
    then: ({ wire }) => expect(wire.ending).toBe('end')
  })
})

describe('stream/poll/all', () => {
  /** Which streams are listed to a client that sends this, by their numbers; and what is said. */
  const lists =
    (numbers: number[], client = {}, said?: object[]): Word =>
    async made => {
      const { response } = await made.send({ body: requestOf(7, 'stream/poll/all', {}), ...client })
      made.wires.pop()
      const { streams } = (await response.json()).result
      const ids = made.wires.map(
        ({ response }) => /stream=([\w-]{21})/.exec(`${response.headers.link}`)?.[1]
      )
      expect(streams.map(({ streamId }: { streamId: string }) => ids.indexOf(streamId))).toEqual(
        numbers
      )
      if (said !== undefined) expect(streams).toMatchObject(said)
      for (const one of streams) expect(Object.keys(one).sort()).toEqual(MEMBERS)
    }

  conversation('lists all streams of the session, and no others', {
    ...DRAFT,
    endpoint: [[note(1), hold, note(2), hold], [note(1), hold], [result]],
    client: [
      ...[post, post, post, end, on(0, take(3)), on(0, cut), go({ run: 0 })],
      lists([0, 1, 2], {}, [
        { status: 'live', pendingMessages: true, ...none },
        { status: 'live', pendingMessages: false, ...none },
        { status: 'completed', pendingMessages: false, ...none }
      ])
    ]
  })

  const as = (auth?: string, session?: string) => ({
    ...(auth && { auth }),
    ...(session && { session })
  })
  conversation('lists what a caller without a session owns, and nothing to nobody in particular', {
    endpoint: [note(1), hold],
    client: [
      ...[post(as('a')), post(as('b')), post, lists([0], as('a')), lists([1], as('b'))],
      ...[lists([], as('c')), lists([])]
    ]
  })

  conversation(
    'lists of two owners of one session id only the own ones, and of one owner only those of the session',
    {
      endpoint: [note(1), hold],
      client: [post(as('a', 's')), post(as('b', 's')), post(as('a', 't')), lists([0], as('a', 's'))]
    }
  )

  conversation('does not list what has ended for good', {
    ...CALL,
    client: [post, take(1), post({ id: 2 }), take(1), on(0, drop), lists([1])]
  })
})

describe('a storm of polls', () => {
  it('leaves nothing behind', async () => {
    const made = await talk(CALL)
    await made.plays(...AWAY)
    const { stream } = made
    const ask = async (n: number, method: string, streamId?: string) => {
      const { response } = await made.send({ body: requestOf(n, method, { streamId }) })
      return response.json()
    }
    const before = made.stats()
    made.requests.length = 0
    const handles = () => process.getActiveResourcesInfo().filter(name => name !== 'Timeout').length
    await ask(0, 'stream/poll', stream)
    const open = handles()
    for (let round = 0; round < 4; round++) {
      const answers = await Promise.all(
        upTo(50).map(i =>
          i % 5 === 0
            ? ask(i, 'stream/poll/all')
            : ask(i, 'stream/poll', i % 5 === 1 ? 'x'.repeat(21) : stream)
        )
      )
      expect(
        answers.every(answer => answer.result !== undefined || answer.error.code === -32602)
      ).toBe(true)
    }
    // Each was a question to the endpoint, and nothing more.
    expect(made.requests).toHaveLength(201)
    expect(made.stats()).toEqual({ ...before, refusals: before.refusals + 40 })
    await untilIt(() => handles() <= open)
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
  const made = await talk(CALL)
  await made.plays(...AWAY)
  const { stream } = made
  for (const method of ['stream/resume', 'stream/poll', 'stream/poll/all']) {
    for (const params of [{ streamId: stream }, { streamId: 'nope' }, undefined]) {
      const { id: _, ...notified } = requestOf(1, method, params)
      await made.plays(send(method === 'stream/resume' ? notified : requestOf(1, method, params)))
      made.response.destroy()
    }
  }
  expect(new Set(made.hears())).toEqual(new Set(['tools/call', 'ping']))
  const { headers } = await initializeSession(made.url, '2025-11-25')
  const other = { ...headers, 'mcp-session-id': 'other' }
  await made.plays(send(requestOf(1, 'stream/poll', { streamId: stream }), { headers: other }))
  expect(await made.response.json()).toEqual({ jsonrpc: '2.0', id: 1, error: UNKNOWN })
  await made.plays(listen, take(1))
})
