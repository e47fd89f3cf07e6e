// Chunks in, whole blocks out.

import { describe, expect, it, jest } from '@jest/globals'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { fc, times } from '../../helpers/property.js'
import { blocksIn, WholeBlocks } from '../../../lib/protocol/whole-blocks.js'

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)
const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)

/** What each chunk completes; '' for nothing. */
function pushed(chunks: Uint8Array[]): string[] {
  const blocks = new WholeBlocks()
  return chunks.map(chunk => textOf(blocks.push(chunk) ?? new Uint8Array()))
}

/** Where the whole blocks of a text end, by the standard: behind its last blank line. */
const wholeIn = (text: string): string =>
  /^[^]*(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)/.exec(text)?.[0] ?? ''

const STREAMS = [
  'id: 1\ndata: a\n\nid: 2\ndata: b\n\n',
  'id: 1\r\ndata: a\r\n\r\nid: 2\r\ndata: b\r\n\r\n',
  'id: 1\rdata: a\r\rid: 2\rdata: b\r\r',
  'data: ä€😀\n\ndata: rest',
  ': comment\n\n\n\ndata: a\n\n',
  'data: mixed\r\n\ndata: b\n\r\ndata: c\r\n\r\n'
]

describe.each(STREAMS)('%j', stream => {
  const bytes = bytesOf(stream)

  it('comes out whole, wherever it is cut', () => {
    for (let first = 0; first <= bytes.length; first++) {
      for (let second = first; second <= bytes.length; second++) {
        const chunks = [
          bytes.subarray(0, first),
          bytes.subarray(first, second),
          bytes.subarray(second)
        ]
        const [a = '', b = '', c = ''] = pushed(chunks)
        expect([first, second, a + b + c]).toEqual([first, second, wholeIn(stream)])
      }
    }
  })

  it('comes out as soon as its blank line is there, byte by byte', () => {
    const blocks = new WholeBlocks()
    let out = ''
    bytes.forEach((_byte, i) => {
      out += textOf(blocks.push(bytes.slice(i, i + 1)) ?? new Uint8Array())
      const before = textOf(bytes.slice(0, i + 1))
      // The LF of a CRLF may come later: a reader does not take it for a line of its own.
      expect([before, out.replace(/\n$/, '')]).toEqual([before, wholeIn(before).replace(/\n$/, '')])
      expect(blocks.pending).toBe(i + 1 - bytesOf(out).length)
    })
  })
})

describe('any stream, cut anywhere', () => {
  it('is handed on without a byte lost, changed or doubled, and never beyond a blank line', () => {
    const text = fc
      .array(fc.constantFrom('\n', '\r', '\r\n', '\n\n', 'data: x', 'é'))
      .map(parts => parts.join(''))
    fc.assert(
      fc.property(text, fc.array(fc.nat(20)), (stream, sizes) => {
        const bytes = bytesOf(stream)
        const chunks: Uint8Array[] = []
        let from = 0
        for (const size of [...sizes, bytes.length]) {
          chunks.push(bytes.subarray(from, from + size))
          from += size
        }
        const out = pushed(chunks).join('')
        expect(stream.startsWith(out)).toBe(true)
        expect(wholeIn(stream).startsWith(out)).toBe(true)
      }),
      { numRuns: times(2000) }
    )
  })
})

describe('whole blocks', () => {
  it.each<[string, string[]]>([
    ['data: a\n\n: b\n\n', ['data: a\n\n', ': b\n\n']],
    ['data: a\r\n\r\ndata: b\r\n\r\n', ['data: a\r\n\r\n', 'data: b\r\n\r\n']],
    ['data: a\r\rdata: b\r\r', ['data: a\r\r', 'data: b\r\r']],
    ['data: a\n\r\ndata: b\r\n\n', ['data: a\n\r\n', 'data: b\r\n\n']],
    ['data: a\n\n\n\ndata: b\n\n', ['data: a\n\n', '\n', '\n', 'data: b\n\n']],
    ['\ndata: a\n\n', ['\n', 'data: a\n\n']],
    ['', []]
  ])('of %j come one by one', (text, blocks) => {
    expect([...blocksIn(bytesOf(text))].map(textOf)).toEqual(blocks)
  })

  it('of any stream are all of it, and each is whole', () => {
    const text = fc
      .array(fc.constantFrom('\n', '\r', '\r\n', '\n\n', 'data: x', 'é'))
      .map(parts => wholeIn(parts.join('')))
    fc.assert(
      fc.property(text, stream => {
        const blocks = [...blocksIn(bytesOf(stream))].map(textOf)
        expect(blocks.join('')).toBe(stream)
        for (const block of blocks) expect(block.replace(/\n$/, '')).toMatch(/^$|[\r\n]$/)
      })
    )
  })

  it('that are held can be taken out unfinished', () => {
    const blocks = new WholeBlocks()
    blocks.push(bytesOf('data: a\n\nda'))
    blocks.push(bytesOf('ta'))
    expect(textOf(blocks.takePending())).toBe('data')
    expect(blocks.pending).toBe(0)
    expect(textOf(blocks.takePending())).toBe('')
  })
})

describe('what goes on in one chunk', () => {
  it('is not copied', () => {
    const chunk = bytesOf('data: a\n\ndata: b\n\ndata: c')
    const whole = new WholeBlocks().push(chunk)
    expect(whole?.buffer).toBe(chunk.buffer)
    expect(textOf(whole!)).toBe('data: a\n\ndata: b\n\n')
  })

  it('costs the same per byte, however large the block is: each is copied once', () => {
    const set = jest.spyOn(Object.getPrototypeOf(Uint8Array.prototype) as Uint8Array, 'set')
    const blocks = new WholeBlocks()
    const size = 2 ** 22
    const chunk = new Uint8Array(16 * 1024).fill(120)
    for (let sent = 0; sent < size; sent += chunk.length) blocks.push(chunk)
    expect(set).not.toHaveBeenCalled()
    expect(blocks.push(bytesOf('\n\n'))?.length).toBe(size + 2)
    const copied = set.mock.calls.reduce((sum, [{ length }]) => sum + length, 0)
    set.mockRestore()
    expect(copied).toBe(size + 2)
  })
})

it('what is unfinished takes little beside its bytes, however small its pieces are', () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const blocks = new WholeBlocks()
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  const COUNT = 200_000
  for (let i = 0; i < COUNT; i++) blocks.push(Uint8Array.of(120))
  collectGarbage()
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(COUNT * 40)
  expect(blocks.takePending()).toHaveLength(COUNT)
})
