// One timer for all waits of the same length: a call costs a place in a list, and no timer.
import { LONGEST_TIMEOUT, now } from '../protocol/clock.js'
import { outsideOfCalls } from './timer.js'

/** Something that waits. It stands in one queue at a time. */
export class Waiting {
  dueAt = 0
  queue: DueQueue | undefined
  earlier: Waiting | undefined
  later: Waiting | undefined
  readonly due: () => void

  constructor(due: () => void) {
    this.due = due
  }

  /** It is not to become due any more. */
  stop(): void {
    this.queue?.remove(this)
  }
}

export class DueQueue {
  readonly #delay: number
  #first: Waiting | undefined
  #last: Waiting | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #isClosed = false

  /** @param delay milliseconds from `add` on, the same for all; at least 1, as timers have it. */
  constructor(delay: number) {
    this.#delay = Math.max(1, delay)
  }

  get isEmpty(): boolean {
    return this.#first === undefined
  }

  add(waiting: Waiting): void {
    // One that waits here already moves to the end, and the timer stays: this runs for each event.
    if (waiting.queue === this) this.#unlink(waiting)
    else waiting.stop()
    if (this.#isClosed) return
    waiting.queue = this
    waiting.dueAt = now() + this.#delay
    waiting.earlier = this.#last
    if (this.#last === undefined) this.#first = waiting
    else this.#last.later = waiting
    this.#last = waiting
    if (this.#timer === undefined) this.#start(this.#delay)
  }

  remove(waiting: Waiting): void {
    if (waiting.queue === this) this.#unlink(waiting)
  }

  /** Nothing becomes due any more, neither what waits now nor what is added later. */
  close(): void {
    this.#isClosed = true
    for (let first = this.#first; first !== undefined; first = this.#first) this.#unlink(first)
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #unlink(waiting: Waiting): void {
    const { earlier, later } = waiting
    if (earlier === undefined) this.#first = later
    else earlier.later = later
    if (later === undefined) this.#last = earlier
    else later.earlier = earlier
    waiting.queue = waiting.earlier = waiting.later = undefined
  }

  /** The timer is not moved when its entry goes: it starts again when it fires. */
  #start(delay: number): void {
    const fire = (): void => this.#fire()
    this.#timer = outsideOfCalls(() => setTimeout(fire, Math.min(delay, LONGEST_TIMEOUT)))
    this.#timer.unref?.()
  }

  #fire(): void {
    // It stays set meanwhile: what a callback adds must not wait longer than what waits already.
    const fired = this.#timer
    const time = now()
    try {
      this.#endDue(time)
    } finally {
      if (this.#timer === fired) this.#startNext()
    }
  }

  /** What a callback adds is due later than `time`, so that this ends. */
  #endDue(time: number): void {
    for (let first = this.#first; first !== undefined && first.dueAt <= time; first = this.#first) {
      this.#unlink(first)
      first.due()
    }
  }

  #startNext(): void {
    this.#timer = undefined
    if (this.#first !== undefined) this.#start(Math.max(1, this.#first.dueAt - now()))
  }
}
