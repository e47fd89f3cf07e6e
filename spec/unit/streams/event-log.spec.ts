// The log against an array of events, and what it holds of memory.

import { describe, expect, it } from '@jest/globals'
import { fc, times } from '../../helpers/property.js'
import { Budget } from '../../../lib/streams/budget.js'
import { EventLog } from '../../../lib/streams/event-log.js'
import type { Pieces } from '../../../lib/streams/record.js'

const STREAM = { id: 'x', requestIds: [] }
const PREFIX = 'id: x.'

function newLog(max = Infinity) {
  const budget = new Budget(max)
  return { budget, log: new EventLog(STREAM, budget) }
}

function append(log: EventLog, text: string, isUrgent?: boolean): boolean {
  const bytes = Buffer.from(`##${text}##`)
  return log.append(bytes, 2, bytes.length - 2, isUrgent)
}

/** Everything after a cursor, as text. */
function textAfter(log: EventLog, cursor: number): string {
  let text = ''
  while (cursor < log.last) {
    const batch = log.read(cursor)
    text += Buffer.from(batch.bytes).toString()
    cursor = batch.last
  }
  return text
}

/** Writes everything after a cursor, or as much as reaches a sequence. */
function write(log: EventLog, cursor: number, now = 1, until = log.last): void {
  while (cursor < until) {
    const batch = log.read(cursor)
    log.markWritten(batch, now)
    cursor = batch.last
  }
}

const wire = (sequence: number, text: string) => `${PREFIX}${sequence}\n${text}`

describe('the event log', () => {
  it('puts the id in front of each event, and reads what comes after a cursor', () => {
    const { log } = newLog()
    for (const text of ['data: a\n\n', 'data: ü€😀\n\n', 'data: c\n\n']) append(log, text)
    expect(log.last).toBe(3)
    expect(textAfter(log, 0)).toBe(
      wire(1, 'data: a\n\n') + wire(2, 'data: ü€😀\n\n') + wire(3, 'data: c\n\n')
    )
    expect(textAfter(log, 2)).toBe(wire(3, 'data: c\n\n'))
    expect(textAfter(log, 3)).toBe('')
  })

  it('gives one event by itself, as long as it is kept', () => {
    const { log } = newLog()
    const texts = ['a', 'b'.repeat(70_000), 'c']
    for (const text of texts) append(log, text)
    const one = (sequence: number) => log.event(sequence)?.toString()
    expect([1, 2, 3].map(one)).toEqual(texts.map((text, i) => `${PREFIX}${i + 1}\n${text}`))
    write(log, 0, 1, 2)
    log.evict(Infinity, 2)
    expect([0, 1, 2, 4].map(one)).toEqual([undefined, undefined, undefined, undefined])
    expect(one(3)).toBe(`${PREFIX}3\nc`)
  })

  it('retains what it reads, from each cursor, and counts nothing as unwritten at first', () => {
    const { log } = newLog()
    expect(log.unwrittenBytes).toBe(0)
    for (let n = 1; n <= 40; n++) append(log, 'x'.repeat(100))
    for (let cursor = 0; cursor < log.last; cursor++) {
      const retained = log.retain(cursor, { recalled() {} })
      const { bytes, last } = log.read(cursor)
      expect([Buffer.from(retained.bytes).toString(), retained.last]).toEqual([
        Buffer.from(bytes).toString(),
        last
      ])
      retained.release()
    }
  })

  it('finds each of the many small events in its full segments', () => {
    const { log } = newLog()
    for (let n = 1; n <= 5000; n++) append(log, `${n}\n`)
    for (let cursor = 0; cursor < log.last; cursor += 7) {
      const text = Buffer.from(log.read(cursor).bytes).toString()
      expect(text.startsWith(wire(cursor + 1, `${cursor + 1}\n`))).toBe(true)
    }
  })

  it('stays where it is when an older batch is said to be written after a newer one', () => {
    const { log } = newLog()
    for (let n = 1; n <= 40; n++) append(log, 'x'.repeat(100))
    const older = log.read(0)
    write(log, 0)
    log.markWritten(older, 2)
    expect([log.written, log.unwrittenBytes]).toEqual([40, 0])
    expect(older.last).toBeLessThan(40)
  })

  it('evicts no more at a time than a part of what may be kept of it', () => {
    const log = new EventLog(STREAM, new Budget(Infinity), '', 8192)
    for (let n = 1; n <= 100; n++) append(log, 'x'.repeat(100))
    write(log, 0)
    while (log.first < 100) {
      const before = log.bytes
      if (log.evict(Infinity, log.last, 1) === 0) break
      expect(before - log.bytes).toBeLessThanOrEqual(2048)
    }
    expect(log.last).toBe(100)
  })

  it('leaves ids out where it is asked to', () => {
    const log = new EventLog(undefined, new Budget(Infinity))
    append(log, 'a')
    append(log, 'b')
    expect(textAfter(log, 0)).toBe('ab')
  })

  it('copies an event once, and never touches a batch again', () => {
    const { log } = newLog()
    append(log, 'one')
    const batch = log.retain(0, { recalled: () => undefined })
    const before = Buffer.from(batch.bytes).toString()
    for (let i = 0; i < 1000; i++) append(log, `event ${i}`)
    expect(log.read(0).bytes.buffer).toBe(batch.bytes.buffer)
    write(log, 0)
    log.evict(Infinity, log.last)
    expect(Buffer.from(batch.bytes).toString()).toBe(before)
  })

  it('takes events of any size, the large ones to the byte', () => {
    const { log, budget } = newLog()
    const large = 'x'.repeat(1024 * 1024)
    append(log, 'small')
    append(log, large)
    append(log, 'small again')
    append(log, '')
    expect(textAfter(log, 0)).toBe(
      wire(1, 'small') + wire(2, large) + wire(3, 'small again') + wire(4, '')
    )
    expect(log.bytes).toBe(budget.used)
    expect(log.bytes - large.length).toBeLessThan(70 * 1024)
  })

  it('holds little more than its events: nothing at first, half a kilobyte from the second on, twice as much at most, a tenth more in the end', () => {
    const { log } = newLog()
    append(log, 'x')
    let sum = wire(1, 'x').length
    expect(log.bytes).toBe(sum)
    for (let i = 2; i <= 10_000; i++) {
      append(log, 'x'.repeat(100))
      sum += wire(i, 'x'.repeat(100)).length
      expect(log.bytes).toBeLessThanOrEqual(2 * sum + 2048)
    }
    expect(log.bytes).toBeLessThanOrEqual(1.1 * sum)
  })

  it('gives back large runs at once, whatever the number of events', () => {
    const { log } = newLog()
    for (let i = 0; i < 10_000; i++) append(log, 'x'.repeat(50))
    let batches = 0
    for (let cursor = 0; cursor < log.last; batches++) cursor = log.read(cursor).last
    expect(batches).toBeLessThan(30)
  })

  describe('without memory', () => {
    it('refuses an event and is as it was', () => {
      const { log, budget } = newLog(600)
      expect(append(log, 'x'.repeat(400))).toBe(true)
      expect(append(log, 'y'.repeat(400))).toBe(false)
      const { length } = wire(1, 'x'.repeat(400))
      expect([log.last, log.bytes, budget.used]).toEqual([1, length, length])
      expect(textAfter(log, 0)).toBe(wire(1, 'x'.repeat(400)))
    })

    it('asks for no more than it needs before it gives up', () => {
      const { log, budget } = newLog(600)
      append(log, 'x'.repeat(490))
      expect(append(log, 'y'.repeat(60))).toBe(true)
      expect(budget.used).toBe(wire(1, '').length + 490 + wire(2, '').length + 60)
      expect(append(log, 'z'.repeat(60))).toBe(false)
    })

    it('takes an urgent event all the same, and no byte more for it', () => {
      const { log, budget } = newLog(0)
      expect(append(log, 'x')).toBe(false)
      expect(append(log, 'x', true)).toBe(true)
      expect(textAfter(log, 0)).toBe(wire(1, 'x'))
      expect(budget.used).toBe(wire(1, 'x').length)
    })
  })

  describe('evicts', () => {
    /** Segments of one event each. */
    const withLargeEvents = (n: number) => {
      const { log, budget } = newLog()
      for (let i = 0; i < n; i++) append(log, 'x'.repeat(70_000))
      return { log, budget, size: log.bytes / n }
    }

    it('nothing that has not been written', () => {
      const { log } = withLargeEvents(3)
      expect(log.evict(Infinity, log.written)).toBe(0)
      write(log, 0, 1, 1)
      expect(log.evict(Infinity, log.written)).toBe(1)
      expect([log.first, log.last]).toEqual([2, 3])
      expect(textAfter(log, 1)).toHaveLength(2 * wire(2, 'x'.repeat(70_000)).length)
    })

    it('what was written before a time, and not at that time', () => {
      const { log, size, budget } = withLargeEvents(3)
      write(log, 0, 100, 1)
      write(log, 1, 200, 2)
      expect(log.evict(100, log.written)).toBe(0)
      expect(log.evict(101, log.written)).toBe(1)
      expect(log.evict(200, log.written)).toBe(0)
      expect(log.evict(201, log.written)).toBe(1)
      expect(budget.used).toBe(size)
    })

    it('nothing above a sequence', () => {
      const { log } = withLargeEvents(3)
      write(log, 0)
      expect(log.evict(Infinity, 1)).toBe(1)
      expect(log.first).toBe(2)
    })

    it('no more than enough', () => {
      const { log, size } = withLargeEvents(5)
      write(log, 0)
      expect(log.evict(Infinity, log.written, size + 1)).toBe(2)
      expect(log.evict(Infinity, log.written, 0)).toBe(0)
      expect(log.first).toBe(3)
    })

    it('everything, when all is written: a quiet stream holds nothing', () => {
      const { log, budget } = newLog()
      for (let i = 0; i < 10; i++) append(log, 'x')
      write(log, 0)
      expect(log.evict(Infinity, log.written)).toBe(10)
      expect([log.first, log.last, log.bytes, budget.used]).toEqual([11, 10, 0, 0])
      append(log, 'y')
      expect(textAfter(log, 10)).toBe(wire(11, 'y'))
      expect(log.bytes).toBe(512)
    })

    it('later, what has been written again', () => {
      const { log } = withLargeEvents(2)
      write(log, 0, 100)
      write(log, 0, 200, 1)
      expect(log.evict(150, log.written)).toBe(0)
    })
  })

  describe('counts as unwritten', () => {
    const size = (...texts: string[]) => texts.reduce((sum, text) => sum + wire(1, text).length, 0)

    it('what no connection has been given', () => {
      const { log } = newLog()
      append(log, 'aa')
      append(log, 'b')
      expect(log.unwrittenBytes).toBe(size('aa', 'b'))
      write(log, 0)
      expect(log.unwrittenBytes).toBe(0)
      append(log, 'ccc')
      expect(log.unwrittenBytes).toBe(size('ccc'))
      expect(log.written).toBe(2)
    })

    it('what the newest reader asks for again', () => {
      const { log } = newLog()
      for (const text of ['a', 'bb', 'ccc']) append(log, text)
      write(log, 0)
      log.startFrom(1)
      expect([log.written, log.unwrittenBytes]).toEqual([1, size('bb', 'ccc')])
      log.startFrom(0)
      expect([log.written, log.unwrittenBytes]).toEqual([0, size('a', 'bb', 'ccc')])
    })

    it('not what the newest reader has already, where the one before has not come so far', () => {
      const { log } = newLog()
      for (const text of ['a', 'bb', 'ccc']) append(log, text)
      write(log, 0)
      log.startFrom(0)
      log.startFrom(2)
      expect([log.written, log.unwrittenBytes]).toEqual([2, size('ccc')])
      log.startFrom(3)
      expect([log.written, log.unwrittenBytes]).toEqual([3, 0])
    })

    it('nothing that is gone', () => {
      const { log } = newLog()
      for (let i = 0; i < 3; i++) append(log, 'x'.repeat(70_000))
      write(log, 0)
      log.evict(Infinity, 2)
      log.startFrom(0)
      expect([log.written, log.unwrittenBytes]).toEqual([2, size('x'.repeat(70_000))])
      log.clear()
      log.startFrom(0)
      expect([log.written, log.unwrittenBytes, log.bytes]).toEqual([3, 0, 0])
      append(log, 'y')
      expect([log.unwrittenBytes, textAfter(log, 3)]).toEqual([size('y'), wire(4, 'y')])
    })

    it('what a reader passes over that claims to have it, until it reads on', () => {
      const { log } = newLog()
      for (const text of ['a', 'b', 'c']) append(log, text)
      write(log, 2)
      expect([log.written, log.unwrittenBytes]).toEqual([3, 0])
    })
  })

  describe('that is over, and large', () => {
    const filled = () => {
      const made = newLog()
      for (let i = 0; i < 40; i++) append(made.log, `${i}`.padEnd(5000, 'x'))
      return made
    }
    const given = (log: EventLog): Pieces => {
      const { bytes } = log.whole(true)
      log.clear()
      if (!('pieces' in bytes)) throw new Error('joined')
      return bytes
    }

    it('gives its memory away as it is, and nobody writes there until it is taken back', () => {
      const { budget, log } = filled()
      const text = textAfter(log, 0)
      const kept = given(log)
      expect(budget.used).toBe(0)
      filled()
      expect(Buffer.concat(kept.pieces).toString()).toBe(text)
      expect(kept.length).toBe(text.length)
      kept.takeBack()
      const other = filled().log
      const all = kept.pieces.map(({ buffer }) => buffer)
      expect(all).toContain(other.read(other.last - 20).bytes.buffer)
    })

    it('counts what a reader still has when it is taken back', () => {
      const { budget, log } = filled()
      const first = log.retain(0, { recalled: () => undefined })
      const text = Buffer.from(first.bytes).toString()
      given(log).takeBack()
      expect(budget.used).toBe(first.bytes.buffer.byteLength)
      filled()
      expect(Buffer.from(first.bytes).toString()).toBe(text)
      first.release()
      expect(budget.used).toBe(0)
    })

    it('is copied while it goes on, or where much of its memory is not in use', () => {
      expect('pieces' in filled().log.whole(false).bytes).toBe(false)
      const { log } = newLog()
      for (let i = 0; i < 4; i++) append(log, 'x'.repeat(40_000))
      expect('pieces' in log.whole(true).bytes).toBe(false)
    })
  })

  it('is an array of events, whatever happens to it', () => {
    const operations = fc.oneof(
      {
        weight: 5,
        arbitrary: fc.tuple(fc.constant('append' as const), fc.oneof(fc.nat(200), fc.nat(70_000)))
      },
      { weight: 3, arbitrary: fc.tuple(fc.constant('write' as const), fc.nat(10)) },
      { weight: 1, arbitrary: fc.tuple(fc.constant('start' as const), fc.nat(30)) },
      { weight: 1, arbitrary: fc.tuple(fc.constant('expire' as const), fc.nat(20)) },
      { weight: 1, arbitrary: fc.tuple(fc.constant('make room' as const), fc.nat(100_000)) },
      { weight: 1, arbitrary: fc.tuple(fc.constant('clear' as const), fc.constant(0)) }
    )
    fc.assert(
      fc.property(
        fc.array(operations, { maxLength: 60 }),
        fc.integer({ min: 1000, max: 300_000 }),
        (operations, max) => {
          const { log, budget } = newLog(max)
          const events: string[] = []
          let cursor = 0
          let now = 0
          for (const [name, amount] of operations) {
            now++
            if (name === 'append') {
              const text = `${events.length}`.padEnd(amount, '.')
              if (append(log, text)) events.push(wire(events.length + 1, text))
            } else if (name === 'write') {
              cursor = Math.max(cursor, log.first - 1)
              for (let i = 0; i < amount && cursor < log.last; i++) {
                const batch = log.read(cursor)
                log.markWritten(batch, now)
                cursor = batch.last
              }
            } else if (name === 'start') {
              cursor = Math.min(amount, cursor)
              log.startFrom(cursor)
              cursor = Math.max(cursor, log.first - 1)
            } else if (name === 'expire') log.evict(now - amount, log.written)
            else if (name === 'make room') log.evict(Infinity, log.written, amount)
            else log.clear()

            expect(log.last).toBe(events.length)
            expect(log.written).toBeGreaterThanOrEqual(log.first - 1)
            expect(textAfter(log, log.first - 1)).toBe(events.slice(log.first - 1).join(''))
            for (const sequence of [log.first, log.last])
              expect(log.event(sequence)?.toString()).toBe(
                log.first > log.last ? undefined : events[sequence - 1]
              )
            expect(log.unwrittenBytes).toBe(events.slice(log.written).join('').length)
            expect(log.bytes).toBe(budget.used)
            expect(log.bytes).toBeLessThanOrEqual(max)
            expect(log.bytes).toBeGreaterThanOrEqual(events.slice(log.first - 1).join('').length)
          }
        }
      ),
      { numRuns: times(300) }
    )
  })
})
