// Connections whose sockets take no more: those that make no progress for their deadline are
// destroyed.
import { Sweep } from '../streams/sweep.js'

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
  readonly #sweeps: number
  readonly #sweep: Sweep

  /** @param deadline milliseconds without progress. */
  constructor(deadline: number) {
    const period = Math.min(LONGEST_SWEEP, Math.max(SHORTEST_SWEEP, deadline / SWEEPS))
    this.#sweeps = Math.ceil(deadline / period)
    this.#sweep = new Sweep(period, () => {
      for (const [connection, progress] of [...this.#waiting]) this.#look(connection, progress)
      return this.#waiting.size > 0
    })
  }

  add(connection: Waiting): void {
    if (this.#waiting.has(connection)) return
    this.#waiting.set(connection, { pending: connection.pending, sweeps: 0 })
    this.#sweep.begin()
  }

  delete(connection: Waiting): void {
    if (this.#waiting.delete(connection) && this.#waiting.size === 0) this.#sweep.stop()
  }

  /** The process is about to end: its connections are closed by a deadline of its own. */
  close(): void {
    this.#sweep.close()
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
