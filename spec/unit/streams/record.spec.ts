// What is kept of a stream that has ended: the same bytes, whether it ever was a stream or not.

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { eventIdPrefix } from '../../../lib/protocol/event-id.js'
import { Record, type RecordInit, withId } from '../../../lib/streams/record.js'
import {
  append,
  block,
  FakeReader,
  MANNERS,
  newTable,
  open,
  progress,
  response,
  streamId
} from './fakes.js'

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] })
})
afterEach(() => {
  jest.useRealTimers()
})

const init = (id: string, more: { owner?: string; sessionId?: string } = {}) => ({
  id: streamId(id),
  kind: 'request' as const,
  owner: more.owner ?? '',
  sessionId: more.sessionId,
  requestIds: [1],
  profile: MANNERS
})

/** Events beside which a result is the last. */
const CASES: [string, unknown[]][] = [
  ['one event', [response()]],
  ['several events', [progress('a'), progress('b'), response()]],
  ['characters of several bytes', [progress('grün, 日本, 🙂'), response(1, { text: 'é' })]],
  ['more than a string is kept of', [progress('x'.repeat(20_000)), progress('é'), response()]],
  [
    'what is kept in pieces',
    [...Array.from({ length: 40 }, (_, i) => progress(`${i}`.padEnd(5000, 'x'))), response()]
  ]
]

/** Of a call that was over when its response was first sent. */
function recordOf(init: RecordInit, blocks: readonly string[]): Record {
  const ends: number[] = []
  let text = ''
  for (const [i, each] of blocks.entries()) {
    if (i > 0) ends.push(text.length)
    text += withId(eventIdPrefix(init), i + 1, each)
  }
  return Record.of(init, text, ends)
}

describe.each(CASES)('%s', (_name, events) => {
  const texts = events.map(event => block(event).toString())

  it('are the same bytes of a stream and of a call that was over at once', () => {
    const { table } = newTable()
    const { stream } = open(table, init('a'))
    const reader = new FakeReader()
    stream.attach(reader, 0)
    for (const event of events) append(stream, event)
    stream.producerEnded()
    const sent = Buffer.concat(events.map((_event, i) => Buffer.from(stream.event(i + 1)!)))
    stream.detach(reader)
    for (const record of [stream.record!, recordOf(init('a'), texts)]) {
      expect(Buffer.from(record.eventsAfter(0)!).equals(sent)).toBe(true)
      expect([record.size, record.last, record.ends.at(-1)]).toEqual([
        sent.length,
        events.length,
        sent.length
      ])
      const each = events.map((_event, i) => record.event(i + 1)!)
      expect(Buffer.concat(each).equals(sent)).toBe(true)
      for (const [cursor] of [...events, undefined].entries())
        expect(record.eventsAfter(cursor)!.length).toBe(
          sent.length - (record.ends[cursor - 1] ?? 0)
        )
      expect([record.event(0), record.event(events.length + 1)]).toEqual([undefined, undefined])
    }
  })
})

describe('a call that was over at once', () => {
  it('is told of, counted, and found, until its time is over', () => {
    const { table, notices } = newTable({ window: 10_000 })
    const record = recordOf(init('a', { owner: 'me' }), [block(response()).toString()])
    expect(table.hasRoom('me')).toBe(true)
    table.announce(record)
    table.keep(record)
    expect(notices.map(({ name, id }) => [name, id])).toEqual([
      ['created', record.id],
      ['completed', record.id]
    ])
    expect(table.counts()).toMatchObject({ live: 0, finished: 1, bytes: record.size })
    expect(table.find(record.id)).toEqual({ kind: 'ended', value: record })
    jest.advanceTimersByTime(13_000)
    expect([record.isKept, record.eventsAfter(0)]).toEqual([false, undefined])
    expect(table.find(record.id)).toEqual({ kind: 'ended', value: record })
    expect(table.counts()).toMatchObject({ finished: 0, bytes: 0, evictions: 0 })
  })

  it('makes room for others, and is its own tombstone', () => {
    const { table, notices } = newTable({ maxStreams: 3 })
    const records = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map(id =>
      recordOf(init(id), [block(response()).toString()])
    )
    for (const record of records) {
      expect(table.hasRoom('')).toBe(true)
      table.keep(record)
    }
    expect(records.map(({ isKept }) => isKept)).toEqual([
      false,
      false,
      false,
      false,
      true,
      true,
      true
    ])
    const evicted = notices.filter(({ name }) => name === 'evicted').map(({ id }) => id)
    expect(evicted).toEqual(records.slice(0, 4).map(({ id }) => id))
    // There are as many tombstones as there may be records.
    expect(records.map(({ id }) => table.find(id).kind)).toEqual([
      'unknown',
      ...records.slice(1).map(() => 'ended')
    ])
    expect(table.counts()).toMatchObject({ finished: 3, evictions: 4 })
  })

  it('is listed with those of its session and its owner alone, in order, until it goes', () => {
    const { table } = newTable()
    const keep = (id: string, owner: string, sessionId?: string) => {
      const record = recordOf(init(id, { owner, ...(sessionId && { sessionId }) }), ['data: 1\n\n'])
      table.keep(record)
      return record
    }
    const [a, b, c] = [keep('a', 'me', 's'), keep('b', 'me', 's'), keep('c', 'me', 's')]
    const [other, alone] = [keep('d', 'you', 's'), keep('e', 'me')]
    keep('f', '')
    expect(table.endedFor('s', 'me')).toEqual([a, b, c])
    expect(table.endedFor(undefined, 'me')).toEqual([alone])
    expect(table.endedFor(undefined, '')).toEqual([])
    table.drop(b)
    expect(table.endedFor('s', 'me')).toEqual([a, c])
    table.drop(c)
    table.drop(a)
    expect([table.endedFor('s', 'me'), table.endedFor('s', 'you')]).toEqual([[], [other]])
    table.drop(other)
    expect(table.endedFor('s', 'you')).toEqual([])
  })
})
