// The two timers of a connection: for its silence and for its age.
import { type DueQueue, Waiting } from '../streams/due-queue.js'

/** The queues that time all connections. */
export interface ConnectionQueues {
  /** For `keepAlive`; `undefined`: silence is never broken. */
  readonly silences: DueQueue | undefined
  /** For `disconnectAfter`; `undefined`: the age has no limit. */
  readonly ages: DueQueue | undefined
}

/** The connection that is timed. */
export interface TimedConnection {
  /**
   * Nothing has been written for as long as allowed. `false`: nothing can be written now, so the
   * silence is timed again.
   */
  breakSilence(): boolean
  /** It has reached its greatest age. */
  hasAged(): void
}

export class ConnectionTimers {
  readonly #silence: Waiting | undefined
  readonly #age: Waiting | undefined
  readonly #queues: ConnectionQueues

  constructor(connection: TimedConnection, queues: ConnectionQueues) {
    this.#queues = queues
    const { silences, ages } = queues
    if (silences !== undefined)
      this.#silence = new Waiting(() => {
        if (!connection.breakSilence()) this.written()
      })
    if (ages !== undefined) ages.add((this.#age = new Waiting(() => connection.hasAged())))
    this.written()
  }

  /** Something has been written: the silence is timed from now on. */
  written(): void {
    if (this.#silence !== undefined) this.#queues.silences?.add(this.#silence)
  }

  stop(): void {
    this.#silence?.stop()
    this.#age?.stop()
  }
}
