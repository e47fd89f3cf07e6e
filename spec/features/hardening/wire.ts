// Requests on one socket, written by hand: pipelined, and cut whenever the spec says so.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { closeLater } from '../../helpers/listen.js'
import { requestHead, type RequestHead } from '../mounting/on-the-wire.js'

export interface Wire {
  socket: Socket
  /** Everything that has come so far, framing included. */
  text(): string
  /** Goes away, and waits until it has. */
  leave(): Promise<void>
}

/** Closed by `closeAll`. */
export function open(port: number): Wire {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  closeLater(() => socket.destroy())
  const chunks: Buffer[] = []
  socket.on('data', chunk => chunks.push(chunk))
  socket.on('error', () => undefined)
  return {
    socket,
    text: () => Buffer.concat(chunks).toString(),
    async leave() {
      const closed = once(socket, 'close')
      socket.destroy()
      await closed
    }
  }
}

/** The text of a request whose connection stays open for the next one. */
export function requestText(head: RequestHead, body?: unknown): string {
  const text = body === undefined ? '' : JSON.stringify(body)
  const own = {
    Connection: 'keep-alive',
    ...(text !== '' && { 'Content-Type': 'application/json' })
  }
  const length: Record<string, string> =
    text === '' ? {} : { 'Content-Length': String(Buffer.byteLength(text)) }
  return requestHead({ ...head, headers: { ...own, ...length, ...head.headers } }) + text
}
