// Connections whose sockets take no more: those that make no progress for their deadline are
// destroyed.

/** A connection that waits for its socket. */
export interface Waiting {
  /** Bytes that its socket has not taken yet. */
  readonly pending: number
  /** It has said everything, and waits for nothing but the last byte to leave. */
  readonly isClosed: boolean
  /** The last byte has left, or the socket is gone. */
  settled(): void
  /** Its deadline has passed. */
  stalled(): void
}

interface Progress {
  pending: number
  sweeps: number
}

const SHORTEST_SWEEP = 250
const LONGEST_SWEEP = 30_000
/**
 * How many sweeps a deadline has: what stalls is noticed a quarter of its deadline late at the
 * most.
 */
const SWEEPS = 4

/**
 * One sweep for all of them, while there are any. Sweeps are counted and no clock is asked: one
 * that is set back must not give a client more time, nor one that is set forward less.
 */
export class StallWatch {
  readonly #waiting = new Map<Waiting, Progress>()
  readonly #period: number
  readonly #sweeps: number
  #timer: ReturnType<typeof setTimeout> | undefined
  #isClosed = false

  /** @param deadline milliseconds without progress. */
  constructor(deadline: number) {
    this.#period = Math.min(LONGEST_SWEEP, Math.max(SHORTEST_SWEEP, deadline / SWEEPS))
    this.#sweeps = Math.ceil(deadline / this.#period)
  }

  add(connection: Waiting): void {
    if (this.#waiting.has(connection)) return
    this.#waiting.set(connection, { pending: connection.pending, sweeps: 0 })
    if (!this.#isClosed) this.#timer ??= this.#start()
  }

  delete(connection: Waiting): void {
    if (this.#waiting.delete(connection) && this.#waiting.size === 0) this.#stop()
  }

  /** The process is about to end: whoever closes the connections has a deadline of its own. */
  close(): void {
    this.#isClosed = true
    this.#stop()
  }

  #stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #start(): ReturnType<typeof setTimeout> {
    const timer = setTimeout(() => {
      this.#timer = undefined
      for (const [connection, progress] of [...this.#waiting]) this.#look(connection, progress)
      if (this.#waiting.size > 0 && !this.#isClosed) this.#timer ??= this.#start()
    }, this.#period)
    timer.unref()
    return timer
  }

  #look(connection: Waiting, progress: Progress): void {
    const { pending, isClosed } = connection
    if (isClosed && pending === 0) {
      this.#waiting.delete(connection)
      connection.settled()
      return
    }
    const hasMoved = pending < progress.pending
    progress.pending = pending
    progress.sweeps = hasMoved ? 0 : progress.sweeps + 1
    if (progress.sweeps <= this.#sweeps) return
    this.#waiting.delete(connection)
    connection.stalled()
  }
}
