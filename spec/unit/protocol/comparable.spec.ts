// Only values that can be serialised quickly are compared with others.

import { describe, expect, it } from '@jest/globals'
import { isComparable } from '../../../lib/protocol/json-bounds.js'

const members = (count: number): unknown =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, i]))
const nested = (levels: number): unknown =>
  JSON.parse('[{"a":'.repeat(levels / 2) + '1' + '}]'.repeat(levels / 2))

describe('a value', () => {
  it.each([
    1,
    null,
    'x'.repeat(1_000_000),
    {},
    [],
    [1, [2, { a: null }]],
    nested(90),
    Array(49_999).fill(0),
    members(10_000),
    [Array(39_000).fill(0), members(5000), { a: members(4999) }]
  ])('of few parts is compared (%#)', value => {
    expect(isComparable(value)).toBe(true)
  })

  it.each([
    nested(120),
    nested(100_000),
    Array(50_001).fill(0),
    Array(300).fill(Array(300).fill(0)),
    members(10_001),
    [members(5000), { a: members(5000) }]
  ])('of many parts, or levels, is not (%#)', value => {
    expect(isComparable(value)).toBe(false)
  })

  it('that is too large is not walked through to its end', () => {
    let looks = 0
    const counted = (value: unknown[]) =>
      new Proxy(value, { get: (of, key) => (looks++, Reflect.get(of, key) as unknown) })
    expect(isComparable([Array(50_000).fill(0), counted(Array(40_000).fill(0))])).toBe(false)
    expect(isComparable(counted(Array(1_000_000).fill(0)))).toBe(false)
    expect(looks).toBeLessThan(10)
  })
})
