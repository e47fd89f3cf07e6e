// Signs of life: a key for each instance, which lasts for a lease, or says that it has left.
import type { Backplane } from './types.js'

/** Of an instance: it lives, it has left, or there is no key. */
export type Sign = 'alive' | 'left' | 'none'

const ALIVE = Uint8Array.of(1)
/** It has left, and says so for as long as its clients may ask for it. */
const FAREWELL = Uint8Array.of(0)
const FAREWELL_FOR = 60 * 60 * 1000

export class Signs {
  readonly #backplane: Backplane
  readonly #keyOf: (tag: string) => string

  constructor(backplane: Backplane, keyOf: (tag: string) => string) {
    this.#backplane = backplane
    this.#keyOf = keyOf
  }

  /** Rejects where that cannot be known. */
  async of(tag: string): Promise<Sign> {
    const sign = await this.#backplane.command(['GET', this.#keyOf(tag)])
    if (!(sign instanceof Uint8Array)) return 'none'
    return sign[0] === FAREWELL[0] ? 'left' : 'alive'
  }

  async give(tag: string): Promise<void> {
    const { lease } = this.#backplane
    await this.#backplane.command(['SET', this.#keyOf(tag), ALIVE, 'PX', lease])
  }

  async leave(tag: string): Promise<void> {
    await this.#backplane.command(['SET', this.#keyOf(tag), FAREWELL, 'PX', FAREWELL_FOR])
  }
}
