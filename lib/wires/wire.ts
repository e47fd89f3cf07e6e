// One wire to a client, with the sessions that it carries.
import { nanoid } from 'nanoid'
import type { ErrorObject, Message, RequestId } from '../protocol/json-rpc.js'
import { type TransportLike, type WireMessage, withTags } from '../protocol/shared-wire.js'
import { endNotification, statusOf, type StreamStatus } from '../protocol/stream-messages.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import type { Record } from '../streams/record.js'
import type { Stream } from '../streams/stream.js'
import { now } from '../protocol/clock.js'
import { faultError } from '../protocol/errors.js'
import type { Batch, SegmentReader } from '../streams/segment.js'
import type { Retained } from '../streams/retained.js'
import { withForeignIds } from '../protocol/foreign-id.js'
import { dataOf, newFields, readFields } from '../protocol/sse-fields.js'
import type { Reader } from '../streams/stream-types.js'

/** A session, for its wires and for what it is made of. */
export interface WireSession {
  readonly id: string
  readonly owner: string
  readonly onerror?: ((error: Error) => void) | undefined
  /** Whether nothing has come in yet. */
  readonly isFresh: boolean
  readonly wire: Wire | undefined
  /** `extra`: what else the transport knows of the message, such as who has sent it. */
  receive(message: WireMessage, extra: unknown): void
  answered(message: Message & { readonly id: RequestId }, extra: unknown): void
  follow(wire: Wire, except: Stream | Record): void
  signOfLife(): void
  wireLost(wire: Wire): void
  sendToServer(message: WireMessage): void
  /** Rejects if there is no wire, or if it does not take the message. */
  sendToClient(message: WireMessage): Promise<void>
  /** A request's stream has ended. `hadAnswer`: with its response, or the client wants none. */
  requestOver(id: RequestId, stream: Stream, hadAnswer: boolean): void
  /** Its server's requests are not answered. */
  unanswered(ids: readonly RequestId[]): void
  /** While the process is about to end: disconnects an idle client, to come back elsewhere. */
  leaveIfIdle(): void
  /** A stream or a call of it is over. */
  endIfOver(): void
  /** Ends the session for its client, which wants nothing more of it. */
  cancel(): void
}

/** Bytes on the way on a wire. Below that no reader waits: messages are sent in their tick. */
const MOST_UNDERWAY = 256 * 1024
/** The same for answers of our own. A client that keeps asking and never reads is cut off. */
const MOST_ANSWERS = 1024 * 1024

export class Wire {
  /** Identifies the wire without keeping it in memory. */
  readonly key = Symbol()
  session: WireSession
  readonly transport: TransportLike
  readonly #host: InstanceParts
  /** The wire's own, and those whose streams were resumed here. */
  readonly #sessions = new Set<WireSession>()
  readonly #readers = new Set<WireReader>()
  /** Bytes of messages that the transport has not taken yet. */
  #underway = 0
  /** Of these, bytes of our own answers. */
  #answers = 0
  #isClosed = false
  #lastSent: Promise<void> = Promise.resolve()

  constructor(transport: TransportLike, session: WireSession, host: InstanceParts) {
    this.transport = transport
    this.session = session
    this.#host = host
    this.#sessions.add(session)
  }

  /** Starts the transport. Listeners that the user has set on it are still called. */
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
   * If that fails, the wire is closed: its client comes back and gets the message again. `bytes`
   * are counted until it is taken.
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

  /** Sends an answer of our own. Their size is limited: a client can ask without reading. */
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

  /** JSON-RPC requires `null` where there is no id; the official SDK drops such a message. */
  refuse(id: RequestId | undefined, { code, message, data }: ErrorObject): void {
    void this.answer({
      jsonrpc: '2.0',
      id: id ?? null,
      error: { code, message, ...(data !== undefined && { data }) }
    })
  }

  /** Closes the wire after what is being sent: some transports drop that when they are closed. */
  async closeWhenSent(): Promise<void> {
    try {
      await this.#lastSent
    } catch {
      // `send` handles the error.
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

  /** Whether streams of calls are still followed here. */
  get isGivingCalls(): boolean {
    return [...this.#readers].some(({ stream }) => stream.kind === 'request')
  }

  followed(streamId: string): Stream | Record | undefined {
    return [...this.#readers].find(({ stream }) => stream.id === streamId)?.stream
  }

  /** `onDone` is called when no more of it comes here. */
  follow(stream: Stream | Record, cursor: number, onDone?: (status: StreamStatus) => void): void {
    const isForeign = stream.sessionId !== this.session.id
    const reader = new WireReader(stream, cursor, this, { isForeign, onDone })
    this.#readers.add(reader)
    reader.start()
  }

  readerClosed(reader: WireReader): void {
    this.#readers.delete(reader)
    if (!this.#isClosed) for (const session of [...this.#sessions]) session.leaveIfIdle()
  }

  /** Replaces the wire's own session if that is unused; otherwise it is added. */
  adopt(session: WireSession, except: Stream | Record): void {
    const fresh = this.session
    if (fresh.isFresh && fresh !== session) {
      this.session = session
      fresh.cancel()
    } else if (session.wire !== undefined) return
    this.#sessions.add(session)
    session.follow(this, except)
  }

  /** Ended, or connected by another wire. A wire that loses its own session is closed. */
  async drop(session: WireSession): Promise<void> {
    this.#sessions.delete(session)
    if (session === this.session) await this.close()
  }

  /** Whether so much is unsent that readers have to wait, until they are woken again. */
  get isFull(): boolean {
    return this.#underway >= MOST_UNDERWAY
  }

  #taken(bytes: number): void {
    const { isFull } = this
    this.#count(-bytes)
    if (!isFull) return
    // Each woken reader moves to the end, so that none takes all the room.
    for (const reader of [...this.#readers]) {
      if (this.isFull) return
      if (!this.#readers.delete(reader)) continue
      this.#readers.add(reader)
      reader.wake()
    }
  }

  /** Counts unsent bytes: even beyond the limit, because they are held already. */
  #count(bytes: number): void {
    const { budget } = this.#host.table
    if (this.#isClosed) return
    this.#underway += bytes
    if (bytes > 0) budget.holdAnyway('', bytes)
    else budget.release('', -bytes)
  }

  #closed(): void {
    if (this.#isClosed) return
    this.#count(-this.#underway)
    this.#isClosed = true
    for (const reader of [...this.#readers]) reader.close()
    for (const session of [...this.#sessions]) session.wireLost(this)
  }
}

const NO_EVENTS = new Uint8Array(0)

const SESSION_ID = 'transport:'

/** Makes a session id that no HTTP endpoint would make. */
export function newSessionId(): string {
  return SESSION_ID + nanoid()
}

/** Whether a stream was opened on a wire, and not over HTTP. */
export function isOfTransport({ sessionId }: { readonly sessionId: string | undefined }): boolean {
  return sessionId?.startsWith(SESSION_ID) === true
}

interface WireReaderOptions {
  /** Requests of another session than the wire's get ids that cannot clash. */
  readonly isForeign: boolean
  /** The stream has ended, or another wire follows it. */
  readonly onDone?: ((status: StreamStatus) => void) | undefined
}

/** Pulls from the log, and so lags behind a slow wire without a queue. */
class WireReader implements Reader, SegmentReader {
  readonly stream: Stream | Record
  #cursor: number
  #isClosed = false
  #isPumping = false
  #hasSentEnd = false
  readonly #wire: Wire
  readonly #options: WireReaderOptions

  constructor(stream: Stream | Record, cursor: number, wire: Wire, options: WireReaderOptions) {
    this.stream = stream
    this.#cursor = cursor
    this.#wire = wire
    this.#options = options
  }

  /** Takes the stream over from any older reader. */
  start(): void {
    if (!this.stream.isRecord) this.stream.attach(this, this.#cursor)
    this.wake()
  }

  wake(): void {
    // Sending a message may wake this reader again: the loop that is running handles that.
    if (this.#isPumping || this.#isClosed) return
    this.#isPumping = true
    if (this.stream.hasEvicted(this.#cursor)) this.#skip()
    while (!this.#isClosed && !this.#wire.isFull && this.#cursor < this.stream.last)
      this.#sendBatch()
    this.#isPumping = false
    if (!this.#isClosed && this.stream.isEnded && this.#cursor === this.stream.last) this.#finish()
  }

  finish(): void {
    this.wake()
  }

  /** Unless the stream was cancelled, an error answers each of its requests. */
  #skip(): void {
    const { stream } = this
    this.#cursor = stream.isKept ? stream.first - 1 : stream.last
    const error = faultError('events-evicted')
    if (stream.state !== 'cancelled')
      for (const id of stream.requestIds) this.#send({ jsonrpc: '2.0', id, error }, 0)
  }

  #sendBatch(): void {
    const { stream } = this
    const batch = stream.isRecord ? undefined : stream.log.retain(this.#cursor, this)
    const bytes = batch?.bytes ?? (stream as Record).eventsAfter(this.#cursor) ?? NO_EVENTS
    const fields = newFields()
    let from = 0
    while (from < bytes.length && !this.#isClosed && !this.#wire.isFull) {
      const to = readFields(bytes, from, fields)
      const message = JSON.parse(dataOf(bytes, from, to, fields)) as WireMessage
      this.#cursor++
      if (batch !== undefined) this.#markWritten(batch)
      this.#send(this.#forWire(message), to - from)
      from = to
    }
    batch?.release()
  }

  recalled(): void {
    // `#sendBatch` is synchronous and releases its batch at once.
  }

  #markWritten(batch: Batch): void {
    ;(this.stream as Stream).markWritten({ ...batch, last: this.#cursor }, now())
  }

  #send(message: WireMessage, bytes: number): void {
    this.#hasSentEnd = message.method === 'notifications/stream/end'
    void this.#wire.send(message, bytes)
  }

  #forWire(message: WireMessage): WireMessage {
    const { stream } = this
    const eventId = `${stream.id}.${this.#cursor}`
    const isCreate = message.method === 'notifications/stream/create'
    const own = this.#options.isForeign ? withForeignIds(message, stream.id) : message
    return withTags(own, eventId, isCreate ? stream.requestIds[0] : undefined)
  }

  /** The stream has ended: tells the client, unless the log ended with such a message. */
  #finish(): void {
    const { stream } = this
    const end = JSON.parse(endNotification(stream.id)) as WireMessage
    if (!this.#hasSentEnd) this.#send(withTags(end, `${stream.id}.${stream.last + 1}`), 0)
    this.close()
    this.#options.onDone?.(statusOf(this.stream))
  }

  takeOver(): void {
    if (this.#isClosed) return
    this.close()
    this.#options.onDone?.(statusOf(this.stream))
  }

  /** Ends without delay: the wire stays open, and its client does not reconnect by itself. */
  giveWay(): void {
    this.takeOver()
  }

  /** Ends without telling anybody, for instance because the wire is gone. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    if (!this.stream.isRecord) this.stream.detach(this)
    this.#wire.readerClosed(this)
  }

  /** Blocks without an event are for HTTP. */
  comment(_bytes: Uint8Array, retained: Retained): void {
    retained.release()
  }

  /** A wire carries other streams, too, so it stays open. */
  disconnect(): boolean {
    return false
  }
}
