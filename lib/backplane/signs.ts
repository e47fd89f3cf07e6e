// Signs of life: the key of each instance. It lasts for a lease while the instance lives, and says
// for an hour that the instance has left.
import type { Backplane } from './types.js'

/** `none`: there is no key, so that the instance may be dead. */
export type Sign = 'alive' | 'left' | 'none'

const ALIVE = Uint8Array.of(1)
/** The value of an instance that has left, and the milliseconds for which its clients may come. */
const FAREWELL = Uint8Array.of(0)
const FAREWELL_FOR = 60 * 60 * 1000

export class Signs {
  readonly #backplane: Backplane
  readonly #keyOf: (tag: string) => string

  constructor(backplane: Backplane, keyOf: (tag: string) => string) {
    this.#backplane = backplane
    this.#keyOf = keyOf
  }

  /** Rejects if that cannot be known. */
  async of(tag: string): Promise<Sign> {
    const sign = await this.#backplane.command(['GET', this.#keyOf(tag)])
    if (!(sign instanceof Uint8Array)) return 'none'
    return sign[0] === FAREWELL[0] ? 'left' : 'alive'
  }

  /** Says that the instance lives, for one lease. */
  async give(tag: string): Promise<void> {
    const { lease } = this.#backplane
    await this.#backplane.command(['SET', this.#keyOf(tag), ALIVE, 'PX', lease])
  }

  /** Says that the instance has left. */
  async leave(tag: string): Promise<void> {
    await this.#backplane.command(['SET', this.#keyOf(tag), FAREWELL, 'PX', FAREWELL_FOR])
  }
}
