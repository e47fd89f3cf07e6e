// All calls with tokens: for how long they are kept, and by what they are found.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { CallStore } from '../../../lib/calls/call-store.js'
import { Call } from '../../../lib/calls/call.js'
import type { CallReply } from '../../../lib/calls/call-reply.js'
import type { Keeper } from '../../../lib/streams/keeper.js'

const reply = {
  acceptsEvents: false,
  isOver: false,
  mustStay: false,
  watch() {},
  send() {},
  answer() {}
}

describe('a result', () => {
  afterEach(() => void jest.useRealTimers())

  const facts = { owner: '', sessionId: undefined, scope: '', method: 'tools/call', parameters: '' }
  const limits = {
    maxCalls: 9,
    maxCallBytes: 999,
    maxBytes: 999,
    window: 10_000,
    abandonAfter: 60_000,
    keptFor: 60_000
  }

  function keep(calls: CallStore): void {
    const call = new Call(facts, calls, token => token)
    call.join(undefined, reply as unknown as CallReply, 5)
    jest.advanceTimersByTime(5)
    call.join(call.tokens[0], reply as unknown as CallReply, 1000)
    call.settle({ kind: 'response', requestId: 'x', text: '{}', message: {}, headers: {} })
  }

  it('is let go when its time is over, whether or not anybody comes', () => {
    jest.useFakeTimers()
    const calls = new CallStore(limits)
    keep(calls)
    expect(calls.counts()).toMatchObject({ calls: 1, evictions: 0 })
    expect(calls.counts().bytes).toBeGreaterThan(0)
    jest.advanceTimersByTime(9_000)
    expect(calls.counts().calls).toBe(1)
    jest.advanceTimersByTime(4_000)
    expect(calls.counts()).toEqual({ calls: 0, bytes: 0, evictions: 0 })
    expect(jest.getTimerCount()).toBe(0)
  })

  it('needs no timer when the process is about to end', () => {
    jest.useFakeTimers()
    const calls = new CallStore(limits)
    keep(calls)
    calls.beginClosing(1000)
    expect(jest.getTimerCount()).toBe(0)
    keep(calls)
    expect(jest.getTimerCount()).toBe(0)
  })
})

describe('an answer is kept for other instances', () => {
  afterEach(() => void jest.useRealTimers())

  const facts = { owner: '', sessionId: undefined, scope: '', method: 'tools/call', parameters: '' }
  const limits = {
    maxCalls: 9,
    maxCallBytes: 999,
    maxBytes: 9999,
    window: 10_000,
    abandonAfter: 60_000,
    keptFor: 60_000
  }

  it('where nobody has had it, or had it just before this one leaves, or while it does', () => {
    jest.useFakeTimers()
    const kept: string[] = []
    const keeper: Keeper = { keep: name => kept.push(name) > 0, delete: () => undefined }
    const calls = new CallStore(limits, undefined, keeper)
    const mayComeBack = { ...reply, mayComeBack: true } as unknown as CallReply
    /** The token of a call that has ended. */
    const ended = (isWaitedFor: boolean): string => {
      const call = new Call(facts, calls, token => token)
      call.join(undefined, mayComeBack, 1000)
      call.disconnect()
      const [token] = call.tokens as [string]
      if (isWaitedFor) call.join(token, mayComeBack, 1000)
      call.settle({ kind: 'response', requestId: 'x', text: '{}', message: {}, headers: {} })
      return token
    }
    const [unread, given] = [ended(false), ended(true)]
    expect(kept).toEqual([unread])
    calls.keepSince(1000)
    expect(new Set(kept)).toEqual(new Set([unread, given]))
    calls.beginClosing(Infinity)
    const last = ended(true)
    expect(kept.at(-1)).toBe(last)
  })
})

describe('a call is found by the request that waits for it', () => {
  const LIMITS = {
    maxCalls: 999,
    maxCallBytes: 99,
    maxBytes: 999,
    window: 1,
    abandonAfter: 60_000,
    keptFor: 60_000
  }
  const ME = {
    owner: 'me',
    sessionId: 's',
    scope: '',
    method: 'tools/call',
    parameters: ''
  }

  function running(store: CallStore, requestId: string | number, facts = ME): Call {
    const call = new Call(facts, store, token => token)
    call.join(undefined, { ...reply, requestId } as unknown as CallReply, 60_000)
    return call
  }

  it('of its own session and owner, while it runs', () => {
    const store = new CallStore(LIMITS)
    const [a, b] = [running(store, 7), running(store, '7')]
    running(store, 8, { ...ME, owner: 'you' })
    running(store, 9, { ...ME, sessionId: 't' })
    expect(store.findByRequests([7, 7, 8, 9, '7'], 'me', 's')).toEqual([a, b])
    a.cancel()
    expect(store.findByRequests([7, '7'], 'me', 's')).toEqual([b])
    store.close()
  })

  it('not at all where several calls have one for the same', () => {
    const store = new CallStore(LIMITS)
    for (const id of [7, 7, 7]) running(store, id)
    const other = running(store, 8)
    expect(store.findByRequests([7, 8], 'me', 's')).toEqual([other])
    store.close()
  })

  it('with one look at each, however many are named', () => {
    const store = new CallStore(LIMITS)
    let looks = 0
    for (let id = 0; id < 100; id++)
      Object.defineProperty(running(store, id), 'requestIds', {
        get: () => (looks++, new Set([id]))
      })
    const ids = Array.from({ length: 1000 }, (_, id) => id)
    expect(store.findByRequests(ids, 'me', 's')).toHaveLength(100)
    expect(looks).toBe(100)
    expect(store.findByRequests([], 'me', 's')).toEqual([])
    expect(looks).toBe(100)
    store.close()
  })
})
