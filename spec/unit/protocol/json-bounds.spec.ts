// The size of a JSON text in parts and elements, without parsing it.

import { describe, expect, it } from '@jest/globals'
import { fc } from '../../helpers/property.js'
import { costOfJson } from '../../../lib/protocol/json-bounds.js'

const EVERYTHING = { parts: Infinity, elements: Infinity }
const sizeOf = (text: string, bounds: object) =>
  costOfJson(Buffer.from(text), { ...EVERYTHING, ...bounds }).size

/** Counts the parts of a parsed value. */
function partsIn(value: unknown): number {
  if (typeof value === 'string') return 1
  if (Array.isArray(value)) return value.reduce<number>((sum, one) => sum + partsIn(one), 2)
  if (typeof value !== 'object' || value === null) return 0
  return Object.values(value).reduce<number>((sum, one) => sum + 2 + partsIn(one), 2)
}

describe('a JSON text', () => {
  it('has as many parts as its value, however it is written', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.nat(2), (value, indent) => {
        const parts = partsIn(value)
        const text = JSON.stringify(value, undefined, indent)
        expect(sizeOf(text, { parts })).toBe('fine')
        if (parts > 0)
          expect(sizeOf(text, { parts: parts - 1 })).toBe(
            Array.isArray(value) ? 'large-batch' : 'large'
          )
      })
    )
  })

  it.each([
    ['"x"', 1],
    ['{"a":1}', 4],
    ['[{},[]]', 6],
    [`"${'{[:,'.repeat(100)}"`, 1],
    [`"${'\\"'.repeat(100)}"`, 1],
    [`["${'\\\\'.repeat(100)}",{}]`, 5],
    [`["${'x'.repeat(200)}\\\\\\"{",{}]`, 5],
    [`["${'x'.repeat(63)}\\"{",{}]`, 5],
    [`["${'x'.repeat(64)}\\"{",{}]`, 5],
    [`["${'é'.repeat(200)}","\\u0022"]`, 4]
  ])('%.40s has parts outside of its strings only', (text, parts) => {
    expect(sizeOf(text, { parts })).toBe('fine')
    expect(sizeOf(text, { parts: parts - 1 })).not.toBe('fine')
  })

  it('has no more elements than are allowed', () => {
    expect(sizeOf('{"a":[1,2,3]}', { elements: 2 })).toBe('fine')
    expect(sizeOf('{"a":[1,2,3,4]}', { elements: 2 })).toBe('large')
    expect(sizeOf(' [1,2,3,4]', { elements: 2 })).toBe('large-batch')
  })

  it.each(['', '"', '"\\', '[', ']}}', 'no JSON, "at all', `"${'x'.repeat(100)}`])(
    'that is cut off, or is not JSON, is read to its end: %j',
    text => {
      expect(sizeOf(text, {})).toBe('fine')
    }
  )
})
