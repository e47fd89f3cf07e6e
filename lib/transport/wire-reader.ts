// Follows a stream and sends its messages over a wire. It pulls from the log, and so it lags behind
// a slow wire without a queue.
import { now } from '../protocol/clock.js'
import { faultError } from '../protocol/errors.js'
import type { Batch, SegmentReader } from '../streams/segment.js'
import type { Retained } from '../streams/retained.js'
import { withForeignIds } from '../protocol/foreign-id.js'
import { withTags, type WireMessage } from '../protocol/shared-wire.js'
import { dataOf, newFields, readFields } from '../protocol/sse-fields.js'
import { endNotification, statusOf, type StreamStatus } from '../protocol/stream-messages.js'
import type { Stream } from '../streams/stream.js'
import type { Reader } from '../streams/stream-types.js'

/** What a reader needs of its wire. */
export interface ReaderHost {
  /** Whether so much is unsent that readers have to wait, until they are woken again. */
  readonly isFull: boolean
  /**
   * Sends a message; a wire that fails closes its readers. `bytes` are counted until it has taken
   * the message.
   */
  send(message: WireMessage, bytes: number): Promise<void>
  /** The reader has closed. */
  readerClosed(reader: WireReader): void
}

export interface WireReaderOptions {
  /**
   * Whether the stream belongs to another session than the wire: its requests then get ids that
   * cannot clash with those of the wire's session.
   */
  readonly isForeign: boolean
  /**
   * Called when nothing more comes on this wire: the stream has ended, or another wire follows it.
   */
  readonly onDone?: ((status: StreamStatus) => void) | undefined
}

export class WireReader implements Reader, SegmentReader {
  readonly stream: Stream
  #cursor: number
  #isClosed = false
  #isPumping = false
  #hasSentEnd = false
  readonly #wire: ReaderHost
  readonly #options: WireReaderOptions

  constructor(stream: Stream, cursor: number, wire: ReaderHost, options: WireReaderOptions) {
    this.stream = stream
    this.#cursor = cursor
    this.#wire = wire
    this.#options = options
  }

  /** Takes the stream over from any older reader. */
  start(): void {
    this.stream.attach(this, this.#cursor)
    this.wake()
  }

  wake(): void {
    // Sending a message may wake this reader again: the loop that is running handles that.
    if (this.#isPumping || this.#isClosed) return
    this.#isPumping = true
    if (this.#cursor + 1 < this.stream.log.first) this.#skip()
    while (!this.#isClosed && !this.#wire.isFull && this.#cursor < this.stream.last)
      this.#sendBatch()
    this.#isPumping = false
    if (!this.#isClosed && this.stream.isEnded && this.#cursor === this.stream.last) this.#finish()
  }

  finish(): void {
    this.wake()
  }

  /**
   * Skips events that were evicted. Unless the stream was cancelled, an error answers each of its
   * requests.
   */
  #skip(): void {
    const { stream } = this
    this.#cursor = stream.log.first - 1
    const error = faultError('events-evicted')
    if (stream.state !== 'cancelled')
      for (const id of stream.requestIds) this.#send({ jsonrpc: '2.0', id, error }, 0)
  }

  #sendBatch(): void {
    const batch = this.stream.log.retain(this.#cursor, this)
    const fields = newFields()
    let from = 0
    while (from < batch.bytes.length && !this.#isClosed && !this.#wire.isFull) {
      const to = readFields(batch.bytes, from, fields)
      const message = JSON.parse(dataOf(batch.bytes, from, to, fields)) as WireMessage
      this.#cursor++
      this.#markWritten(batch)
      this.#send(this.#forWire(message), to - from)
      from = to
    }
    batch.release()
  }

  recalled(): void {
    // `#sendBatch` is synchronous and releases its batch at once.
  }

  #markWritten(batch: Batch): void {
    this.stream.markWritten({ ...batch, last: this.#cursor }, now())
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
    this.stream.detach(this)
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
