// All streams of a process: who has to go when there is no room, when time is up, and what is
// remembered of those that went.

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import type { Record } from '../../../lib/streams/record.js'
import { Stream } from '../../../lib/streams/stream.js'
import { StreamRegistry } from '../../../lib/streams/stream-registry.js'
import { OutgoingAnswers } from '../../../lib/readers/outgoing.js'
import type { Sink } from '../../../lib/readers/sink.js'
import { StallWatch } from '../../../lib/readers/stall-watch.js'
import {
  append,
  complete,
  deliver,
  FakeReader,
  newTable,
  open,
  progress,
  streamId,
  tryOpen
} from './fakes.js'

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] })
})
afterEach(() => {
  jest.useRealTimers()
})

const HOUR = 60 * 60 * 1000

/** A client that takes nothing. */
const NOT_TAKING: Sink = {
  isOver: false,
  tellsWritten: true,
  pending: 1,
  isGone: false,
  write: () => false,
  cork: () => undefined,
  uncork: () => undefined,
  end: () => undefined,
  destroy: () => undefined,
  onDrain: () => undefined,
  onClose: () => undefined,
  closeSocket: () => undefined
}

/** A stream that has completed, its client gone before or after it read everything. */
function finished(
  table: StreamRegistry,
  id: string,
  { isDelivered }: { isDelivered: boolean }
): Stream {
  const { stream } = open(table, { id: streamId(id) })
  const reader = new FakeReader()
  stream.attach(reader, 0)
  complete(stream)
  if (isDelivered) deliver(stream)
  stream.detach(reader)
  return stream
}

const isKept = (table: StreamRegistry, id: string) => {
  const found = table.find(streamId(id))
  return found.kind !== 'unknown' && found.value.isKept
}
const tombstoneOf = (table: StreamRegistry, id: string) => {
  const found = table.find(streamId(id))
  return found.kind === 'ended' && !found.value.isKept ? found.value : undefined
}
/** Bytes that are kept of a stream. */
const sizeOf = ({ record, log }: Stream) => record?.size ?? log.bytes
/** What is kept or remembered under a name. */
const valueOf = (table: StreamRegistry, id: string) => {
  const found = table.find(id)
  return found.kind === 'unknown' ? undefined : found.value
}

/** Which of some streams are kept, without touching their recency. */
function kept(table: StreamRegistry, streams: Stream[]): string[] {
  expect(table.counts().finished + table.counts().live).toBe(
    streams.filter(stream => sizeOf(stream) > 0).length
  )
  return streams
    .filter(stream => sizeOf(stream) > 0)
    .map(({ id }) => id.replace(/^stream-|-+$/g, ''))
}

describe('the table', () => {
  it('tells which streams have been given lately, or are still to be', () => {
    const { table } = newTable()
    finished(table, 'long ago', { isDelivered: true })
    finished(table, 'not read', { isDelivered: false })
    jest.advanceTimersByTime(7000)
    finished(table, 'lately', { isDelivered: true })
    const { stream } = open(table, { id: streamId('read') })
    stream.attach(new FakeReader(), 0)
    complete(stream)
    open(table, { id: streamId('running') })
    jest.advanceTimersByTime(3000)
    const names = ['not read', 'lately', 'read'].map(streamId)
    expect(table.endedSince(5000).map(({ id }) => id)).toEqual(names)
    expect(table.endedSince(0).map(({ id }) => id)).toEqual([names[0], names[2]])
  })

  it('finds a stream while it runs, while it is kept, and what is left of it then', async () => {
    const { table } = newTable()
    const { stream } = open(table, { id: streamId('a') })
    expect(valueOf(table, stream.id)).toBe(stream)
    const reader = new FakeReader()
    stream.attach(reader, 0)
    complete(stream)
    expect(valueOf(table, stream.id)).toBe(stream)
    stream.detach(reader)
    const { record } = stream
    expect(table.find(stream.id)).toEqual({ kind: 'ended', value: record })
    expect([record!.isKept, record!.eventsAfter(0)?.length]).toEqual([true, record!.size])
    table.drop(stream)
    expect(valueOf(table, stream.id)).toBe(record)
    expect(record).toMatchObject({ id: stream.id, state: 'completed', isKept: false, size: 0 })
    expect(record!.eventsAfter(0)).toBeUndefined()
    expect(valueOf(table, streamId('b'))).toBeUndefined()
  })

  it('counts streams, bytes, and what was evicted', () => {
    const { table } = newTable()
    expect(table.counts()).toMatchObject({
      live: 0,
      waiting: 0,
      finished: 0,
      bytes: 0,
      evictions: 0
    })
    const { stream } = open(table)
    append(stream, 'a')
    const bytes = stream.log.read(0).bytes.length
    expect(table.counts()).toMatchObject({
      live: 1,
      waiting: 0,
      finished: 0,
      bytes,
      evictions: 0
    })
    complete(stream)
    expect(table.counts()).toMatchObject({
      live: 0,
      waiting: 0,
      finished: 1,
      bytes: stream.record!.size,
      evictions: 0
    })
    table.drop(stream)
    expect(table.counts()).toMatchObject({
      live: 0,
      waiting: 0,
      finished: 0,
      bytes: 0,
      evictions: 0
    })
  })

  it('tells of each stream that it was created, and how it ended', () => {
    const { table, notices } = newTable()
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map(
      id => open(table, { id: streamId(id) }).stream
    ) as [Stream, Stream, Stream, Stream]
    complete(a)
    b.fail('closing')
    c.cancel()
    d.abandon()
    expect(notices.slice(4)).toEqual([
      { name: 'completed', id: a.id, code: undefined },
      { name: 'failed', id: b.id, code: 'closing' },
      { name: 'cancelled', id: c.id, code: undefined },
      { name: 'abandoned', id: d.id, code: 'abandoned' }
    ])
  })
})

describe('when all streams together are too many', () => {
  it('those whose events went out make room, then those whose did not; of each the one used longest ago first', async () => {
    const { table, notices } = newTable({ maxStreams: 5 })
    const all = [
      finished(table, 'unread1', { isDelivered: false }),
      finished(table, 'read1', { isDelivered: true }),
      finished(table, 'unread2', { isDelivered: false }),
      finished(table, 'read2', { isDelivered: true }),
      finished(table, 'read3', { isDelivered: true })
    ]
    // Somebody asks for these, so the others have been used longest ago.
    table.find(streamId('read1'))
    table.find(streamId('unread1'))
    const order: string[] = []
    for (let i = 0; i < 5; i++) {
      const before = kept(table, all)
      const { stream } = open(table)
      append(stream, 'x')
      all.push(stream)
      order.push(...before.filter(id => !kept(table, all).includes(id)))
    }
    expect(order).toEqual(['read2', 'read3', 'read1', 'unread2', 'unread1'])
    expect(notices.filter(({ name }) => name === 'evicted').map(({ id }) => id)).toEqual(
      order.map(streamId)
    )
    expect(table.counts()).toMatchObject({ live: 5, finished: 0, evictions: 5 })
  })

  it('and all of them run, a new one is refused, and nobody is touched', () => {
    const { table, notices } = newTable({ maxStreams: 3 })
    const streams = [1, 2, 3].map(() => open(table).stream)
    expect(tryOpen(table)).toBeUndefined()
    expect(tryOpen(table)).toBeUndefined()
    expect(streams.map(({ state }) => state)).toEqual(['live', 'live', 'live'])
    expect(table.counts()).toMatchObject({ live: 3, evictions: 0 })
    expect(notices.map(({ name }) => name)).toEqual(['created', 'created', 'created'])
    complete(streams[1]!)
    expect(tryOpen(table)).toBeDefined()
  })

  it('a parked listen channel with nothing to say gives way, and only such a one', async () => {
    const { table } = newTable({ maxStreams: 4 })
    const listen = (id: string) => open(table, { id: streamId(id), kind: 'listen', requestIds: [] })
    const [followed, unread, idle] = [listen('followed'), listen('unread'), listen('idle')]
    followed.stream.attach(new FakeReader(), 0)
    append(unread.stream, progress('x'))
    append(idle.stream, progress('x'))
    deliver(idle.stream)
    open(table)
    expect(tryOpen(table)).toBeDefined()
    expect([followed, unread, idle].map(({ stream }) => stream.state)).toEqual([
      'live',
      'live',
      'abandoned'
    ])
    expect(idle.producer.releases).toBe(1)
    expect(table.counts()).toMatchObject({ live: 4, evictions: 1 })
    expect(tryOpen(table)).toBeUndefined()
    expect(tombstoneOf(table, 'idle')).toMatchObject({
      kind: 'listen',
      state: 'abandoned',
      last: 1
    })
  })

  it('and those that have ended are of owners with much less, a new one is refused', () => {
    const { table } = newTable({ maxStreams: 8 })
    for (let n = 0; n < 7; n++) open(table, { owner: 'greedy' })
    const { stream } = open(table, { owner: 'modest' })
    complete(stream)
    expect(tryOpen(table, { owner: 'greedy' })).toBeUndefined()
    expect(table.counts()).toMatchObject({ live: 7, finished: 1 })
  })

  it('one whose room was asked for before another took it counts all the same', () => {
    const { table } = newTable({ maxStreams: 9 })
    const openAll = (): Stream[] => {
      const all: Stream[] = []
      for (let opened = tryOpen(table); opened !== undefined; opened = tryOpen(table))
        all.push(opened.stream)
      return all
    }
    const all = [...openAll(), open(table, { hasRoom: true }).stream]
    expect(all.length).toBe(9)
    for (const stream of all) stream.cancel()
    expect(openAll().length).toBe(8)
  })

  it("each counts in its owner's share until nothing is kept of it", () => {
    const { table } = newTable()
    const { budget } = table
    const { stream } = open(table, { owner: 'me' })
    expect(budget.sizeOf('me')).toBeGreaterThan(0)
    stream.cancel()
    expect(budget.sizeOf('me')).toBe(0)
  })

  it('it never loses count, however often they come and go', () => {
    const { table } = newTable({ maxStreams: 7, window: 5000, abandonAfter: 9000 })
    const all: Stream[] = []
    for (let i = 0; i < 500; i++) {
      const stream = finished(table, `${i}`, { isDelivered: i % 3 > 0 })
      all.push(stream)
      if (i % 5 === 0) jest.advanceTimersByTime(2000)
      if (i % 11 === 0) table.drop(all[Math.max(0, i - 2)] as Stream)
      expect(table.counts().finished).toBe(all.filter(stream => sizeOf(stream) > 0).length)
      expect(table.counts().finished).toBeLessThanOrEqual(7)
      expect(table.counts().bytes).toBe(all.reduce((sum, stream) => sum + sizeOf(stream), 0))
    }
    jest.advanceTimersByTime(60_000)
    expect(table.counts()).toMatchObject({ live: 0, finished: 0, bytes: 0 })
    expect(jest.getTimerCount()).toBe(0)
  })
})

describe('when all streams together hold too many bytes', () => {
  const large = progress('x'.repeat(100_000))

  it('finished ones make room, in the same order, and no more than needed', () => {
    const { table } = newTable({ maxBytes: 390_000 })
    const end = (id: string, isDelivered: boolean) => {
      const { stream } = open(table, { id: streamId(id) })
      append(stream, large)
      stream.attach(new FakeReader(), 0)
      complete(stream)
      if (isDelivered) deliver(stream)
      stream.detach(stream.readers.current!)
      return stream
    }
    const unread = end('unread', false)
    const read = end('read', true)
    const { stream } = open(table)
    expect(append(stream, large)).toBe(true)
    expect(kept(table, [unread, read, stream])).toEqual([
      'unread',
      'read',
      stream.id.slice(7).replace(/-+$/, '')
    ])
    expect(append(stream, large)).toBe(true)
    expect([sizeOf(unread) > 0, sizeOf(read) > 0]).toEqual([true, false])
    expect(append(stream, large)).toBe(true)
    expect([sizeOf(unread) > 0, sizeOf(read) > 0]).toEqual([false, false])
    expect(table.counts()).toMatchObject({ finished: 0, evictions: 2, bytes: stream.log.bytes })
  })

  it('of one owner, what its client loses least by goes first', () => {
    const { table } = newTable()
    const running = (id: string) => open(table, { id: streamId(id) }).stream
    const lingering = running('lingering')
    append(lingering, large)
    lingering.log.retain(0, { recalled: () => undefined })
    complete(lingering)
    table.drop(lingering)
    const read = running('read')
    read.attach(new FakeReader(), 0)
    complete(read)
    finished(table, 'undelivered', { isDelivered: false })
    for (const kib of [8, 64]) running(`asked for by ${kib} KiB`).holdRequest(kib * 1024)
    const outgoing = new OutgoingAnswers(table.budget, new StallWatch(HOUR))
    outgoing.write(NOT_TAKING, '', { key: 'a', parts: [Buffer.alloc(1000)] })
    const written = running('written')
    append(written, large)
    deliver(written)
    finished(table, 'delivered', { isDelivered: true })
    const order: string[] = []
    for (let next = table.budget.next(''); next !== undefined; next = table.budget.next('')) {
      order.push('id' in next ? next.id.replace(/^stream-|-+$/g, '') : next.constructor.name)
      table.budget.withdraw(next)
    }
    expect(order).toEqual([
      'delivered',
      'written',
      'Unread',
      'HeldRequest',
      'HeldRequest',
      'undelivered',
      'read',
      'Segment'
    ])
  })

  it('of requests, the largest goes first', async () => {
    const { table } = newTable({ maxBytes: 1_000_000 })
    const sizes = [8000, 500_000, 100_000]
    const streams = sizes.map(size => {
      const { stream } = open(table)
      stream.holdRequest(size)
      return stream
    })
    const { stream } = open(table)
    stream.holdRequest(450_000)
    const held = sizes.reduce((sum, size) => sum + size, 450_000)
    expect(table.counts().bytes).toBe(held - 500_000)
    await Promise.resolve()
    expect(streams.map(({ state }) => state)).toEqual(['live', 'failed', 'live'])
  })

  it.each([
    ['an event', (stream: Stream) => void append(stream, progress('x'.repeat(200_000)))],
    ['a request', (stream: Stream) => stream.holdRequest(200_000)]
  ])(
    '%s counts no longer than its call, even if what makes room ends that',
    async (_what, hold) => {
      const { table } = newTable({ maxBytes: 350_000, maxStreamBytes: 350_000 })
      const [a, b] = [open(table).stream, open(table).stream]
      b.holdRequest(300_000)
      b.signal.addEventListener('abort', () => a.cancel())
      hold(a)
      await Promise.resolve()
      expect([a.state, b.state]).toEqual(['cancelled', 'failed'])
      table.drop(b)
      expect(table.counts().bytes).toBe(0)
    }
  )

  it('a running one makes room among its own written events, and else fails; the others do not notice', () => {
    const { table } = newTable({ maxBytes: 350_000, maxStreamBytes: 350_000 })
    const [a, b] = [open(table).stream, open(table).stream]
    append(a, large)
    append(a, large)
    append(b, large)
    const batch = a.log.read(0)
    a.markWritten(batch, 1)
    expect(append(a, large)).toBe(true)
    expect(a.log.first).toBe(2)
    append(b, large)
    expect([a.state, b.state]).toEqual(['live', 'failed'])
    expect(b.log.last).toBe(2)
    expect(table.counts().bytes).toBe(a.log.bytes + sizeOf(b))
    expect(table.counts().bytes).toBeLessThan(350_000 + 512)
  })

  it('what running ones of the owner with most have written goes, and nobody else notices', () => {
    const { table, notices } = newTable({ maxBytes: 1_000_000 })
    const hogs = Array.from({ length: 3 }, () => open(table, { owner: 'hog' }).stream)
    for (const stream of [...hogs, ...hogs, ...hogs]) {
      append(stream, large)
      deliver(stream, stream.log.written)
    }
    const [first] = hogs as [Stream, ...Stream[]]
    const mine = open(table, { owner: 'me' }).stream
    for (const n of [1, 2, 3]) expect([n, append(mine, large)]).toEqual([n, true])
    deliver(mine)
    expect([mine.state, mine.log.first, ...hogs.map(({ state }) => state)]).toEqual([
      ...['live', 1],
      ...['live', 'live', 'live']
    ])
    // Its stream that has been written to for the longest time, from its start.
    expect(first.log.first).toBeGreaterThan(1)
    expect(hogs[2]!.log.first).toBe(1)
    const evicted = notices.filter(({ name }) => name === 'evicted').map(({ id }) => id)
    expect(new Set(evicted)).toEqual(new Set([first.id]))
    // What has not been written stays, and so do those who have little.
    for (const hog of hogs) append(hog, large)
    expect([mine.log.first, mine.log.last, ...hogs.map(({ state }) => state)]).toEqual([
      ...[1, 3],
      ...['live', 'live', 'live']
    ])
    expect(table.counts().bytes).toBeLessThanOrEqual(1_000_000)
  })

  it('a comment on a stream that had to go for it, and its reader with it, is for nobody', () => {
    const { table } = newTable({ maxBytes: 350_000, maxStreamBytes: 350_000 })
    const { stream } = open(table)
    for (const _ of [1, 2, 3]) append(stream, large)
    const reader = new FakeReader()
    stream.attach(reader, 0)
    complete(stream)
    // As a connection that is cut off.
    stream.log.retain(0, { recalled: () => stream.detach(reader) })
    stream.comment(Buffer.alloc(100_000, ':'))
    expect([reader.comments, stream.hasReader]).toEqual([[], false])
    expect(table.counts().bytes).toBe(0)
  })

  it('and all of them run, a new one is refused', () => {
    const { table } = newTable({ maxBytes: 40 })
    append(open(table).stream, 'x')
    expect(tryOpen(table)).toBeUndefined()
    expect(table.counts()).toMatchObject({ live: 1, evictions: 0 })
  })

  it('a finished one that somebody is reading may go: it is told when it reads on', () => {
    const { table } = newTable({ maxStreams: 1 })
    const { stream } = open(table)
    stream.attach(new FakeReader(), 0)
    complete(stream)
    expect(tryOpen(table)).toBeDefined()
    // Its cursor is behind what is kept: a connection ends with an error on that.
    expect([stream.log.first, stream.log.last, stream.log.bytes]).toEqual([2, 1, 0])
    stream.detach(stream.readers.current!)
    expect(table.counts()).toMatchObject({ live: 1, finished: 0 })
  })
})

describe('with time', () => {
  it('a finished stream goes: a read one after the window, an unread one when it would have been abandoned', async () => {
    const { table } = newTable({ window: 10_000, abandonAfter: 50_000 })
    finished(table, 'read', { isDelivered: true })
    finished(table, 'unread', { isDelivered: false })
    jest.advanceTimersByTime(10_000)
    expect([isKept(table, 'read'), isKept(table, 'unread')]).toEqual([true, true])
    jest.advanceTimersByTime(10)
    expect([isKept(table, 'read'), isKept(table, 'unread')]).toEqual([false, true])
    jest.advanceTimersByTime(39_990)
    expect(isKept(table, 'unread')).toBe(true)
    jest.advanceTimersByTime(10)
    expect(isKept(table, 'unread')).toBe(false)
    expect(tombstoneOf(table, 'read')).toMatchObject({ state: 'completed', last: 1 })
  })

  it('one that lasts no longer than its connection goes with it, read or not, and leaves nothing', async () => {
    const { table, notices } = newTable()
    const [read, cut, unseen] = ['read', 'cut', 'unseen'].map(
      id => open(table, { id: streamId(id), isEphemeral: true }).stream
    ) as [Stream, Stream, Stream]
    for (const stream of [read, cut]) stream.attach(new FakeReader(), 0)
    for (const stream of [read, cut, unseen]) complete(stream)
    expect(table.counts()).toMatchObject({ finished: 2, live: 0 })
    deliver(read)
    for (const stream of [read, cut]) stream.detach(stream.readers.current!)
    expect(table.counts()).toMatchObject({ finished: 0, bytes: 0, remembered: 0, evictions: 0 })
    for (const { id } of [read, cut, unseen]) expect(valueOf(table, id)).toBeUndefined()
    expect(notices.slice(3).map(({ name }) => name)).toEqual(Array(3).fill('completed'))
  })

  it('its bytes go without anybody asking, and without being counted as evicted', () => {
    const { table, notices } = newTable({ window: 10_000, abandonAfter: 50_000 })
    for (let i = 0; i < 20; i++) finished(table, `${i}`, { isDelivered: i % 2 > 0 })
    jest.advanceTimersByTime(13_000)
    expect(table.counts()).toMatchObject({ finished: 10, evictions: 0 })
    jest.advanceTimersByTime(40_000)
    expect(table.counts()).toMatchObject({ finished: 0, bytes: 0, evictions: 0 })
    expect(notices.some(({ name }) => name === 'evicted')).toBe(false)
    expect(jest.getTimerCount()).toBe(0)
  })

  it('the time does not run while somebody reads, however many, however slowly', async () => {
    const { table } = newTable({ window: 10_000, abandonAfter: 20_000 })
    const streams = ['a', 'b', 'c'].map(id => {
      const { stream } = open(table, { id: streamId(id) })
      stream.attach(new FakeReader(), 0)
      complete(stream)
      return stream
    })
    jest.advanceTimersByTime(500_000)
    expect(table.counts().finished).toBe(3)
    for (const stream of streams) {
      deliver(stream)
      stream.detach(stream.readers.current!)
    }
    jest.advanceTimersByTime(10_000)
    expect(isKept(table, 'a')).toBe(true)
    jest.advanceTimersByTime(3000)
    expect(table.counts().finished).toBe(0)
  })

  it('a client that comes back starts the time again, and unread again is what it asks for', async () => {
    const { table } = newTable({ window: 10_000, abandonAfter: 50_000 })
    const stream = finished(table, 'a', { isDelivered: true })
    jest.advanceTimersByTime(9000)
    const record = stream.record!
    table.given(record, 0)
    jest.advanceTimersByTime(9000)
    expect(isKept(table, 'a')).toBe(true)
    table.given(record, 0)
    table.notGiven(record)
    jest.advanceTimersByTime(49_000)
    expect(isKept(table, 'a')).toBe(true)
    jest.advanceTimersByTime(14_000)
    expect(table.counts()).toMatchObject({ finished: 0, bytes: 0 })
  })

  it.each([
    ['0', 0],
    ['less than a millisecond', 0.25],
    ['more than a timer can run', 2 ** 45]
  ])('a time of %s is one like any other', (_name, time) => {
    const { table } = newTable({ window: time, abandonAfter: time })
    finished(table, 'read', { isDelivered: true })
    finished(table, 'unread', { isDelivered: false })
    jest.advanceTimersByTime(61_000)
    expect(table.counts().finished).toBe(time < 1 ? 0 : 2)
  })

  it('a running stream keeps no events beyond the window, and holds nothing when it has nothing to say', () => {
    const { table } = newTable({ window: 10_000 })
    const { stream } = open(table, { kind: 'listen', requestIds: [] })
    stream.attach(new FakeReader(), 0)
    for (let i = 0; i < 10; i++) append(stream, 'x'.repeat(20_000))
    deliver(stream)
    jest.advanceTimersByTime(13_000)
    expect(table.counts()).toMatchObject({ live: 1, bytes: 0, evictions: 0 })
    expect([stream.log.first, stream.log.last]).toEqual([11, 10])
  })

  it('one timer serves for all, and none when there is nothing to end', () => {
    const { table } = newTable({ window: 10_000 })
    expect(jest.getTimerCount()).toBe(0)
    const streams = Array.from({ length: 50 }, () => open(table).stream)
    for (const stream of streams) stream.attach(new FakeReader(), 0)
    expect(jest.getTimerCount()).toBe(1)
    for (const stream of streams) stream.cancel()
    jest.advanceTimersByTime(10_000)
    expect(jest.getTimerCount()).toBe(0)
  })
})

describe('a tombstone', () => {
  it('knows whose the stream was, what it answered, and how it ended', async () => {
    const { table } = newTable()
    const facts = {
      id: streamId('a'),
      kind: 'request',
      owner: 'me',
      requestIds: [1, 'two'],
      sessionId: 's'
    } as const
    const { stream } = open(table, facts)
    append(stream, 'x')
    stream.fail('closing')
    table.drop(stream)
    expect(valueOf(table, stream.id)).toMatchObject({
      ...facts,
      state: 'failed',
      isEnded: true,
      last: 3,
      written: 0,
      lastRequest: 0,
      lastError: 3
    })
  })

  it.each(['cancel', 'abandon'] as const)('is all that is left after %s, at once', async end => {
    const { table } = newTable()
    const { stream } = open(table, { id: streamId('a') })
    append(stream, 'x'.repeat(1000))
    stream[end]()
    expect(table.counts()).toMatchObject({ live: 0, finished: 0, bytes: 0 })
    expect(tombstoneOf(table, 'a')).toMatchObject({ last: 1 })
  })

  it.each<[string, (table: StreamRegistry, stream: Stream) => void]>([
    ['cancelled', (_table, stream) => stream.cancel()],
    ['dropped', table => table.drop(finished(table, 'b', { isDelivered: true }))],
    [
      'over its time',
      table => {
        finished(table, 'b', { isDelivered: true })
        jest.advanceTimersByTime(HOUR)
      }
    ],
    ['evicted', table => ['b', 'c'].map(id => finished(table, id, { isDelivered: true }))]
  ])('is left to who keeps the registry, where a stream is %s', (_name, end) => {
    const gone: Record[] = []
    const { limits } = newTable({ maxStreams: 2 }).table
    const table = new StreamRegistry(
      limits,
      () => undefined,
      undefined,
      stream => gone.push(stream)
    )
    const { stream } = open(table, { id: streamId('a') })
    append(stream, 'x')
    end(table, stream)
    const [first] = gone
    expect(first?.isEnded).toBe(true)
    expect(first?.size).toBe(0)
    expect(table.find(first?.id ?? '')).toEqual({ kind: 'unknown' })
    expect(table.counts().remembered).toBe(0)
  })

  it('goes too, after an hour', async () => {
    const { table } = newTable()
    open(table, { id: streamId('a') }).stream.cancel()
    jest.advanceTimersByTime(HOUR - 1)
    expect(tombstoneOf(table, 'a')).toBeDefined()
    jest.advanceTimersByTime(2)
    expect(valueOf(table, streamId('a'))).toBeUndefined()
  })

  it('makes room for newer ones', async () => {
    const { table } = newTable({ maxStreams: 3 })
    for (const id of ['a', 'b', 'c', 'd']) open(table, { id: streamId(id) }).stream.cancel()
    expect(valueOf(table, streamId('a'))).toBeUndefined()
    for (const id of ['b', 'c', 'd']) expect(tombstoneOf(table, id)).toBeDefined()
  })

  it('remembers long request ids only as far as there is room', async () => {
    const { table } = newTable({ maxStreams: 100 })
    for (let i = 0; i < 100; i++) {
      open(table, { id: streamId(i), requestIds: ['x'.repeat(1024 * 1024)] }).stream.cancel()
    }
    const left = Array.from({ length: 100 }, (_, i) => valueOf(table, streamId(i)))
    expect(left.filter(found => found !== undefined).length).toBeLessThan(10)
    open(table, { id: streamId('a') }).stream.cancel()
    expect(tombstoneOf(table, 'a')).toBeDefined()
  })
})

describe('a stream is found', () => {
  const requestOf = { requestIds: [7], owner: 'me', sessionId: 's' }

  it('by its request, only for its own session and owner, and only while it runs', () => {
    const { table } = newTable()
    const { stream } = open(table, requestOf)
    open(table, { ...requestOf, owner: 'you' })
    open(table, { ...requestOf, sessionId: 't' })
    open(table, { ...requestOf, requestIds: ['7'] })
    expect(table.index.findByRequests([7], 's', 'me').get(7)).toBe(stream)
    expect(table.index.findByRequests([8], 's', 'me').get(8)).toBeUndefined()
    expect(table.index.findByRequests([7], 's', '').get(7)).toBeUndefined()
    expect(table.index.findByRequests([7], 'u', 'me').get(7)).toBeUndefined()
    expect(table.index.findByRequests([7], undefined, 'me').get(7)).toBeUndefined()
    complete(stream, 7)
    expect(table.index.findByRequests([7], 's', 'me').get(7)).toBeUndefined()
  })

  it('by its request without a session for an owner, and for nobody in particular never', () => {
    const { table } = newTable()
    const { stream } = open(table, { ...requestOf, sessionId: undefined })
    open(table, { ...requestOf, owner: '', sessionId: undefined })
    expect(table.index.findByRequests([7], undefined, 'me').get(7)).toBe(stream)
    expect(table.index.findByRequests([7], undefined, '').get(7)).toBeUndefined()
    open(table, { ...requestOf, requestIds: [8] })
    expect(table.index.findByRequests([8], undefined, 'me').get(8)).toBeUndefined()
  })

  it('by its request not at all where two answer to it', () => {
    const { table } = newTable()
    open(table, requestOf)
    open(table, requestOf)
    expect(table.index.findByRequests([7], 's', 'me').get(7)).toBeUndefined()
  })

  it('not at all where its client has been given something else for its call', () => {
    const { table } = newTable()
    open(table, { owner: 'me', isUnknown: true })
    expect(table.index.listFor(undefined, 'me')).toEqual([])
    expect([...table.index.findByRequests([1], undefined, 'me')]).toEqual([])
    const { stream } = open(table, { owner: 'me' })
    expect(table.index.listFor(undefined, 'me')).toEqual([stream])
  })

  it('as the listen channel of its session, while it runs', async () => {
    const { table } = newTable()
    const listening = { kind: 'listen', requestIds: [], owner: 'me', sessionId: 's' } as const
    open(table, requestOf)
    const { stream } = open(table, listening)
    open(table, { ...listening, owner: 'you' })
    expect(await table.index.findListening('s', 'me')).toEqual([stream])
    expect(await table.index.findListening('s', '')).toEqual([])
    expect(await table.index.findListening('t', 'me')).toEqual([])
    stream.producerEnded()
    expect(await table.index.findListening('s', 'me')).toEqual([])
  })

  it('among those of its session, running and kept, until it goes', () => {
    const { table } = newTable({ window: 10_000 })
    const [a, b] = [open(table, requestOf).stream, open(table, requestOf).stream]
    open(table, { ...requestOf, owner: 'you' })
    complete(b, 7)
    expect(table.index.ofSession('s', 'me')).toEqual([a])
    expect(table.endedFor('s', 'me')).toEqual([b.record])
    a.cancel()
    expect(table.index.ofSession('s', 'me')).toEqual([])
    expect(table.endedFor('s', 'me')).toEqual([b.record])
    jest.advanceTimersByTime(1_000_000)
    expect(table.endedFor('s', 'me')).toEqual([])
  })
})

describe('when the process is about to end', () => {
  it('streams without a client are abandoned soon, those that are followed when their client does not come back', () => {
    const { table } = newTable({ abandonAfter: 600_000 })
    const [parked, followed] = [open(table), open(table)]
    const reader = new FakeReader()
    parked.stream.attach(reader, 0)
    parked.stream.detach(reader)
    followed.stream.attach(reader, 0)
    table.beginClosing(7000)
    jest.advanceTimersByTime(7000)
    expect([parked.stream.state, followed.stream.state]).toEqual(['abandoned', 'live'])
    followed.stream.detach(reader)
    jest.advanceTimersByTime(7000)
    expect(followed.stream.state).toBe('abandoned')
    expect([parked.producer.releases, followed.producer.releases]).toEqual([1, 1])
    expect(jest.getTimerCount()).toBe(0)
  })

  it('what is kept stays readable, what still comes is taken, and no timer holds the process', async () => {
    const { table } = newTable({ window: 1000, abandonAfter: 1000 })
    const { stream } = open(table, { id: streamId('a') })
    const reader = new FakeReader()
    stream.attach(reader, 0)
    table.beginClosing(7000)
    table.beginClosing(7000)
    append(stream, 'late')
    complete(stream)
    expect(deliver(stream)).toContain('late')
    stream.detach(reader)
    expect(isKept(table, 'a')).toBe(true)
    // What the cache needs to know the time by.
    jest.advanceTimersByTime(1)
    expect(jest.getTimerCount()).toBe(0)
  })

  it('it does not wait longer than it would have', () => {
    const { table } = newTable({ abandonAfter: 1000 })
    const { stream } = open(table)
    stream.signOfLife()
    table.beginClosing(7000)
    jest.advanceTimersByTime(999)
    expect(stream.state).toBe('live')
    jest.advanceTimersByTime(1)
    expect(stream.state).toBe('abandoned')
  })
})
