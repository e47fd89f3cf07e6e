// Memory that somebody still reads: it counts, and is not used again, until it is released.

export abstract class Retained {
  /** What the same reader has retained after it. */
  next: Retained | undefined
  #isReleased = false

  /**
   * Once, however often it is called: two owners of one memory would read each other's messages.
   * `mayReuse`: nobody can read it any more. Otherwise it only counts no more, and is left to the
   * garbage collector.
   */
  release(mayReuse = true): void {
    if (this.#isReleased) return
    this.#isReleased = true
    this.released(mayReuse)
  }

  protected abstract released(mayReuse: boolean): void
}

/** What one reader has retained, in the order in which it will have read it. */
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

  /** It has read the first. */
  releaseFirst(): void {
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
