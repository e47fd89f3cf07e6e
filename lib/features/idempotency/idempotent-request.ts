// One call under its `Idempotency-Key`: who waits for it, and what became of it.
import type { ServerResponse } from 'node:http'
import type { RequestId } from '../../protocol/json-rpc.js'
import type {
  CallKey,
  KeyedCall,
  KeyedOutcome,
  KeyedRun,
  RecordedAnswer
} from '../../endpoint/keyed-call.js'
import { BodyWatch } from '../../http/body-watch.js'
import { patchedResponse } from '../../http/patched-response.js'
import type { ResponseCapture } from '../../http/response-capture.js'
import { foldHeaders, headersIn } from '../../http/response-headers.js'
import { type DueQueue, Waiting } from '../../streams/due-queue.js'
import type { Budget } from '../../streams/budget.js'

export const LOST: KeyedOutcome = { kind: 'lost' }

/** What is remembered of an answered call: nothing of its request. */
export interface SettledCall {
  /** A digest of its body; `undefined`: that could not be read, and its key alone names it. */
  readonly hash: string | undefined
  outcome: KeyedOutcome
}

export interface KeyedRequest extends CallKey {
  readonly owner: string
  /** The ids of its JSON-RPC requests, as far as they are known by now. */
  readonly requestIds: () => readonly RequestId[]
}

/** Where calls are kept. */
export interface IdempotencyHost {
  /** Calls without a client, until they are abandoned. */
  readonly abandonments: DueQueue
  /** How many of them there are. */
  readonly alone: Budget
  /** Bytes of their requests, and of answers that are not whole. */
  readonly held: Budget
  /** Bytes of one answer that are recorded. */
  readonly longestAnswer: number
  /** A call cannot go on without its client. */
  refused(): void
  /** `isUnread`: no client waits for the outcome. */
  settled(request: KeyedRequest, outcome: KeyedOutcome, isUnread: boolean): void
}

/** A call that has not been answered. Its request may be large, and is dropped then. */
export class IdempotentRequest implements KeyedCall {
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
      return process.nextTick(() => run.showClose())
    }
    this.#run = run
    this.#recording = recording
  }

  record(res: ServerResponse, run: ResponseCapture): void {
    const recorder = new AnswerRecorder(this, res, run)
    this.runs(run, recorder)
    patchedResponse(res).watch(recorder)
  }

  /** More of its answer is recorded. `false`: there is no room for it. */
  grow(bytes: number): boolean {
    const recorded = this.#recorded + bytes
    const { longestAnswer, held } = this.#host
    if (this.#request === undefined || recorded > longestAnswer) return false
    if (!held.hold(this.#request.owner, bytes)) return false
    this.#recorded = recorded
    return true
  }

  awaitedBy(
    res: ServerResponse,
    onSettled: (outcome: KeyedOutcome) => void = () => undefined
  ): void {
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
    if (this.#abandonment === undefined && !this.#hold(request)) return this.abandon()
    this.#host.abandonments.add((this.#abandonment ??= new Waiting(() => this.abandon())))
  }

  abandon(): void {
    this.settle(LOST)?.showClose()
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
    this.#host.held.release(request.owner, this.#recorded)
    this.#recording = this.#run = undefined
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    this.#host.settled(request, outcome, waiting.length === 0)
    for (const listener of waiting) listener(outcome)
    return run
  }

  /** It goes on without a client. `false`: there is no room. */
  #hold({ owner, size }: KeyedRequest): boolean {
    const { alone, held } = this.#host
    if (alone.has(owner, 1) && held.hold(owner, size)) return alone.hold(owner, 1)
    this.#host.refused()
    return false
  }

  /** The call is no longer held for a client that may come back. */
  #release(request: KeyedRequest): void {
    if (this.#abandonment === undefined) return
    this.#abandonment.stop()
    this.#abandonment = undefined
    this.#host.alone.release(request.owner, 1)
    this.#host.held.release(request.owner, request.size)
  }
}

type RecordedHead = Pick<RecordedAnswer, 'status' | 'headers'>

/** Records an answer while it is given. */
class AnswerRecorder extends BodyWatch {
  readonly #call: IdempotentRequest
  readonly #res: ServerResponse
  readonly #run: ResponseCapture
  #head: RecordedHead | undefined

  constructor(call: IdempotentRequest, res: ServerResponse, run: ResponseCapture) {
    super()
    this.#call = call
    this.#res = res
    this.#run = run
  }

  override head(args: readonly unknown[]): void {
    if (!this.#call.isSettled) this.#head = this.#read(args[0], headersIn(args))
  }

  override destroyed(): void {
    this.#call.abandon()
  }

  override stop(): void {
    this.#head = undefined
    super.stop()
  }

  protected mayKeep(_size: number, more: number): boolean {
    const hasRoom = this.#call.grow(more)
    if (!hasRoom) process.nextTick(() => this.#call.giveUp())
    return hasRoom
  }

  protected whole(body: Buffer): void {
    process.nextTick(() => this.#settle(body))
  }

  /** @param status as Node takes it: a number, or digits. */
  #read(status: unknown, given?: unknown): RecordedHead {
    // Before anything in front of us, such as compression, adds its own.
    const headers = { ...this.#res.getHeaders() }
    foldHeaders(given, {
      setHeader: (name, value) => (headers[name.toLowerCase()] = value)
    })
    return { status: Number(status), headers }
  }

  /** Only now is it known whether a response without an explicit head is a stream. */
  #settle(body: Buffer): void {
    if (this.#call.isSettled) return
    const head = this.#head ?? this.#read(this.#res.statusCode)
    this.#call.settle({ kind: 'answer', ...head, body })
    this.#run.leftAloneEnded()
  }
}
