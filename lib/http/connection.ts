// One client connection: a cursor that pulls from a stream's log. A slow or absent client only lags; it owns no queue.
import { formatPrimerId, label } from '../core/event-id.js'
import type { Manners } from '../core/protocol-version.js'
import { encodePrimer, encodeRetryField, KEEP_ALIVE_COMMENT } from '../core/sse-encode.js'
import type { Stream } from '../core/stream.js'
import type { Reader } from '../core/stream-types.js'

/** The response that a connection writes to: the endpoint's own, underneath the tap, or one of ours. */
export interface Sink {
  /** Writes, and flushes whatever compresses on the way. `false`: wait for `onDrain`. The bytes are needed until `onWritten`. */
  write(bytes: Uint8Array, onWritten?: () => void): boolean
  /** What is written until `uncork` leaves together. */
  cork(): void
  uncork(): void
  end(): void
  /** Ends it without waiting for a client that takes nothing. */
  destroy(): void
  onDrain(listener: () => void): void
  onClose(listener: () => void): void
  /** Closes the socket once the response has ended: it would wait for a next request otherwise. */
  closeSocket(onClosed: () => void): void
}

export interface ConnectionOptions {
  /** Reconnection time of the first block, in milliseconds; `null` sends none. */
  readonly retry: number | null
  /** Reconnection time sent right before the server closes at will, in milliseconds. */
  readonly retryAtWill: number
  /** Silence in milliseconds after which a comment goes out; `null`: never. */
  readonly keepAlive: number | null
  /** Greatest age in milliseconds, towards clients that come back; `null`: none. */
  readonly disconnectAfter: number | null
  /** A line for `DEBUG=mcp-streams`. */
  readonly debug: (format: string, ...args: unknown[]) => void
}

/**
 * - `idle`: nothing to do until the stream wakes it.
 * - `scheduled`: will write at the end of this tick, everything that has gathered by then in one go.
 * - `blocked`: the socket takes no more; it lags until `drain`.
 * - `leaving`: disconnected while blocked; the stream goes on without it, its goodbye waits for `drain`.
 * - `closed`: for good.
 */
type ConnectionState = 'idle' | 'scheduled' | 'blocked' | 'leaving' | 'closed'

const LONGEST_TIMEOUT = 2 ** 31 - 1

export class Connection implements Reader {
  readonly stream: Stream
  #state: ConnectionState = 'idle'
  #goodbye: Uint8Array | undefined
  #cursor: number
  /** Nothing has been written yet: the first block carries the reconnection time. */
  #isFirst = true
  #lastWriteAt = 0
  #keepAliveTimer: ReturnType<typeof setTimeout> | undefined
  #ageTimer: ReturnType<typeof setTimeout> | undefined
  readonly #sink: Sink
  readonly #manners: Manners
  readonly #options: ConnectionOptions
  readonly #onClosed: (connection: Connection) => void

  /**
   * Takes the stream over from any older connection, and starts after the cursor. `onClosed` is told once, when it has closed, whoever
   * closed it.
   */
  constructor(
    stream: Stream,
    cursor: number,
    sink: Sink,
    manners: Manners,
    options: ConnectionOptions,
    onClosed: (connection: Connection) => void
  ) {
    this.stream = stream
    this.#cursor = cursor
    this.#sink = sink
    this.#manners = manners
    this.#options = options
    this.#onClosed = onClosed
    stream.attach(this, cursor)
    this.#startTimers()
    sink.onDrain(() => this.#drained())
    sink.onClose(() => this.#close())
  }

  /** Whether this client comes back by itself after a close. */
  get comesBack(): boolean {
    if (this.stream.proved) return true
    const { comesBack, primer } = this.#manners
    // Without an id to come back with, only a client that follows the link can.
    return comesBack && (primer !== 'none' || this.#cursor > 0)
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
      if (this.#isFirst) this.#writeFirst()
      this.#writeEvents()
      if (this.stream.isEnded && this.#state === 'idle') this.#end()
    } finally {
      this.#sink.uncork()
    }
  }

  #writeEvents(): void {
    const { stream } = this
    const { log } = stream
    while (this.#state === 'idle' && this.#cursor < log.last) {
      if (this.#cursor + 1 < log.first) {
        // Its events were evicted while it lagged. A clean end would look like the whole: it comes back and is told.
        this.#sink.destroy()
        this.#close()
        return
      }
      const batch = log.read(this.#cursor)
      this.#cursor = batch.last
      this.#write(batch.bytes, batch.giveBack)
      stream.markWritten(batch, this.#lastWriteAt)
    }
  }

  comment(bytes: Uint8Array): void {
    if (this.#state === 'scheduled') this.flush()
    if (this.#state === 'idle' && bytes.length > 0) this.#write(bytes)
  }

  /**
   * The server closes at will: an id to come back with, a reconnection time, and a clean end (SEP-1335). `false`: this client
   * would not come back, so it stays connected.
   */
  disconnect(retry: number = this.#options.retryAtWill): boolean {
    const { debug } = this.#options
    const manners = this.#manners
    this.flush()
    if (this.#state === 'leaving' || this.#state === 'closed') return true
    if (!this.comesBack) {
      debug('stream %s: not disconnected at will, its client would not come back', label(this.stream))
      return false
    }
    debug('stream %s: disconnected at will, to come back in %d ms', label(this.stream), retry)
    this.#goodbye =
      manners.primer === 'none' ? encodeRetryField(retry) : encodePrimer(manners.primer, this.#primerId(1), retry)
    if (this.#state === 'blocked') this.#leave()
    else this.#sayGoodbye()
    return true
  }

  /**
   * The server goes down: a client that comes back is disconnected, any other gets an error for its call; the socket closes,
   * after `patience` milliseconds by force.
   */
  shutDown(retry: number, patience: number): Promise<void> {
    if (this.isClosed) return Promise.resolve()
    return new Promise(resolve => {
      const force = setTimeout(() => this.#sink.destroy(), patience)
      this.#sink.closeSocket(() => {
        clearTimeout(force)
        resolve()
      })
      if (!this.disconnect(retry)) this.stream.fail('closing')
    })
  }

  /** Leaves the response to somebody else: what there is goes out, however slow the client, and nothing is ended. */
  letGo(): void {
    this.flush()
    while (this.#state === 'blocked') {
      this.#state = 'idle'
      this.flush()
    }
    this.#close()
  }

  takeOver(): void {
    // What is stuck in a dead socket must not keep memory, and a living one is told by a clean end.
    if (this.#state === 'blocked') this.#sink.destroy()
    this.#end()
  }

  #writeFirst(): void {
    this.#isFirst = false
    const { retry } = this.#options
    const { primer } = this.#manners
    if (primer !== 'none') this.#write(encodePrimer(primer, this.#primerId(0), retry))
    else if (retry !== null && this.#cursor < this.stream.log.last) this.#write(encodeRetryField(retry))
    else if (retry !== null && !this.stream.isEnded) this.#isFirst = true
  }

  #primerId(more: number): string {
    return formatPrimerId(this.stream.id, this.#cursor, this.stream.readers * 2 - 1 + more)
  }

  #write(bytes: Uint8Array, onWritten?: () => void): void {
    this.#lastWriteAt = Date.now()
    if (!this.#sink.write(bytes, onWritten) && this.#state === 'idle') this.#state = 'blocked'
  }

  #drained(): void {
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
    if (this.#goodbye !== undefined) this.#sink.write(this.#goodbye)
    this.#end()
  }

  #end(): void {
    if (this.#state === 'closed') return
    this.#close(this.#cursor)
    this.#sink.end()
  }

  /** `partedAt`: it has written everything up to there, and ends in peace. */
  #close(partedAt?: number): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#stopTimers()
    this.stream.detach(this, partedAt)
    this.#onClosed(this)
  }

  #stopTimers(): void {
    clearTimeout(this.#keepAliveTimer)
    clearTimeout(this.#ageTimer)
    this.#keepAliveTimer = this.#ageTimer = undefined
  }

  #startTimers(): void {
    const { keepAlive, disconnectAfter } = this.#options
    if (keepAlive !== null) this.#keepAliveIn(keepAlive, keepAlive)
    if (disconnectAfter !== null) {
      this.#ageTimer = setTimeout(() => this.disconnect(), Math.min(disconnectAfter, LONGEST_TIMEOUT))
      this.#ageTimer.unref()
    }
  }

  /** One timer, looked at when it fires: moving it on every write would cost more than the write. */
  #keepAliveIn(delay: number, keepAlive: number): void {
    this.#keepAliveTimer = setTimeout(
      () => {
        const silence = Date.now() - this.#lastWriteAt
        if (silence >= keepAlive) {
          if (this.#state === 'idle') this.#write(KEEP_ALIVE_COMMENT)
          this.#keepAliveIn(keepAlive, keepAlive)
        } else this.#keepAliveIn(keepAlive - silence, keepAlive)
      },
      Math.min(delay, LONGEST_TIMEOUT)
    )
    this.#keepAliveTimer.unref()
  }
}
