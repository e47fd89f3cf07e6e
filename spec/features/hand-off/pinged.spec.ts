// A client that keeps its answers until it is its turn looks like one that just thinks. A ping
// tells them apart.

import { describe, expect, it } from '@jest/globals'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { connectV1 } from '../../helpers/clients.js'
import { gate } from '../../helpers/gate.js'
import {
  callTool,
  ended,
  get,
  headersFor,
  initializeSession,
  post,
  type Session
} from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { askingEndpoint, elicitation, QUICK, yes, type Tool } from './asking.js'
import {
  callRun,
  CAPABILITIES,
  OUTCOMES,
  outcomeOf,
  reply,
  type RunName,
  sdkThatAsks
} from './sdk-v1.js'
import { SepClient } from './sep-client.js'

// Each has an endpoint of its own and mostly waits for a ping: so they wait at once.
const OPTIONS = { ...QUICK, handoffAfter: 20 }
/** For a client that answers pings. */
const PATIENT = { ...QUICK, handoffAfter: 200 }
const LONGER = 300
const isPing = ({ method }: Json): boolean => method === 'ping'
const pong = (ping: Json): Json => ({ jsonrpc: '2.0', id: ping.id, result: {} })
const asksOnce: Tool = async (call, ask) => (await ask(`of ${call.message.id}`), call.result())

const RUNS = [
  ['2025-03-26', ['once', 'three turns']],
  ['2025-06-18', ['all at once', 'at once, twice']],
  ['2025-11-25', ['once', 'three turns']]
] as const

describe.each(RUNS)('at %s', (version, runs) => {
  it.concurrent.each<RunName>(runs)(
    'a client written from the text of SEP-1335, which says nothing of itself, answers %s',
    async run => {
      const endpoint = sdkThatAsks()
      const { url } = await serve(endpoint, OPTIONS)
      const { headers, sessionId } = await initializeSession(url, version, {}, CAPABILITIES)
      const complaints: Error[] = []
      endpoint.sessions.get(sessionId!)!.server.server.onerror = error => complaints.push(error)
      const call = await new SepClient(url, { headers, answer: reply }).call(callRun(1, run))
      expect(outcomeOf(call.response.result)).toEqual(OUTCOMES[run])
      expect(call.trace.slice(0, 3)).toEqual(['call 200', 'GET 204', 'answers 200'])
      // Once, before all that the endpoint asks; which hears nothing of it.
      expect(call.messages.map(isPing)).toEqual([true, ...call.messages.slice(1).map(() => false)])
      expect(complaints).toEqual([])
    }
  )

  it.concurrent(
    'a client without event ids that keeps its answers to itself gets its result',
    async () => {
      const { url } = await serve(sdkThatAsks(), OPTIONS)
      const { headers } = await initializeSession(url, version, {}, CAPABILITIES)
      const answer = (request: Json): Json => (isPing(request) ? undefined : reply(request))
      const client = new SepClient(url, { headers, withoutIds: true, answer })
      expect(outcomeOf((await client.call(callRun(1, 'once'))).response.result)).toBe('first')
    }
  )

  it.concurrent('the official client stays connected, however long its human thinks', async () => {
    const { url, streams } = await serve(sdkThatAsks(), PATIENT)
    const human = gate()
    const { client, errors } = await connectV1(url, { version, capabilities: CAPABILITIES })
    client.setRequestHandler(ElicitRequestSchema, async () => {
      await human.opened
      return { action: 'accept', content: { name: 'Ada' } }
    })
    const value = client.callTool(callRun(1, 'once').params)
    setTimeout(human.open, LONGER)
    expect(outcomeOf(await value)).toBe('Ada')
    expect(errors).toEqual([])
    expect(streams.stats().resumes).toBe(0)
  })
})

describe('a client of which nothing is known', () => {
  async function asked(options: object = OPTIONS, session?: string, version = '2025-06-18') {
    const endpoint = askingEndpoint(asksOnce, session === undefined ? {} : { session })
    const served = await serve(endpoint, options)
    const headers: Session['headers'] =
      session === undefined ? {} : (await initializeSession(served.url, version)).headers
    const call = async (id: number) => {
      const stream = await post(served.url, callTool(id, 'any'), headers)
      await stream.nextMessage()
      return stream
    }
    return { ...served, endpoint, headers, call }
  }

  it.concurrent(
    'gets a ping before the first question, as it may handle one request after the other',
    async () => {
      const { call } = await asked()
      const first = await call(1)
      await first.nextMessage()
      expect(first.messages()).toEqual([
        {
          jsonrpc: '2.0',
          id: expect.stringMatching(/^mcp-streams-ping-[\w-]{21}$/),
          method: 'ping'
        },
        elicitation('of 1')
      ])
    }
  )

  it.concurrent.each([
    [undefined, undefined],
    ['s', '2025-06-18'],
    ['s', '2025-11-25']
  ])(
    'stays connected where it answers, and its endpoint does not hear of it: session %s, %s',
    async (session, version) => {
      const { call, url, headers, endpoint } = await asked(PATIENT, session, version)
      const first = await call(1)
      const answer = await ended(post(url, pong(first.messages()[0]), headers))
      expect([answer.status, answer.text]).toEqual([202, ''])
      await new Promise(resolve => setTimeout(resolve, LONGER))
      expect(first.ending).toBeUndefined()
      await post(url, yes('of 1'), headers)
      expect(await first.ended).toBe('end')
      expect(first.messages().at(-1)).toMatchObject({ id: 1, result: {} })
      expect(endpoint.answers.map(({ message }) => message.id)).toEqual(['of 1'])
      // Late, or again.
      expect((await post(url, pong(first.messages()[0]), headers)).status).toBe(202)
      expect(endpoint.answers).toHaveLength(1)
    }
  )

  it.concurrent(
    'gets no ping again in its session once it has answered a ping or a question',
    async () => {
      for (const answers of [(ping: Json) => pong(ping), () => yes('of 1')]) {
        const { call, url, headers } = await asked(OPTIONS, 's')
        const first = await call(1)
        await ended(post(url, answers(first.messages()[0]), headers))
        const second = await call(2)
        expect(second.messages()).toEqual([elicitation('of 2')])
      }
    }
  )

  it.concurrent(
    'is disconnected once where it does not answer, with an event id and `retry`',
    async () => {
      const { call, url, headers } = await asked(OPTIONS, 's')
      const first = await call(1)
      expect(await first.ended).toBe('end')
      const { id, event, retry } = first.blocks.at(-1)!
      expect([event, retry]).toEqual(['prime', 1])
      const resumed = await get(url, { ...headers, 'last-event-id': id! })
      await new Promise(resolve => setTimeout(resolve, 200))
      expect([resumed.status, resumed.ending]).toEqual([200, undefined])
      await post(url, yes('of 1'), headers)
      expect(await resumed.ended).toBe('end')
      expect(resumed.messages()).toMatchObject([{ id: 1, result: {} }])
    }
  )

  it.concurrent('is not kept connected by the answers of another client', async () => {
    const { call, url } = await asked(OPTIONS, 's')
    const first = await call(1)
    const foreign = headersFor({ version: '2025-06-18', session: 's', auth: 'other' })
    await ended(post(url, pong(first.messages()[0]), foreign))
    expect(await first.ended).toBe('end')
  })

  it.concurrent.each([
    [
      '2025-11-25, where it has announced itself',
      { version: '2025-11-25', prefer: 'rel=stream' },
      OPTIONS
    ],
    [
      '2025-06-18, where it has announced itself',
      { version: '2025-06-18', prefer: 'rel=stream' },
      OPTIONS
    ],
    [
      '2025-06-18 without hand-offs',
      { version: '2025-06-18' },
      { ...QUICK, handoff: 'never' as const }
    ]
  ])('gets no ping at %s', async (_name, headers, options) => {
    const { url } = await serve(askingEndpoint(asksOnce), options)
    const stream = await post(url, callTool(1, 'any'), headersFor(headers))
    await stream.nextMessage()
    expect(stream.messages()).toEqual([elicitation('of 1')])
  })
})
