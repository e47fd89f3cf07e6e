// How many sessions are begun again at once, and how many of one owner: a restart is no storm.
import { now } from '../../protocol/clock.js'
import { Timer } from '../../streams/timer.js'

const MOST_AT_ONCE = 32
/** Of one owner so many may begin at once, and then one more each second. */
const BURST = 10
const SECOND = 1000

export class RevivalLine {
  readonly #most: number
  #count = 0
  #running = 0
  readonly #waiting: (() => void)[] = []
  /** By owner: when the allowance is whole again. */
  readonly #wholeAt = new Map<string, number>()

  /** @param most how many may run and wait. */
  constructor(most: number) {
    this.#most = most
  }

  /** How many run and wait. */
  get count(): number {
    return this.#count
  }

  /** `full`: too many wait. */
  async run<T>(owner: string, work: () => Promise<T>): Promise<T | 'full'> {
    if (this.#count >= this.#most) return 'full'
    this.#count++
    try {
      const wait = this.#waitOf(owner)
      if (wait > 0) await new Promise<void>(resolve => new Timer(resolve).start(wait))
      await this.#turn()
      try {
        return await work()
      } finally {
        this.#next()
      }
    } finally {
      this.#count--
    }
  }

  /** Milliseconds. Those whose owner is not known are many, so they have no limit of their own. */
  #waitOf(owner: string): number {
    if (owner === '') return 0
    const at = now()
    for (const [name, wholeAt] of this.#wholeAt)
      if (wholeAt <= at || this.#wholeAt.size > this.#most) this.#wholeAt.delete(name)
      else break
    const from = Math.max(at, this.#wholeAt.get(owner) ?? 0)
    this.#wholeAt.delete(owner)
    this.#wholeAt.set(owner, from + SECOND)
    return from - at - (BURST - 1) * SECOND
  }

  async #turn(): Promise<void> {
    if (this.#running < MOST_AT_ONCE) this.#running++
    else await new Promise<void>(resolve => this.#waiting.push(resolve))
  }

  #next(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#running--
    else next()
  }
}
