// Resolves promises when nothing is under way any more.

export class WhenIdle {
  readonly #isIdle: () => boolean
  #waiting: (() => void)[] = []

  constructor(isIdle: () => boolean) {
    this.#isIdle = isIdle
  }

  /** Resolves as soon as nothing is under way; `undefined`: nothing is. */
  wait(): Promise<void> | undefined {
    return this.#isIdle() ? undefined : new Promise(resolve => this.#waiting.push(resolve))
  }

  /** To be called when something has ended. */
  check(): void {
    if (this.#waiting.length === 0 || !this.#isIdle()) return
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }
}

/** What is under way. */
export class UnderWay {
  readonly #all = new Set<object>()
  readonly #idle = new WhenIdle(() => this.#all.size === 0)

  add(one: object): void {
    this.#all.add(one)
  }

  delete(one: object): void {
    this.#all.delete(one)
    this.#idle.check()
  }

  whenIdle(): Promise<void> | undefined {
    return this.#idle.wait()
  }
}
