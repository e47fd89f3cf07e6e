// One timer for all waits of the same length: a call costs a place in a list, and no timer.
import { LONGEST_TIMEOUT, now } from '../protocol/clock.js'
import { LinkedList, Member } from './linked-list.js'
import { outsideOfCalls } from './timer.js'

/** Something that waits. It stands in one queue at a time. */
export class Waiting extends Member {
  dueAt = 0
  readonly due: () => void

  constructor(due: () => void) {
    super()
    this.due = due
  }

  /** It is not to become due any more. */
  stop(): void {
    this.list?.delete(this)
  }
}

export class DueQueue {
  readonly #delay: number
  readonly #waiting = new LinkedList<Waiting>()
  #timer: ReturnType<typeof setTimeout> | undefined
  #isClosed = false

  /** @param delay milliseconds from `add` on, the same for all; at least 1, as timers have it. */
  constructor(delay: number) {
    this.#delay = Math.max(1, delay)
  }

  get isEmpty(): boolean {
    return this.#waiting.isEmpty
  }

  add(waiting: Waiting): void {
    if (this.#isClosed) return waiting.stop()
    waiting.dueAt = now() + this.#delay
    // One that waits here already moves to the end, and the timer stays: this runs for each event.
    this.#waiting.add(waiting)
    if (this.#timer === undefined) this.#start(this.#delay)
  }

  /** Nothing becomes due any more, neither what waits now nor what is added later. */
  close(): void {
    this.#isClosed = true
    for (let first = this.#first; first !== undefined; first = this.#first) first.stop()
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  get #first(): Waiting | undefined {
    return this.#waiting.first
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
      first.stop()
      first.due()
    }
  }

  #startNext(): void {
    this.#timer = undefined
    const first = this.#first
    if (first !== undefined) this.#start(Math.max(1, first.dueAt - now()))
  }
}
