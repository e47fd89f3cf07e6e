// One client connection: a cursor that pulls from a stream's log, without a queue.
import { label } from '../protocol/event-id.js'
import type { ClientProfile } from '../protocol/revisions.js'
import { firstBlock, KEEP_ALIVE_COMMENT, lastBlock } from '../protocol/sse-writer.js'
import { type DueQueue, Waiting } from '../streams/due-queue.js'
import type { Record } from '../streams/record.js'
import type { Retained } from '../streams/retained.js'
import type { Batch, SegmentReader } from '../streams/segment.js'
import type { Stream } from '../streams/stream.js'
import type { Reader } from '../streams/stream-types.js'
import { type Sink, SinkWriter, SocketClosing } from './sink.js'
import type { Stallable } from './stall-watch.js'

export interface ConnectionOptions {
  /** Reconnection time in the first block, in milliseconds; `null` sends none. */
  readonly retry: number | null
  /** Reconnection time sent when the connection is disconnected at will, in milliseconds. */
  readonly retryAtWill: number
  /** Called with a stream whose connection broke while it had more to send. */
  readonly lost: (stream: Stream | Record) => void
  readonly debug: (format: string, ...args: unknown[]) => void
}

/**
 * - `idle`: nothing to do until the stream wakes it.
 * - `scheduled`: at the end of this tick it writes all that has been appended by then.
 * - `blocked`: the socket is full; it lags until `drain`.
 * - `superseded`: a newer connection follows the stream; it writes no more than what keeps it
 *   open, and ends with `takeOver`.
 * - `leaving`: disconnected while blocked; the stream goes on without it, its last block waits for
 *   `drain`.
 * - `closed`: for good.
 */
type ConnectionState = 'idle' | 'scheduled' | 'blocked' | 'superseded' | 'leaving' | 'closed'

/** What a client was given before its call was a stream. */
export interface Given {
  /** With the first block. */
  readonly hasFirst: boolean
  /** When it was given the last event, in milliseconds of `now()`. */
  readonly givenAt: number
}

/** Bytes copied behind the first block, to be one write: a second one costs more. */
const MOST_COPIED = 1024

export interface ConnectionHost {
  /** Time the silence of all connections, for `keepAlive`; `undefined`: it is never broken. */
  readonly silences: DueQueue | undefined
  /** Time the age of all, for `disconnectAfter`; `undefined`: it has no limit. */
  readonly ages: DueQueue | undefined
  /** It has closed, from either side. Called once for each connection. */
  closed(connection: Connection): void
  /** Its socket has not taken everything. */
  waits(connection: Connection): void
  /** Its socket has drained or closed. */
  goesOn(connection: Connection): void
}

export class Connection implements Reader, SegmentReader, Stallable {
  readonly stream: Stream
  #state: ConnectionState = 'idle'
  /** Set by `disconnect`, and written at `drain` if the socket is full. */
  #lastBlock: Uint8Array | undefined
  #cursor: number
  /** The first block, with the reconnection time, is still to be written. */
  #isFirst = true
  #hasBlocked = false
  #hasTimers = false
  #silence: Waiting | undefined
  #age: Waiting | undefined
  /** Set once the process is about to end. */
  #socketClosing: SocketClosing | undefined
  readonly #sink: Sink
  readonly #writer: SinkWriter
  readonly #profile: ClientProfile
  readonly #options: ConnectionOptions
  readonly #host: ConnectionHost

  /**
   * Takes the stream over from any older connection, and starts after the cursor.
   */
  constructor(
    stream: Stream,
    cursor: number,
    sink: Sink,
    profile: ClientProfile,
    options: ConnectionOptions,
    host: ConnectionHost
  ) {
    this.stream = stream
    this.#cursor = cursor
    this.#sink = sink
    this.#writer = new SinkWriter(sink)
    this.#profile = profile
    this.#options = options
    this.#host = host
    if (sink.isGone) {
      // The client has gone: to take over would end the connection of another that is still there.
      this.#state = 'closed'
      stream.missed()
      return
    }
    stream.attach(this, cursor)
    sink.onClose(() => this.#gone())
  }

  /** Whether this client comes back by itself after a close, by what it has said or shown. */
  get reconnects(): boolean {
    const { stream } = this
    if (stream.followsLinks) return true
    const { reconnects, primer } = this.#profile
    const isShown = reconnects === 'always' || (reconnects === 'when-resumed' && stream.isResumed)
    // Without an id to come back with, only a client that follows the link can.
    return isShown && (primer !== 'none' || this.#cursor > 0)
  }

  /** The sequence of the last event that it has written, or that its client had already. */
  get cursor(): number {
    return this.#cursor
  }

  get isClosed(): boolean {
    return this.#state === 'closed'
  }

  get hasWritten(): boolean {
    return this.#writer.lastWriteAt > 0
  }

  /** Whether its client is connected to another instance, which relays. */
  get isRelayed(): boolean {
    return this.#sink.isRelayed === true
  }

  wake(): void {
    if (this.#state !== 'idle') return
    this.#state = 'scheduled'
    process.nextTick(flush, this)
  }

  /** Writes what has been appended, without waiting for the end of the tick. */
  flush(): void {
    if (this.#state !== 'idle' && this.#state !== 'scheduled') return
    this.#state = 'idle'
    this.#sink.cork()
    try {
      const first = this.#takeFirst()
      if (first === '' || !this.#writeTogether(first)) this.#writeEvents()
      if (this.stream.isEnded && this.#state === 'idle') this.#end()
    } finally {
      this.#sink.uncork()
    }
    this.#startTimers()
    this.#watch()
  }

  finish(): void {
    this.flush()
  }

  /** Its client was given all that there is. */
  hasGiven({ hasFirst, givenAt }: Given): void {
    if (this.isClosed) return
    const { stream } = this
    this.#isFirst = !hasFirst
    while (this.#cursor < stream.log.last) {
      const batch = stream.log.read(this.#cursor)
      this.#cursor = batch.last
      stream.markWritten(batch, givenAt)
    }
    this.#startTimers()
  }

  comment(bytes: Uint8Array, retained: Retained): void {
    if (this.#state === 'scheduled') this.flush()
    if (this.#state === 'idle') {
      // The first block goes first, so that the endpoint's `retry` overrides ours.
      const first = this.#takeFirst(true)
      if (first !== '') this.#write(Buffer.from(first, 'latin1'))
      this.#write(bytes, retained)
    } else retained.release()
    this.#watch()
  }

  /**
   * Disconnects the client at will: an id to come back with, a reconnection time, and a clean end
   * (SEP-1335). `false`: it stays connected, because its client would not come back (not checked if
   * `isPresumed`), or could not come back to this call as the process is about to end.
   */
  disconnect(retry: number = this.#options.retryAtWill, isPresumed = false): boolean {
    const { debug } = this.#options
    const { stream } = this
    this.flush()
    if (this.#state === 'superseded') this.takeOver()
    if (this.#state === 'leaving' || this.#state === 'closed') return true
    if (
      this.#socketClosing?.isPending === true &&
      stream.kind === 'request' &&
      stream.state === 'live'
    ) {
      debug('stream %s: not disconnected at will, the process is about to end', label(stream))
      return false
    }
    if (!isPresumed && !this.reconnects) {
      debug(
        'stream %s: not disconnected at will, its client has not shown that it comes back',
        label(stream)
      )
      return false
    }
    debug('stream %s: disconnected at will, to come back in %d ms', label(stream), retry)
    this.#lastBlock = Buffer.from(lastBlock(stream, this.#cursor, this.#profile, retry), 'latin1')
    if (this.#state === 'blocked') this.#leave()
    else this.#writeLastBlock()
    return true
  }

  /** The process is about to end: the client of a listen channel is sent elsewhere. */
  stopListening(retry: number): void {
    if (this.isClosed || this.stream.kind !== 'listen') return
    // Not at will: the channel ends, whether its client comes back or not.
    this.disconnect(retry, true)
  }

  /** The process is about to end: no other request is to come over this socket. */
  closeSocket(): void {
    this.#sink.closeSocket(() => undefined)
  }

  /** The socket closes together with the response, which a call keeps open until it is answered. */
  beginClosing(onClosed: () => void): void {
    this.#socketClosing = new SocketClosing(this.#sink, onClosed)
  }

  /** Cuts the connection if the socket has not closed within so many milliseconds. */
  cutAfter(patience: number): void {
    this.#socketClosing?.within(patience, () => this.#cut())
  }

  giveWay(): void {
    this.#state = 'superseded'
  }

  takeOver(): void {
    // A socket that takes nothing must not retain memory; any other client gets a clean end.
    const isStuck =
      this.#state === 'blocked' || (this.#state === 'superseded' && this.#sink.pending > 0)
    if (isStuck) return this.#cut()
    this.#end()
    this.#watch()
  }

  // SegmentReader

  /** The memory is needed before the socket has taken it, or is no longer wanted. */
  recalled(): void {
    if (this.#sink.pending > 0) this.#cut()
  }

  // Stallable

  get pending(): number {
    return this.#sink.pending
  }

  emptied(): void {
    this.#writer.release()
  }

  stalled(): void {
    this.#lose('its client takes nothing')
  }

  /** Breaks, as in a bad network. */
  cut(): void {
    this.#lose('an operator has asked for it')
  }

  #lose(why: string): void {
    this.#noteLoss()
    this.#options.debug('stream %s: connection cut, %s', label(this.stream), why)
    this.#cut()
  }

  // Writing

  /** The first block, once; '' if there is none, or none yet. */
  #takeFirst(hasMore = this.#cursor < this.stream.log.last): string {
    if (!this.#isFirst) return ''
    const { retry } = this.#options
    const first = firstBlock(this.stream, this.#cursor, this.#profile, retry, hasMore)
    this.#isFirst = first === undefined
    return first ?? ''
  }

  /** Writes the first block with all events, if these are small. `false`: it was written alone. */
  #writeTogether(first: string): boolean {
    const { stream } = this
    const { log } = stream
    if (this.#hasLost()) return true
    const size = this.#cursor + 1 >= log.first ? log.sizeAfter(this.#cursor) : 0
    if (size > 0 && size <= MOST_COPIED) {
      const bytes = Buffer.allocUnsafe(first.length + size)
      let end = bytes.write(first, 'latin1')
      const batches: Batch[] = []
      while (this.#cursor < log.last) {
        const batch = log.read(this.#cursor)
        this.#cursor = batch.last
        bytes.set(batch.bytes, end)
        end += batch.bytes.length
        batches.push(batch)
      }
      this.#write(bytes)
      for (const batch of batches) stream.markWritten(batch, this.#writer.lastWriteAt)
      return true
    }
    this.#write(Buffer.from(first, 'latin1'))
    return false
  }

  #writeEvents(): void {
    const { stream } = this
    const { log } = stream
    while (this.#state === 'idle' && this.#cursor < log.last && !this.#hasLost()) {
      if (this.#cursor + 1 < log.first) {
        // A clean end would make the stream look complete; after a cut, its client gets an error.
        this.#cut()
        return
      }
      const isCopied = log.sizeAfter(this.#cursor) <= (this.#sink.copies ?? 0)
      const retained = isCopied ? undefined : log.retain(this.#cursor, this)
      const batch = retained ?? log.read(this.#cursor)
      this.#cursor = batch.last
      this.#write(batch.bytes, retained)
      stream.markWritten(batch, this.#writer.lastWriteAt)
    }
  }

  #write(bytes: Uint8Array, retained?: Retained): void {
    if (this.#hasLost()) return retained?.release()
    if (this.#silence !== undefined) this.#host.silences?.add(this.#silence)
    const hasRoom = this.#writer.write(bytes, retained)
    if (hasRoom || this.#state !== 'idle') return
    this.#state = 'blocked'
    if (this.#hasBlocked) return
    this.#hasBlocked = true
    this.#sink.onDrain(() => this.#drained())
  }

  #drained(): void {
    this.#writer.hasRoom()
    this.#host.goesOn(this)
    if (this.#state === 'leaving') this.#writeLastBlock()
    if (this.#state !== 'blocked') return
    this.#state = 'idle'
    this.flush()
  }

  // Its end

  /** The socket is full: the stream goes on, and the last block follows at `drain`. */
  #leave(): void {
    this.#state = 'leaving'
    this.#stopTimers()
    this.stream.detach(this)
  }

  #writeLastBlock(): void {
    if (this.#lastBlock !== undefined && !this.#hasLost()) this.#sink.write(this.#lastBlock)
    this.#end()
    this.#watch()
  }

  #end(): void {
    if (this.#hasLost()) return
    this.#close(this.#cursor)
    this.#sink.end()
  }

  /** Memory is released when the socket has closed, or by the next sweep of the stall watch. */
  #cut(): void {
    this.#sink.destroy()
    this.#close()
    if (this.#writer.isRetaining) this.#host.waits(this)
  }

  /** The socket has closed: what was retained for it is not read any more. */
  #gone(): void {
    this.#noteLoss()
    this.#writer.release()
    this.#close()
    this.#host.goesOn(this)
  }

  /** If earlier middleware has ended the response, it is closed now, as if the client had left. */
  #hasLost(): boolean {
    if (this.#sink.isOver) this.#close()
    return this.#state === 'closed'
  }

  /** Reports a loss, unless another connection follows the stream by now. */
  #noteLoss(): void {
    const { stream } = this
    if (stream.readers.current !== this || stream.isEphemeral) return
    this.#options.debug('stream %s: connection lost after event %d', label(stream), this.#cursor)
    this.#options.lost(stream)
  }

  /** `closedCleanlyAt`: all events up to there are written, and the client sees a clean end. */
  #close(closedCleanlyAt?: number): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#stopTimers()
    this.stream.detach(this, closedCleanlyAt)
    this.#host.closed(this)
  }

  /** Hands the connection to the stall watch while its socket has not taken everything. */
  #watch(): void {
    if (this.#state === 'blocked' || (this.#state === 'closed' && this.#sink.pending > 0))
      this.#host.waits(this)
  }

  // Its timers

  /** Started after the first events, because most connections are closed by then. */
  #startTimers(): void {
    const { silences, ages } = this.#host
    const isOpen =
      this.#state === 'idle' || this.#state === 'scheduled' || this.#state === 'blocked'
    if (!isOpen || this.#hasTimers) return
    this.#hasTimers = true
    if (ages !== undefined) ages.add((this.#age = new Waiting(() => this.disconnect())))
    if (silences !== undefined) {
      this.#silence = new Waiting(() => this.#breakSilence())
      silences.add(this.#silence)
    }
  }

  /** Nothing has been written for as long as allowed. */
  #breakSilence(): void {
    // Where the relay breaks the silence, it is timed again once something has been written.
    if (this.#sink.isKeptAlive === true) return
    if (this.#state === 'idle' || this.#state === 'superseded') this.#write(KEEP_ALIVE_COMMENT)
    else if (this.#silence !== undefined) this.#host.silences?.add(this.#silence)
  }

  #stopTimers(): void {
    this.#silence?.stop()
    this.#age?.stop()
    this.#silence = this.#age = undefined
    this.#hasTimers = false
  }
}

function flush(connection: Connection): void {
  connection.flush()
}
