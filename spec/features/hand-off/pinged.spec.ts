// A client that keeps its answers until it is its turn looks like one that just thinks. A ping
// tells them apart.

import { describe, expect, it } from '@jest/globals'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { connectV1 } from '../../helpers/clients.js'
import { gate } from '../../helpers/gate.js'
import { initializeSession, result as resultOf } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { counts, end, on, post, reply } from '../../helpers/talk/client.js'
import { resume, send, take, wait, type Word } from '../../helpers/talk/client.js'
import { elicitation, result, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, type World } from '../../helpers/talk/index.js'
import { QUICK } from './asking.js'
import {
  callRun,
  CAPABILITIES,
  OUTCOMES,
  outcomeOf,
  reply as answerTo,
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
      const call = await new SepClient(url, { headers, answer: answerTo }).call(callRun(1, run))
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
      const answer = (request: Json): Json => (isPing(request) ? undefined : answerTo(request))
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
  const asks: Line = ({ message }, run) => run.ask(`of ${message.id}`)
  const world = (session?: string, version = '2025-06-18', options: object = OPTIONS): World => ({
    ...(session === undefined ? { version: '' } : { session, version }),
    ...{ options, endpoint: [asks, result] }
  })
  const IN_SESSION = world('s')
  const ASKED = [primer, 'ping', 'asks of 1']
  /** Answers the ping that its first connection has brought. */
  const pong =
    (more = {}): Word =>
    talk =>
      send(resultOf(talk.wires[0]!.messages[0].id, {}), more)(talk)

  conversation(
    'gets a ping before the first question, as it may handle one request after the other',
    {
      ...world(),
      client: [post, take(3)],
      sees: [
        primer,
        {
          jsonrpc: '2.0',
          id: expect.stringMatching(/^mcp-streams-ping-[\w-]{21}$/),
          method: 'ping'
        },
        elicitation('of 1')
      ]
    }
  )

  describe.each([
    [undefined, undefined],
    ['s', '2025-06-18'],
    ['s', '2025-11-25']
  ])('session %s, %s', (session, version) => {
    conversation('stays connected where it answers, and its endpoint does not hear of it', {
      ...world(session, version, PATIENT),
      client: [
        ...[post, take(3), pong(), end, wait(LONGER), counts({ connections: 1 })],
        // Late, or again.
        ...[reply('of 1'), on(0, end), pong(), end]
      ],
      sees: [...ASKED, 'result', 'end', '202', '202', '202'],
      hears: ['tools/call', 'answer of 1'],
      then: ({ wires }) => expect(wires[1]!.response.text).toBe('')
    })
  })

  describe.each<[string, Word]>([
    ['a ping', pong()],
    ['a question', reply('of 1')]
  ])('that has answered %s', (_what, answers) => {
    conversation('gets no ping again in its session', {
      ...IN_SESSION,
      client: [post, take(3), answers, end, post({ id: 2 }), take(2)],
      then: talk => expect(talk.sees().slice(-2)).toEqual([primer, elicitation('of 2')])
    })
  })

  conversation('is disconnected once where it does not answer, with an event id and `retry`', {
    ...IN_SESSION,
    client: [
      ...[post, end, resume({ by: 'endpoint' }), wait(200), counts({ connections: 1 })],
      ...[reply('of 1'), on(1, end)]
    ],
    sees: [...ASKED, primer, 'end', primer, 'result', 'end', '202'],
    then: ({ wires }) => {
      const { id, event, retry } = wires[0]!.blocks.at(-1)!
      expect([id, event, retry]).toEqual([expect.any(String), 'prime', 1])
    }
  })

  conversation('is not kept connected by the answers of another client', {
    ...IN_SESSION,
    client: [post, take(3), pong({ auth: 'other' }), end, on(0, end)],
    sees: [...ASKED, primer, 'end', '202']
  })

  describe.each<[string, World]>([
    ['2025-11-25, where it has announced itself', { prefer: 'rel=stream' }],
    ['2025-06-18, where it has announced itself', { version: '2025-06-18', prefer: 'rel=stream' }],
    [
      '2025-06-18 without hand-offs',
      { version: '2025-06-18', options: { ...QUICK, handoff: 'never' } }
    ]
  ])('at %s', (_name, more) => {
    conversation('gets no ping', {
      ...{ options: OPTIONS, endpoint: [asks, result], ...more },
      // Who has announced itself is handed off to.
      client: [post, more.prefer === undefined ? take(2) : end],
      sees: [primer, elicitation('of 1'), ...(more.prefer === undefined ? [] : [primer, 'end'])]
    })
  })
})
