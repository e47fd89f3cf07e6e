// A link must lead back to the same endpoint of the same origin, whatever URL it is made from.

import { describe, expect, it } from '@jest/globals'
import { fc, times } from '../../helpers/property.js'
import { parseStreamName } from '../../../lib/protocol/event-id.js'
import {
  findLink,
  formatLink,
  streamParameters,
  streamTarget,
  withoutStream
} from '../../../lib/protocol/link-header.js'

const ID = 'V1StGXR8_Z5jdHi6B-myT'
const OLD = 'old_stream-0123456789'
const isName = (value: string): boolean => parseStreamName(value) !== undefined
/** Characters that nobody reads in two ways in a target between angle brackets. */
const SAFE = /^\?[A-Za-z0-9\-._~:/?[\]@!$&'()*+,;=%]*$/

describe('the target of a stream link', () => {
  it.each([
    ['/mcp', `?stream=${ID}`],
    ['/mcp?', `?stream=${ID}`],
    ['/', `?stream=${ID}`],
    ['', `?stream=${ID}`],
    ['/mcp?a=1', `?a=1&stream=${ID}`],
    ['/mcp?a=1&b=&c', `?a=1&b=&c&stream=${ID}`],
    ['/mcp?a=1&&b=2&', `?a=1&b=2&stream=${ID}`],
    ['/mcp?a=b?c', `?a=b?c&stream=${ID}`],
    [`/mcp?stream=${OLD}`, `?stream=${ID}`],
    [`/mcp?stream=${OLD}&a=1&stream=${ID}~7`, `?a=1&stream=${ID}`],
    [`/mcp?s%74ream=${OLD}&%73%74%72%65%61%6D=%6F${OLD.slice(1)}`, `?stream=${ID}`],
    [`/mcp?stream=true&stream=${OLD}&stream&stream=`, `?stream=true&stream&stream=&stream=${ID}`],
    [`/mcp?s%74ream=1&stream=${OLD}.1`, `?s%74ream=1&stream=${OLD}.1&stream=${ID}`],
    ['/mcp?streams=1&Stream=2&xstream=3', `?streams=1&Stream=2&xstream=3&stream=${ID}`],
    ['/mcp?token=%41%2Fb%20c+d', `?token=%41%2Fb%20c+d&stream=${ID}`],
    ['/mcp?a=%zz&b=%', `?a=%zz&b=%&stream=${ID}`],
    ['http://evil.example/other?a=1', `?a=1&stream=${ID}`],
    ['//evil.example/x?a=1', `?a=1&stream=${ID}`]
  ])('made from %j is %j', (url, target) => {
    expect(streamTarget(url, ID)).toBe(target)
  })

  it.each([
    ['/mcp?a=<b>', '?a=%3Cb%3E'],
    ['/mcp?a="b"', '?a=%22b%22'],
    ['/mcp?a=b c\td', '?a=b%20c%09d'],
    ['/mcp?a=\\\\evil.example', '?a=%5C%5Cevil.example'],
    ['/mcp?a=^`{|}', '?a=%5E%60%7B%7C%7D'],
    ['/mcp?a=#b', '?a=%23b'],
    [
      '/mcp?a=>; rel="next", <//evil.example>; rel="stream',
      '?a=%3E;%20rel=%22next%22,%20%3C//evil.example%3E;%20rel=%22stream'
    ],
    ['/mcp?a=\r\nSet-Cookie: x=1', '?a=%0D%0ASet-Cookie:%20x=1'],
    ['/mcp?a=\0', '?a=%00'],
    ['/mcp?a=é€😀', '?a=%C3%A9%E2%82%AC%F0%9F%98%80'],
    ['/mcp?a=\ud83d', '?a=%EF%BF%BD']
  ])('made from %j says %j', (url, start) => {
    expect(streamTarget(url, ID)).toBe(`${start}&stream=${ID}`)
  })

  it('resolves to the same origin and path, and names the stream once, whatever the query', () => {
    const unit = fc.oneof(
      fc.constantFrom(
        ...[
          '&',
          '=',
          '?',
          '/',
          '//',
          '\\',
          '..',
          '#',
          '%',
          '%2f',
          '%00',
          '<',
          '>',
          '"',
          ';',
          ',',
          ' ',
          ':',
          '@'
        ]
      ),
      fc.constantFrom(
        'stream',
        'stream=',
        's%74ream=',
        'http://evil.example/',
        'javascript:',
        '\r\n',
        '\0',
        '\ud800'
      ),
      fc.string({ unit: 'binary', maxLength: 3 })
    )
    const query = fc.array(unit, { maxLength: 12 }).map(parts => parts.join(''))
    const base = fc.constantFrom(
      'https://host.example/mcp',
      'http://127.0.0.1:8080/',
      'https://host.example/a/b//c/%2e/mcp'
    )
    fc.assert(
      fc.property(query, base, (query, base) => {
        const target = streamTarget(`/whatever?${query}`, ID)
        expect(target).toMatch(SAFE)
        const resolved = new URL(target, base)
        expect(resolved.origin).toBe(new URL(base).origin)
        expect(resolved.pathname).toBe(new URL(base).pathname)
        expect(resolved.searchParams.getAll('stream').filter(isName)).toEqual([ID])
        expect(resolved.hash).toBe('')
        expect(streamParameters(`${resolved.pathname}${resolved.search}`).filter(isName)).toEqual([
          ID
        ])
        // A link of a link is the same link.
        expect(streamTarget(`/mcp${target}`, ID)).toBe(target)
      }),
      { numRuns: times(3000) }
    )
  })

  it('leaves out the other parameters if they are too long', () => {
    expect(streamTarget(`/mcp?a=${'x'.repeat(8000)}`, ID)).toMatch(/^\?a=x{8000}&stream=/)
    expect(streamTarget(`/mcp?a=${'x'.repeat(9000)}`, ID)).toBe(`?stream=${ID}`)
    expect(streamTarget(`/mcp?a=${'"'.repeat(5000)}`, ID)).toBe(`?stream=${ID}`)
    expect(streamTarget(`/mcp?${'a&'.repeat(500_000)}`, ID)).toBe(`?stream=${ID}`)
  })

  it('keeps the other parameters, in their order and with their meaning', () => {
    const pair = fc.tuple(
      fc.string({ minLength: 1, unit: 'grapheme' }),
      fc.string({ unit: 'grapheme' })
    )
    fc.assert(
      fc.property(fc.array(pair), pairs => {
        const query = new URLSearchParams(pairs).toString()
        const { searchParams } = new URL(
          streamTarget(`/mcp?${query}`, ID),
          'http://host.example/mcp'
        )
        expect([...searchParams]).toEqual([...new URLSearchParams(pairs), ['stream', ID]])
      })
    )
  })
})

describe('a URL without its stream', () => {
  it.each([
    ['/mcp', '/mcp'],
    ['/mcp?', '/mcp'],
    [`/mcp?stream=${ID}`, '/mcp'],
    [`/mcp?a=1&stream=${ID}&b=%20&s%74ream=${ID}~3`, '/mcp?a=1&b=%20'],
    [`/mcp?stream=true&stream=${ID}`, '/mcp?stream=true'],
    ['/mcp?a=?&streams=1', '/mcp?a=?&streams=1']
  ])('of %j is %j', (url, without) => {
    expect(withoutStream(url)).toBe(without)
  })

  it('has no other name of the stream either', () => {
    expect(withoutStream('/mcp?stream=a&stream=a-key', 'a-key')).toBe('/mcp?stream=a')
  })
})

describe('the stream parameter of a URL', () => {
  it.each<[string, string[]]>([
    ['/mcp', []],
    ['/mcp?', []],
    ['/mcp?a=stream', []],
    ['/mcp?streams=1', []],
    ['/mcp?STREAM=1', []],
    ['/stream?a=1', []],
    ['/stream=1', []],
    ['/mcp?stream=a', ['a']],
    ['/mcp?stream=', ['']],
    ['/mcp?stream', ['']],
    ['/mcp?x=1&stream=a', ['a']],
    ['/mcp?stream=a&stream=b', ['a', 'b']],
    ['/mcp?stream=a=b', ['a=b']],
    ['/mcp?stream=%61', ['a']],
    ['/mcp?%73tream=a', ['a']],
    ['/mcp?%73%74%72%65%61%6d=a&stream=b', ['a', 'b']],
    ['/mcp?stream=%zz', ['%zz']],
    ['/mcp?stream=%', ['%']],
    ['/mcp?stream=%c3%28', ['%c3%28']],
    ['/mcp?%zz=a', []],
    ['/mcp?a?stream=b', []]
  ])('in %j is %j', (url, values) => {
    expect(streamParameters(url)).toEqual(values)
  })

  it('may be thousands of characters long, and is not looked for in a longer URL', () => {
    const long = 'x'.repeat(15 * 1024)
    expect(streamParameters(`/mcp?stream=${long}`)).toEqual([long])
    expect(streamParameters(`/mcp?stream=${long}${long}`)).toEqual([])
    expect(streamParameters(`/mcp?${'stream=a&'.repeat(100_000)}`)).toEqual([])
  })
})

describe('a link', () => {
  it('has the form of RFC 8288', () => {
    expect(formatLink(`?stream=${ID}`, 'stream')).toBe(`<?stream=${ID}>; rel="stream"`)
  })

  it.each(['<> "\\"', '<>"', '<>;"a', '<', '<a>;"'])(
    'is looked for in a limited number of places, of %j',
    part => {
      const own = formatLink(streamTarget('/mcp', ID), 'stream')
      const find = (value: string) => findLink(value, 'stream', 'https://host.example/mcp')
      expect(find(part.repeat(100_000))).toBeUndefined()
      expect(find(`${'</next>; rel="next", '.repeat(90)}${own}`)).toBeDefined()
      expect(find(`${'</next>; rel="next", '.repeat(110)}${own}`)).toBeUndefined()
    }
  )

  it('is found among others', () => {
    const own = formatLink(streamTarget('/mcp?a=<x>, y;', ID), 'stream')
    const others = '</next>; rel="next"; title="a, <b>; c"'
    const base = 'https://host.example/mcp?a=old'
    for (const value of [own, `${others}, ${own}`, `${own}, ${others}`]) {
      const found = findLink(value, 'stream', base)
      expect(found?.origin).toBe('https://host.example')
      expect(found?.pathname).toBe('/mcp')
      expect(found?.searchParams.get('stream')).toBe(ID)
    }
    expect(findLink(others, 'stream', base)).toBeUndefined()
    expect(findLink(null, 'stream', base)).toBeUndefined()
  })
})
