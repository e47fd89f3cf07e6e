// Silence on a wire: at half of what is borne the other side is asked for a sign of life, and then
// the wire is given up.
import { alarm } from './alarm.js'

export interface SilenceListener {
  /** `false`: nothing is waited for, so that silence means nothing. */
  isAwaited(): boolean
  ask(): void
  giveUp(): void
}

export class Silence {
  #hasAsked = false
  #stop = (): void => undefined
  readonly #patience: number | null
  readonly #listener: SilenceListener

  /** @param patience milliseconds; `null`: for ever */
  constructor(patience: number | null, listener: SilenceListener) {
    this.#patience = patience
    this.#listener = listener
  }

  /** Something came: it begins anew. */
  broken(): void {
    this.#hasAsked = false
    this.#watch()
  }

  stop(): void {
    this.#stop()
  }

  #watch(): void {
    this.stop()
    if (this.#patience !== null) this.#stop = alarm(this.#patience / 2, () => this.#due())
  }

  #due(): void {
    // Looked at again later: what is awaited may be asked for meanwhile.
    if (!this.#listener.isAwaited()) return this.#watch()
    if (this.#hasAsked) return this.#listener.giveUp()
    this.#hasAsked = true
    this.#listener.ask()
    this.#watch()
  }
}
