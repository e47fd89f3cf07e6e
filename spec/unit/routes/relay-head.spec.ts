import { expect, it } from '@jest/globals'
import type { Server } from 'node:http'
import type { Exchange } from '../../../lib/backplane/exchange.js'
import {
  encodeHead,
  HeadReader,
  type ResponseHead,
  takesComments
} from '../../../lib/routes/relay-head.js'
import { RelayedCalls } from '../../../lib/routes/relayed-calls.js'
import { RelayedRequest } from '../../../lib/routes/relay-in.js'

const LINK: [string, string[]] = ['link', ['<?stream=abcdeabcdeabcdeabcdea>; rel="stream"']]
const EVENTS: [string, string[]] = ['content-type', ['text/event-stream; charset=utf-8']]
const head = (...headers: [string, string[]][]): ResponseHead => ({ status: 200, headers })

it('lets comments be written where a stream of ours is passed on, and can be read', () => {
  expect(takesComments(head(EVENTS, LINK))).toBe(true)
  expect(takesComments(head(EVENTS))).toBe(false)
  expect(takesComments(head(['content-type', ['application/json']], LINK))).toBe(false)
  expect(takesComments(head(EVENTS, LINK, ['Content-Encoding', ['gzip']]))).toBe(false)
  expect(takesComments(head(EVENTS, LINK, ['content-encoding', ['identity']]))).toBe(true)
})

const HEAD: ResponseHead = { status: 200, headers: [['x-ünicode', ['ü']]] }

it('is read in whatever pieces it comes', () => {
  const bytes = encodeHead(HEAD)
  const reader = new HeadReader<ResponseHead>()
  for (let i = 0; i < bytes.length - 1; i++)
    expect(reader.read(bytes.subarray(i, i + 1))).toBeUndefined()
  expect(reader.read(bytes.subarray(-1))).toEqual(HEAD)
})

it('is none where it is a mebibyte long, or something follows it', () => {
  const long = Buffer.alloc(4)
  long.writeUInt32BE(1024 * 1024 - 4)
  expect(new HeadReader().read(long)).toBeUndefined()
  long.writeUInt32BE(1024 * 1024 - 3)
  expect(() => new HeadReader().read(long)).toThrow('too long')
  expect(() => new HeadReader().read(Buffer.concat([encodeHead(HEAD), Buffer.of(120)]))).toThrow()
})

it('breaks a request off that has none', () => {
  const happened: string[] = []
  const exchange = { reset: () => void happened.push('reset') } as Partial<Exchange> as Exchange
  const debug = (format: string): void => void happened.push(format)
  const request = new RelayedRequest(exchange, {} as Server, new RelayedCalls(), debug)
  expect(request.bytes(Buffer.alloc(4, 255))).toBe(true)
  expect(happened).toEqual(['a relayed request cannot be answered: %O', 'reset'])
})
