// Promises that a spec settles by hand, so that an endpoint goes on exactly when the spec says so.

export interface Gate<T = void> {
  /** Resolves once the gate is open. */
  opened: Promise<T>
  open(value: T): void
}

/** `await gate.opened` in the endpoint, `gate.open()` in the spec. */
export function gate<T = void>(): Gate<T> {
  let open!: (value: T) => void
  const opened = new Promise<T>(resolve => (open = resolve))
  return { opened, open }
}

/** A list that can be waited on: `await list.nth(3)` is its third entry, there or to come. */
export class Awaitable<T> extends Array<T> {
  static override get [Symbol.species]() {
    return Array
  }

  readonly #waiting = new Set<() => void>()

  override push(...items: T[]): number {
    const length = super.push(...items)
    for (const wake of this.#waiting) wake()
    this.#waiting.clear()
    return length
  }

  /** The nth entry, from 1. */
  async nth(n: number): Promise<T> {
    while (this.length < n) await new Promise<void>(resolve => this.#waiting.add(resolve))
    return this[n - 1]!
  }
}
