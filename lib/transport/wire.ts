// One wire to a client: what comes in goes to the session that it belongs to, what goes out comes
// from the streams that it follows.
import type { FoundStream } from '../streams/finished-streams.js'
import { parseForeignId } from '../protocol/foreign-id.js'
import { type ErrorObject, isResponse, type Message, type RequestId } from '../protocol/json-rpc.js'
import type { TransportLike, WireMessage } from '../protocol/shared-wire.js'
import { isStreamMethod, type StreamStatus } from '../protocol/stream-messages.js'
import type { Stream } from '../streams/stream.js'
import { isOfTransport } from './ids.js'
import type { SharedStreams } from './shared-streams.js'
import { answerStreamMethod, cancelStream, type RequestWire } from './stream-requests.js'
import { type ReaderHost, WireReader } from './wire-reader.js'
import type { SessionWire, WireSession } from './wire-session.js'

export class Wire implements ReaderHost, RequestWire, SessionWire {
  /** Who is at the other end. */
  readonly owner: string
  /** Whose requests come in here. */
  session: WireSession
  readonly transport: TransportLike
  readonly shared: SharedStreams
  /**
   * The sessions that are followed here: the wire's own, and those of which a stream was resumed
   * here.
   */
  readonly #sessions = new Set<WireSession>()
  readonly #readers = new Set<WireReader>()
  /** Bytes of messages that the transport has not taken. */
  #underway = 0
  #isClosed = false
  #lastSent: Promise<void> = Promise.resolve()

  constructor(
    transport: TransportLike,
    owner: string,
    shared: SharedStreams,
    session: WireSession
  ) {
    this.transport = transport
    this.owner = owner
    this.shared = shared
    this.session = session
    this.#sessions.add(session)
  }

  /** Opens it. What the user has hung on the transport stays there. */
  start(): Promise<void> {
    const { transport } = this
    const { onmessage, onclose, onerror } = transport
    transport.onmessage = (message: WireMessage, extra?: unknown) => {
      onmessage?.(message, extra)
      this.#take(message, extra)
    }
    transport.onclose = () => {
      onclose?.()
      this.#closed()
    }
    transport.onerror = error => {
      onerror?.(error)
      this.session.onerror?.(error)
    }
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
      this.#count(-bytes)
    } catch (error) {
      if (this.#isClosed) return
      this.shared.host.debug('wire closed, it takes nothing: %o', error)
      await this.close()
    }
  }

  respond(id: RequestId, result: unknown): void {
    void this.send({ jsonrpc: '2.0', id, result })
  }

  /**
   * Without an id there is a `null`, as JSON-RPC wants it; the official SDK reads such a message
   * and drops it.
   */
  refuse(id: RequestId | undefined, { code, message, data }: ErrorObject): void {
    void this.send({
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

  /** The events of a call are still on their way. */
  get isGivingCalls(): boolean {
    return [...this.#readers].some(({ stream }) => stream.kind === 'request')
  }

  async close(): Promise<void> {
    this.#closed()
    try {
      await this.transport.close()
    } catch (error) {
      this.session.onerror?.(error as Error)
    }
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

  /**
   * A session has ended, or lives on another wire from now on. A wire without a session of its own
   * is closed.
   */
  async leave(session: WireSession): Promise<void> {
    this.#sessions.delete(session)
    if (session === this.session) await this.close()
  }

  /** Brings the client of a session back to it: at once as its own, if it is nobody else's yet. */
  adopt(session: WireSession, except: Stream): void {
    const fresh = this.session
    if (fresh.isFresh && fresh !== session) {
      this.session = session
      fresh.cancel()
    } else if (session.hasWire) return
    this.#sessions.add(session)
    session.follow(this, except)
  }

  /** Whether a stream is this client's to see. */
  mayTouch({ value }: FoundStream): boolean {
    return value.owner === this.owner && isOfTransport(value)
  }

  /** @param extra what the transport knows besides: who has sent it, for example. */
  #take(message: WireMessage, extra: unknown): void {
    if (this.#isClosed) return
    try {
      if (isStreamMethod(message)) answerStreamMethod(this, message)
      else if (message.method === 'notifications/stream/end') cancelStream(this, message)
      else if (isResponse(message)) this.#answered(message, extra)
      else this.session.receive(message, extra)
    } catch (error) {
      this.session.onerror?.(error as Error)
    }
  }

  #answered(message: Message & { readonly id: RequestId }, extra: unknown): void {
    const foreign = parseForeignId(message.id)
    if (foreign === undefined) return this.session.answered(message, extra)
    const reader = [...this.#readers].find(({ stream }) => stream.id === foreign.originId)
    // It may be to a question of a call that is collected with tokens, which is the session's to
    // know.
    if (reader === undefined) return this.session.answered(message, extra)
    const session = this.shared.sessions.get(reader.stream.sessionId ?? '')
    session?.answered({ ...message, id: foreign.id }, extra)
  }

  /** They are held already, and must go out: other things make room for them. */
  #count(bytes: number): void {
    const { table } = this.shared.host
    if (this.#isClosed) return
    this.#underway += bytes
    if (bytes > 0) table.budget.reserve(bytes, true)
    else table.budget.unreserve(-bytes)
  }

  #closed(): void {
    if (this.#isClosed) return
    this.#count(-this.#underway)
    this.#isClosed = true
    for (const reader of [...this.#readers]) reader.close()
    for (const session of [...this.#sessions]) session.wireLost(this)
  }
}
