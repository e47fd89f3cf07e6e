// Calls under an `Idempotency-Key`, without HTTP: how long one goes on without its client, what it
// holds then, and what is let go with its end.

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { EventEmitter } from 'node:events'
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { IdempotencyStore } from '../../../lib/endpoint/idempotency-store.js'
import type { IdempotentRequest } from '../../../lib/endpoint/idempotent-request.js'
import { recordAnswer } from '../../../lib/endpoint/recorded-answer.js'
import { stopTheClock } from '../../features/limits/setup.js'

beforeEach(stopTheClock)
afterEach(() => {
  jest.useRealTimers()
})

const LIMITS = { maxCalls: 100, window: 1000, maxBytes: 1000, abandonAfter: 500, onFull() {} }
const storeOf = (maxCalls = LIMITS.maxCalls) => new IdempotencyStore({ ...LIMITS, maxCalls })

interface Begun {
  call: IdempotentRequest
  /** What the endpoint has been told. */
  told: string[]
}

function begin(store: IdempotencyStore, key: string): Begun {
  const call = store.begin({ key, owner: '', hash: 'hash', size: 10, requestIds: [1] })
  const told: string[] = []
  const run = {
    release: () => void told.push('release'),
    detach: () => void told.push('detach')
  }
  call.runs(run, { stop: () => void told.push('stop') })
  return { call, told }
}

/** A client waits. Returns how it leaves. */
function wait({ call }: Begun, outcomes: string[] = []): () => void {
  const connection = new EventEmitter()
  call.join(connection as ServerResponse, ({ kind }) => void outcomes.push(kind))
  return () => void connection.emit('close')
}

describe('a call without a client', () => {
  it('is abandoned after its time, all of them by one timer', () => {
    const store = storeOf()
    const calls = ['a', 'b', 'c'].map(key => begin(store, key))
    for (const begun of calls) {
      wait(begun)()
      jest.advanceTimersByTime(100)
    }
    expect([jest.getTimerCount(), store.running, store.bytes]).toEqual([1, 3, 30])
    jest.advanceTimersByTime(300)
    expect(calls.map(({ told }) => told)).toEqual([['stop', 'release'], ['stop', 'release'], []])
    expect([store.running, store.bytes]).toEqual([1, 10])
    expect(store.find('a')).toEqual({
      kind: 'ended',
      value: { hash: 'hash', outcome: { kind: 'lost' } }
    })
  })

  it('is abandoned after its time where its clients had left before they could wait', () => {
    const store = storeOf()
    const begun = begin(store, 'a')
    const outcomes: string[] = []
    const left = Object.assign(new EventEmitter(), { destroyed: true })
    begun.call.join(left as ServerResponse, ({ kind }) => void outcomes.push(kind))
    expect([jest.getTimerCount(), store.bytes]).toEqual([1, 10])
    jest.advanceTimersByTime(500)
    expect([begun.told, outcomes, store.running]).toEqual([['stop', 'release'], [], 0])
  })

  it('holds nothing more when its client is there again, whose leaving begins its time anew', () => {
    const store = storeOf()
    const begun = begin(store, 'a')
    wait(begun)()
    jest.advanceTimersByTime(400)
    const leave = wait(begun)
    expect(store.bytes).toBe(0)
    jest.advanceTimersByTime(400)
    leave()
    jest.advanceTimersByTime(400)
    expect([begun.told, store.bytes]).toEqual([[], 10])
    jest.advanceTimersByTime(100)
    expect([begun.told, store.bytes]).toEqual([['stop', 'release'], 0])
  })

  it('is waited for no longer than the process is left', () => {
    const store = storeOf()
    const [gone, there] = [begin(store, 'a'), begin(store, 'b')]
    wait(gone)()
    const leave = wait(there)
    store.beginClosing(50)
    jest.advanceTimersByTime(50)
    expect([gone.told, there.told]).toEqual([['stop', 'release'], []])
    leave()
    jest.advanceTimersByTime(50)
    expect([there.told, jest.getTimerCount()]).toEqual([['stop', 'release'], 0])
  })

  it('leaves no timer behind when the process is left', async () => {
    const store = storeOf()
    const begun = begin(store, 'a')
    wait(begun)()
    store.beginClosing(Infinity)
    expect(jest.getTimerCount()).toBe(1)
    store.close()
    await store.whenIdle()
    expect([begun.told, jest.getTimerCount()]).toEqual([['stop', 'detach'], 0])
  })

  it('is abandoned at once where there is no room for it', () => {
    const store = storeOf(2)
    const [first, second] = [begin(store, 'a'), begin(store, 'b')]
    wait(first)()
    wait(second)()
    expect([first.told, second.told, store.bytes]).toEqual([[], ['stop', 'release'], 10])
  })
})

describe('a call that is over', () => {
  const answer = {
    kind: 'answer' as const,
    status: 200,
    headers: {},
    body: Buffer.from('done')
  }

  it.each<[string, (call: IdempotentRequest) => unknown, string, string[]]>([
    ['answered', call => call.settle(answer), 'answer', ['stop']],
    ['a stream', call => call.settle({ kind: 'stream', streamId: 'any' }), 'stream', ['stop']],
    ['given up', call => call.giveUp(), 'lost', ['stop', 'detach']],
    ['abandoned', call => call.abandon(), 'lost', ['stop', 'release']]
  ])('is %s once, for all who wait', (_name, end, outcome, expected) => {
    const store = storeOf()
    const begun = begin(store, 'a')
    const outcomes: string[] = []
    for (let n = 0; n < 2; n++) wait(begun, outcomes)
    expect(begun.call.grow(1001)).toBe(false)
    expect(begun.call.grow(400)).toBe(true)
    end(begun.call)
    begun.call.abandon()
    begun.call.settle(answer)
    expect([outcomes, begun.told]).toEqual([[outcome, outcome], expected])
    expect([store.running, store.room.bytes, begun.call.grow(1)]).toEqual([0, 0, false])
  })

  it.each([200, 400])('is kept for others where its instance goes just after: %d', status => {
    const names: string[] = []
    const kept = { keep: (name: string) => names.push(name) > 0, delete() {} }
    const store = new IdempotencyStore({ ...LIMITS, maxBytes: 10_000, kept })
    const begun = begin(store, 'a')
    wait(begun)
    begun.call.settle({ ...answer, status })
    expect(names).toEqual([])
    store.keepSince(LIMITS.window)
    expect(names).toEqual(['a'])
  })

  it('keeps no memory but its own, whatever its answer was a part of', () => {
    const store = storeOf()
    const body = Buffer.from('some more than done').subarray(-4)
    begin(store, 'a').call.settle({ ...answer, body })
    const found = store.find('a')
    const outcome = found.kind === 'ended' ? found.value.outcome : undefined
    expect(outcome).toEqual({ ...answer, body })
    expect(outcome?.kind === 'answer' && outcome.body.buffer.byteLength).toBe(4)
  })

  it.each<[string, (call: IdempotentRequest) => unknown, unknown]>([
    ['an answer once it is whole', () => undefined, { kind: 'answer', body: 'some more', ends: 1 }],
    [
      'nothing of what has become a stream',
      call => call.settle({ kind: 'stream', streamId: 'any' }),
      { kind: 'stream', ends: 0 }
    ]
  ])('has kept %s', async (_name, meanwhile, expected) => {
    const store = storeOf()
    const call = store.begin({ key: 'a', owner: '', hash: 'hash', size: 10, requestIds: [1] })
    const res = new ServerResponse(new IncomingMessage(new Socket()))
    let ends = 0
    recordAnswer(call, res, { release() {}, detach() {}, untakenEnded: () => void ends++ })
    res.write('some ')
    expect(store.room.bytes).toBe(5)
    meanwhile(call)
    res.end('more')
    await new Promise(setImmediate)
    const found = store.find('a')
    const outcome = found.kind === 'ended' ? found.value.outcome : undefined
    const body = outcome?.kind === 'answer' ? outcome.body.toString() : undefined
    expect({ kind: outcome?.kind, body, ends }).toEqual(expected)
    expect(store.room.bytes).toBe(0)
  })
})
