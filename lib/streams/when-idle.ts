// Resolves promises when nothing is under way any more.

export class WhenIdle {
  readonly #isIdle: () => boolean
  #waiting: (() => void)[] = []

  constructor(isIdle: () => boolean) {
    this.#isIdle = isIdle
  }

  /** Resolves as soon as nothing is under way. */
  wait(): Promise<void> {
    return this.#isIdle() ? Promise.resolve() : new Promise(resolve => this.#waiting.push(resolve))
  }

  /** To be called when something has ended. */
  check(): void {
    if (this.#waiting.length === 0 || !this.#isIdle()) return
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }
}
