// What a task id stands for: the state of a call, what it has come to, what it waits for from its
// client, and until when it is kept.
import type { IncomingMessage } from 'node:http'
import { now } from '../../protocol/clock.js'
import type { StreamFault } from '../../protocol/errors.js'
import type { TaskStatus } from '../../protocol/tasks.js'
import { faultText } from './task-refusal.js'
import { type Round, TaskInput } from './task-input.js'

interface TaskTimes {
  /** Milliseconds from its creation for which it can be asked for. */
  readonly ttl: number
  /** Milliseconds that its client is told to wait from one look to the next. */
  readonly pollInterval: number
}

/** What its client may know of a task. */
export interface TaskView {
  readonly id: string
  readonly status: TaskStatus
  readonly statusMessage?: string | undefined
  readonly createdAt: string
  readonly lastUpdatedAt: string
  readonly times: TaskTimes
  readonly input: { readonly text: string }
  /** What it has come to; `undefined` before its end, and where it was cancelled. */
  readonly outcome?: Outcome | undefined
}

/** Whose a task is, and where it holds. */
export interface TaskFacts {
  readonly owner: string
  readonly sessionId: string | undefined
  /** A digest of owner, session and path: it is found nowhere else. */
  readonly scope: string
}

/** What a task needs of what keeps it. */
export interface TaskKeeper {
  /** Bytes that one task may hold. */
  readonly maxTaskBytes: number
  /** Makes the ids of tasks. */
  readonly newId: () => string
  /** It waits for its client, or for the endpoint again. */
  changed(): void
  /** The endpoint has nothing more to do for it. */
  ended(task: Task): void
  /** `false`: there is no room for more bytes of this owner. */
  resize(bytes: number, owner: string): boolean
}

/** What the endpoint does for a task. */
export interface TaskWork {
  /** All that it has asked for is there; `req`: with whose credentials it goes on. */
  goOn(req: IncomingMessage, round: Round): void
  /** Nobody wants more of it; `by`: the request that says so. */
  stop(by?: IncomingMessage): void
}

/** What its request has come to, as JSON. */
export interface Outcome {
  readonly kind: 'result' | 'error'
  readonly text: string
  /** It makes the task `failed`, where that is not as its kind says. */
  readonly isFailure?: boolean
}

export class Task implements TaskView {
  readonly id: string
  readonly facts: TaskFacts
  readonly times: TaskTimes
  /** Requests of the endpoint that its client has not answered, at 2025-11-25. */
  openQuestions = 0
  /** Set as long as the endpoint works on it. */
  work: TaskWork | undefined
  /** Hears of each change of its status, or of its message. */
  onChange: ((task: Task) => void) | undefined
  readonly #keeper: TaskKeeper
  /** ISO 8601, as all times on the wire: looks are more frequent than changes. */
  readonly createdAt = new Date().toISOString()
  lastUpdatedAt = this.createdAt
  readonly expiresAt: number
  #end: 'completed' | 'failed' | 'cancelled' | undefined
  #outcome: Outcome | undefined
  #input: TaskInput | undefined
  #statusMessage: string | undefined
  /** What is counted: all of it, and of that what goes with the round of questions. */
  #bytes = 0
  #inputBytes = 0

  constructor(facts: TaskFacts, keeper: TaskKeeper, times: TaskTimes) {
    this.id = keeper.newId()
    this.facts = facts
    this.times = times
    this.#keeper = keeper
    this.expiresAt = now() + times.ttl
  }

  get status(): TaskStatus {
    if (this.#end !== undefined) return this.#end
    return this.isWaitingForInput ? 'input_required' : 'working'
  }

  get isEnded(): boolean {
    return this.#end !== undefined
  }

  get outcome(): Outcome | undefined {
    return this.#outcome
  }

  /** What it waits for from its client, from 2026-07-28 on. */
  get input(): TaskInput {
    return (this.#input ??= new TaskInput())
  }

  get isWaitingForInput(): boolean {
    return this.#input?.isOpen === true || this.openQuestions > 0
  }

  get statusMessage(): string | undefined {
    return this.#statusMessage
  }

  /** Its time is over. */
  get isOver(): boolean {
    return this.expiresAt <= now()
  }

  /** Bytes that it may still come to hold. */
  get maxBytes(): number {
    return this.#keeper.maxTaskBytes
  }

  /** Something has changed that its client may want to know. */
  changed(statusMessage?: string): void {
    if (statusMessage !== undefined) this.#statusMessage = statusMessage
    this.lastUpdatedAt = new Date().toISOString()
    this.#keeper.changed()
    this.onChange?.(this)
  }

  /** Counts bytes that it keeps. `false`: there is no room for them. */
  grow(bytes: number): boolean {
    if (bytes > 0 && this.#bytes + bytes > this.maxBytes) return false
    if (!this.#keeper.resize(bytes, this.facts.owner)) return false
    this.#bytes += bytes
    return true
  }

  /** The same for what is kept of one round of questions. */
  growInput(bytes: number): boolean {
    if (!this.grow(bytes)) return false
    this.#inputBytes += bytes
    return true
  }

  /** The round is over. */
  releaseInput(): void {
    this.grow(-this.#inputBytes)
    this.#inputBytes = 0
  }

  /** Its request has been answered. */
  settle(outcome: Outcome, statusMessage?: string): void {
    if (this.isEnded) return
    // What it was asked with is not needed any more.
    this.#dispose()
    if (!this.grow(Buffer.byteLength(outcome.text))) return this.fail('overflow')
    this.#outcome = outcome
    const isFailure = outcome.isFailure ?? outcome.kind === 'error'
    this.#become(isFailure ? 'failed' : 'completed', statusMessage)
  }

  /** Its request gets no answer. */
  fail(fault: StreamFault): void {
    if (this.isEnded) return
    this.#dispose()
    this.#outcome = { kind: 'error', text: faultText(fault) }
    const { work } = this
    this.#become('failed')
    work?.stop()
  }

  /** Its client wants no more of it; `by`: the request that says so. */
  cancel(by?: IncomingMessage): void {
    if (this.isEnded) return
    this.#dispose()
    const { work } = this
    this.#become('cancelled')
    work?.stop(by)
  }

  /** Nobody can ask for it any more. */
  forget(): void {
    this.cancel()
    this.#outcome = undefined
    this.#dispose()
  }

  #become(end: 'completed' | 'failed' | 'cancelled', statusMessage?: string): void {
    this.#end = end
    this.#input = undefined
    this.openQuestions = 0
    this.work = undefined
    this.changed(statusMessage)
    this.onChange = undefined
    this.#keeper.ended(this)
  }

  #dispose(): void {
    this.#keeper.resize(-this.#bytes, this.facts.owner)
    this.#bytes = 0
    this.#inputBytes = 0
  }
}
