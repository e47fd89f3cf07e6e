// The attempts at a wire since the last one that was good for something.
import { now } from '../protocol/clock.js'
import type { ClientWire } from './client-wire.js'
import type { ClientSettings, ReconnectReason } from './options.js'
import { leastDelay, retryDelay, untilNextAttempt } from './retry-delay.js'

/**
 * Milliseconds for which a wire must hold, where it brings nothing, so that the attempt at it was
 * no failure.
 */
const LONG_ENOUGH = 10_000

export class Attempts {
  #count = 0
  #openedAt = 0
  readonly #settings: ClientSettings

  constructor(settings: ClientSettings) {
    this.#settings = settings
  }

  /** A wire is being opened. */
  opening(): void {
    this.#openedAt = now()
  }

  /** The wire has brought a message. */
  succeeded(): void {
    this.#count = 0
  }

  lost(wire: ClientWire): void {
    if (wire.age > LONG_ENOUGH) this.succeeded()
  }

  /**
   * Waits until the next one is due. `false`: there have been enough.
   *
   * @param retry milliseconds that the server wants clients to wait.
   */
  async next(
    retry: number | undefined,
    reason: ReconnectReason,
    signal: AbortSignal
  ): Promise<boolean> {
    const settings = this.#settings
    const attempt = ++this.#count
    if (attempt > settings.maxRetries) return false
    const asked = retryDelay(attempt, retry, undefined, settings)
    const delay = Math.max(asked, leastDelay(this.#openedAt, attempt - 1, settings))
    await untilNextAttempt({ attempt, delay, lastEventId: undefined, reason }, settings, signal)
    return true
  }
}
