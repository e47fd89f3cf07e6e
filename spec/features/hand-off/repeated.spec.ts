// Answers that come more than once: however and wherever they are sent again, the endpoint has each
// once, and the client its next turn.

import { describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { gate } from '../../helpers/gate.js'
import { happenings } from '../../helpers/happenings.js'
import type { RequestId } from '../../helpers/mcp.js'
import { answer, counts, cut, end, on, post, reply } from '../../helpers/talk/client.js'
import { resume, turn, yes, type Word } from '../../helpers/talk/client.js'
import { ask, asks, note, result, resultIs, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, play, primer, talk, upTo, type Talk } from '../../helpers/talk/index.js'
import { QUICK } from './asking.js'

const ANNOUNCED = { prefer: 'rel=stream', options: QUICK }
/** Hands over what is not like other answers, or with other headers. */
const hand =
  (body: unknown, headers = {}): Word =>
  talk =>
    talk.send({ url: talk.link, body, headers })
/** What the endpoint has been answered, in order. */
const answers = ({ requests }: Talk): unknown[] =>
  requests.filter(({ message }) => message.method === undefined).map(({ message }) => message.id)
const TURN = [primer, 1, 'asks c', primer, 'end']

describe.each<[name: string, session: object]>([
  ['with a session', { session: 'the-session' }],
  ['without a session', {}]
])('in a call %s', (_name, session) => {
  /** Held back by the endpoint: what it says to an answer. */
  let onAnswer: Line | undefined
  const CALL = {
    ...{ ...ANNOUNCED, ...session },
    endpoint: [ask('a', 'b'), note(1), ask('c'), result],
    accepts: [((call, run) => onAnswer?.(call, run)) as Line]
  }
  const OPENED = [() => (onAnswer = undefined), post, end, resume]
  const SEEN = [primer, 'asks a', 'asks b', primer, 'end', '204']
  const first = (...words: Word[]) => words.map(word => on(0, word))

  conversation(
    'the same POST again gets the same next turn, while the stream waits for the one after it',
    {
      ...CALL,
      // It ends too: whoever has lost the turn must hear that it is to answer.
      client: [...OPENED, ...upTo(4).flatMap(() => [...first(answer('a', 'b')), end])],
      sees: [...SEEN, ...upTo(4).flatMap(() => TURN)],
      hears: ['tools/call', 'answer a', 'answer b'],
      counts: { waiting: 1, connections: 0 },
      then: ({ wires }) => {
        for (const name of ['link', 'content-type'])
          expect(new Set(wires.slice(2).map(({ response }) => response.headers[name])).size).toBe(1)
      }
    }
  )

  conversation('the same POST again gets the rest of the call, once that is over', {
    ...CALL,
    client: [
      ...[...OPENED, ...first(answer('a', 'b')), end, answer('c'), end],
      ...[on(2, answer('c')), end, ...first(answer('a', 'b')), end]
    ],
    sees: [
      ...[...SEEN, ...TURN, primer, 'result', 'end', primer, 'result', 'end'],
      ...[primer, 1, 'asks c', 'result', 'end']
    ],
    hears: ['tools/call', 'answer a', 'answer b', 'answer c']
  })

  conversation('a second answer to one question is ignored, whatever it says', {
    ...CALL,
    client: [
      ...[...OPENED, ...first(answer('a', 'b')), end],
      ...first(hand([yes('a', 'Eve'), { ...yes('b'), result: undefined, error: {} }])),
      end
    ],
    sees: [...SEEN, ...TURN, ...TURN],
    then: ({ requests }) =>
      expect(requests.slice(1).map(({ message }) => message.result.content.name)).toEqual([
        ...['Ada', 'Ada']
      ])
  })

  it('two connections at once: each answer reaches the endpoint once, and both get the turn', async () => {
    const made = await play({ ...CALL, client: OPENED })
    const answered = gate()
    onAnswer = () => answered.opened
    const both = [answer('a', 'b'), answer('b', 'a')].map(word => on(0, word)(made))
    await made.requests.nth(3)
    answered.open()
    await Promise.all(both)
    const pair = made.wires.slice(2)
    for (const { response } of pair) expect(await response.ended).toBe('end')
    expect(answers(made).sort()).toEqual(['a', 'b'])
    // The newest follows the stream to the end of the turn; the other has made way, or has it whole
    // as well.
    const gists = pair.map(({ messages }) => messages.map(({ id, params }) => id ?? params.data))
    expect(gists).toContainEqual([1, 'c'])
    for (const some of gists) expect([1, 'c'].slice(0, some.length)).toEqual(some)
    expect(made.stats()).toMatchObject({ waiting: 1, connections: 0 })
  })

  it('a repetition of answers that are on their way to the endpoint waits for its verdict', async () => {
    const made = await play({ ...CALL, client: OPENED })
    const answered = gate()
    onAnswer = () => answered.opened
    const one = on(0, answer('a', 'b'))(made)
    await made.requests.nth(2)
    const arrived = once(made.server, 'request')
    const other = on(0, answer('a', 'b'))(made)
    await arrived
    await made.plays(...upTo(20).map(() => turn))
    expect(answers(made)).toEqual(['a'])
    answered.open()
    await Promise.all([one, other])
    for (const { response } of made.wires.slice(2)) expect(await response.ended).toBe('end')
    expect(answers(made)).toEqual(['a', 'b'])
  })

  it('a client that leaves while the endpoint takes its answers finds them taken', async () => {
    const made = await play({ ...CALL, client: OPENED })
    const answered = gate()
    onAnswer = () => answered.opened
    const leave = new AbortController()
    const body = JSON.stringify([yes('a'), yes('b')])
    const sent = { method: 'POST', body, headers: made.headers, signal: leave.signal }
    const lost = fetch(made.link, sent)
    await made.requests.nth(2)
    leave.abort()
    await expect(lost).rejects.toThrow()
    const again = on(0, answer('a', 'b'))(made)
    answered.open()
    await again
    await made.plays(end)
    expect(made.words()).toContain('asks c')
    expect(answers(made)).toEqual(['a', 'b'])
  })

  conversation('an answer that the endpoint has refused is offered again, and only that', {
    ...CALL,
    client: [
      ...OPENED,
      () => {
        onAnswer = ({ message, res }) => message.id === 'b' && res.writeHead(400).end()
      },
      ...first(answer('a', 'b'), answer('a', 'b')),
      ...[() => (onAnswer = undefined), ...first(answer('a', 'b')), end]
    ],
    sees: [...SEEN, '400', '400', ...TURN],
    hears: ['tools/call', 'answer a', 'answer b', 'answer b', 'answer b']
  })

  let waiting: ReturnType<typeof happenings>
  conversation('answers one by one: the stream goes on waiting for the others', {
    ...CALL,
    client: [
      ...[...OPENED, () => (waiting = happenings('waiting')), ...first(answer('b')), end],
      ...[() => waiting.nth(1), resume, answer('a'), end]
    ],
    sees: [...SEEN, primer, primer, 'end', '204', ...TURN],
    hears: ['tools/call', 'answer b', 'answer a']
  })

  conversation('answers to the URL of an earlier turn are as good', {
    ...CALL,
    client: [...OPENED, ...first(answer('a', 'b')), end, ...first(answer('c')), end].concat([
      ...first(answer('c')),
      end
    ]),
    sees: [...SEEN, ...TURN, primer, 'result', 'end', primer, 'result', 'end'],
    hears: ['tools/call', 'answer a', 'answer b', 'answer c']
  })

  conversation('a client goes on from the cursor that it names', {
    ...CALL,
    client: [
      ...[...OPENED, ...first(answer('a', 'b')), end],
      async talk => {
        const { id } = talk.wire.blocks.find(({ data }) => data?.includes('"data":1'))!
        await on(0, hand([yes('a'), yes('b')], { 'last-event-id': id }))(talk)
      },
      end
    ],
    sees: [...SEEN, ...TURN, primer, 'asks c', primer, 'end']
  })

  conversation('the URL of a turn begins with that turn, for a client without a cursor', {
    ...CALL,
    client: [
      ...[...OPENED, ...first(answer('a', 'b')), end],
      ...[on(2, resume({ after: null })), end, on(2, resume({ after: null }))]
    ],
    sees: [...SEEN, ...TURN, ...TURN, '204']
  })
})

describe('an answer that comes to the stream URL and to the endpoint', () => {
  const CALL = {
    ...{ ...ANNOUNCED, session: 'a-session' },
    endpoint: [ask(0), note(1), ask('next'), result]
  }
  const OPENED = [post, end]
  const SEEN = [primer, 'asks 0', primer, 'end']
  const NEXT = [primer, 1, 'asks next', primer, 'end']

  conversation('is accepted at the endpoint after a hand-over, and does not reach it again', {
    ...CALL,
    // Any other answer does.
    client: [...OPENED, answer(0), end, reply(0), reply(0), reply('other'), reply('0')],
    sees: [...SEEN, ...NEXT, '202', '202', '202', '202'],
    hears: ['tools/call', 'answer 0', 'answer other', 'answer 0']
  })

  describe.each<[name: string, say: Line]>([
    ['breaks off behind its head', ({ res }) => (res.writeHead(202).flushHeaders(), res.destroy())],
    ['says more than anybody reads', ({ res }) => res.writeHead(202).end('x'.repeat(1024 * 1024))]
  ])('to an endpoint that %s', (_name, say) => {
    conversation('is not given twice', {
      ...CALL,
      accepts: [say],
      client: [
        ...[...OPENED, answer(0), cut],
        ({ response }) => expect(response.status).toBe(200),
        reply(0)
      ],
      sees: [...SEEN, '202'],
      hears: ['tools/call', 'answer 0']
    })
  })

  conversation('is not withheld from the endpoint for another user, or without the session', {
    ...CALL,
    client: [
      ...[...OPENED, answer(0), end],
      talk => talk.send({ body: yes(0), auth: 'somebody else' }),
      talk => talk.send({ body: yes(0), headers: { 'mcp-session-id': undefined } })
    ],
    hears: ['tools/call', 'answer 0', 'answer 0', 'answer 0']
  })

  let waiting: ReturnType<typeof happenings>
  conversation('is not given to the endpoint again after a plain POST of it', {
    ...CALL,
    client: [
      ...[...OPENED, () => (waiting = happenings('waiting')), reply(0)],
      // For the answer to what it asks next.
      ...[() => waiting.nth(1), answer(0), end],
      ({ requests }) => expect(requests).toHaveLength(2),
      // It came to the endpoint as a message of the client's: again, it comes again.
      reply(0)
    ],
    sees: [...SEEN, '202', ...NEXT, '202'],
    hears: ['tools/call', 'answer 0', 'answer 0']
  })

  conversation('frees the stream when it comes to the endpoint while the stream waits', {
    ...CALL,
    client: [...OPENED, counts({ waiting: 1 }), reply(0), resume, end],
    sees: [...SEEN, '202', ...NEXT]
  })
})

describe('many answers in one POST', () => {
  const IDS = upTo(20).map(n => n - 1)
  const CALL = { ...ANNOUNCED, endpoint: [ask(...IDS), resultIs({ all: true })] }
  const ALL = [primer, { jsonrpc: '2.0', id: 1, result: { all: true } }, 'end']

  it('reach the endpoint in order: after the first a few at a time, however long it takes over each', async () => {
    const gates = IDS.map(() => gate())
    const accepts: Line[] = [({ message }) => gates[message.id]!.opened]
    const made = await play({ ...CALL, accepts, client: [post, end] })
    const answered = answer(...IDS)(made)
    await made.requests.nth(2)
    await made.plays(turn)
    expect(answers(made)).toEqual([0])
    gates[0]!.open()
    await made.requests.nth(10)
    await made.plays(turn)
    expect(answers(made)).toEqual(IDS.slice(0, 9))
    for (const { open } of gates) open()
    await answered
    await made.plays(end)
    expect(made.sees().slice(-2)).toEqual(ALL.slice(1))
    expect(answers(made)).toEqual(IDS)
  })

  it('stop with the first that is refused, which says what is wrong with all; what was taken stays so', async () => {
    let refused: RequestId[] = [3, 5]
    const slow = gate()
    const refuse: Line = async ({ message: { id }, res }) => {
      if (!refused.includes(id)) return
      if (id === 5) await slow.opened
      res.writeHead(id === 3 ? 400 : 403).end(`refused ${id}`)
      slow.open()
    }
    const made = await play({
      ...CALL,
      accepts: [refuse],
      client: [post, end, answer(...IDS), end]
    })
    expect([made.response.status, made.response.text]).toEqual([400, 'refused 3'])
    const before = answers(made)
    expect(before.length).toBeLessThan(IDS.length)
    refused = []
    await made.plays(on(0, answer(...IDS)), end)
    expect(made.sees().slice(-2)).toEqual(ALL.slice(1))
    const again = answers(made).slice(before.length)
    expect(again).toEqual(IDS.filter(id => !before.includes(id) || id === 3 || id === 5))
  })
})

describe('an answer to the endpoint, without a session,', () => {
  const asksItsArgument: Line = ({ message }, run) => void run.ask(message.params.arguments.id)
  const CALL = { ...ANNOUNCED, auth: 'alice', endpoint: [asksItsArgument] }
  const calls = (...ids: string[]) => ids.flatMap(id => [post({ args: { id } }), end])
  /** Whatever comes of an answer is done when another request has gone the same way. */
  const DONE = [reply('nobody asked'), end]

  conversation('frees the stream of its owner that has asked', {
    ...CALL,
    client: [...calls('a', 'b'), reply('a'), end, ...DONE],
    counts: { waiting: 1 }
  })

  describe.each([
    ['of somebody else', 'Bearer bob'],
    ['of nobody in particular', undefined]
  ])('%s', (_name, authorization) => {
    conversation('frees nothing', {
      ...CALL,
      client: [
        ...calls('a'),
        talk => talk.send({ body: yes('a'), headers: { authorization } }),
        ...[end, ...DONE]
      ],
      sees: [primer, 'asks a', primer, 'end', '202', '202'],
      counts: { waiting: 1 }
    })
  })

  conversation('frees nothing where two have asked under its id; a hand-over frees one', {
    ...CALL,
    client: [
      ...[...calls('a', 'a'), reply('a'), end, ...DONE, counts({ waiting: 2 })],
      ...[on(0, answer('a')), ...DONE, counts({ waiting: 1 })],
      ...[on(1, answer('a')), ...DONE, counts({ waiting: 0 })]
    ]
  })
})

it('an answer to a question that is too old to be remembered reaches the endpoint with the others', async () => {
  const ids = upTo(1002)
  const made = await talk({
    ...ANNOUNCED,
    endpoint: [asks(1, 1002), ask(...ids.slice(1, -1)), resultIs({ done: true })]
  })
  await made.plays(post, end, answer(...ids), end)
  expect(made.sees().slice(-2)).toEqual([{ jsonrpc: '2.0', id: 1, result: { done: true } }, 'end'])
  expect((answers(made) as number[]).sort((a, b) => a - b)).toEqual(ids)
})
