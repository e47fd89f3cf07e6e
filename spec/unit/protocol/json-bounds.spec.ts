// What a JSON text costs, without parsing it.

import { describe, expect, it } from '@jest/globals'
import { fc } from '../../helpers/property.js'
import { costOfJson, isArrayText } from '../../../lib/protocol/json-bounds.js'

const costOf = (text: string): number => costOfJson(Buffer.from(text))

const STRING = 24
const ELEMENT = 16
const ARRAY = 56
const OBJECT = 72
const MEMBER = 48

/** That of a parsed value. */
function costOfValue(value: unknown): number {
  if (typeof value === 'string') return STRING
  if (typeof value !== 'object' || value === null) return 0
  const parts = Object.values(value)
  const commas = Math.max(0, parts.length - 1) * ELEMENT
  const own = Array.isArray(value) ? ARRAY : OBJECT + parts.length * (MEMBER + STRING)
  return parts.reduce<number>((sum, one) => sum + costOfValue(one), own + commas)
}

describe('a JSON text', () => {
  it('costs what its value does, however it is written', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.nat(2), (value, indent) => {
        const text = JSON.stringify(value, undefined, indent)
        expect(costOf(text)).toBe(costOfValue(value))
        expect(isArrayText(Buffer.from(text))).toBe(Array.isArray(value))
      })
    )
  })

  it.each([
    ['"x"', STRING],
    ['{"a":1}', OBJECT + MEMBER + STRING],
    ['[{},[]]', 2 * ARRAY + ELEMENT + OBJECT],
    ['[1,2,3,4]', ARRAY + 3 * ELEMENT],
    [`"${'{[:,'.repeat(100)}"`, STRING],
    [`"${'\\"'.repeat(100)}"`, STRING],
    [`["${'\\\\'.repeat(100)}",{}]`, ARRAY + STRING + ELEMENT + OBJECT],
    [`["${'x'.repeat(200)}\\\\\\"{",{}]`, ARRAY + STRING + ELEMENT + OBJECT],
    [`["${'x'.repeat(63)}\\"{",{}]`, ARRAY + STRING + ELEMENT + OBJECT],
    [`["${'x'.repeat(64)}\\"{",{}]`, ARRAY + STRING + ELEMENT + OBJECT],
    [`["${'é'.repeat(200)}","\\u0022"]`, ARRAY + 2 * STRING + ELEMENT]
  ])('%.40s costs what stands outside of its strings', (text, cost) => {
    expect(costOf(text)).toBe(cost)
  })

  it.each([
    [' \n[1]', true],
    ['\ufeff[1]', true],
    ['{"a":[1]}', false],
    ['"["', false],
    ['1', false]
  ])('%j is an array: %s', (text, isArray) => {
    expect(isArrayText(Buffer.from(text))).toBe(isArray)
  })

  it.each(['', '"', '"\\', '[', ']}}', 'no JSON, "at all', `"${'x'.repeat(100)}`])(
    'that is cut off, or is not JSON, is read to its end: %j',
    text => {
      expect(costOf(text)).toBeLessThan(1000)
    }
  )
})
