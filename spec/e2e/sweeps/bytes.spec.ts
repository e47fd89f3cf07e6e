// What endpoints write: event streams in every shape that the standard knows, and in some that it
// does not.

import { describe, expect, it } from '@jest/globals'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { Readable } from 'node:stream'
import { gate } from '../../helpers/gate.js'
import { eventId, result } from '../../helpers/mcp.js'
import { streamId } from '../../helpers/serve.js'
import { exchange, requestHead } from '../../features/mounting/on-the-wire.js'
import {
  type Behave,
  blockOf,
  callBare,
  dispatched,
  errorFor,
  note,
  NOTE,
  RESULT,
  serveCase,
  SSE_TYPE
} from '../../features/endpoint/setup.js'

/** Writes chunks one by one, each in a tick of its own, and ends. */
const writing =
  (...chunks: (string | Uint8Array)[]): Behave =>
  async res => {
    res.writeHead(200, SSE_TYPE)
    for (const chunk of chunks) {
      res.write(chunk)
      await new Promise(resolve => setImmediate(resolve))
    }
    res.end()
  }

const bytesOf = (text: string) => [...Buffer.from(text)].map(byte => Uint8Array.of(byte))
const BOM = '\uFEFF'
/** Its first line matters: a mark left in front of it would make it a field that nobody knows. */
const PLAIN = 'data: {"first":true}\n\n'
const WIDE = blockOf(note('grün € 😀 \u2028 日本'))

const SHAPES: Record<string, (string | Uint8Array)[]> = {
  LF: [NOTE, RESULT],
  CR: [NOTE.replaceAll('\n', '\r'), RESULT.replaceAll('\n', '\r')],
  CRLF: [NOTE.replaceAll('\n', '\r\n'), RESULT.replaceAll('\n', '\r\n')],
  'all line ends in one stream': [
    NOTE.replaceAll('\n', '\r'),
    NOTE,
    NOTE.replaceAll('\n', '\r\n'),
    RESULT
  ],
  'all line ends in one block': [
    'event: message\rdata: {"jsonrpc":"2.0",\ndata: "method":"a/b"}\r\n\r',
    RESULT
  ],
  'CRLF, cut between CR and LF': [
    'event: message\r',
    `\n${NOTE.slice(15).replaceAll('\n', '\r\n').slice(0, -1)}`,
    '\n',
    RESULT
  ],
  'a CR at the very end of a write, and another block': [
    'data: 1\r\r',
    'data: 2\r',
    '\rdata: 3\r\r',
    RESULT
  ],
  'every byte by itself': bytesOf(NOTE + WIDE + RESULT),
  'every byte by itself, with CRLF': bytesOf((NOTE + WIDE + RESULT).replaceAll('\n', '\r\n')),
  'several blocks in a write, cut anywhere': [
    NOTE + WIDE.slice(0, 30),
    WIDE.slice(30) + NOTE + RESULT.slice(0, 3),
    RESULT.slice(3)
  ],
  'a byte order mark': [BOM + PLAIN, RESULT],
  'a byte order mark in three writes': [...bytesOf(BOM), PLAIN, RESULT],
  'a byte order mark cut in two, with CRLF': [
    Buffer.from(BOM).subarray(0, 2),
    Buffer.from(BOM + PLAIN.replaceAll('\n', '\r\n')).subarray(2),
    RESULT
  ],
  'a byte order mark inside a value': [`data: ${BOM}{"x":"${BOM}"}\n\n`, RESULT],
  'blank lines first, and many between': ['\n\n\n', NOTE, '\n\n', '\r\n\r\n', RESULT, '\n'],
  comments: [
    ': one\n',
    ': two\n\n',
    `: three\n${NOTE}`,
    NOTE.replace('data', ': four\ndata'),
    RESULT
  ],
  'several data lines': ['data: {"jsonrpc":"2.0",\ndata:"id":1,\ndata\ndata:  "result":{}}\n\n'],
  'no space behind the colon': [RESULT.replaceAll(': ', ':')],
  'two spaces behind the colon': [RESULT.replace('data: ', 'data:  ')],
  'fields that nobody knows': [`foo: bar\nbaz\n:\n${NOTE}`, `datum: 1\nevents: 2\n${RESULT}`],
  'events of other types': [
    'event: other\ndata: 1\n\n',
    'event\ndata: 2\n\n',
    'event:\ndata: 3\n\n',
    RESULT
  ],
  'events with empty data': ['data\n\n', 'data:\n\n', 'data: \n\n', RESULT],
  'an event type without data': ['event: lonely\n\n', RESULT],
  'a reconnection time': ['retry: 77\n\n', `retry: 88\n${NOTE}`, 'retry: soon\n\n', RESULT],
  'data that is no JSON': ['data: hello\n\n', 'data: {"jsonrpc"\n\n', RESULT],
  'a batch': [`data: ${JSON.stringify([note(1), result(1, {})])}\n\n`],
  'NUL, and bytes that are no UTF-8': [Buffer.from('data: \0\xff\xfe\x80\n\n', 'latin1'), RESULT],
  'half a character at the end of a block': [
    Buffer.from('data: €\n\n').subarray(0, 8),
    '\n\n',
    RESULT
  ]
}

describe('an event stream with', () => {
  it.each(Object.entries(SHAPES))('%s', async (_name, chunks) => {
    const bare = await callBare(writing(...chunks))
    const served = await serveCase(writing(...chunks))
    const response = await served.call()
    expect(await response.ended).toBe('end')
    const expected = dispatched(bare)
    expect(expected.length).toBeGreaterThan(0)
    expect(dispatched(response)).toEqual(expected)
    const ids = response.text.match(/^id: .*$/gm)!.slice(1)
    expect(ids).toEqual(expected.map((_event, i) => `id: ${eventId(streamId(response), i + 1)}`))
    expect(JSON.stringify(expected.at(-1)!.data)).toContain('result')

    const again = await served.again(response)
    expect(dispatched(again)).toEqual(expected)
    await served.expectNeighbourUnharmed()
  })

  it('a character cut over two writes, wherever it is cut', async () => {
    const bytes = Buffer.from(WIDE + RESULT)
    const { call } = await serveCase((res, req) => {
      const at = Number(req.headers['x-cut-at'])
      return writing(bytes.subarray(0, at), bytes.subarray(at))(res, req, () => undefined)
    })
    for (let at = 1; at < Buffer.byteLength(WIDE); at++) {
      const response = await call({ 'x-cut-at': String(at) })
      await response.ended
      expect(response.messages()).toEqual([note('grün € 😀 \u2028 日本'), result(1, {})])
    }
  })

  it('comments hands them on to the client at once', async () => {
    const [go, goOn] = [gate(), gate()]
    const { call } = await serveCase(async res => {
      res.writeHead(200, SSE_TYPE)
      res.write(NOTE)
      await go.opened
      res.write(': still here\n\n')
      await goOn.opened
      res.end(RESULT)
    })
    const response = await call()
    await response.nextMessage()
    go.open()
    while (!response.text.includes(': still here\n')) await once(response.response, 'data')
    goOn.open()
    await response.ended
    expect(response.messages()).toEqual([note(1), result(1, {})])
  })
})

describe('an event that never ends', () => {
  it.each([
    ['half a line', 'data: {"jsonrpc":"2.0","id":1,"res'],
    ['an event without a message', 'data: bye\n'],
    ['nothing but a field name', 'data'],
    ['a comment', ': bye']
  ])('%s: the client gets an error in its place', async (_name, rest) => {
    const served = await serveCase(writing(NOTE, rest))
    const response = await served.call()
    expect(await response.ended).toBe('end')
    // [WHATWG 9.2.6] Once the end of the file is reached, any pending data must be discarded.
    expect(response.messages()).toEqual([note(1), errorFor(1)])
    expect((await served.again(response)).messages()).toEqual([note(1), errorFor(1)])
    await served.expectNeighbourUnharmed()
  })
})

describe('a large event', () => {
  const SIZE = 32 * 1024 * 1024
  const hash = (text: string | undefined) =>
    createHash('sha256')
      .update(text ?? '')
      .digest('hex')
  const large = (size: number) =>
    `data: {"jsonrpc":"2.0","id":1,"result":"${'x'.repeat(size)}"}\n\n`

  it.each([
    ['in one write', (res: ServerResponse) => res.writeHead(200, SSE_TYPE).end(large(SIZE))],
    [
      'in many writes',
      (res: ServerResponse) => {
        res.writeHead(200, SSE_TYPE)
        const bytes = Buffer.from(large(SIZE))
        return pipeline(Readable.from(chunksOf(bytes, 1_000_003)), res)
      }
    ]
  ])('of 32 MB, %s, arrives with the default options, and again', async (_name, behave) => {
    const served = await serveCase(behave)
    const response = await served.call()
    expect(await response.ended).toBe('end')
    const expected = hash(large(SIZE).slice(6, -2))
    expect(hash(response.events.at(-1)!.data)).toBe(expected)
    const again = await served.again(response)
    expect(hash(again.events.at(-1)!.data)).toBe(expected)
    await served.expectNeighbourUnharmed()
  })

  it.each([
    ['whole', large(2_000_000)],
    ['and never ends', large(2_000_000).slice(0, -2)]
  ])('that is larger than all that may be kept, %s: an error in its place', async (_name, text) => {
    const states: unknown[] = []
    const behave: Behave = res => {
      res.on('close', () => states.push('close'))
      res.writeHead(200, SSE_TYPE).write(NOTE)
      for (const chunk of chunksOf(Buffer.from(text), 50_000)) states.push(res.write(chunk))
    }
    const served = await serveCase(behave, { maxBytes: 1_000_000 })
    const response = await served.call()
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([note(1), errorFor(1, 'event-too-large')])
    await served.expectNeighbourUnharmed()
    expect(states.slice(-2)).toEqual([false, 'close'])
    expect(served.streams.stats().bytes).toBeLessThan(1_000_000)
  })
})

function chunksOf(bytes: Buffer, size: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
    bytes.subarray(i * size, (i + 1) * size)
  )
}

describe('what the first write brings', () => {
  it('leaves with the head in one go: a client that is cut behind it can resume', async () => {
    const go = gate()
    const { port } = await serveCase(async res => {
      res.writeHead(200, SSE_TYPE).flushHeaders()
      await go.opened
      res.end()
    })
    const first = await new Promise<string>(resolve => {
      void exchange(port, socket => {
        socket.once('data', chunk => {
          resolve(chunk.toString())
          socket.destroy()
        })
        socket.write(
          requestHead({ method: 'GET', headers: { 'MCP-Protocol-Version': '2025-11-25' } })
        )
      })
    })
    expect(first).toMatch(/^Link: <\?stream=[\w-]{21}>; rel="stream"\r$/m)
    expect(first).toMatch(/id: [\w-]{21}\.0\.1\nretry: 10\ndata:\n\n/)
    go.open()
  })
})
