// One call under its `Idempotency-Key`: who waits for it, and what became of it.
import type { ServerResponse } from 'node:http'
import type { RequestId } from '../../protocol/json-rpc.js'
import type { Keyed, KeyedOutcome, KeyedRun, RecordedRun } from '../../endpoint/keyed-call.js'
import { patchedResponse } from '../../http/patched-response.js'
import { type DueQueue, Waiting } from '../../streams/due-queue.js'
import { Budget, timesTheRest } from '../../streams/budget.js'
import { AnswerRecorder, type RecordedCall } from './recorded-answer.js'

export const LOST: KeyedOutcome = { kind: 'lost' }

/** What is remembered of an answered call: nothing of its request. */
export interface SettledCall {
  /** A digest of its body; `undefined`: that could not be read, and its key alone names it. */
  readonly hash: string | undefined
  outcome: KeyedOutcome
}

export interface KeyedRequest extends Keyed {
  readonly owner: string
  /** The ids of its JSON-RPC requests, as far as they are known by now. */
  readonly requestIds: () => readonly RequestId[]
}

/** Where calls are kept. */
export interface IdempotencyHost {
  /** Calls without a client, until they are abandoned. */
  readonly abandonments: DueQueue
  readonly room: CallRoom
  /** Bytes of one answer that are recorded. */
  readonly longestAnswer: number
  /** `isUnread`: no client waits for the outcome. */
  settled(request: KeyedRequest, outcome: KeyedOutcome, isUnread: boolean): void
}

/** A call that has not been answered. Its request may be large, and is dropped then. */
export class IdempotentRequest implements RecordedCall {
  readonly #host: IdempotencyHost
  #request: KeyedRequest | undefined
  readonly hash: string | undefined
  #run: KeyedRun | undefined
  #recording: AnswerRecorder | undefined
  /** Bytes of its answer so far. */
  #recorded = 0
  /** Called with the outcome, for each client that waits, by its response. */
  #waiting = new Map<ServerResponse, (outcome: KeyedOutcome) => void>()
  /** Set while it is held without a client. */
  #abandonment: Waiting | undefined

  constructor(request: KeyedRequest, host: IdempotencyHost) {
    this.#request = request
    this.hash = request.hash
    this.#host = host
  }

  get key(): string | undefined {
    return this.#request?.key
  }

  get isSettled(): boolean {
    return this.#request === undefined
  }

  get requestIds(): readonly RequestId[] {
    return this.#request?.requestIds() ?? []
  }

  runs(run: KeyedRun, recording?: AnswerRecorder): void {
    if (this.isSettled) {
      // Its client had left, and there was no room for it. The endpoint has yet to listen for that.
      recording?.stop()
      return process.nextTick(() => run.release())
    }
    this.#run = run
    this.#recording = recording
  }

  record(res: ServerResponse, run: RecordedRun): void {
    const recorder = new AnswerRecorder(this, res, run)
    this.runs(run, recorder)
    patchedResponse(res).watch(recorder)
  }

  grow(bytes: number): boolean {
    const recorded = this.#recorded + bytes
    const { longestAnswer, room } = this.#host
    if (this.#request === undefined || recorded > longestAnswer) return false
    if (!room.grow(this.#request.owner, bytes)) return false
    this.#recorded = recorded
    return true
  }

  join(res: ServerResponse, onSettled: (outcome: KeyedOutcome) => void): void {
    if (this.#request === undefined) return
    // It has left while another instance was asked who has the call: its close will not come again.
    if (res.destroyed) return this.awaitClients()
    this.#waiting.set(res, onSettled)
    this.#release(this.#request)
    res.once('close', () => {
      this.#waiting.delete(res)
      this.awaitClients()
    })
  }

  /** The time until it is abandoned starts now; without room, it is abandoned at once. */
  awaitClients(): void {
    const request = this.#request
    if (request === undefined || this.#waiting.size > 0) return
    const { abandonments, room } = this.#host
    if (this.#abandonment === undefined && !room.hold(request.owner, request.size))
      return this.abandon()
    abandonments.add((this.#abandonment ??= new Waiting(() => this.abandon())))
  }

  abandon(): void {
    this.settle(LOST)?.release()
  }

  giveUp(): void {
    this.settle(LOST)?.detach()
  }

  settle(outcome: KeyedOutcome): KeyedRun | undefined {
    const request = this.#request
    if (request === undefined) return undefined
    const run = this.#run
    this.#request = undefined
    this.#release(request)
    // A stream keeps its events itself, and what is lost is not kept.
    this.#recording?.stop()
    this.#host.room.shrink(request.owner, this.#recorded)
    this.#recording = this.#run = undefined
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    this.#host.settled(request, outcome, waiting.length === 0)
    for (const listener of waiting) listener(outcome)
    return run
  }

  /** The call is no longer held for a client that may come back. */
  #release(request: KeyedRequest): void {
    if (this.#abandonment === undefined) return
    this.#abandonment.stop()
    this.#abandonment = undefined
    this.#host.room.release(request.owner, request.size)
  }
}

/** What unanswered calls hold: something is left for owners that have little. */
export class CallRoom {
  readonly #calls: Budget
  readonly #bytes: Budget
  readonly #onFull: () => void

  /** @param onFull called when a call cannot go on without its client. */
  constructor(maxCalls: number, maxBytes: number, onFull: () => void) {
    this.#calls = new Budget(maxCalls, { mostOfOwner: timesTheRest(1) })
    this.#bytes = new Budget(maxBytes, { mostOfOwner: timesTheRest(1) })
    this.#onFull = onFull
  }

  get bytes(): number {
    return this.#bytes.taken
  }

  /** Goes on without a client, with its request of `size` bytes. `false`: no room. */
  hold(owner: string, size: number): boolean {
    const hasPlace = this.#calls.hold(owner, 1)
    if (hasPlace && this.grow(owner, size)) return true
    if (hasPlace) this.#calls.release(owner, 1)
    this.#onFull()
    return false
  }

  /** A client waits for the call again, or the call is over. */
  release(owner: string, size: number): void {
    this.#calls.release(owner, 1)
    this.shrink(owner, size)
  }

  /** More of an answer has been recorded. `false`: there is no room for it. */
  grow(owner: string, bytes: number): boolean {
    return this.#bytes.hold(owner, bytes)
  }

  /** So much of an answer has been dropped, or is kept elsewhere. */
  shrink(owner: string, bytes: number): void {
    this.#bytes.release(owner, bytes)
  }
}
