// A call that its client looks in on: what a task id stands for. What it has come to is the call's;
// the task adds when it ends, what it waits for, and words for people.
import { now } from '../../protocol/clock.js'
import type { TaskStatus } from '../../protocol/tasks.js'
import type { CallFacts, CallKeeper } from '../call-keeper.js'
import { Call } from '../call.js'
import type { CallAnswer } from '../call-reply.js'
import { TaskInput } from './task-input.js'

export interface TaskTimes {
  /** Milliseconds from its creation for which it can be asked for. */
  readonly ttl: number
  /** Milliseconds that its client is told to wait from one look to the next. */
  readonly pollInterval: number
}

/** What is told of a task. */
export interface TaskView {
  readonly id: string
  readonly status: TaskStatus
  readonly statusMessage?: string | undefined
  readonly createdAt: string
  readonly lastUpdatedAt: string
  readonly times: TaskTimes
  readonly isEnded: boolean
  readonly input: { readonly text: string }
  readonly call: { readonly final: CallAnswer | undefined }
}

/** What a task needs of what keeps it. */
export interface TaskKeeper {
  /** Bytes that one task may hold. */
  readonly maxTaskBytes: number
  /** The process is about to end. */
  readonly isClosing: boolean
  /** Makes the ids of tasks. */
  readonly newId: () => string
  /** Takes room for a call that may become a task. */
  begin(task: Task): void
  /** It can be found from now on. */
  add(task: Task): void
  /** It waits for its client, or for the endpoint again. */
  changed(): void
  /** The endpoint has nothing more to do for it. */
  ended(task: Task): void
  /** `false`: there is no room for more bytes of this owner. */
  resize(bytes: number, owner: string): boolean
}

export class Task implements CallKeeper<Call>, TaskView {
  readonly id: string
  readonly call: Call
  readonly times: TaskTimes
  /** What it waits for from its client, from 2026-07-28 on. */
  readonly input = new TaskInput()
  /** Requests of the endpoint that its client has not answered, at 2025-11-25. */
  openQuestions = 0
  readonly #store: TaskKeeper
  /** What answers the request that it began with. */
  readonly #created: (task: Task) => string
  #isTask = false
  #createdAt = 0
  #updatedAt = 0
  #expiresAt = Infinity
  #statusMessage: string | undefined
  #isFailure = false
  #bytes = 0
  #inputBytes = 0
  /** Hears of each change of its status, or of its message. */
  onChange: (task: Task) => void = () => undefined

  /** @param created makes the result that says that it is a task. */
  constructor(
    facts: CallFacts,
    store: TaskKeeper,
    times: TaskTimes,
    created: (task: Task) => string
  ) {
    this.id = store.newId()
    this.#store = store
    this.times = times
    this.#created = created
    this.call = new Call(facts, this, () => this.#created(this))
    store.begin(this)
  }

  /** Its client knows its id, or is about to. */
  get isTask(): boolean {
    return this.#isTask
  }

  get status(): TaskStatus {
    switch (this.call.state) {
      case 'completed':
        return this.#isFailure ? 'failed' : 'completed'
      case 'cancelled':
        return 'cancelled'
      case 'failed':
      case 'abandoned':
        return 'failed'
      case 'live':
      case 'waiting':
        return this.isWaitingForInput ? 'input_required' : 'working'
    }
  }

  get isEnded(): boolean {
    return this.call.isEnded
  }

  get isWaitingForInput(): boolean {
    return this.input.isOpen || this.openQuestions > 0
  }

  get statusMessage(): string | undefined {
    return this.#statusMessage
  }

  /** ISO 8601, as all times on the wire. */
  get createdAt(): string {
    return new Date(this.#createdAt).toISOString()
  }

  get lastUpdatedAt(): string {
    return new Date(this.#updatedAt).toISOString()
  }

  get expiresAt(): number {
    return this.#expiresAt
  }

  /** Its time is over. */
  get isOver(): boolean {
    return this.#expiresAt <= now()
  }

  /** Something has changed that its client may want to know. */
  changed(statusMessage?: string): void {
    if (statusMessage !== undefined) this.#statusMessage = statusMessage
    this.#updatedAt = Date.now()
    this.#store.changed()
    if (this.#isTask) this.onChange(this)
  }

  /** Its answer, which is to come next, makes it `failed`. */
  willFail(statusMessage?: string): void {
    this.#isFailure = true
    if (statusMessage !== undefined) this.#statusMessage = statusMessage
  }

  /** Counts bytes that it keeps besides its results. `false`: there is no room for them. */
  grow(bytes: number): boolean {
    if (!this.#store.resize(bytes, this.call.facts.owner)) return false
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
  letGoOfInput(): void {
    this.grow(-this.#inputBytes)
    this.#inputBytes = 0
  }

  /** Nobody can ask for it any more. */
  forget(): void {
    if (!this.call.isEnded) this.call.cancel()
    this.call.forget('token-expired')
    this.#letGo()
  }

  // CallKeeper

  get maxCallBytes(): number {
    return this.#store.maxTaskBytes
  }

  /** Its client may be away for its whole time. */
  get abandonAfter(): number {
    return Math.max(1, this.#expiresAt - now())
  }

  get isClosing(): boolean {
    return this.#store.isClosing
  }

  /** It is found before anybody is told its id. */
  issue(): string {
    if (this.#isTask) return this.id
    this.#isTask = true
    this.#createdAt = this.#updatedAt = Date.now()
    this.#expiresAt = now() + this.times.ttl
    this.#store.add(this)
    return this.id
  }

  retire(): void {
    // The id is good for as long as the task is.
  }

  resize(bytes: number, owner: string): boolean {
    return this.#store.resize(bytes, owner)
  }

  settled(): void {
    if (this.#isDone) return
    this.#end()
    if (!this.#isTask) this.call.forget('token-completed')
  }

  dropped(): void {
    if (!this.#isDone) this.#end()
  }

  #isDone = false

  #end(): void {
    this.#isDone = true
    this.input.clear()
    this.#letGo()
    this.changed()
    this.#store.ended(this)
  }

  #letGo(): void {
    this.#store.resize(-this.#bytes, this.call.facts.owner)
    this.#bytes = 0
    this.#inputBytes = 0
  }
}
