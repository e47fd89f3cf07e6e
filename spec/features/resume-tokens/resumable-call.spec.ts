// One call, without a wire: what it keeps within its bounds, and whom it tells what.

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import type { CallKeeper } from '../../../lib/calls/call-keeper.js'
import type { CallReply, CallAnswer } from '../../../lib/calls/call-reply.js'
import { Call } from '../../../lib/calls/call.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

const FACTS = { owner: '', sessionId: undefined, scope: '', method: 'tools/call', parameters: '' }
const NOTE = { method: 'notifications/message' }
const QUESTION = { id: 'q', method: 'elicitation/create' }

function callWith(maxCallBytes: number) {
  let tokens = 0
  let bytes = 0
  const keeper: CallKeeper<Call> = {
    maxCallBytes,
    abandonAfter: 1000,
    isClosing: false,
    issue: () => `token ${++tokens}`,
    retire: () => undefined,
    resize: more => ((bytes += more), true),
    settled: () => undefined,
    dropped: () => undefined
  }
  const call = new Call(FACTS, keeper, (_token, partial) => partial ?? '{}')
  const settle = (text: string) =>
    call.settle({ kind: 'response', requestId: 'x', text, message: {}, headers: {} })
  return { call, settle, bytes: () => bytes }
}

/** A request that waits; `hasRoom`: its client reads. */
function replyWith(hasRoom = true) {
  const told: string[] = []
  const answers: CallAnswer[] = []
  let drain = (): void => undefined
  const reply = {
    ...{ acceptsEvents: true, isOver: false, isAskingClient: false, isFull: false },
    watch: (_onGone: unknown, onDrain: () => void) => (drain = onDrain),
    tell: (_message: unknown, text: string) => (told.push(text), hasRoom),
    answer: (answer: CallAnswer) => answers.push(answer)
  }
  return { reply: reply as unknown as CallReply, told, answers, drain: () => drain() }
}

/** A call whose client has a token, and does not wait. */
function unattended(maxCallBytes = 1000) {
  const setup = callWith(maxCallBytes)
  setup.call.join(undefined, replyWith().reply, 10)
  jest.advanceTimersByTime(10)
  return { ...setup, token: setup.call.tokens[0] }
}

describe('a call that nobody waits for', () => {
  it('fails where there is no room for a question', () => {
    const { call, token } = unattended(10)
    call.tell(NOTE, 'x'.repeat(11))
    expect(call.state).toBe('live')
    call.tell(QUESTION, 'x'.repeat(11))
    expect(call.state).toBe('failed')
    const { reply, answers } = replyWith()
    call.join(token, reply, 10)
    expect(answers).toEqual([{ kind: 'fault', fault: 'overflow' }])
  })

  it('makes room for its result at the cost of what was said before it', () => {
    const { call, settle, token } = unattended(10)
    call.tell(NOTE, 'x'.repeat(8))
    settle('y'.repeat(8))
    const { reply, told, answers } = replyWith()
    call.join(token, reply, 10)
    expect(told).toEqual([])
    expect(answers).toMatchObject([{ kind: 'response', text: 'yyyyyyyy' }])
  })

  it('asks nobody when it is over; what else it said is told', () => {
    const { call, settle, token } = unattended()
    call.tell(QUESTION, 'q')
    call.tell(NOTE, 'n')
    settle('{}')
    const { reply, told } = replyWith()
    call.join(token, reply, 10)
    expect(told).toEqual(['n'])
  })
})

describe('a part of a result', () => {
  it('is kept until the next token has been used', () => {
    const { call, bytes, token } = unattended()
    call.partial('x'.repeat(100))
    call.join(token, replyWith().reply, 10)
    expect(bytes()).toBe(100)
    const next = call.tokens.at(-1)
    call.join(token, replyWith().reply, 10)
    expect(bytes()).toBe(100)
    call.join(next, replyWith().reply, 10)
    expect(bytes()).toBe(0)
    call.fail('closing')
  })
})

describe('an endpoint that says more than a client reads', () => {
  it('is stopped until the client reads, or is answered', () => {
    const { call, token } = unattended()
    const slow = replyWith(false)
    call.join(token, slow.reply, 10)
    const onDrain = jest.fn()
    call.onDrain = onDrain
    expect(call.tell(NOTE, 'n')).toBe(false)
    slow.drain()
    expect(onDrain).toHaveBeenCalledTimes(1)
    jest.advanceTimersByTime(10)
    expect(slow.answers).toHaveLength(1)
    expect(onDrain).toHaveBeenCalledTimes(2)
    call.fail('closing')
  })

  it('goes on for another client that reads, though the first does not', () => {
    const { call, token } = unattended()
    const onDrain = jest.fn()
    call.onDrain = onDrain
    call.join(token, replyWith(false).reply, 10)
    expect(call.tell(NOTE, 'n')).toBe(false)
    onDrain.mockClear()
    const quick = replyWith()
    call.join(token, quick.reply, 10)
    expect(onDrain).toHaveBeenCalled()
    expect(call.tell(NOTE, 'm')).toBe(true)
    expect(quick.told).toEqual(['m'])
    call.fail('closing')
  })
})
