// One client connection: a cursor that pulls from a stream's log. A slow or absent client only
// lags; it owns no queue. Longer than most files: all changes of its state are here.
import { label } from '../protocol/event-id.js'
import type { ClientProfile } from '../protocol/revisions.js'
import { KEEP_ALIVE_COMMENT } from '../protocol/sse-writer.js'
import type { Retained } from '../streams/retained.js'
import type { Batch, SegmentReader } from '../streams/segment.js'
import type { Stream } from '../streams/stream.js'
import type { Reader } from '../streams/stream-types.js'
import {
  type ConnectionQueues,
  ConnectionTimers,
  type TimedConnection
} from './connection-timers.js'
import { firstBlock, lastBlock } from './first-block.js'
import type { Sink } from './sink.js'
import { SinkWriter } from './sink-writer.js'
import { SocketRelease } from './socket-release.js'
import type { Waiting } from './stall-watch.js'

export interface ConnectionOptions {
  /** Reconnection time of the first block, in milliseconds; `null` sends none. */
  readonly retry: number | null
  /** Reconnection time sent right before the server closes at will, in milliseconds. */
  readonly retryAtWill: number
  /** Told of a stream whose connection broke while it had more to send. */
  readonly lost: (stream: Stream) => void
  /** A line for `DEBUG=mcp-streams`. */
  readonly debug: (format: string, ...args: unknown[]) => void
}

/**
 * - `idle`: nothing to do until the stream wakes it.
 * - `scheduled`: will write at the end of this tick, everything that has gathered by then in one
 *   go.
 * - `blocked`: the socket takes no more; it lags until `drain`.
 * - `superseded`: a newer one follows the stream; it writes no more, and ends with `takeOver`.
 * - `leaving`: disconnected while blocked; the stream goes on without it, its last block waits for
 *   `drain`.
 * - `closed`: for good.
 */
type ConnectionState = 'idle' | 'scheduled' | 'blocked' | 'superseded' | 'leaving' | 'closed'

/**
 * Bytes of events that are copied behind a connection's first block: one write costs less than
 * another write of memory that is retained.
 */
const MOST_COPIED = 1024

/** Who keeps the connection. */
export interface ConnectionHost extends ConnectionQueues {
  /** It has closed, from either side. Called once. */
  closed(connection: Connection): void
  /** It waits for its socket. */
  waits(connection: Connection): void
  /** It does not wait any more. */
  goesOn(connection: Connection): void
}

export class Connection implements Reader, SegmentReader, TimedConnection, Waiting {
  readonly stream: Stream
  #state: ConnectionState = 'idle'
  /** Set while it waits for its socket in order to leave. */
  #lastBlock: Uint8Array | undefined
  #cursor: number
  /** Nothing has been written yet: the first block carries the reconnection time. */
  #isFirst = true
  /** It has waited for its socket, and listens for `drain`. */
  #hasBlocked = false
  /** Set with its first events: most connections are closed by then. */
  #timers: ConnectionTimers | undefined
  /** Set when the process is about to end. */
  #release: SocketRelease | undefined
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
      // Taking the stream over would end the connection of a client that is there.
      this.#state = 'closed'
      stream.missed()
      return
    }
    stream.attach(this, cursor)
    sink.onClose(() => this.#gone())
  }

  /** Whether this client comes back by itself after a close. */
  get reconnects(): boolean {
    if (this.stream.followsLinks) return true
    const { reconnects, primer } = this.#profile
    // Without an id to come back with, only a client that follows the link can.
    return reconnects && (primer !== 'none' || this.#cursor > 0)
  }

  /** The sequence of the last event that it has written, or that its client had before. */
  get cursor(): number {
    return this.#cursor
  }

  get isClosed(): boolean {
    return this.#state === 'closed'
  }

  get hasWritten(): boolean {
    return this.#writer.lastWriteAt > 0
  }

  /** Its client has come by another instance. */
  get isRelayed(): boolean {
    return this.#sink.isRelayed === true
  }

  wake(): void {
    if (this.#state !== 'idle') return
    this.#state = 'scheduled'
    process.nextTick(flush, this)
  }

  /** Writes what there is, without waiting for the end of the tick. */
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

  comment(bytes: Uint8Array, retained: Retained): void {
    if (this.#state === 'scheduled') this.flush()
    if (this.#state === 'idle') {
      // What the endpoint says of reconnection times comes after ours, and so it counts.
      const first = this.#takeFirst(true)
      if (first !== '') this.#write(Buffer.from(first, 'latin1'))
      this.#write(bytes, retained)
    } else retained.release()
    this.#watch()
  }

  /**
   * The server closes at will: an id to come back with, a reconnection time, and a clean end
   * (SEP-1335). `false`: this client would not come back, or not to this call if the process is
   * about to end, so it stays connected; the former not if `isPresumed`.
   */
  disconnect(retry: number = this.#options.retryAtWill, isPresumed = false): boolean {
    const { debug } = this.#options
    const { stream } = this
    this.flush()
    if (this.#state === 'superseded') this.takeOver()
    if (this.#state === 'leaving' || this.#state === 'closed') return true
    if (this.#release?.isPending === true && stream.kind === 'request' && stream.state === 'live') {
      debug('stream %s: not disconnected at will, the process is about to end', label(stream))
      return false
    }
    if (!isPresumed && !this.reconnects) {
      debug('stream %s: not disconnected at will, its client would not come back', label(stream))
      return false
    }
    debug('stream %s: disconnected at will, to come back in %d ms', label(stream), retry)
    this.#lastBlock = Buffer.from(lastBlock(stream, this.#cursor, this.#profile, retry), 'latin1')
    if (this.#state === 'blocked') this.#leave()
    else this.#writeLastBlock()
    return true
  }

  /** The process is about to end: who only listens goes elsewhere. */
  stopListening(retry: number): void {
    if (this.isClosed || this.stream.kind !== 'listen') return
    if (!this.disconnect(retry)) this.stream.fail('closing')
  }

  /**
   * The process is about to end: the socket closes with the response, and a call keeps it until
   * then.
   */
  beginClosing(onReleased: () => void): void {
    this.#release = new SocketRelease(this.#sink, onReleased)
  }

  /** Waits for the socket no longer than so many milliseconds. */
  cutAfter(patience: number): void {
    this.#release?.within(patience, () => this.#cut())
  }

  /**
   * Leaves the response to somebody else: what there is goes out, however slow the client, and
   * nothing is ended.
   */
  detach(): void {
    this.flush()
    while (this.#state === 'blocked') {
      this.#state = 'idle'
      this.flush()
    }
    this.#close()
    this.#release?.released()
  }

  giveWay(): void {
    if (this.#state === 'leaving' || this.#state === 'closed') return
    this.#state = 'superseded'
    this.#stopTimers()
  }

  takeOver(): void {
    // A dead socket must not retain memory, and the client of a living one sees a clean end.
    const isStuck =
      this.#state === 'blocked' || (this.#state === 'superseded' && this.#sink.pending > 0)
    if (isStuck) return this.#cut()
    this.#end()
    this.#watch()
  }

  // SegmentReader

  /** Memory is short, or nobody wants these bytes any more. */
  recalled(): void {
    if (this.#sink.pending > 0) this.#cut()
  }

  // Waiting

  get pending(): number {
    return this.#sink.pending
  }

  settled(): void {
    this.#writer.release()
  }

  stalled(): void {
    this.#noteLoss()
    this.#options.debug('stream %s: connection cut, its client takes nothing', label(this.stream))
    this.#cut()
  }

  // TimedConnection

  breakSilence(): boolean {
    // It may become silent again once something is written.
    if (this.#sink.isKeptAlive === true) return true
    if (this.#state !== 'idle') return false
    this.#write(KEEP_ALIVE_COMMENT)
    return true
  }

  hasAged(): void {
    this.disconnect()
  }

  // Writing

  /** What stands in front of all events, once; '': nothing, or nothing yet. */
  #takeFirst(hasMore = this.#cursor < this.stream.log.last): string {
    if (!this.#isFirst) return ''
    const { retry } = this.#options
    const first = firstBlock(this.stream, this.#cursor, this.#profile, retry, hasMore)
    this.#isFirst = first === undefined
    return first ?? ''
  }

  /**
   * Writes the first block with the events that there are, where they are few and small. `false`:
   * it has been written alone.
   */
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
        // Its events were evicted while it lagged. A clean end would look like the whole: its
        // client comes back, and gets an error.
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
    this.#timers?.written()
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

  /** Its socket takes nothing now. What is in it comes first, but nobody waits for that. */
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

  /**
   * What was retained is released when the socket is gone: where nobody says so, the next sweep
   * finds out.
   */
  #cut(): void {
    this.#sink.destroy()
    this.#close()
    if (this.#writer.isRetaining) this.#host.waits(this)
  }

  /** Its socket is gone: nobody reads what was retained for it. */
  #gone(): void {
    this.#noteLoss()
    this.#writer.release()
    this.#close()
    this.#host.goesOn(this)
  }

  /**
   * Somebody in front of us has ended the response: to its stream it is as if its client had left.
   */
  #hasLost(): boolean {
    if (this.#sink.isOver) this.#close()
    return this.#state === 'closed'
  }

  /** Only where it is this one that the stream's client reads. */
  #noteLoss(): void {
    const { stream } = this
    if (stream.readers.current !== this || stream.isEphemeral) return
    this.#options.debug('stream %s: connection lost after event %d', label(stream), this.#cursor)
    this.#options.lost(stream)
  }

  /** `closedCleanlyAt`: it has written everything up to there, and its client sees the end. */
  #close(closedCleanlyAt?: number): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#stopTimers()
    this.stream.detach(this, closedCleanlyAt)
    this.#host.closed(this)
  }

  /** What its socket has not taken is the affair of what watches for progress. */
  #watch(): void {
    if (this.#state === 'blocked' || (this.#state === 'closed' && this.#sink.pending > 0))
      this.#host.waits(this)
  }

  // Its timers

  #startTimers(): void {
    if (this.#timers !== undefined) return
    if (this.#state === 'idle' || this.#state === 'scheduled' || this.#state === 'blocked')
      this.#timers = new ConnectionTimers(this, this.#host)
  }

  #stopTimers(): void {
    this.#timers?.stop()
    this.#timers = undefined
  }
}

function flush(connection: Connection): void {
  connection.flush()
}
