// Memory is used again only when nobody can read it any more: two streams in one segment would read
// each other's messages.

import { describe, expect, it } from '@jest/globals'
import { Budget } from '../../../lib/streams/budget.js'
import { LARGEST_SEGMENT, RetainedBatch, Segment } from '../../../lib/streams/segment.js'

function open(capacity = LARGEST_SEGMENT, budget = new Budget(Infinity)): Segment {
  budget.hold('', capacity)
  return new Segment(capacity, 1, 0, budget)
}

const NOBODY = { recalled: () => undefined }

/** A reader that has all of a segment still. */
const retain = (segment: Segment, reader = NOBODY) =>
  new RetainedBatch(segment, segment.first - 1, reader)

/** Whether the next segment gets this memory. */
function isUsedAgain({ bytes }: Segment): boolean {
  const next = open()
  const isSame = next.bytes === bytes
  if (isSame) next.evict()
  return isSame
}

describe('the memory of a segment', () => {
  it('is used again once its events are gone', () => {
    const segment = open()
    expect(isUsedAgain(segment)).toBe(false)
    segment.evict()
    expect(isUsedAgain(segment)).toBe(true)
  })

  it('is not used again while anybody retains it', () => {
    const segment = open()
    const retained = [retain(segment), retain(segment), retain(segment)]
    retained[0]!.release()
    segment.evict()
    expect(isUsedAgain(segment)).toBe(false)
    retained[2]!.release()
    expect(isUsedAgain(segment)).toBe(false)
    retained[1]!.release()
    expect(isUsedAgain(segment)).toBe(true)
  })

  it('is released once by each, however often they say so', () => {
    const segment = open()
    const [once, other] = [retain(segment), retain(segment)]
    once.release()
    once.release()
    segment.evict()
    once.release()
    expect(isUsedAgain(segment)).toBe(false)
    other.release()
    const [first, second] = [open(), open()]
    other.release()
    once.release()
    const third = open()
    expect(first.bytes).toBe(segment.bytes)
    expect(new Set([first.bytes, second.bytes, third.bytes]).size).toBe(3)
  })

  it('is not used again by events that are still kept', () => {
    const segment = open()
    retain(segment).release()
    expect(isUsedAgain(segment)).toBe(false)
  })

  it('is used again only where it is of the one size that many have', () => {
    const small = open(512)
    small.evict()
    expect(open(512).bytes).not.toBe(small.bytes)
    const large = open(2 * LARGEST_SEGMENT)
    large.evict()
    expect(isUsedAgain(large)).toBe(false)
  })

  it('is kept for use only so far', () => {
    const segments = Array.from({ length: 500 }, () => open())
    const all = new Set(segments.map(({ bytes }) => bytes))
    for (const segment of segments) segment.evict()
    const again = Array.from({ length: 500 }, () => open()).filter(({ bytes }) => all.has(bytes))
    expect(again.length).toBeGreaterThan(0)
    expect(again.length).toBeLessThan(300)
  })

  it('is nobody else’s', () => {
    expect(open(512).bytes.buffer.byteLength).toBe(512)
  })
})

describe('what is counted of a segment', () => {
  it('is counted until its events are gone and everybody has released it', () => {
    const budget = new Budget(Infinity)
    const segment = open(1000, budget)
    const retained = [retain(segment), retain(segment)]
    segment.evict()
    expect([budget.used, budget.next('')]).toEqual([1000, segment])
    retained[0]!.release()
    expect(budget.used).toBe(1000)
    retained[1]!.release()
    expect([budget.used, budget.next('')]).toEqual([0, undefined])
    retained[1]!.release()
    expect(budget.used).toBe(0)
  })

  it('counts no more once it was wanted back from all who read it, and is used again only when they have released it', () => {
    const budget = new Budget(Infinity)
    const segment = open(LARGEST_SEGMENT, budget)
    let recalls = 0
    const reader = { recalled: () => void recalls++ }
    const retained = [retain(segment, reader), retain(segment, reader)]
    segment.evict()
    segment.recall()
    expect([budget.used, budget.next(''), recalls]).toEqual([0, undefined, 2])
    expect(isUsedAgain(segment)).toBe(false)
    for (const each of retained) each.release()
    expect(budget.used).toBe(0)
    expect(isUsedAgain(segment)).toBe(true)
  })

  it('is not wanted back while its stream runs', () => {
    const budget = new Budget(Infinity)
    const segment = open(1000, budget)
    retain(segment)
    segment.evict(false)
    expect([budget.used, budget.next('')]).toEqual([1000, undefined])
  })

  it('is not used again where one of those who read it may keep it', () => {
    const segment = open()
    const retained = retain(segment)
    segment.evict()
    retained.release(false)
    expect(isUsedAgain(segment)).toBe(false)
  })
})

describe('a segment', () => {
  it('knows where its events end', () => {
    const segment = new Segment(512, 10, 1000, new Budget(Infinity))
    expect([segment.last, segment.endOf(9)]).toEqual([9, 0])
    segment.endAt(20)
    segment.endAt(50)
    expect([
      segment.last,
      segment.used,
      segment.endOf(9),
      segment.endOf(10),
      segment.endOf(11)
    ]).toEqual([11, 50, 0, 20, 50])
  })
})
