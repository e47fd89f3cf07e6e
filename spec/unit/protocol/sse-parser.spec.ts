// Blocks must not depend on how the stream is cut, and must mean the same to us as to a client.

import { describe, expect, it } from '@jest/globals'
import { createParser } from 'eventsource-parser'
import { fc, times } from '../../helpers/property.js'
import { dataOf, fieldOf, newFields, readFields } from '../../../lib/protocol/sse-fields.js'
import { BlockSplitter } from '../../../lib/protocol/sse-parser.js'
import {
  encodeIdField,
  encodeMessage,
  KEEP_ALIVE_COMMENT,
  primerText,
  retryFieldText
} from '../../../lib/protocol/sse-writer.js'

interface Fixture {
  name: string
  stream: string | Buffer
  /** The blocks that are expected, with LF line ends. */
  blocks: string[]
}

const MULTIBYTE = 'grün € 😀 \u{1F468}\u200D\u{1F469}'
const LINES = [
  'event: message',
  'data: {"a":1}',
  '',
  'data: two',
  '',
  ': comment',
  '',
  'data: three',
  'id: 3',
  ''
]
const LINE_BLOCKS = [
  'event: message\ndata: {"a":1}\n\n',
  'data: two\n\n',
  ': comment\n\n',
  'data: three\nid: 3\n\n'
]

const FIXTURES: Fixture[] = [
  { name: 'nothing', stream: '', blocks: [] },
  { name: 'LF', stream: `${LINES.join('\n')}\n`, blocks: LINE_BLOCKS },
  { name: 'CR', stream: `${LINES.join('\r')}\r`, blocks: LINE_BLOCKS },
  { name: 'CRLF', stream: `${LINES.join('\r\n')}\r\n`, blocks: LINE_BLOCKS },
  {
    name: 'mixed line ends',
    stream: 'data: a\r\n\ndata: b\n\r\ndata: c\r\rdata: d\n\rdata: e\r\n\rdata: f\r\n\r\n\r\n',
    blocks: [
      'data: a\n\n',
      'data: b\n\n',
      'data: c\n\n',
      'data: d\n\n',
      'data: e\n\n',
      'data: f\n\n'
    ]
  },
  {
    name: 'byte order mark',
    stream: '\uFEFFdata: a\n\ndata: b\n\n',
    blocks: ['data: a\n\n', 'data: b\n\n']
  },
  { name: 'byte order mark and CRLF', stream: '\uFEFFdata: a\r\n\r\n', blocks: ['data: a\n\n'] },
  { name: 'byte order mark only', stream: '\uFEFF', blocks: [] },
  {
    name: 'two byte order marks',
    stream: '\uFEFF\uFEFFdata: a\n\n',
    blocks: ['\uFEFFdata: a\n\n']
  },
  {
    name: 'byte order mark later on',
    stream: 'data: a\n\n\uFEFFdata: b\n\ndata: \uFEFFc\n\n',
    blocks: ['data: a\n\n', '\uFEFFdata: b\n\n', 'data: \uFEFFc\n\n']
  },
  {
    name: 'half a byte order mark',
    stream: Buffer.concat([Buffer.of(0xef, 0xbb), Buffer.from('data: a\n\ndata: b\n\n')]),
    blocks: ['\uFFFDdata: a\n\n', 'data: b\n\n']
  },
  {
    name: 'a third of a byte order mark, and a line end',
    stream: Buffer.concat([Buffer.of(0xef), Buffer.from('\ndata: a\n\n')]),
    blocks: ['\uFFFD\ndata: a\n\n']
  },
  {
    name: 'multibyte text',
    stream: `data: ${MULTIBYTE}\n\ndata: ${MULTIBYTE}\r\n\r\n`,
    blocks: [`data: ${MULTIBYTE}\n\n`, `data: ${MULTIBYTE}\n\n`]
  },
  {
    name: 'line separators that are none in SSE',
    stream: 'data: a\u2028b\u2029c\u0085d\u000Be\n\n',
    blocks: ['data: a\u2028b\u2029c\u0085d\u000Be\n\n']
  },
  {
    name: 'bytes that are no UTF-8',
    stream: Buffer.concat([
      Buffer.from('data: '),
      Buffer.of(0xc3, 0x28, 0xff, 0x00),
      Buffer.from('\n\n')
    ]),
    blocks: ['data: \uFFFD(\uFFFD\u0000\n\n']
  },
  {
    name: 'comments',
    stream: ':\n\n: keep-alive\n\n:data: not data\ndata: a\n: in between\n\n',
    blocks: [':\n\n', ': keep-alive\n\n', ':data: not data\ndata: a\n: in between\n\n']
  },
  {
    name: 'retry only, and id only',
    stream: 'retry: 3000\n\nid: 7\n\nid\n\ndata: a\n\n',
    blocks: ['retry: 3000\n\n', 'id: 7\n\n', 'id\n\n', 'data: a\n\n']
  },
  {
    name: 'several data lines',
    stream: 'data: {\ndata:  "a": 1\ndata\ndata:\ndata: }\n\n',
    blocks: ['data: {\ndata:  "a": 1\ndata\ndata:\ndata: }\n\n']
  },
  {
    name: 'fields that nobody knows',
    stream: 'dat: a\ndata : b\n data: c\nDATA: d\ndatax: e\nevents: f\n\ndata: g\n\n',
    blocks: ['dat: a\ndata : b\n data: c\nDATA: d\ndatax: e\nevents: f\n\n', 'data: g\n\n']
  },
  {
    name: 'event names',
    stream:
      'event: a\ndata: 1\n\nevent: message\ndata: 2\n\nevent:\ndata: 3\n\nevent\ndata: 4\n\nevent: a\nevent: message\ndata: 5\n\nevent: message \ndata: 6\n\n',
    blocks: [
      'event: a\ndata: 1\n\n',
      'event: message\ndata: 2\n\n',
      'event:\ndata: 3\n\n',
      'event\ndata: 4\n\n',
      'event: a\nevent: message\ndata: 5\n\n',
      'event: message \ndata: 6\n\n'
    ]
  },
  {
    name: 'empty data',
    stream: 'data\n\ndata:\n\ndata: \n\ndata:  \n\n',
    blocks: ['data\n\n', 'data:\n\n', 'data: \n\n', 'data:  \n\n']
  },
  {
    name: 'blank lines before, between and after',
    stream: '\n\n\r\n\rdata: a\n\n\n\n\r\rdata: b\n\n\n',
    blocks: ['data: a\n\n', 'data: b\n\n']
  },
  { name: 'a block that is not finished', stream: 'data: a\n\ndata: b\n', blocks: ['data: a\n\n'] },
  { name: 'a CR at the very end', stream: 'data: a\r\n\r', blocks: ['data: a\n\n'] },
  { name: 'a CR that ends no block', stream: 'data: a\r', blocks: [] }
]

interface Meaning {
  data: string
  isMessage: boolean
  hasId: boolean
}

/** The blocks, and how we read them. */
function cut(pieces: Iterable<Uint8Array>): { blocks: Buffer[]; meanings: Meaning[] } {
  const splitter = new BlockSplitter()
  const blocks: Buffer[] = []
  const meanings: Meaning[] = []
  for (const piece of pieces) {
    splitter.push(piece, (bytes, from, to, fields) => {
      const { dataLines, isMessage, hasId } = fields
      blocks.push(Buffer.from(bytes.subarray(from, to)))
      if (dataLines > 0) meanings.push({ data: dataOf(bytes, from, to, fields), isMessage, hasId })
    })
  }
  return { blocks, meanings }
}

const blocksOf = (pieces: Iterable<Uint8Array>): Buffer[] => cut(pieces).blocks

/** How a client reads the stream. */
function meaningToClients(stream: Buffer): Meaning[] {
  const meanings: Meaning[] = []
  const parser = createParser({
    onEvent: ({ id, event, data }) =>
      meanings.push({
        data,
        isMessage: event === undefined || event === 'message',
        hasId: id !== undefined
      })
  })
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(stream).replace(/^\uFEFF/, '')
  // After a CR at the end it would wait for an LF, and it would skip a second byte order mark.
  parser.feed(`\n${text.replaceAll(/\r\n?/g, '\n')}`)
  return meanings
}

describe.each(FIXTURES)('the block splitter, given $name,', ({ stream, blocks }) => {
  const bytes = Buffer.from(stream as string)
  const expected = blocks.map(String)

  it('cuts it into blocks', () => {
    expect(blocksOf([bytes]).map(String)).toEqual(expected)
  })

  it('cuts it into the same blocks wherever one write ends and the next begins', () => {
    const whole = cut([bytes])
    for (let i = 0; i <= bytes.length; i++)
      expect(cut([bytes.subarray(0, i), bytes.subarray(i)])).toEqual(whole)
  })

  it('cuts it into the same blocks wherever two writes end', () => {
    const whole = Buffer.concat(blocksOf([bytes]))
    for (let i = 0; i <= bytes.length; i++) {
      for (let j = i; j <= Math.min(bytes.length, i + 8); j++) {
        const pieces = [bytes.subarray(0, i), bytes.subarray(i, j), bytes.subarray(j)]
        if (!Buffer.concat(blocksOf(pieces)).equals(whole))
          throw new Error(`other blocks at ${i} and ${j}`)
      }
    }
  })

  it('cuts it into the same blocks byte by byte, with empty writes in between', () => {
    const pieces = Array.from(bytes).flatMap(byte => [Buffer.of(byte), Buffer.alloc(0)])
    expect(cut(pieces)).toEqual(cut([bytes]))
  })

  it('reads what a client reads', () => {
    expect(cut([bytes]).meanings).toEqual(meaningToClients(bytes))
  })
})

describe('the block splitter', () => {
  it('reads what a client reads, whatever comes and however it is cut', () => {
    const piece = fc.constantFrom(
      ...[
        'data',
        'data:',
        'data: ',
        'event: ',
        'event:message',
        'id: 1',
        'id',
        'retry: 1',
        ':',
        ' ',
        'x',
        '{"id":1}'
      ],
      ...['\n', '\n', '\n\n', '\r', '\r\n', '\r\n\r\n', 'é', '😀', '\uFEFF']
    )
    const sizes = fc.array(fc.integer({ min: 0, max: 7 }), { minLength: 1, maxLength: 6 })
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), sizes, (parts, sizes) => {
        const bytes = Buffer.from(parts.join(''))
        const whole = cut([bytes])
        expect(cut(chunksOf(bytes, sizes))).toEqual(whole)
        expect(whole.meanings).toEqual(meaningToClients(bytes))
      }),
      { numRuns: times(2000) }
    )
  })

  it('passes whole blocks with LF on without a copy', () => {
    const splitter = new BlockSplitter()
    const bytes = Buffer.from('data: a\n\n\ndata: b\n\n')
    const seen: [Uint8Array, number, number][] = []
    splitter.push(bytes, (block, from, to) => seen.push([block, from, to]))
    expect(seen.map(([, from, to]) => [from, to])).toEqual([
      [0, 9],
      [10, 19]
    ])
    expect(seen.every(([block]) => block === bytes)).toBe(true)
    expect(splitter.pending).toBe(0)
  })

  it('knows how much of an unfinished block it holds, and gives it up', () => {
    const splitter = new BlockSplitter()
    const blocks: string[] = []
    const push = (text: string) =>
      splitter.push(Buffer.from(text), (bytes, from, to) =>
        blocks.push(Buffer.from(bytes.subarray(from, to)).toString())
      )
    push('data: a\n\ndata: b')
    expect(splitter.pending).toBe(7)
    push('c\nda')
    expect(splitter.pending).toBe(11)
    expect(Buffer.from(splitter.takePending()).toString()).toBe('data: bc\nda')
    expect(splitter.pending).toBe(0)
    expect(blocks).toEqual(['data: a\n\n'])
  })

  describe('given an event of 32 MB', () => {
    const size = 32 * 1024 * 1024
    const make = (end: string) =>
      Buffer.concat([Buffer.from('data: '), Buffer.alloc(size, 'x'), Buffer.from(end)])

    it.each([
      ['LF, in one write', '\n\n', Infinity],
      ['CRLF, in one write', '\r\n\r\n', Infinity],
      ['LF, in writes of 64 KB', '\n\n', 65536],
      ['CR, in writes of 1 MB and a byte', '\r\r', 1024 * 1024 + 1]
    ])('with %s, cuts it out whole', (_name, end, step) => {
      const bytes = make(end)
      const splitter = new BlockSplitter()
      const lengths: number[] = []
      const seen = Buffer.alloc(size)
      const onBlock = (block: Uint8Array, from: number, to: number) => {
        lengths.push(to - from)
        seen.set(block.subarray(from + 6, to - 2))
      }
      for (let i = 0; i < bytes.length; i += step)
        splitter.push(bytes.subarray(i, Math.min(i + step, bytes.length)), onBlock)
      splitter.push(Buffer.from('data: next\n\n'), onBlock)
      expect(lengths).toEqual([size + 8, 12])
      expect(seen.subarray(4).equals(bytes.subarray(10, size + 6))).toBe(true)
      expect(seen.subarray(0, 4).toString()).toBe('next')
    })
  })

  // Quadratic time would take hours.
  it.each(['\n', '\r', '\r\n'])('takes three megabytes of short lines in one write (%j)', end => {
    const bytes = Buffer.from(`data: abc${end}`.repeat(300_000) + end)
    expect(blocksOf([bytes]).map(block => block.length)).toEqual([3_000_001])
  })
})

describe('the fields of a block', () => {
  const read = (text: string, from = 0) => {
    const bytes = Buffer.from(text)
    const fields = newFields()
    const end = readFields(bytes, from, fields)
    return { ...fields, end, first: bytes.subarray(fields.dataFrom, fields.dataTo).toString() }
  }

  it('tell where the first data line lies, and where the block ends', () => {
    const two = 'event: message\ndata: one\ndata: two\n\n'
    expect(read(two)).toMatchObject({
      dataLines: 2,
      first: 'one',
      isMessage: true,
      end: two.length
    })
    expect(read('data:one\n\ndata: two\n\n')).toMatchObject({ dataLines: 1, first: 'one', end: 10 })
    expect(read('data:one\n\ndata: two\n\n', 10)).toMatchObject({
      dataLines: 1,
      first: 'two',
      end: 21
    })
    expect(read('data\n\n')).toMatchObject({ dataLines: 1, first: '', end: 6 })
    expect(read('id: 1\nretry: 2\n: data: x\n\n')).toMatchObject({ dataLines: 0, hasId: true })
  })

  it.each([
    '',
    'data',
    'data: one',
    'data: one\n',
    'data: one\ndata: two',
    'data: one\ndata: two\n'
  ])('are incomplete without the end of the block: %j', text => {
    expect(read(text).end).toBe(-1)
  })

  it('are read anew for every block', () => {
    const fields = newFields()
    readFields(Buffer.from('id: 1\nevent: other\ndata: a\ndata: b\n\n'), 0, fields)
    readFields(Buffer.from('data: c\n\n'), 0, fields)
    expect(fields).toMatchObject({ hasId: false, isMessage: true, dataLines: 1 })
  })

  it('can be read one by one', () => {
    const bytes = Buffer.from('id: 1\nretry: 5\ndata: id: 2\nid: 3\nretry\n\n')
    const field = (name: 'id' | 'retry') => fieldOf(bytes, 0, bytes.length, name)
    expect([field('id'), field('retry')]).toEqual(['3', ''])
    expect(fieldOf(Buffer.from('data: 1\n\n'), 0, 9, 'id')).toBeUndefined()
  })
})

describe('the blocks of our own', () => {
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString()

  it('have the form that clients expect', () => {
    expect(text(encodeMessage('{"a":"ü"}'))).toBe('event: message\ndata: {"a":"ü"}\n\n')
    expect(primerText('empty', 'x.0.1', 3000)).toBe('id: x.0.1\nretry: 3000\ndata:\n\n')
    expect(primerText('empty', 'x.0.1', null)).toBe('id: x.0.1\ndata:\n\n')
    expect(primerText('named', 'x.0.1', 0)).toBe('event: prime\nid: x.0.1\nretry: 0\ndata: {}\n\n')
    expect(retryFieldText(10)).toBe('retry: 10\n')
    expect(text(encodeIdField('x.7'))).toBe('id: x.7\n')
  })

  it('keep alive without a blank line, which some parsers take for the end of an event', () => {
    expect(text(KEEP_ALIVE_COMMENT)).toMatch(/^:[^\n]*\n$/)
  })
})

function* chunksOf(bytes: Buffer, sizes: number[]): Iterable<Buffer> {
  for (let i = 0, n = 0; i < bytes.length; n++) {
    // Sizes may be 0, but not for ever.
    const size = n % 50 === 49 ? 1 : (sizes[n % sizes.length] as number)
    yield bytes.subarray(i, i + size)
    i += size
  }
}

describe('the data of bytes that are no block', () => {
  it.each([0, 2])('is empty where no line ends (%d data lines)', dataLines => {
    const bytes = Buffer.from('raw bytes')
    expect(dataOf(bytes, 0, bytes.length, { ...newFields(), dataLines })).toBe('')
  })
})
