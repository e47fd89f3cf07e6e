// A task: the state of a call, its outcome, and the input that it needs from its client.
import type { IncomingMessage } from 'node:http'
import { now } from '../../protocol/clock.js'
import type { StreamFault } from '../../protocol/errors.js'
import type { TaskStatus } from '../../protocol/tasks.js'
import type { Keeper, KeptValue } from '../../streams/directory.js'
import { faultText } from './task-refusal.js'

interface TaskTimes {
  /** Milliseconds from its creation for which the task can be asked for. */
  readonly ttl: number
  /** Milliseconds that its client is told to wait between polls. */
  readonly pollInterval: number
}

export interface TaskView {
  readonly id: string
  readonly status: TaskStatus
  readonly statusMessage?: string | undefined
  readonly createdAt: string
  readonly lastUpdatedAt: string
  readonly times: TaskTimes
  readonly input: { readonly text: string }
  readonly outcome?: TaskOutcome | undefined
}

export interface TaskFacts {
  readonly owner: string
  readonly sessionId: string | undefined
  /** A digest of owner, session and path: the task is found by no others. */
  readonly scope: string
}

export interface TaskKeeper {
  /** Bytes that one task may hold. */
  readonly maxTaskBytes: number
  readonly newId: () => string
  changed(): void
  ended(task: Task): void
  /** `false`: there is no room for more bytes of this owner. */
  resize(bytes: number, owner: string): boolean
}

export interface TaskWork {
  /** All input is there. `req`: the client's request whose credentials the endpoint gets. */
  goOn(req: IncomingMessage, round: Round): void
  /** The work is not wanted any more; `by`: the client's request that says so, if any. */
  stop(by?: IncomingMessage): void
}

/** How the task's request was answered; `text` is the result or the error as JSON. */
export interface TaskOutcome {
  readonly kind: 'result' | 'error'
  readonly text: string
  /** Whether the task has failed. Default: if it is an error. */
  readonly isFailure?: boolean
  /** What its text ends with, if that is the outcome of a task. Default: it is one itself. */
  readonly kept?: TaskOutcome | undefined
}

export class Task implements TaskView {
  readonly id: string
  readonly facts: TaskFacts
  readonly times: TaskTimes
  /** [2025-11-25] How many requests of the endpoint the client has not answered. */
  openQuestions = 0
  work: TaskWork | undefined
  onChange: ((task: Task) => void) | undefined
  readonly #keeper: TaskKeeper
  /** ISO 8601, as on the wire: the times are read more often than they change. */
  readonly createdAt = new Date().toISOString()
  lastUpdatedAt = this.createdAt
  readonly expiresAt: number
  #endedAs: 'completed' | 'failed' | 'cancelled' | undefined
  #outcome: TaskOutcome | undefined
  #input: TaskInput | undefined
  #statusMessage: string | undefined
  /** Bytes that are counted for it in all; those of the current round of input among them. */
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
    if (this.#endedAs !== undefined) return this.#endedAs
    return this.isWaitingForInput ? 'input_required' : 'working'
  }

  get isEnded(): boolean {
    return this.#endedAs !== undefined
  }

  get outcome(): TaskOutcome | undefined {
    return this.#outcome
  }

  /** [2026-07-28] The input that it needs from its client. */
  get input(): TaskInput {
    return (this.#input ??= new TaskInput())
  }

  get isWaitingForInput(): boolean {
    return this.#input?.isOpen === true || this.openQuestions > 0
  }

  get statusMessage(): string | undefined {
    return this.#statusMessage
  }

  get isOver(): boolean {
    return this.expiresAt <= now()
  }

  get maxBytes(): number {
    return this.#keeper.maxTaskBytes
  }

  changed(statusMessage?: string): void {
    if (statusMessage !== undefined) this.#statusMessage = statusMessage
    this.lastUpdatedAt = new Date().toISOString()
    this.#keeper.changed()
    this.onChange?.(this)
  }

  /** Counts bytes that are kept for it, or given back. `false`: there is no room for them. */
  grow(bytes: number): boolean {
    if (bytes > 0 && this.#bytes + bytes > this.maxBytes) return false
    if (!this.#keeper.resize(bytes, this.facts.owner)) return false
    this.#bytes += bytes
    return true
  }

  /** The same for what is kept until the end of the current round of input. */
  growInput(bytes: number): boolean {
    if (!this.grow(bytes)) return false
    this.#inputBytes += bytes
    return true
  }

  releaseInput(): void {
    this.grow(-this.#inputBytes)
    this.#inputBytes = 0
  }

  settle(outcome: TaskOutcome, statusMessage?: string): void {
    if (this.isEnded) return
    // The request is not needed any more.
    this.#dispose()
    if (!this.grow(Buffer.byteLength(outcome.text))) return this.fail('overflow')
    this.#outcome = outcome
    const isFailure = outcome.isFailure ?? outcome.kind === 'error'
    this.#become(isFailure ? 'failed' : 'completed', statusMessage)
  }

  fail(fault: StreamFault): void {
    if (this.isEnded) return
    this.#dispose()
    this.#outcome = { kind: 'error', text: faultText(fault) }
    const { work } = this
    this.#become('failed')
    work?.stop()
  }

  /** The client has cancelled it; `by`: the request that says so. */
  cancel(by?: IncomingMessage): void {
    if (this.isEnded) return
    this.#dispose()
    const { work } = this
    this.#become('cancelled')
    work?.stop(by)
  }

  /** Nobody can ask for it any more: ends it, and drops its result. */
  forget(): void {
    this.cancel()
    this.#outcome = undefined
    this.#dispose()
  }

  #become(end: 'completed' | 'failed' | 'cancelled', statusMessage?: string): void {
    this.#endedAs = end
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

export interface Round {
  readonly inputResponses: string
  readonly requestState: string | undefined
}

/** Requests for input (2026-07-28), in rounds, under keys that are used once. */
class TaskInput {
  #round = 0
  readonly #open = new Map<string, { readonly key: string; readonly text: string }>()
  readonly #given = new Map<string, string>()
  #requestState: string | undefined

  get isOpen(): boolean {
    return this.#open.size > 0
  }

  get text(): string {
    const members = [...this.#open].map(([key, { text }]) => `${JSON.stringify(key)}:${text}`)
    return `{${members.join()}}`
  }

  ask(questions: ReadonlyMap<string, string>, requestState: string | undefined): void {
    this.#round++
    this.#requestState = requestState
    for (const [key, text] of questions) this.#open.set(`r${this.#round}.${key}`, { key, text })
  }

  /** Bytes of those answers that a request for input is open for. */
  sizeOf(answers: ReadonlyMap<string, string>): number {
    const open = [...answers].filter(([name]) => this.#open.has(name))
    return open.reduce((sum, [, text]) => sum + Buffer.byteLength(text), 0)
  }

  /** Takes answers to open keys; returns how many, and what the endpoint gets if none is open. */
  answer(answers: ReadonlyMap<string, string>): { taken: number; round: Round | undefined } {
    let taken = 0
    for (const [name, text] of answers) {
      const question = this.#open.get(name)
      if (question === undefined) continue
      this.#open.delete(name)
      this.#given.set(question.key, text)
      taken++
    }
    return { taken, round: taken > 0 && !this.isOpen ? this.#take() : undefined }
  }

  #take(): Round {
    const given = [...this.#given].map(([key, text]) => `${JSON.stringify(key)}:${text}`)
    const round = { inputResponses: `{${given.join()}}`, requestState: this.#requestState }
    this.#given.clear()
    this.#requestState = undefined
    return round
  }
}

export interface KeptTask extends TaskView {
  readonly scope: string
}

interface Head extends Omit<KeptTask, 'input' | 'outcome'> {
  readonly kind: 'task'
  /** `undefined`: the task was cancelled. */
  readonly outcome?: Omit<TaskOutcome, 'text'> | undefined
}

export function keepTask(keeper: Keeper, task: Task): void {
  const { id, status, statusMessage, createdAt, lastUpdatedAt, times, expiresAt } = task
  const { text = '', ...outcome } = task.outcome ?? {}
  const head: Head = {
    kind: 'task',
    scope: task.facts.scope,
    ...{ id, status, statusMessage, createdAt, lastUpdatedAt, times },
    ...('kind' in outcome && { outcome })
  }
  keeper.keep(id, head, [Buffer.from(text)], expiresAt - now())
}

export function keptTaskIn({ head, bytes }: KeptValue): KeptTask | undefined {
  const { kind, outcome, ...facts } = head as Head
  if (kind !== 'task') return undefined
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  return { ...facts, input: { text: '{}' }, outcome: outcome && { ...outcome, text } }
}
