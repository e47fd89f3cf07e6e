// White space and long numbers in JSON texts, which parsing would not preserve.

import { describe, expect, it } from '@jest/globals'
import { fc } from '../../helpers/property.js'
import { compactJson, longNumbers } from '../../../lib/protocol/json-text.js'

describe('a text without white space', () => {
  it('is the same as from JSON.stringify', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(0, 1, 4, '\t'), (value, indent) => {
        expect(compactJson(JSON.stringify(value, undefined, indent))).toBe(JSON.stringify(value))
      })
    )
  })

  it.each([
    [' { "a b" : [ 1 ,\r\n"c\\" d" ] } ', '{"a b":[1,"c\\" d"]}'],
    ['[1.10, 9007199254740993]', '[1.10,9007199254740993]'],
    ['"x" ', '"x"']
  ])('%j', (text, compact) => {
    expect(compactJson(text)).toBe(compact)
  })
})

describe('numbers that JavaScript may not tell apart', () => {
  it.each<[string, string[]]>([
    ['{"a":9007199254740993,"b":1}', ['9007199254740993']],
    [
      '[ 0.12345678901234567 , -9007199254740993e2]',
      ['0.12345678901234567', '-9007199254740993e2']
    ],
    ['9007199254740993', ['9007199254740993']],
    ['{"a":"9007199254740993","9007199254740993":true}', []],
    ['{"a":"x\\",9007199254740993,","b":[null]}', []],
    ['[123456789012345,1.5,-1e400]', []]
  ])('%s', (text, numbers) => {
    expect(longNumbers(text)).toEqual(numbers)
  })
})
