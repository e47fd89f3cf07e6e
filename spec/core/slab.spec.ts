// Memory is used again only when nobody can read it any more: two streams in one slab would read each other's messages.

import { describe, expect, it } from '@jest/globals'
import { LARGEST_SLAB, Slab } from '../../lib/core/slab.js'

const open = (capacity = LARGEST_SLAB) => new Slab(capacity, 1, 0)

/** Whether the next slab gets this memory. */
function isUsedAgain({ bytes }: Slab): boolean {
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
    const giveBack = [slab.lend(), slab.lend(), slab.lend()]
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
    const [once, other] = [slab.lend(), slab.lend()]
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
    slab.lend()()
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

describe('a slab', () => {
  it('knows where its events end', () => {
    const slab = new Slab(512, 10, 1000)
    expect([slab.last, slab.endOf(9)]).toEqual([9, 0])
    slab.endAt(20)
    slab.endAt(50)
    expect([slab.last, slab.used, slab.endOf(9), slab.endOf(10), slab.endOf(11)]).toEqual([11, 50, 0, 20, 50])
  })
})
