// Destroys connections whose full sockets make no progress within a deadline.
import { Sweep } from '../streams/timer.js'

/** A connection that waits for its socket. */
export interface Stallable {
  /** Bytes that its socket has not taken yet. */
  readonly pending: number
  /** Everything has been written, and only the last byte has to leave. */
  readonly isClosed: boolean
  /** The last byte has left, or the socket has closed. */
  emptied(): void
  /** Its deadline has passed. */
  stalled(): void
}

interface Progress {
  pending: number
  sweeps: number
}

/** Milliseconds from one sweep to the next. */
const SHORTEST_SWEEP = 250
const LONGEST_SWEEP = 30_000
/** Sweeps in one deadline: a stall is noticed at most a quarter of the deadline late. */
const SWEEPS = 4

/** One sweep for all connections. It counts sweeps: a clock that is changed gives no more time. */
export class StallWatch {
  readonly #waiting = new Map<Stallable, Progress>()
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

  add(connection: Stallable): void {
    if (this.#waiting.has(connection)) return
    this.#waiting.set(connection, { pending: connection.pending, sweeps: 0 })
    this.#sweep.start()
  }

  delete(connection: Stallable): void {
    if (this.#waiting.delete(connection) && this.#waiting.size === 0) this.#sweep.stop()
  }

  /** The process is about to end: connections get another deadline. */
  close(): void {
    this.#sweep.close()
  }

  #look(connection: Stallable, progress: Progress): void {
    const { pending, isClosed } = connection
    if (isClosed && pending === 0) {
      this.#waiting.delete(connection)
      connection.emptied()
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
