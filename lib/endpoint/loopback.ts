// A connection that exists in memory only: one end for a client, the other for the server that it
// is given to.
import { Duplex } from 'node:stream'
import type { Socket } from 'node:net'

/** Who is at the other end of a socket: what guards ask it for. */
const FACTS = [
  'remoteAddress',
  'remotePort',
  'remoteFamily',
  'localAddress',
  'localPort',
  'localFamily',
  'encrypted',
  'authorized',
  'authorizationError',
  'servername',
  'alpnProtocol'
] as const
const QUESTIONS = [
  'address',
  'getPeerCertificate',
  'getPeerX509Certificate',
  'getProtocol',
  'getCipher',
  'getSession'
] as const

/** Marks the server's end, for all copies of this module. */
const MARK = Symbol.for('express-mcp-streams.memory-socket')

/** What is said over it, where that need not be read again. */
const CARRIED = Symbol.for('express-mcp-streams.memory-message')

/** Whether a request came over a connection of ours. */
export function isLoopback({ socket }: { readonly socket: object }): boolean {
  return MARK in socket
}

/**
 * The parsed body of a request that came over a connection of ours; `undefined`: it is to be read.
 */
export function messageCarried({ socket }: { readonly socket: object }): unknown {
  return (socket as { readonly [CARRIED]?: unknown })[CARRIED]
}

/**
 * Two ends of one connection. To the server it looks as if it came from where `original` comes
 * from. `message`: what its one request says.
 */
export function memoryConnection(
  original: Socket,
  message?: unknown
): { readonly client: Duplex; readonly server: Duplex } {
  const client = new MemorySocket()
  const server = new MemorySocket()
  client.peer = server
  server.peer = client
  const facts: Record<PropertyKey, unknown> = {}
  const source = original as unknown as Record<string, unknown>
  for (const name of FACTS) facts[name] = source[name]
  for (const name of QUESTIONS) {
    const question = source[name]
    if (typeof question === 'function') facts[name] = question.bind(original)
  }
  for (const [name, value] of [
    ...Object.entries(facts),
    [MARK, true] as const,
    [CARRIED, message] as const
  ])
    Object.defineProperty(server, name, { value, configurable: true })
  return { client, server }
}

class MemorySocket extends Duplex {
  peer: MemorySocket | undefined
  /** Asks the writer at the other end for more. */
  #wantMore: (() => void) | undefined

  override _read(): void {
    const wantMore = this.#wantMore
    this.#wantMore = undefined
    wantMore?.()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: () => void): void {
    const { peer } = this
    // What nobody reads any more goes nowhere, as on a wire.
    if (peer === undefined || peer.destroyed) return callback()
    if (peer.push(chunk)) callback()
    else peer.#wantMore = callback
  }

  override _final(callback: () => void): void {
    if (this.peer?.destroyed === false) this.peer.push(null)
    callback()
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    const { peer } = this
    this.peer = undefined
    // A tick later, as from a wire: whoever destroys this end is not in the middle of the other
    // one's events.
    if (peer !== undefined) process.nextTick(() => peer.destroy())
    callback(error)
  }

  // What an application may do to every socket that its server gets.

  setTimeout(): this {
    return this
  }

  setNoDelay(): this {
    return this
  }

  setKeepAlive(): this {
    return this
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }
}
