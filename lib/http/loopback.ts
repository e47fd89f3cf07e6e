// A connection in memory: one end for a client, the other for a server.
import { Duplex } from 'node:stream'
import type { Socket } from 'node:net'

/** Properties that guards read from a socket, such as who is at its other end. */
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
export const LOOPBACK = Symbol.for('express-mcp-streams.memory-socket')

/** The parsed message that is sent over it, so that its bytes need not be parsed. */
const CARRIED = Symbol.for('express-mcp-streams.memory-message')

/** What a request is about that is none of its client's. */
const NOTE = Symbol.for('express-mcp-streams.memory-note')

/** Marks the server's end of a connection that a request of another instance comes over. */
const RELAYED = Symbol.for('express-mcp-streams.relayed-socket')

/** What guards read from a socket, as far as it can be told to another process. */
export type SocketFacts = Readonly<Record<string, string | number | boolean>>

/** How another instance has sent a request here. */
export type RelayKind =
  /** What it names is here. */
  | 'named'
  /** Its session is here: it may be handed back. */
  | 'in-session'
  /** That instance leaves: the request is to be taken as if its client had sent it here. */
  | 'passed-on'

/** What is agreed about a request of another instance, and the response to it. */
export interface RelayedWire {
  readonly kind: RelayKind
  /** The other instance writes comments to its client itself. */
  isKeptAlive: boolean
  /** This instance leaves, and has begun nothing: the other one is to answer in its place. */
  isHandedBack: boolean
}

/** Whether another instance has sent a request here. */
export function isRelayed({ socket }: { readonly socket: object }): boolean {
  return RELAYED in socket
}

/** `undefined`: it has come from its client. */
export function relayedWireOf({ socket }: { readonly socket: object }): RelayedWire | undefined {
  return (socket as { readonly [RELAYED]?: RelayedWire })[RELAYED]
}

/** Whether another instance keeps the client's connection open. */
export function isKeptAlive(req: { readonly socket: object }): boolean {
  return relayedWireOf(req)?.isKeptAlive === true
}

/** What another process has to know of the socket that a request came over. */
export function socketFactsOf(socket: Socket): SocketFacts {
  const source = socket as unknown as Record<string, unknown>
  return Object.fromEntries(
    FACTS.map(name => [name, source[name]] as const).filter(
      (entry): entry is [(typeof FACTS)[number], string | number | boolean] =>
        ['string', 'number', 'boolean'].includes(typeof entry[1])
    )
  )
}

/** Two ends of one connection, for a request that has come to another instance, over a socket. */
export function relayedConnection(
  facts: SocketFacts,
  kind: RelayKind
): {
  readonly client: Duplex
  readonly server: Duplex
  readonly wire: RelayedWire
} {
  const known = FACTS.map(name => [name, facts[name]] as const)
  const wire: RelayedWire = { kind, isKeptAlive: false, isHandedBack: false }
  const ends = connected([...known, [RELAYED, wire]])
  ends.server.isCopying = true
  return { ...ends, wire }
}

/** Whether a request came over a connection of ours. */
export function isLoopback({ socket }: { readonly socket: object }): boolean {
  return LOOPBACK in socket
}

/** What a request of ours was sent with; `undefined`: it says what its client has to say. */
export function noteOf({ socket }: { readonly socket: object }): unknown {
  return (socket as { readonly [NOTE]?: unknown })[NOTE]
}

/** The parsed body of our own request, which does not keep it; `undefined`: it must be read. */
export function takeCarried({ socket }: { readonly socket: object }): unknown {
  const carried = (socket as { readonly [CARRIED]?: unknown })[CARRIED]
  Reflect.deleteProperty(socket, CARRIED)
  return carried
}

/** What guards ask of a socket, once it may have been closed. */
export function standInFor(socket: Socket): Socket {
  const { server } = socket as { readonly server?: unknown }
  return { ...socketFactsOf(socket), server } as unknown as Socket
}

/**
 * To the server, it comes from where `original` does. `message`: its one request, parsed. `note`:
 * what `noteOf` is to tell of that.
 */
export function memoryConnection(
  original: Socket,
  message?: unknown,
  note?: unknown
): { readonly client: Duplex; readonly server: Duplex } {
  const source = original as unknown as Record<string, unknown>
  const facts = FACTS.map(name => [name, source[name]] as const)
  const questions = QUESTIONS.flatMap(name => {
    const question = source[name]
    return typeof question === 'function' ? [[name, question.bind(original)] as const] : []
  })
  return connected([...facts, ...questions, [LOOPBACK, true], [CARRIED, message], [NOTE, note]])
}

function connected(properties: readonly (readonly [PropertyKey, unknown])[]): {
  readonly client: MemorySocket
  readonly server: MemorySocket
} {
  const client = new MemorySocket()
  const server = new MemorySocket()
  client.peer = server
  server.peer = client
  for (const [name, value] of properties)
    Object.defineProperty(server, name, { value, configurable: true })
  return { client, server }
}

class MemorySocket extends Duplex {
  peer: MemorySocket | undefined
  /** Whether what is written must be copied: it is kept, and its memory may be reused. */
  isCopying = false
  #wantMore: (() => void) | undefined

  override _read(): void {
    const wantMore = this.#wantMore
    this.#wantMore = undefined
    wantMore?.()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: () => void): void {
    const { peer } = this
    // Bytes for an end that is closed go nowhere, as on a wire.
    if (peer === undefined || peer.destroyed) return callback()
    if (peer.push(this.isCopying ? Buffer.from(chunk) : chunk)) callback()
    else peer.#wantMore = callback
  }

  override _final(callback: () => void): void {
    if (this.peer?.destroyed === false) this.peer.push(null)
    callback()
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    const { peer } = this
    this.peer = undefined
    // A tick later, as on a wire. Not by a patched method: no code of that side destroys it.
    if (peer !== undefined) process.nextTick(() => Duplex.prototype.destroy.call(peer))
    callback(error)
  }

  // What an application may do to every socket that its server gets.

  destroySoon(): void {
    if (this.writable) this.end()
    if (this.writableFinished) this.destroy()
    else this.once('finish', () => this.destroy())
  }

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
