// Memory is used again only when nobody can read it any more: two streams in one slab would read
// each other's messages.

import { describe, expect, it } from '@jest/globals'
import { LARGEST_SLAB, Segment } from '../../../lib/streams/segment.js'

/** What is counted. */
class Keeper {
  bytes = 0
  readonly lingering = new Set<Segment>()

  release(slab: Segment): void {
    this.bytes -= slab.bytes.length
    this.lingering.delete(slab)
  }

  lingers(slab: Segment): void {
    this.lingering.add(slab)
  }
}

function open(capacity = LARGEST_SLAB, keeper = new Keeper()): Segment {
  keeper.bytes += capacity
  return new Segment(capacity, 1, 0, keeper)
}

const nothing = () => undefined

/** Whether the next slab gets this memory. */
function isUsedAgain({ bytes }: Segment): boolean {
  const next = open()
  const isSame = next.bytes === bytes
  if (isSame) next.release()
  return isSame
}

describe('the memory of a slab', () => {
  it('is used again once its events are gone', () => {
    const slab = open()
    expect(isUsedAgain(slab)).toBe(false)
    slab.release()
    expect(isUsedAgain(slab)).toBe(true)
  })

  it('is not used again while it is lent, to however many', () => {
    const slab = open()
    const giveBack = [slab.lend(nothing), slab.lend(nothing), slab.lend(nothing)]
    giveBack[0]!()
    slab.release()
    expect(isUsedAgain(slab)).toBe(false)
    giveBack[2]!()
    expect(isUsedAgain(slab)).toBe(false)
    giveBack[1]!()
    expect(isUsedAgain(slab)).toBe(true)
  })

  it('is given back once by each, however often they say so', () => {
    const slab = open()
    const [once, other] = [slab.lend(nothing), slab.lend(nothing)]
    once()
    once()
    slab.release()
    once()
    expect(isUsedAgain(slab)).toBe(false)
    other()
    const [first, second] = [open(), open()]
    other()
    once()
    const third = open()
    expect(first.bytes).toBe(slab.bytes)
    expect(new Set([first.bytes, second.bytes, third.bytes]).size).toBe(3)
  })

  it('is not used again by events that are still kept', () => {
    const slab = open()
    slab.lend(nothing)()
    expect(isUsedAgain(slab)).toBe(false)
  })

  it('is used again only where it is of the one size that many have', () => {
    const small = open(512)
    small.release()
    expect(open(512).bytes).not.toBe(small.bytes)
    const large = open(2 * LARGEST_SLAB)
    large.release()
    expect(isUsedAgain(large)).toBe(false)
  })

  it('is kept for use only so far', () => {
    const slabs = Array.from({ length: 500 }, () => open())
    const all = new Set(slabs.map(({ bytes }) => bytes))
    for (const slab of slabs) slab.release()
    const again = Array.from({ length: 500 }, () => open()).filter(({ bytes }) => all.has(bytes))
    expect(again.length).toBeGreaterThan(0)
    expect(again.length).toBeLessThan(300)
  })

  it('is nobody else’s', () => {
    expect(open(512).bytes.buffer.byteLength).toBe(512)
  })
})

describe('what is counted of a slab', () => {
  it('is counted until its events are gone and everybody has given it back', () => {
    const keeper = new Keeper()
    const slab = open(1000, keeper)
    const giveBack = [slab.lend(nothing), slab.lend(nothing)]
    slab.release()
    expect([keeper.bytes, [...keeper.lingering]]).toEqual([1000, [slab]])
    giveBack[0]!()
    expect(keeper.bytes).toBe(1000)
    giveBack[1]!()
    expect([keeper.bytes, keeper.lingering.size]).toEqual([0, 0])
    giveBack[1]!()
    expect(keeper.bytes).toBe(0)
  })

  it('counts no more once it was wanted back from all who read it, and is used again only when they have given it back', () => {
    const keeper = new Keeper()
    const slab = open(LARGEST_SLAB, keeper)
    let recalls = 0
    const giveBack = [slab.lend(() => recalls++), slab.lend(() => recalls++)]
    slab.release()
    slab.recall()
    expect([keeper.bytes, keeper.lingering.size, recalls]).toEqual([0, 0, 2])
    expect(isUsedAgain(slab)).toBe(false)
    for (const each of giveBack) each()
    expect(keeper.bytes).toBe(0)
    expect(isUsedAgain(slab)).toBe(true)
  })

  it('is not wanted back while its stream runs', () => {
    const keeper = new Keeper()
    const slab = open(1000, keeper)
    slab.lend(nothing)
    slab.release(false)
    expect([keeper.bytes, keeper.lingering.size]).toEqual([1000, 0])
  })

  it('is not used again where one of those who read it may keep it', () => {
    const slab = open()
    const giveBack = slab.lend(nothing)
    slab.release()
    giveBack(false)
    expect(isUsedAgain(slab)).toBe(false)
  })
})

describe('a slab', () => {
  it('knows where its events end', () => {
    const slab = new Segment(512, 10, 1000, new Keeper())
    expect([slab.last, slab.endOf(9)]).toEqual([9, 0])
    slab.endAt(20)
    slab.endAt(50)
    expect([slab.last, slab.used, slab.endOf(9), slab.endOf(10), slab.endOf(11)]).toEqual([
      11, 50, 0, 20, 50
    ])
  })
})
