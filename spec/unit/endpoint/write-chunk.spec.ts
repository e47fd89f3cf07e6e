// A chunk leaves in one piece where that is cheaper, and always as Node would send it.

import { afterEach, expect, it, jest } from '@jest/globals'
import { once } from 'node:events'
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { writeChunk } from '../../../lib/endpoint/node-internals.js'

let server: Server

afterEach(() => void server.close())

/** What a client gets, byte for byte, without the head. */
async function bodyOf(handler: RequestListener, request = 'GET / HTTP/1.1'): Promise<string> {
  server = createServer(handler).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  client.write(`${request}\r\nHost: a\r\nConnection: close\r\n\r\n`)
  const answer = await text(client)
  return answer.slice(answer.indexOf('\r\n\r\n') + 4)
}

const bytes = Buffer.from('data: ä\n\n')
const CHUNK = 'a\r\ndata: ä\n\n\r\n'
const LAST = '0\r\n\r\n'

/** What `write` gives to the socket, in how many pieces. */
function piecesOf(socket: Socket | null, write: () => unknown): number {
  const spy = jest.spyOn(socket as Socket, 'write')
  write()
  const { length } = spy.mock.calls
  spy.mockRestore()
  return length
}

it('hands a small chunk to the socket in one piece', async () => {
  let pieces = 0
  const body = await bodyOf((_req, res) => {
    res.writeHead(200).flushHeaders()
    pieces = piecesOf(res.socket, () => writeChunk(res, [bytes]))
    res.end()
  })
  expect([pieces, body]).toEqual([1, CHUNK + LAST])
})

it.each([0, 1, 15, 16, 4095, 4096, 4097, 70_000])('sends %d bytes as Node does', async size => {
  const many = Buffer.alloc(size, 'x')
  const chunk = size === 0 ? '' : `${size.toString(16)}\r\n${many.toString()}\r\n`
  expect(await bodyOf((_req, res) => void (writeChunk(res, [many]), res.end()))).toBe(chunk + LAST)
})

it.each([
  ['framed', 'GET / HTTP/1.1'],
  ['not framed', 'GET / HTTP/1.0']
])('copies what is small, %s', async (_what, request) => {
  const body = await bodyOf((_req, res) => {
    const lent = Buffer.from('lent')
    res.writeHead(200).flushHeaders()
    res.socket?.cork()
    writeChunk(res, [lent])
    lent.fill('x')
    res.socket?.uncork()
    res.end()
  }, request)
  expect(body).toContain('lent')
})

it('asks for a head where nobody has written one', async () => {
  expect(await bodyOf((_req, res) => void (writeChunk(res, [bytes]), res.end()))).toBe(CHUNK + LAST)
})

it('calls back once it is written, and leaves what follows to Node', async () => {
  const onWritten = jest.fn()
  const followedBy =
    (write: (res: ServerResponse, args: [Buffer, ...unknown[]]) => unknown): RequestListener =>
    (_req, res) => {
      res.writeHead(200, { Trailer: 'X-End' })
      write(res, [bytes, onWritten])
      write(res, [bytes, 'utf8', onWritten])
      res.write('next')
      res.addTrailers({ 'X-End': 'yes' })
      res.end('last')
    }
  const byNode = await bodyOf(followedBy((res, args) => Reflect.apply(res.write, res, args)))
  server.close()
  onWritten.mockClear()
  expect(await bodyOf(followedBy(writeChunk))).toBe(byNode)
  expect(onWritten).toHaveBeenCalledTimes(2)
  const content = `${bytes.toString()}${bytes.toString()}nextlast`
  expect(byNode.replace(/\r\n[\da-f]+\r\n|^[\da-f]+\r\n/g, '')).toContain(content)
  expect(byNode).toMatch(/0\r\nX-End: yes\r\n\r\n$/)
})

it('sends what Node would where somebody holds the response back', async () => {
  const heldBack =
    (write: (res: ServerResponse) => unknown): RequestListener =>
    (_req, res) => {
      res.writeHead(200).flushHeaders()
      res.cork()
      res.write('first')
      write(res)
      res.uncork()
      res.end()
    }
  const byNode = await bodyOf(heldBack(res => res.write(bytes)))
  server.close()
  expect(await bodyOf(heldBack(res => writeChunk(res, [bytes])))).toBe(byNode)
})

it.each([
  ['of a known length', 'GET / HTTP/1.1', { 'Content-Length': bytes.length }, bytes.toString()],
  ['for HTTP/1.0', 'GET / HTTP/1.0', {}, bytes.toString()],
  ['to HEAD', 'HEAD / HTTP/1.1', {}, '']
])('frames no answer %s', async (_what, request, headers, expected) => {
  const handler: RequestListener = (_req, res) => {
    res.writeHead(200, headers)
    writeChunk(res, [bytes])
    res.end()
  }
  expect(await bodyOf(handler, request)).toBe(expected)
})

it('tells that there is no room, as Node does, and throws what it throws', async () => {
  const told: unknown[] = []
  await bodyOf((_req, res) => {
    res.writeHead(200).flushHeaders()
    res.socket?.cork()
    const chunk = Buffer.alloc(4000)
    while (writeChunk(res, [chunk])) told.push(true)
    told.push(res.writableNeedDrain)
    res.socket?.uncork()
    res.end()
    res.on('error', error => told.push((error as NodeJS.ErrnoException).code))
    writeChunk(res, [chunk])
  })
  expect(told.slice(-2)).toEqual([true, 'ERR_STREAM_WRITE_AFTER_END'])
  expect(told.length).toBeGreaterThan(2)
})
