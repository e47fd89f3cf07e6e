// One wire to a client, and the sessions that it carries: what goes out comes from the streams that
// it follows.
import { type ErrorObject, type Message, type RequestId } from '../protocol/json-rpc.js'
import type { TransportLike, WireMessage } from '../protocol/shared-wire.js'
import type { StreamStatus } from '../protocol/stream-messages.js'
import type { Stream } from '../streams/stream.js'
import type { StreamsHost } from './streams-host.js'
import { type ReaderHost, WireReader } from './wire-reader.js'

/** A session, as its wires know it. */
export interface WireSession {
  readonly id: string
  readonly owner: string
  readonly onerror?: ((error: Error) => void) | undefined
  /** Nothing has been passed on yet. */
  readonly isFresh: boolean
  /** The wire that its client is on now. */
  readonly wire: Wire | undefined
  /** `extra`: what the transport knows of the message besides, who has sent it for example. */
  receive(message: WireMessage, extra: unknown): void
  /** An answer to a request of the server's. */
  answered(message: Message & { readonly id: RequestId }, extra: unknown): void
  /**
   * Its client is on this wire now. `except`: a stream that is followed from a cursor of the
   * client's.
   */
  follow(wire: Wire, except: Stream): void
  signOfLife(): void
  wireLost(wire: Wire): void
  /** While the process is about to end, a client that is idle is made to come back elsewhere. */
  leaveIfIdle(): void
  /** Its client wants no more of anything. */
  cancel(): void
}

/**
 * Bytes that a wire may owe its client at a time, of all streams together: below it nobody waits,
 * so that messages leave in the turn in which they were made.
 */
const MOST_UNDERWAY = 256 * 1024
/** The same of answers to what its client asks us: who takes none and asks on is cut off. */
const MOST_ANSWERS = 1024 * 1024

export class Wire implements ReaderHost {
  /** Stands for it where it is not to be kept. */
  readonly key = Symbol()
  /** Whose requests come in here. */
  session: WireSession
  readonly transport: TransportLike
  readonly #host: StreamsHost
  /**
   * The sessions that are followed here: the wire's own, and those of which a stream was resumed
   * here.
   */
  readonly #sessions = new Set<WireSession>()
  readonly #readers = new Set<WireReader>()
  /** Bytes of messages that the transport has not taken. */
  #underway = 0
  /** Of these, bytes of answers of ours. */
  #answers = 0
  #isClosed = false
  #lastSent: Promise<void> = Promise.resolve()

  constructor(transport: TransportLike, session: WireSession, host: StreamsHost) {
    this.transport = transport
    this.session = session
    this.#host = host
    this.#sessions.add(session)
  }

  /** Opens it. What the user has hung on the transport stays there. */
  start(receive: (message: WireMessage, extra: unknown) => void): Promise<void> {
    const { transport } = this
    const { onmessage, onclose, onerror } = transport
    const listeners: Pick<TransportLike, 'onmessage' | 'onclose' | 'onerror'> = {
      onmessage: (message: WireMessage, extra) => {
        onmessage?.(message, extra)
        if (!this.#isClosed) receive(message, extra)
      },
      onclose: () => {
        onclose?.()
        this.#closed()
      },
      onerror: error => {
        onerror?.(error)
        this.session.onerror?.(error)
      }
    }
    Object.assign(transport, listeners)
    return transport.start()
  }

  /**
   * A wire that has lost a message is no use: its client comes back, and gets that message again.
   */
  async send(message: WireMessage, bytes = 0): Promise<void> {
    if (this.#isClosed) return
    this.#count(bytes)
    try {
      const sent = this.transport.send(message)
      this.#lastSent = sent
      await sent
      this.#taken(bytes)
    } catch (error) {
      if (this.#isClosed) return
      this.#host.debug('wire closed, it takes nothing: %o', error)
      await this.close()
    }
  }

  /** Answers its client, who need not take anything to ask for more. */
  async answer(message: WireMessage): Promise<void> {
    if (this.#answers > MOST_ANSWERS) {
      this.#host.debug('wire closed, its client asks and takes no answers')
      return this.close()
    }
    const { length } = JSON.stringify(message)
    this.#answers += length
    await this.send(message, length)
    this.#answers -= length
  }

  /**
   * Without an id there is a `null`, as JSON-RPC wants it; the official SDK reads such a message
   * and drops it.
   */
  refuse(id: RequestId | undefined, { code, message, data }: ErrorObject): void {
    void this.answer({
      jsonrpc: '2.0',
      id: id ?? null,
      error: { code, message, ...(data !== undefined && { data }) }
    })
  }

  /** Closes it behind what is being sent: some transports drop that when they are closed. */
  async closeWhenSent(): Promise<void> {
    try {
      await this.#lastSent
    } catch {
      // Its sender sees to that.
    }
    await this.close()
  }

  async close(): Promise<void> {
    this.#closed()
    try {
      await this.transport.close()
    } catch (error) {
      this.session.onerror?.(error as Error)
    }
  }

  /** The events of a call are still on their way. */
  get isGivingCalls(): boolean {
    return [...this.#readers].some(({ stream }) => stream.kind === 'request')
  }

  /** The stream with an id, if its client is being given it here. */
  followed(streamId: string): Stream | undefined {
    return [...this.#readers].find(({ stream }) => stream.id === streamId)?.stream
  }

  /**
   * Gives its client a stream from a cursor on. `onDone` hears when no more of it will come here.
   */
  follow(stream: Stream, cursor: number, onDone?: (status: StreamStatus) => void): void {
    const isForeign = stream.sessionId !== this.session.id
    const reader = new WireReader(stream, cursor, this, { isForeign, onDone })
    this.#readers.add(reader)
    reader.start()
  }

  readerClosed(reader: WireReader): void {
    this.#readers.delete(reader)
    if (!this.#isClosed) for (const session of [...this.#sessions]) session.leaveIfIdle()
  }

  /** Brings the client of a session back to it: at once as its own, if it is nobody else's yet. */
  adopt(session: WireSession, except: Stream): void {
    const fresh = this.session
    if (fresh.isFresh && fresh !== session) {
      this.session = session
      fresh.cancel()
    } else if (session.wire !== undefined) return
    this.#sessions.add(session)
    session.follow(this, except)
  }

  /**
   * A session has ended, or lives on another wire from now on. A wire without a session of its own
   * is closed.
   */
  async leave(session: WireSession): Promise<void> {
    this.#sessions.delete(session)
    if (session === this.session) await this.close()
  }

  get isFull(): boolean {
    return this.#underway >= MOST_UNDERWAY
  }

  #taken(bytes: number): void {
    const { isFull } = this
    this.#count(-bytes)
    if (!isFull) return
    // In turn, so that none of them has all the room for itself.
    for (const reader of [...this.#readers]) {
      if (this.isFull) return
      if (!this.#readers.delete(reader)) continue
      this.#readers.add(reader)
      reader.wake()
    }
  }

  /** They are held already, and must go out: other things make room for them. */
  #count(bytes: number): void {
    const { budget } = this.#host.table
    if (this.#isClosed) return
    this.#underway += bytes
    if (bytes > 0) budget.reserve(bytes, true)
    else budget.unreserve(-bytes)
  }

  #closed(): void {
    if (this.#isClosed) return
    this.#count(-this.#underway)
    this.#isClosed = true
    for (const reader of [...this.#readers]) reader.close()
    for (const session of [...this.#sessions]) session.wireLost(this)
  }
}
