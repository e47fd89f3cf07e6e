// One call, without a wire: what it keeps within its bounds, and what it passes on to whom.

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { Call } from '../../../lib/calls/call.js'
import { CallStore } from '../../../lib/calls/call-store.js'
import { type CallAnswer, type CallReply, faultAnswer } from '../../../lib/calls/call-reply.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

const FACTS = {
  owner: 'me',
  sessionId: undefined,
  scope: '',
  method: 'tools/call',
  parameters: ''
}
const NOTE = '{"method":"notifications/message"}'
const ask = (id: string) => `{"id":"${id}","method":"elicitation/create"}`
const withdraw = (requestId: string) =>
  JSON.stringify({ method: 'notifications/cancelled', params: { requestId } })

function callWith(maxCallBytes: number) {
  const store = new CallStore({
    maxCalls: 9,
    maxCallBytes,
    maxBytes: 1_000_000,
    window: 10_000,
    abandonAfter: 60_000,
    keptFor: 60_000
  })
  const call = new Call(FACTS, store, (_token, partial) => partial ?? '{}')
  const settle = (text: string) =>
    call.settle({ kind: 'response', requestId: 'x', text, message: {}, headers: { a: ['1'] } })
  return { call, settle, bytes: () => store.counts().bytes }
}

/** A request that waits; `isFull`: its client does not read. */
function replyWith(isFull = false) {
  const sent: string[] = []
  const answers: CallAnswer[] = []
  let [leave, drain] = [(_isCancelled: boolean): void => undefined, (): void => undefined]
  const reply = {
    ...{ acceptsEvents: true, isOver: false, mustStay: false, isFull },
    watch: (onGone: typeof leave, onDrain: () => void) => ([leave, drain] = [onGone, onDrain]),
    send: (_message: unknown, text: string) => sent.push(text),
    answer: (answer: CallAnswer) => answers.push(answer)
  }
  const read = () => {
    reply.isFull = false
    drain()
  }
  return {
    ...{ reply: reply as unknown as CallReply, sent, answers, read },
    leave: () => leave(false)
  }
}

/** A call whose client has a token, and does not wait. */
function unattended(maxCallBytes = 1000) {
  const setup = callWith(maxCallBytes)
  setup.call.join(undefined, replyWith().reply, 10)
  jest.advanceTimersByTime(10)
  return { ...setup, token: setup.call.tokens[0] }
}

describe('a call that nobody waits for', () => {
  it('fails where it says more than it may keep', () => {
    const { call, token } = unattended(100)
    for (let n = 0; n < 9; n++) call.append(NOTE)
    expect(call.stream.state).toBe('failed')
    expect(call.stream.signal.aborted).toBe(true)
    const { reply, answers } = replyWith()
    call.join(token, reply, 10)
    expect(answers).toEqual([faultAnswer('overflow')])
  })

  it.each<[string, (setup: ReturnType<typeof unattended>) => unknown]>([
    ['a message', ({ call }) => call.append(NOTE.padEnd(101))],
    ['a part of its result', ({ call }) => call.partial(`"${'x'.repeat(101)}"`)],
    ['its result', ({ settle }) => settle(`"${'x'.repeat(101)}"`)]
  ])('fails where %s is larger than all that it may keep', (_name, say) => {
    const setup = unattended(100)
    say(setup)
    expect(setup.call.stream.state).toBe('failed')
    expect(setup.call.unread).toEqual(faultAnswer('overflow'))
    expect(setup.bytes()).toBe(0)
  })

  it('gives what was said before its result first, and both of it as it was written', () => {
    const { call, settle, token } = unattended()
    call.append('{"method":"notifications/message",\r\n"params":1e400}')
    settle('{"result":\n12345678901234567890}')
    const { reply, sent, answers } = replyWith()
    call.join(token, reply, 10)
    expect(sent).toEqual(['{"method":"notifications/message", "params":1e400}'])
    expect(answers).toEqual([
      {
        kind: 'response',
        requestId: 'x',
        text: '{"result": 12345678901234567890}',
        headers: { a: ['1'] }
      }
    ])
  })

  it('gives an answer that is no message byte for byte', () => {
    const { call, token } = unattended()
    const answer = {
      ...{ kind: 'relay' as const, requestId: 'x', status: 503, headers: {} },
      body: Buffer.from([0, 10, 13, 255])
    }
    call.settle({ ...answer, message: undefined })
    const { reply, answers } = replyWith()
    call.join(token, reply, 10)
    expect(answers).toEqual([answer])
  })

  it('asks nobody when it is over; what else it said is passed on', () => {
    const { call, settle, token } = unattended()
    call.append(ask('q'))
    call.append(NOTE)
    settle('{}')
    const { reply, sent } = replyWith()
    call.join(token, reply, 10)
    expect(sent).toEqual([NOTE])
  })
})

describe('a call that several requests wait for', () => {
  it('reads what is said once, and goes on reading with the next of them', () => {
    const { call, token } = unattended()
    for (let n = 0; n < 3; n++) call.join(token, replyWith().reply, 10)
    expect(call.stream.readers.count).toBe(2)
    jest.advanceTimersByTime(10)
    call.join(call.tokens.at(-1), replyWith().reply, 10)
    expect(call.stream.readers.count).toBe(3)
    call.fail('closing')
  })
})

describe('a request that comes again', () => {
  it('waits for as long as it says, not as long as the one before', () => {
    const { call, token } = unattended()
    const first = replyWith()
    call.join(token, first.reply, 10)
    first.leave()
    jest.advanceTimersByTime(10)
    const second = replyWith()
    call.join(token, second.reply, 20)
    jest.advanceTimersByTime(19)
    expect(second.answers).toEqual([])
    jest.advanceTimersByTime(1)
    expect(second.answers).toHaveLength(1)
    expect(first.answers).toEqual([])
    call.fail('closing')
  })
})

describe('a part of a result', () => {
  it('is kept until the next token has been used', () => {
    const { call, bytes, token } = unattended()
    call.partial('"part"')
    const part = { kind: 'interim', result: '"part"' }
    for (let n = 0; n < 2; n++) {
      const { reply, answers } = replyWith()
      call.join(token, reply, 10)
      expect(answers).toEqual([part])
      expect(bytes()).toBeGreaterThan(0)
    }
    const next = replyWith()
    call.join(call.tokens.at(-1), next.reply, 10)
    expect(bytes()).toBe(0)
    expect(next.answers).toEqual([])
    call.fail('closing')
  })
})

describe('a question that may have been lost', () => {
  const questionsOf = (setup: ReturnType<typeof unattended>): string[] => {
    const { reply, sent } = replyWith()
    setup.call.join(setup.token, reply, 10)
    return sent
  }

  it('is asked again until it is answered, or withdrawn', () => {
    const setup = unattended()
    const { call } = setup
    for (const id of ['q', 'r']) call.append(ask(id))
    expect(questionsOf(setup)).toEqual([ask('q'), ask('r')])
    expect(questionsOf(setup)).toEqual([ask('q'), ask('r')])
    call.append(NOTE)
    call.answered('r')
    expect(questionsOf(setup)).toEqual([ask('q')])
    call.append(withdraw('q'))
    expect(questionsOf(setup)).toEqual([])
    call.fail('closing')
  })

  it('is not asked again once there is an answer', () => {
    const setup = unattended()
    setup.call.append(ask('q'))
    questionsOf(setup)
    jest.advanceTimersByTime(10)
    expect(questionsOf(setup)).toEqual([])
    setup.call.fail('closing')
  })
})

describe('what has been passed on', () => {
  it('is kept no longer, but for what has not been answered', () => {
    const { call, bytes, token } = unattended(100_000)
    call.join(token, replyWith().reply, 10)
    for (let n = 0; n < 99; n++) call.append(NOTE)
    expect(bytes()).toBe(0)
    call.append(ask('q'))
    call.append(NOTE)
    expect(bytes()).toBeGreaterThan(0)
    call.answered('q')
    call.append(NOTE)
    expect(bytes()).toBe(0)
    call.fail('closing')
  })
})

describe('an endpoint that says more than a client reads', () => {
  it('is stopped until the client reads, which gets all of it before its answer', () => {
    const { call, settle, token } = unattended(200)
    const slow = replyWith(true)
    call.join(token, slow.reply, 10)
    const onDrain = jest.fn()
    call.onDrain = onDrain
    let appended = 0
    do appended++
    while (call.append(NOTE))
    expect(call.stream.state).toBe('live')
    jest.advanceTimersByTime(500)
    expect(slow.answers).toEqual([])
    expect(onDrain).not.toHaveBeenCalled()
    slow.read()
    expect(onDrain).toHaveBeenCalledTimes(1)
    expect(slow.sent).toHaveLength(appended)
    jest.advanceTimersByTime(100)
    expect(slow.answers).toHaveLength(1)
    settle('{}')
  })

  it('ends, and the client gets what it has not read before the end', () => {
    const { call, settle, token } = unattended()
    const slow = replyWith(true)
    call.join(token, slow.reply, 60_000)
    call.append(NOTE)
    settle('{}')
    expect([slow.sent, slow.answers]).toEqual([[], []])
    slow.read()
    expect(slow.sent).toEqual([NOTE])
    expect(slow.answers).toMatchObject([{ kind: 'response', text: '{}' }])
  })

  it('is not stopped any more once the call is over', () => {
    const { call, token } = unattended(200)
    call.join(token, replyWith(true).reply, 60_000)
    while (call.append(NOTE));
    call.cancel()
    expect(call.append(NOTE)).toBe(true)
  })

  it('goes on for another client that reads, though the first does not', () => {
    const { call, token } = unattended()
    const slow = replyWith(true)
    call.join(token, slow.reply, 10)
    call.append(NOTE)
    const quick = replyWith()
    call.join(token, quick.reply, 10)
    expect(quick.sent).toEqual([NOTE])
    expect(slow.sent).toEqual([])
    call.fail('closing')
  })
})
