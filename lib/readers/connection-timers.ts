// The silence of a connection and its age, each with a limit of its own.
import { type DueQueue, Waiting } from '../streams/due-queue.js'

/** Where connections wait. */
export interface ConnectionQueues {
  /** For the silence to have lasted; `undefined`: a connection is silent for ever. */
  readonly silences: DueQueue | undefined
  /** For the greatest age; `undefined`: there is none. */
  readonly ages: DueQueue | undefined
}

/** The connection that is timed. */
export interface TimedConnection {
  /**
   * Nothing has been written for as long as may be. `false`: nothing can be written now, and the
   * silence lasts.
   */
  breakSilence(): boolean
  /** It is as old as it may get. */
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

  /** The silence begins anew. */
  written(): void {
    if (this.#silence !== undefined) this.#queues.silences?.add(this.#silence)
  }

  stop(): void {
    this.#silence?.stop()
    this.#age?.stop()
  }
}
