// What a client may be told: each message of its own call once and in order, and for each request a
// response or an explicit error.

import type { Json } from '../helpers/open-stream.js'
import type { CallPlan, Scenario } from './scenario.js'

/** The promise is broken. */
export class Violation extends Error {
  override name = 'Violation'
}

export interface InboxOptions {
  /** A client with resume tokens may be asked and told again. */
  mayRepeat?: boolean
}

/** All that one client gets of its call. */
export class Inbox {
  /** Ids of requests without a response. */
  readonly pending: Set<string>
  /** Messages of the endpoint so far, which are numbered. */
  count = 0
  /** Reasons of the errors that took the place of responses. */
  readonly reasons: string[] = []
  readonly #plan: CallPlan
  readonly #isCalm: boolean
  readonly #areIdsKnown: boolean
  readonly #mayRepeat: boolean

  constructor(plan: CallPlan, scenario: Scenario, { mayRepeat = false }: InboxOptions = {}) {
    this.#plan = plan
    this.#isCalm = scenario.isCalm
    this.#areIdsKnown = areBodiesRead(scenario)
    this.#mayRepeat = mayRepeat
    this.pending = new Set(
      Array.from({ length: plan.requests }, (_, index) => requestId(plan, index))
    )
  }

  get isDone(): boolean {
    return this.pending.size === 0
  }

  /** Takes one message. Returns the id of the question if it is one that has to be answered. */
  take(message: Json): string | undefined {
    const { method, id, params, result, error } = message
    if (method?.startsWith('notifications/stream/')) return undefined
    if (error !== undefined) return void this.#takeError(id, error)
    // Whether a client is there that answers at once is asked by a ping of the middleware's own.
    if (method === 'ping') return id
    if (method === undefined) {
      if (!this.pending.delete(id)) this.#fail(`a response to ${id}, which is not open`)
      this.#takeNumber(result)
      return undefined
    }
    this.#takeNumber(method === 'notifications/message' ? params.data : params)
    return method === 'elicitation/create' ? id : undefined
  }

  /** An explicit end of the whole call, such as a status. */
  refuse(reason: string): void {
    if (this.#isCalm && !this.#isBroken()) this.#fail(`refused without need: ${reason}`)
    this.reasons.push(reason)
    this.pending.clear()
  }

  /** The server says that there is no more. */
  finish(how: string): void {
    if (!this.isDone && this.#areIdsKnown)
      this.#fail(`${how} although ${[...this.pending].join(', ')} are not answered`)
  }

  #takeNumber({ key, n }: { key: string; n: number }): void {
    if (key !== this.#plan.key) this.#fail(`a message of ${key}`)
    if (n !== this.count && !this.#mayRepeat) this.#fail(`message ${n} where ${this.count} is next`)
    this.count = n + 1
  }

  #takeError(id: string, { code, message, data }: Json): void {
    const reason = data?.reason ?? `${code} ${message}`
    // Of what is kept no longer it is not known which of its requests a client has seen answered.
    const isOpen = this.pending.delete(id)
    if (!isOpen && !LAPSED.includes(reason))
      this.#fail(`an error for ${id}, which is not open: ${reason}`)
    if (!isOpen) return
    this.reasons.push(reason)
    // What an endpoint that destroys its response has said before may be lost to a client that
    // collects it.
    const isTheirs = this.#mayRepeat
      ? this.#isBroken()
      : (reason === 'no-response' || this.#isOfSdk(code)) && this.#isBroken(id)
    if (this.#isCalm && !isTheirs) this.#fail(`${id} fails without need: ${reason}`)
  }

  /** An SDK answers for a tool that throws. */
  #isOfSdk(code: number): boolean {
    return this.#plan.shape.startsWith('sdk') && code === -32603
  }

  /** Whether the endpoint leaves a request without a response. */
  #isBroken(id?: string): boolean {
    const answered = this.#plan.script
      .filter(step => step.do === 'answer')
      .map(({ index }) => requestId(this.#plan, index))
    const fails = this.#plan.script.at(-1)?.do !== 'end'
    return id === undefined
      ? fails || answered.length < this.#plan.requests
      : !answered.includes(id)
  }

  #fail(what: string): never {
    throw new Violation(`${this.#plan.key} (${this.#plan.client}): ${what}`)
  }
}

const LAPSED = ['stream-expired', 'events-evicted', 'abandoned']

/**
 * Whether there is room to read bodies: a body that is not read has no known request ids, and its
 * key means nothing.
 */
export const areBodiesRead = ({ options }: Scenario): boolean =>
  options.maxBodyBytes === undefined && (options.maxBytes ?? Infinity) >= 20_000

export const requestId = ({ key }: CallPlan, index: number): string => `${key}:${index}`
