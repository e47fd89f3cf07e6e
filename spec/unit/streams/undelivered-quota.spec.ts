// The tallies of what is unsent: exact, and gone with the last stream.

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { UndeliveredQuota } from '../../../lib/streams/undelivered-quota.js'
import { append, deliver, FakeReader, newTable, open, response, streamId } from './fakes.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

const LIMITS = {
  stream: { messages: 4, bytes: 1000 },
  session: { messages: 6, bytes: 2000 },
  owner: { messages: 8, bytes: 3000 }
}

describe('tallies', () => {
  it('know one stream, its session and its owner', () => {
    const tallies = new UndeliveredQuota(LIMITS)
    const a = tallies.share({ owner: 'me', sessionId: 's' })
    const b = tallies.share({ owner: 'me', sessionId: 's' })
    const c = tallies.share({ owner: 'me', sessionId: 't' })
    a.note(3, 10)
    b.note(3, 10)
    expect([a, b, c].map(share => [share.isFull, share.isCrowded])).toEqual([
      [false, true],
      [false, true],
      [false, false]
    ])
    c.note(2, 10)
    expect(c.isCrowded).toBe(true)
    b.note(0, 0)
    expect([a, b, c].map(share => share.isCrowded)).toEqual([false, false, false])
    a.note(4, 10)
    expect(a.isFull).toBe(true)
    a.note(0, 1000)
    expect([a.isFull, a.hasRoom]).toEqual([true, false])
    a.note(1, 499)
    expect([a.isFull, a.hasRoom]).toEqual([false, true])
  })

  it('of nobody in particular are not kept', () => {
    const tallies = new UndeliveredQuota(LIMITS)
    const share = tallies.share({ owner: '', sessionId: undefined })
    share.note(100, 100)
    expect([tallies.size, share.isCrowded, share.isFull]).toEqual([0, false, true])
  })

  it('go with their last stream, and what is noted after that counts for nothing', () => {
    const tallies = new UndeliveredQuota(LIMITS)
    const a = tallies.share({ owner: 'me', sessionId: 's' })
    const b = tallies.share({ owner: 'me', sessionId: 's' })
    a.note(6, 6)
    a.leave()
    a.leave()
    a.note(6, 6)
    expect([b.isCrowded, tallies.size]).toEqual([false, 2])
    b.leave()
    expect(tallies.size).toBe(0)
  })
})

describe('a table', () => {
  it('counts as streams are written, read, resumed and let go', () => {
    const { table } = newTable({ unsent: LIMITS })
    const facts = { owner: 'me', sessionId: 's' }
    const { stream } = open(table, { ...facts, id: streamId('a') })
    const probe = table.unsent!.share(facts)
    const isCrowdedWith = (messages: number): boolean => {
      probe.note(messages, 0)
      const { isCrowded } = probe
      probe.note(0, 0)
      return isCrowded
    }
    const count = (): number => {
      for (let messages = 0; ; messages++)
        if (isCrowdedWith(messages)) return LIMITS.session.messages - messages
    }
    expect(count()).toBe(0)
    for (const n of [1, 2, 3])
      append(stream, { jsonrpc: '2.0', method: 'notifications/x', params: { n } })
    expect(count()).toBe(3)
    const reader = new FakeReader()
    stream.attach(reader, 0)
    deliver(stream)
    expect(count()).toBe(0)
    stream.attach(new FakeReader(), 1)
    expect(count()).toBe(2)
    append(stream, response(1))
    stream.producerEnded()
    expect(count()).toBe(3)
    table.drop(stream)
    expect(count()).toBe(0)
    probe.leave()
    expect(table.unsent!.size).toBe(0)
  })

  it('lets a producer go on that waits for room in messages when half of them are read', () => {
    const { table } = newTable({ unsent: { ...LIMITS, stream: { messages: 4, bytes: Infinity } } })
    const { stream, producer } = open(table)
    stream.attach(new FakeReader(), 0)
    // Each in a segment of its own, so that each is read by itself.
    for (let n = 1; n <= 4; n++) expect(append(stream, 'x'.repeat(40_000))).toBe(n < 4)
    const drains = [1, 2, 3, 4].map(n => {
      stream.markWritten(stream.log.read(n - 1), Date.now())
      return producer.drains
    })
    expect(drains).toEqual([0, 0, 1, 1])
  })

  it('lets a producer go on whose new reader has everything that it waits with', () => {
    const { table } = newTable({ unsent: { ...LIMITS, stream: { messages: 2, bytes: Infinity } } })
    const { stream, producer } = open(table)
    stream.attach(new FakeReader(), 0)
    append(stream, 'one')
    deliver(stream)
    // Comes without a cursor and takes nothing; the client knows better what it has.
    stream.attach(new FakeReader(), 0)
    expect(append(stream, 'two')).toBe(false)
    stream.attach(new FakeReader(), 2)
    expect([producer.drains, stream.isFull]).toEqual([1, false])
  })

  it.each(['cancel', 'abandon', 'forget'] as const)('forgets with %s', how => {
    const { table } = newTable({ unsent: LIMITS })
    const { stream } = open(table, { owner: 'me', sessionId: 's' })
    append(stream, 'x')
    if (how === 'forget') table.forget(stream)
    else stream[how]()
    expect(table.unsent!.size).toBe(0)
  })
})
