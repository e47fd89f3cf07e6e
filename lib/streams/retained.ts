// Memory that a reader still uses: until it is released, it counts and is not reused.

export abstract class Retained {
  /** What the same reader retained next. */
  next: Retained | undefined
  #isReleased = false

  /**
   * Only the first call counts: a second one could free memory that another reader still uses, and
   * so show it another owner's messages. `mayReuse`: nothing can read the memory any more. `false`:
   * it stops counting, and is left to the garbage collector.
   */
  release(mayReuse = true): void {
    if (this.#isReleased) return
    this.#isReleased = true
    this.released(mayReuse)
  }

  protected abstract released(mayReuse: boolean): void
}

/** What one reader retains, in the order in which it will be done with it. */
export class RetainedQueue {
  #first: Retained | undefined
  #last: Retained | undefined

  get isEmpty(): boolean {
    return this.#first === undefined
  }

  push(retained: Retained): void {
    if (this.#last === undefined) this.#first = retained
    else this.#last.next = retained
    this.#last = retained
  }

  /** The reader is done with the first: a socket takes writes in order, so it is the oldest. */
  readonly releaseFirst = (): void => {
    const first = this.#first
    if (first === undefined) return
    this.#first = first.next
    if (this.#first === undefined) this.#last = undefined
    first.release()
  }

  releaseAll(mayReuse: boolean): void {
    let next = this.#first
    this.#first = this.#last = undefined
    for (; next !== undefined; next = next.next) next.release(mayReuse)
  }
}
