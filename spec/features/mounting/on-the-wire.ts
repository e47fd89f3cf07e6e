// What a server sends, byte by byte: requests written to a socket by hand, and everything that
// comes back.

import { expect } from '@jest/globals'
import { connect, type Socket } from 'node:net'
import { closeLater, type Handler, listen } from '../../helpers/listen.js'
import { createStreams, type Middleware } from './frameworks.js'

/** Writes a request to the socket, in one piece or in many. */
export type Send = (socket: Socket) => unknown

/**
 * Closes where the client wants it, even if the endpoint answers `Connection: keep-alive`, as SDK
 * v2 does.
 */
const closing =
  (app: Handler): Handler =>
  (req, res) => {
    if (req.headers.connection === 'close') res.once('finish', () => req.socket.end())
    return app(req, res)
  }

/** Everything that comes back until the server closes, one character per byte. */
export async function exchange(port: number, send: Send): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  const close = closeLater(() => socket.destroy())
  const chunks: Buffer[] = []
  socket.on('data', chunk => chunks.push(chunk))
  const ended = new Promise<void>(resolve => {
    socket.once('close', () => resolve())
    // A reset ends it as well; what came before it is what is compared.
    socket.once('error', () => resolve())
  })
  await send(socket)
  await ended
  await close()
  return Buffer.concat(chunks).toString('latin1')
}

export interface RequestHead {
  method?: string
  path?: string
  headers?: Record<string, string>
}

/**
 * The text of a request head. The server closes after its response, unless `Connection` says
 * otherwise.
 */
export function requestHead({
  method = 'POST',
  path = '/mcp',
  headers = {}
}: RequestHead = {}): string {
  const all = {
    Host: 'localhost',
    Accept: 'application/json, text/event-stream',
    Connection: 'close',
    ...headers
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`
}

/** Sends a whole request at once; a body that is no string or buffer goes as JSON. */
export function requestOf(body?: unknown, head: RequestHead = {}): Send {
  if (body === undefined) return socket => socket.write(requestHead({ method: 'GET', ...head }))
  const bytes =
    typeof body === 'string' || Buffer.isBuffer(body)
      ? Buffer.from(body)
      : Buffer.from(JSON.stringify(body))
  const headers = {
    'Content-Type': 'application/json',
    'Content-Length': String(bytes.length),
    ...head.headers
  }
  return socket =>
    socket.write(Buffer.concat([Buffer.from(requestHead({ ...head, headers })), bytes]))
}

/** What differs from run to run. */
const withoutChance = (text: string) =>
  text
    .replaceAll(/^Date: .*$/gim, 'Date: then')
    .replaceAll(
      /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/g,
      '00000000-0000-0000-0000-000000000000'
    )

/**
 * Serves the same twice, without the middleware and with it, and expects the same bytes for the
 * same requests. `create` makes the application; it is given the middleware, or nothing. Returns
 * what came.
 */
export async function expectSameBytes(
  create: (streams: Middleware[]) => Handler,
  ...requests: Send[]
): Promise<string[]> {
  const bare = await listen(closing(create([])))
  const ours = await listen(closing(create([createStreams()])))
  const responses: string[] = []
  for (const send of requests) {
    const expected = withoutChance(await exchange(bare.port, send))
    const response = withoutChance(await exchange(ours.port, send))
    expect(response).toBe(expected)
    responses.push(response)
  }
  expect(responses[0]).toMatch(/^HTTP\/1\.1 \d{3} /)
  return responses
}
