// Counts the events of an instance since its start, and publishes them.
import { now } from './protocol/clock.js'
import type { StreamFault } from './protocol/errors.js'
import type { Record } from './streams/record.js'
import type { Stream } from './streams/stream.js'
import { publish } from './diagnostics.js'
import type { ClientEventName } from './endpoint/instance-parts.js'

export interface Totals {
  /** Total of connections that followed an earlier one. */
  readonly resumes: number
  /**
   * Total of connections of calls that broke before the call was over. A client that leaves lets go
   * of its listen channels, too: these are not counted.
   */
  readonly lostConnections: number
  /** How many of these had a client that came back. */
  readonly recoveries: number
  /** Milliseconds that these clients took to come back, added up. */
  readonly recoveryTime: number
  /** Total of slow answers that were begun before the endpoint had anything to say. */
  readonly upgrades: number
  /** Total of requests that were sent again under their `Idempotency-Key`, and not run again. */
  readonly repeats: number
  /**
   * Total of refusals: responses left alone for lack of room, and requests for streams that are not
   * the client's, or gone.
   */
  readonly refusals: number
  /** How many of these were for lack of room: a sign that limits are too low. */
  readonly refusalsForRoom: number
  /**
   * Total of streams that failed or were abandoned, by reason; reasons that have not occurred are
   * absent.
   */
  readonly failures: { readonly [reason in StreamFault]?: number }
}

export class Observations {
  readonly #totals = {
    resumes: 0,
    lostConnections: 0,
    recoveries: 0,
    recoveryTime: 0,
    upgrades: 0,
    repeats: 0,
    refusals: 0,
    refusalsForRoom: 0
  }
  readonly #failures: { [reason in StreamFault]?: number } = {}

  count(
    name: ClientEventName,
    stream: Stream | Record | undefined,
    reason: string | undefined
  ): void {
    const totals = this.#totals
    let delay: number | undefined
    if (name === 'refused') {
      totals.refusals++
      if (reason === 'full') totals.refusalsForRoom++
    } else if (name === 'resumed') {
      totals.resumes++
      delay = stream && this.#recovered(stream)
    } else if (name === 'connection-lost' && stream !== undefined) {
      if (isCall(stream)) totals.lostConnections++
      stream.lostAt = now()
    } else if (name === 'upgraded') totals.upgrades++
    else if (name === 'repeated') totals.repeats++
    publish(name, stream, reason, delay)
  }

  failed(reason: StreamFault): void {
    this.#failures[reason] = (this.#failures[reason] ?? 0) + 1
  }

  totals(): Totals {
    return { ...this.#totals, failures: { ...this.#failures } }
  }

  #recovered(stream: Stream | Record): number | undefined {
    const { lostAt } = stream
    if (lostAt === 0) return undefined
    stream.lostAt = 0
    const delay = Math.round(now() - lostAt)
    if (isCall(stream)) {
      this.#totals.recoveries++
      this.#totals.recoveryTime += delay
    }
    return delay
  }
}

function isCall({ kind }: Stream | Record): boolean {
  return kind !== 'listen'
}
