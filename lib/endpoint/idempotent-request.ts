// One call under its `Idempotency-Key`: who waits for it, and what became of it.
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { RequestId } from '../protocol/json-rpc.js'
import { Timer } from '../streams/timer.js'

export interface RecordedAnswer {
  readonly status: number
  readonly headers: OutgoingHttpHeaders
  readonly body: Buffer
}

/** What became of a call. */
export type Outcome =
  | { readonly kind: 'stream'; readonly streamId: string }
  | { readonly kind: 'answer'; readonly answer: RecordedAnswer }
  /** It ran, and there is no answer to give: too large to keep, or nobody wanted it. */
  | { readonly kind: 'lost' }

export const LOST: Outcome = { kind: 'lost' }

/**
 * What is remembered of a call that has been answered: nothing of its request, nor of who has
 * waited.
 */
export interface SettledCall {
  readonly kind: 'settled'
  /** A digest of its body. */
  readonly hash: string
  outcome: Outcome
}

/** A request by its key, body and owner. */
export interface KeyedRequest {
  readonly key: string
  readonly owner: string
  /** A digest of its body. */
  readonly hash: string
  /** Characters of its body. */
  readonly size: number
  readonly requestIds: readonly RequestId[]
}

/** Where calls are kept. */
export interface IdempotencyHost {
  /** Milliseconds after which a call without a client is abandoned; as of now. */
  readonly abandonAfter: number
  /**
   * A call goes on without a client, and all that it holds with it. `false`: there is no room for
   * that.
   */
  hold(request: KeyedRequest): boolean
  /** A client waits for it again, or it is over. */
  letGo(request: KeyedRequest): void
  /** `isUnread`: nobody waits for it. */
  settled(request: KeyedRequest, outcome: Outcome, isUnread: boolean): void
}

/** The endpoint at work on a call, as long as its response is recorded. */
export interface KeyedRun {
  /** Lets the endpoint see that nobody is there any more. */
  release(): void
  /** Lets the endpoint see when its own client leaves: nobody can ask again. */
  letGo(): void
  /** A stream keeps its events itself, and what is lost is not kept. */
  stopRecording(): void
}

/**
 * A call that has not been answered yet. What is known of it goes once it has been: its request may
 * be large.
 */
export class IdempotentRequest {
  readonly kind = 'running'
  readonly #host: IdempotencyHost
  #request: KeyedRequest | undefined
  readonly hash: string
  readonly owner: string
  #run: KeyedRun | undefined
  /** Who waits for the outcome, by their responses. */
  #waiting = new Map<ServerResponse, (outcome: Outcome) => void>()
  #abandonment: Timer | undefined
  #isHeld = false

  constructor(request: KeyedRequest, host: IdempotencyHost) {
    this.#request = request
    this.hash = request.hash
    this.owner = request.owner
    this.#host = host
  }

  get isSettled(): boolean {
    return this.#request === undefined
  }

  /** What it is kept by; `undefined`: it has been settled. */
  get key(): string | undefined {
    return this.#request?.key
  }

  get requestIds(): readonly RequestId[] {
    return this.#request?.requestIds ?? []
  }

  /** The endpoint begins to work on it. */
  runs(run: KeyedRun): void {
    this.#run = run
  }

  /** A client waits, for as long as its connection is open. */
  join(res: ServerResponse, onSettled: (outcome: Outcome) => void): void {
    if (this.#request === undefined) return
    this.#waiting.set(res, onSettled)
    this.#stopWaiting(this.#request)
    res.once('close', () => {
      this.#waiting.delete(res)
      this.awaitClients()
    })
  }

  /**
   * Without a client, the time until the call is abandoned starts now; where there is no room for
   * it, it is over.
   */
  awaitClients(): void {
    const request = this.#request
    if (request === undefined || this.#waiting.size > 0) return
    this.#abandonment?.stop()
    this.#isHeld ||= this.#host.hold(request)
    if (!this.#isHeld) return this.abandon()
    this.#abandonment ??= new Timer(() => this.abandon())
    this.#abandonment.start(this.#host.abandonAfter)
  }

  /** Nobody came back, or nobody wants it any more. */
  abandon(): void {
    const run = this.#run
    if (this.settle(LOST)) run?.release()
  }

  /** Its answer is kept for nobody: the endpoint gives it to its own client alone. */
  giveUp(): void {
    const run = this.#run
    if (this.settle(LOST)) run?.letGo()
  }

  /** `false`: it was settled before. */
  settle(outcome: Outcome): boolean {
    const request = this.#request
    if (request === undefined) return false
    this.#request = undefined
    this.#stopWaiting(request)
    const run = this.#run
    this.#run = undefined
    run?.stopRecording()
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    this.#host.settled(request, outcome, waiting.length === 0)
    for (const listener of waiting) listener(outcome)
    return true
  }

  #stopWaiting(request: KeyedRequest): void {
    this.#abandonment?.stop()
    if (this.#isHeld) this.#host.letGo(request)
    this.#isHeld = false
  }
}
