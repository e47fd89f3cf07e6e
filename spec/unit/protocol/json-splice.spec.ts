// Members of a JSON text change, and all other bytes stay.

import { describe, expect, it } from '@jest/globals'
import { fc, times } from '../../helpers/property.js'
import {
  memberTexts,
  spliceJson,
  withMembers,
  writtenMessages
} from '../../../lib/protocol/json-splice.js'
import type { Json } from '../../helpers/open-stream.js'

type Members = Record<string, unknown>

/** Changes a text by changing what is parsed of it. */
function changed(text: string, change: (value: Json) => unknown): string {
  const before = JSON.parse(text) as unknown
  return spliceJson(text, before, change(before))
}

describe('a JSON text', () => {
  it('keeps its bytes where nothing has changed', () => {
    const text = ' { "a" : 9007199254740993 , "b" : [ 1.10, 1e400, -0 ] }\n'
    expect(changed(text, value => value)).toBe(text)
    expect(changed(text, value => ({ ...value }))).toBe(text)
    expect(changed(text, value => ({ ...value, b: [...value.b] }))).toBe(text)
  })

  it.each<[string, (value: Json) => unknown, string]>([
    ['{"id":1,"n":1.10}', value => ({ ...value, id: 'x' }), '{"id":"x","n":1.10}'],
    ['{"n":1.10, "id" : [1, {"id":2}] }', value => ({ ...value, id: 2 }), '{"n":1.10, "id" : 2 }'],
    [
      '{"a":{"b":{"c":1,"d":1.0}},"e":1.0}',
      v => ({ ...v, a: { b: { ...v.a.b, c: 2 } } }),
      '{"a":{"b":{"c":2,"d":1.0}},"e":1.0}'
    ],
    ['[{"a":1.0},{"a":1.0}]', ([a, b]) => [a, { ...b, c: true }], '[{"a":1.0},{"a":1.0,"c":true}]'],
    ['[1.0, 2]', () => [1, 2, 3], '[1,2,3]'],
    ['{ }', () => ({ a: 1 }), '{"a":1 }'],
    ['{"\\u0061":1.0,"b":1.0}', value => ({ ...value, a: 5 }), '{"\\u0061":5,"b":1.0}'],
    ['{"a":"\\\\\\"}","b":1.0}', value => ({ ...value, a: '' }), '{"a":"","b":1.0}'],
    [
      '{"a":1.0,"__proto__":{"b":2.0}}',
      value => ({ ...value, a: 2 }),
      '{"a":2,"__proto__":{"b":2.0}}'
    ],
    ['1.0', () => 'x', '"x"']
  ])('%#: %s', (text, change, expected) => {
    expect(changed(text, change)).toBe(expected)
  })

  it.each([
    ['a', '{"b":1.0 , "c":1.0}'],
    ['b', '{"a":1.0 , "c":1.0}'],
    ['c', '{"a":1.0, "b":1.0}'],
    ['ab', '{"c":1.0}'],
    ['ac', '{"b":1.0}'],
    ['bc', '{"a":1.0}'],
    ['abc', '{}']
  ])('without %s is %s', (names, expected) => {
    const without = (value: Members) =>
      Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name)))
    expect(changed('{"a":1.0, "b":1.0 , "c":1.0}', without)).toBe(expected)
    expect(
      JSON.parse(changed('{"a":1.0, "b":1.0 , "c":1.0}', value => ({ ...without(value), d: 1 })))
    ).toEqual({
      ...without({ a: 1, b: 1, c: 1 }),
      d: 1
    })
  })

  it('with a name that occurs twice keeps the last one, if the object around it changes', () => {
    expect(changed('{"a":{"b":1,"b":2},"c":1.0}', v => ({ ...v, a: { b: 3 } }))).toBe(
      '{"a":{"b":3},"c":1.0}'
    )
    expect(changed('{"a":1.0,"b":2.0,"a":3.0}', v => ({ ...v, b: 1 }))).toBe('{"b":1,"a":3.0}')
    expect(changed('{"a":{"b":1,"b":2},"c":1.0}', v => ({ ...v, c: 2 }))).toBe(
      '{"a":{"b":1,"b":2},"c":2}'
    )
  })

  it('may be nested more deeply than the call stack allows', () => {
    const deep = '['.repeat(200_000) + ']'.repeat(200_000)
    expect(changed(`{"a":${deep},"b":1}`, value => ({ ...value, b: 2 }))).toBe(
      `{"a":${deep},"b":2}`
    )
  })

  it('has the new value after any change, whatever its white space', () => {
    const value = fc.jsonValue({ maxDepth: 4 })
    fc.assert(
      fc.property(value, value, fc.constantFrom(0, 1, '\t'), (before, after, space) => {
        const text = JSON.stringify(before, null, space)
        const parsed = JSON.parse(text) as unknown
        const plain = JSON.parse(JSON.stringify(after)) as unknown
        expect(JSON.parse(spliceJson(text, parsed, plain))).toEqual(plain)
      }),
      { numRuns: times(500) }
    )
  })

  it('has the new value after members were removed, added and changed', () => {
    // Not a quote alone beside a backslash alone: JSON.parse of Node 24.21 takes one for the other,
    // once it has seen both.
    const members = fc.dictionary(
      fc.constantFrom('a', 'b', 'a"', 'b\\', 'é', '__proto__'),
      fc.jsonValue({ maxDepth: 1 })
    )
    fc.assert(
      fc.property(members, members, (before, after) => {
        const parsed = JSON.parse(JSON.stringify(before)) as unknown
        const plain = JSON.parse(JSON.stringify(after)) as unknown
        expect(JSON.parse(spliceJson(JSON.stringify(before), parsed, plain))).toEqual(plain)
      }),
      { numRuns: times(500) }
    )
  })
})

describe('messages', () => {
  it.each([
    [' {"id":1.0} ', [' {"id":1.0} ']],
    ['[ {"id":1.0}, 2, {"a":[{}]} ]', ['{"id":1.0}', '{"a":[{}]}']],
    ['[]', []],
    ['1', []],
    ['{', []]
  ])('of %s are %j', (text, expected) => {
    const written = writtenMessages(text)
    expect(written.map(message => message.text)).toEqual(expected)
    expect(written.map(({ message }) => message)).toEqual(expected.map(one => JSON.parse(one)))
  })
})

describe('members as they were written', () => {
  it('are found by their names; if a name occurs twice, the last counts', () => {
    const text = ' { "a" : 1.0, "b":{"c":[1,2]}, "a":12345678901234567890 } '
    expect([...memberTexts(text)]).toEqual([
      ['a', '12345678901234567890'],
      ['b', '{"c":[1,2]}']
    ])
    expect(memberTexts('[1]').size).toBe(0)
    expect(memberTexts('{}').size).toBe(0)
  })

  it('replace others, or are removed, and the rest keeps its bytes', () => {
    const text = '{ "n": 1.00, "id": 5, "x" : [ 1 ] }'
    expect(withMembers(text, { id: '"new"', gone: undefined })).toBe(
      '{"n": 1.00,"x" : [ 1 ],"id":"new"}'
    )
    expect(withMembers(text, { n: undefined, x: undefined, id: undefined })).toBe('{}')
    expect(withMembers('{}', { a: '1' })).toBe('{"a":1}')
  })

  it.each(['null', '5', '"x"', '[1, 2]'])('of %s, which has none, are those alone', text => {
    expect(withMembers(text, { a: '1' })).toBe('{"a":1}')
    expect(memberTexts(text).size).toBe(0)
  })
})
