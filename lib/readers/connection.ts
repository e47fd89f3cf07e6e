// One client connection: a cursor that pulls from a stream's log. A slow or absent client only
// lags; it owns no queue.
import { now } from '../protocol/clock.js'
import { type DueQueue, Waiting } from '../streams/due-queue.js'
import { Timer } from '../streams/timer.js'
import { formatPrimerId, label } from '../protocol/event-id.js'
import type { ClientProfile } from '../protocol/revisions.js'
import { KEEP_ALIVE_COMMENT, primerText, retryFieldText } from '../protocol/sse-writer.js'
import type { GiveBack } from '../streams/segment.js'
import type { Stream } from '../streams/stream.js'
import type { Reader } from '../streams/stream-types.js'

/**
 * The response that a connection writes to: the endpoint's own, underneath the tap, or one of ours.
 */
export interface Sink {
  /** Its client has come by another instance. */
  readonly isRelayed?: boolean
  /** What passes it on to its client writes comments where it is silent. */
  readonly isKeptAlive?: boolean
  /** It takes nothing any more: somebody in front of us has ended it, or its client has gone. */
  readonly isOver: boolean
  /** Writes, and flushes whatever compresses on the way. `false`: wait for `onDrain`. */
  write(bytes: Uint8Array, onWritten?: () => void): boolean
  /**
   * It tells when the bytes of a write are not needed any more. Otherwise they may be kept, and
   * nobody says so.
   */
  readonly tellsWritten: boolean
  /** Bytes that its socket has not taken yet. */
  readonly pending: number
  /** What is written until `uncork` leaves together. */
  cork(): void
  uncork(): void
  end(): void
  /** Ends it without waiting for a client that takes nothing. */
  destroy(): void
  /** Its client has gone: nothing that is written to it goes anywhere. */
  readonly isGone: boolean
  onDrain(listener: () => void): void
  onClose(listener: () => void): void
  /**
   * Closes the socket once the response has ended, which changes nothing before: it would wait for
   * a next request otherwise.
   */
  closeSocket(onClosed: () => void): void
}

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
 * - `superseded`: a newer one follows the stream; it writes no more, and ends when it is told.
 * - `leaving`: disconnected while blocked; the stream goes on without it, its goodbye waits for
 *   `drain`.
 * - `closed`: for good.
 */
type ConnectionState = 'idle' | 'scheduled' | 'blocked' | 'superseded' | 'leaving' | 'closed'

const NO_LOANS: readonly GiveBack[] = []

/**
 * Bytes of events that are copied behind a connection's first block: one write costs less than a
 * loan and another write.
 */
const MOST_COPIED = 1024

/** Who keeps the connection. */
export interface ConnectionHost {
  /** Where it waits for its silence to have lasted; `undefined`: it is silent for ever. */
  readonly silences: DueQueue | undefined
  /** Where it waits for its greatest age; `undefined`: it has none. */
  readonly ages: DueQueue | undefined
  /** It has closed, whoever closed it. Told once. */
  closed(connection: Connection): void
  /** It waits for its socket. */
  waits(connection: Connection): void
  /** It does not wait any more. */
  goesOn(connection: Connection): void
}

export class Connection implements Reader {
  readonly stream: Stream
  #state: ConnectionState = 'idle'
  #goodbye: Uint8Array | undefined
  #cursor: number
  /** Nothing has been written yet: the first block carries the reconnection time. */
  #isFirst = true
  #lastWriteAt = 0
  #silence: Waiting | undefined
  #age: Waiting | undefined
  readonly #sink: Sink
  readonly #profile: ClientProfile
  readonly #options: ConnectionOptions
  readonly #host: ConnectionHost
  /** Gives back what the socket has been lent, in the order in which it was. */
  #loans: readonly GiveBack[] = NO_LOANS
  /**
   * Set when the process is about to end: told when the socket has closed, or is somebody else's.
   */
  #onReleased: (() => void) | undefined
  #deadline: Timer | undefined

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
    sink.onDrain(() => this.#drained())
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
    return this.#lastWriteAt > 0
  }

  wake(): void {
    if (this.#state !== 'idle') return
    this.#state = 'scheduled'
    process.nextTick(this.flush)
  }

  /** Writes what there is, without waiting for the end of the tick. */
  readonly flush = (): void => {
    if (this.#state !== 'idle' && this.#state !== 'scheduled') return
    this.#state = 'idle'
    this.#sink.cork()
    try {
      const first = this.#isFirst ? this.#firstBlock() : ''
      if (first === '' || !this.#writeTogether(first)) this.#writeEvents()
      if (this.stream.isEnded && this.#state === 'idle') this.#end()
    } finally {
      this.#sink.uncork()
    }
    this.#startTimers()
    this.#watch()
  }

  /**
   * Writes the first block with the events that there are, where they are few and small. `false`:
   * it has been written alone.
   */
  #writeTogether(first: string): boolean {
    const { stream } = this
    const { log } = stream
    if (this.#hasLost()) return true
    if (this.#cursor + 1 >= log.first && this.#cursor < log.last) {
      const batch = log.read(this.#cursor)
      const isSmall = batch.last === log.last && batch.bytes.length <= MOST_COPIED
      if (isSmall) {
        const bytes = Buffer.allocUnsafe(first.length + batch.bytes.length)
        bytes.write(first, 'latin1')
        bytes.set(batch.bytes, first.length)
        this.#cursor = batch.last
        this.#write(bytes)
        stream.markWritten(batch, this.#lastWriteAt)
      }
      batch.giveBack()
      if (isSmall) return true
    }
    this.#write(Buffer.from(first, 'latin1'))
    return false
  }

  #writeEvents(): void {
    const { stream } = this
    const { log } = stream
    while (this.#state === 'idle' && this.#cursor < log.last && !this.#hasLost()) {
      if (this.#cursor + 1 < log.first) {
        // Its events were evicted while it lagged. A clean end would look like the whole: it comes
        // back and is told.
        this.#cut()
        return
      }
      const batch = log.read(this.#cursor, this.#recalled)
      this.#cursor = batch.last
      this.#write(batch.bytes, batch.giveBack)
      stream.markWritten(batch, this.#lastWriteAt)
    }
  }

  finish(): void {
    this.flush()
  }

  comment(bytes: Uint8Array, giveBack: () => void): void {
    if (this.#state === 'scheduled') this.flush()
    if (this.#state === 'idle') {
      // What the endpoint says of reconnection times comes after ours, and so it counts.
      const first = this.#isFirst ? this.#firstBlock(true) : ''
      if (first !== '') this.#write(Buffer.from(first, 'latin1'))
      this.#write(bytes, giveBack)
    } else giveBack()
    this.#watch()
  }

  /**
   * The server closes at will: an id to come back with, a reconnection time, and a clean end
   * (SEP-1335). `false`: this client would not come back, or not to this call if the process is
   * about to end, so it stays connected; the former not if `isPresumed`.
   */
  disconnect(retry: number = this.#options.retryAtWill, isPresumed = false): boolean {
    const { debug } = this.#options
    const profile = this.#profile
    this.flush()
    if (this.#state === 'superseded') this.takeOver()
    if (this.#state === 'leaving' || this.#state === 'closed') return true
    if (
      this.#onReleased !== undefined &&
      this.stream.kind === 'request' &&
      this.stream.state === 'live'
    ) {
      debug('stream %s: not disconnected at will, the process is about to end', label(this.stream))
      return false
    }
    if (!isPresumed && !this.reconnects) {
      debug(
        'stream %s: not disconnected at will, its client would not come back',
        label(this.stream)
      )
      return false
    }
    debug('stream %s: disconnected at will, to come back in %d ms', label(this.stream), retry)
    this.#goodbye = Buffer.from(
      profile.primer === 'none'
        ? retryFieldText(retry)
        : primerText(profile.primer, this.#primerId(1), retry),
      'latin1'
    )
    if (this.#state === 'blocked') this.#leave()
    else this.#sayGoodbye()
    return true
  }

  /**
   * The process is about to end: the socket closes with the response, and a call keeps it until
   * then.
   */
  beginClosing(onReleased: () => void): void {
    this.#onReleased = () => {
      this.#onReleased = undefined
      this.#deadline?.stop()
      onReleased()
    }
    this.#sink.closeSocket(() => this.#onReleased?.())
  }

  /** Its client has come by another instance. */
  get isRelayed(): boolean {
    return this.#sink.isRelayed === true
  }

  /** The process is about to end: who only listens goes elsewhere. */
  stopListening(retry: number): void {
    if (this.isClosed || this.stream.kind !== 'listen') return
    if (!this.disconnect(retry)) this.stream.fail('closing')
  }

  /** Waits for the socket no longer than so many milliseconds. */
  cutAfter(patience: number): void {
    this.#deadline ??= new Timer(() => {
      this.#cut()
      setImmediate(() => this.#onReleased?.())
    })
    this.#deadline.start(patience)
  }

  /**
   * Leaves the response to somebody else: what there is goes out, however slow the client, and
   * nothing is ended.
   */
  letGo(): void {
    this.flush()
    while (this.#state === 'blocked') {
      this.#state = 'idle'
      this.flush()
    }
    this.#close()
    this.#onReleased?.()
  }

  giveWay(): void {
    if (this.#state === 'leaving' || this.#state === 'closed') return
    this.#state = 'superseded'
    this.#stopTimers()
  }

  takeOver(): void {
    // What is stuck in a dead socket must not keep memory, and a living one is told by a clean end.
    const isStuck =
      this.#state === 'blocked' || (this.#state === 'superseded' && this.#sink.pending > 0)
    if (isStuck) return this.#cut()
    this.#end()
    this.#watch()
  }

  // Waiting

  get pending(): number {
    return this.#sink.pending
  }

  settled(): void {
    this.#returnLoans()
  }

  stalled(): void {
    this.#noteLoss()
    this.#options.debug('stream %s: connection cut, its client takes nothing', label(this.stream))
    this.#cut()
  }

  /** What stands in front of all events, once; '': nothing, or nothing yet. */
  #firstBlock(hasMore = this.#cursor < this.stream.log.last): string {
    this.#isFirst = false
    // Clients keep a reconnection time for all that follows, and nothing is agreed upon yet; or
    // there is nothing to come back for.
    const { isHandshake, isEphemeral } = this.stream
    const retry = isHandshake || isEphemeral ? null : this.#options.retry
    const { primer } = this.#profile
    if (primer !== 'none') return primerText(primer, this.#primerId(0), retry)
    if (retry !== null && hasMore) return retryFieldText(retry)
    if (retry !== null && !this.stream.isEnded) this.#isFirst = true
    return ''
  }

  #primerId(more: number): string {
    return formatPrimerId(this.stream, this.#cursor, this.stream.readers * 2 - 1 + more)
  }

  /**
   * Somebody in front of us has ended the response: to its stream it is as if its client had left.
   */
  #hasLost(): boolean {
    if (this.#sink.isOver) this.#close()
    return this.#state === 'closed'
  }

  #write(bytes: Uint8Array, giveBack?: GiveBack): void {
    if (this.#hasLost()) return giveBack?.()
    this.#lastWriteAt = now()
    if (this.#silence !== undefined) this.#host.silences?.add(this.#silence)
    const sink = this.#sink
    if (giveBack !== undefined)
      this.#loans = this.#loans === NO_LOANS ? [giveBack] : [...this.#loans, giveBack]
    const hasRoom = sink.write(bytes, giveBack === undefined ? undefined : this.#written)
    // Nobody says when it has left: it has as good as left where the socket has room for more.
    if (hasRoom && !sink.tellsWritten) this.#returnLoans()
    if (!hasRoom && this.#state === 'idle') this.#state = 'blocked'
  }

  /** Writes are done with in their order. */
  readonly #written = (): void => {
    const [giveBack, ...others] = this.#loans
    this.#loans = others.length === 0 ? NO_LOANS : others
    giveBack?.()
  }

  #returnLoans(): void {
    const loans = this.#loans
    this.#loans = NO_LOANS
    for (const giveBack of loans) giveBack(this.#sink.tellsWritten)
  }

  /** Memory is short, or nobody wants these bytes any more. */
  readonly #recalled = (): void => {
    if (this.#sink.pending > 0) this.#cut()
  }

  /** What its socket has not taken is the affair of whoever watches for progress. */
  #watch(): void {
    if (this.#state === 'blocked' || (this.#state === 'closed' && this.#sink.pending > 0))
      this.#host.waits(this)
  }

  /**
   * What was lent comes back when the socket is gone: where that is not told, the next sweep finds
   * out.
   */
  #cut(): void {
    this.#sink.destroy()
    this.#close()
    if (this.#loans !== NO_LOANS) this.#host.waits(this)
  }

  /** Its socket is gone: nobody reads what was lent to it. */
  #gone(): void {
    this.#noteLoss()
    this.#returnLoans()
    this.#close()
    this.#host.goesOn(this)
  }

  /** Only where it is this one that the stream's client reads. */
  #noteLoss(): void {
    const { stream } = this
    if (stream.reader !== this || stream.isEphemeral) return
    this.#options.debug('stream %s: connection lost after event %d', label(stream), this.#cursor)
    this.#options.lost(stream)
  }

  #drained(): void {
    if (!this.#sink.tellsWritten) this.#returnLoans()
    this.#host.goesOn(this)
    if (this.#state === 'leaving') this.#sayGoodbye()
    if (this.#state !== 'blocked') return
    this.#state = 'idle'
    this.flush()
  }

  /** Its socket takes nothing now. What is in it comes first, but nobody waits for that. */
  #leave(): void {
    this.#state = 'leaving'
    this.#stopTimers()
    this.stream.detach(this)
  }

  #sayGoodbye(): void {
    if (this.#goodbye !== undefined && !this.#hasLost()) this.#sink.write(this.#goodbye)
    this.#end()
    this.#watch()
  }

  #end(): void {
    if (this.#hasLost()) return
    this.#close(this.#cursor)
    this.#sink.end()
  }

  /** `partedAt`: it has written everything up to there, and ends in peace. */
  #close(partedAt?: number): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#stopTimers()
    this.stream.detach(this, partedAt)
    this.#host.closed(this)
  }

  #stopTimers(): void {
    this.#silence?.stop()
    this.#age?.stop()
    this.#silence = this.#age = undefined
  }

  /** With its first events: most connections are closed by then. */
  #startTimers(): void {
    const isOpen =
      this.#state === 'idle' || this.#state === 'scheduled' || this.#state === 'blocked'
    if (!isOpen || this.#silence !== undefined || this.#age !== undefined) return
    const { silences, ages } = this.#host
    if (silences !== undefined) {
      this.#silence = new Waiting(() => this.#wasSilent(silences))
      silences.add(this.#silence)
    }
    if (ages !== undefined) {
      this.#age = new Waiting(() => void this.disconnect())
      ages.add(this.#age)
    }
  }

  #wasSilent(silences: DueQueue): void {
    // It may become silent again once something is written.
    if (this.#sink.isKeptAlive === true) return
    if (this.#state === 'idle') this.#write(KEEP_ALIVE_COMMENT)
    else if (this.#silence !== undefined) silences.add(this.#silence)
  }
}
