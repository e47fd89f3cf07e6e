// A POST that is sent again attaches to what the first one started: a lost response never runs a tool twice.
import { createHash } from 'node:crypto'
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { LRUCache } from 'lru-cache'
import type { RequestId } from '../core/json-rpc.js'
import { headerOf, sessionOf } from './guards.js'
import { observeBody } from './observe-body.js'
import { foldHeaders } from './response-headers.js'

export interface Answer {
  readonly status: number
  readonly headers: OutgoingHttpHeaders
  readonly body: Buffer
}

/** What became of a call. */
export type Outcome =
  | { readonly kind: 'stream'; readonly streamId: string }
  | { readonly kind: 'answer'; readonly answer: Answer }
  /** It ran, and there is no answer to give: too large to keep, or nobody wanted it. */
  | { readonly kind: 'lost' }

const LOST: Outcome = { kind: 'lost' }
const LONGEST_TIMEOUT = 2 ** 31 - 1

/** One call under its key. */
export class KeyedCall {
  readonly requestIds: readonly RequestId[]
  /** Lets the endpoint see that nobody is there any more; set while it has not begun to answer. */
  release: () => void = () => undefined
  /** A stream keeps its events itself. */
  stopRecording: () => void = () => undefined
  readonly #hash: string
  #outcome: Outcome | undefined
  /** Who waits for the outcome, by their responses. */
  #waiting = new Map<ServerResponse, (outcome: Outcome) => void>()
  #abandonTimer: ReturnType<typeof setTimeout> | undefined
  readonly #abandonAfter: () => number
  readonly #onSettled: (outcome: Outcome) => void

  constructor(
    hash: string,
    requestIds: readonly RequestId[],
    abandonAfter: () => number,
    onSettled: (outcome: Outcome) => void
  ) {
    this.#hash = hash
    this.requestIds = requestIds
    this.#abandonAfter = abandonAfter
    this.#onSettled = onSettled
  }

  get outcome(): Outcome | undefined {
    return this.#outcome
  }

  isFor(hash: string): boolean {
    return this.#hash === hash
  }

  /** A client waits, for as long as its connection is open. */
  join(res: ServerResponse, onSettled: (outcome: Outcome) => void): void {
    if (this.#outcome !== undefined) return onSettled(this.#outcome)
    this.#waiting.set(res, onSettled)
    clearTimeout(this.#abandonTimer)
    res.once('close', () => {
      this.#waiting.delete(res)
      this.awaitClients()
    })
  }

  /** Without a client, the time until the call is abandoned starts now. */
  awaitClients(): void {
    clearTimeout(this.#abandonTimer)
    if (this.#outcome !== undefined || this.#waiting.size > 0) return
    this.#abandonTimer = setTimeout(() => this.abandon(), Math.min(this.#abandonAfter(), LONGEST_TIMEOUT))
    this.#abandonTimer.unref()
  }

  /** Nobody came back, or nobody wants it any more. */
  abandon(): void {
    if (this.#outcome !== undefined) return
    this.settle(LOST)
    this.release()
  }

  settle(outcome: Outcome): void {
    if (this.#outcome !== undefined) return
    this.#outcome = outcome
    clearTimeout(this.#abandonTimer)
    if (outcome.kind === 'stream') this.stopRecording()
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    this.#onSettled(outcome)
    for (const listener of waiting) listener(outcome)
  }

  /** The room for its answer is needed for a newer one. */
  forgetAnswer(): void {
    this.#outcome = LOST
  }
}

/** Keys shorter than this are not unguessable, so they prove nothing about who sends them: they are not heeded. */
const SHORTEST_KEY = 16
const LONGEST_KEY = 256
/** Bytes of one answer that is kept for a repetition. */
const LONGEST_ANSWER = 1024 * 1024
/** A gateway's words, or a server's that has not started: the next attempt is a fresh one. */
const NOT_STARTED = [429, 502, 503, 504]

export interface KeyedCallsLimits {
  /** Calls that are remembered once they have been answered. */
  readonly maxCalls: number
  /** Milliseconds for which they are. */
  readonly window: number
  /** Bytes of all answers that are kept. */
  readonly maxBytes: number
  /** Milliseconds after which a call that has not been answered is abandoned, once its client has gone; as of now. */
  readonly abandonAfter: () => number
}

export class KeyedCalls {
  readonly #limits: KeyedCallsLimits
  /** As many as there are requests under way: none of them can be forgotten. */
  readonly #running = new Map<string, KeyedCall>()
  readonly #settled: LRUCache<string, KeyedCall>
  readonly #answers: LRUCache<KeyedCall, Answer>

  constructor(limits: KeyedCallsLimits) {
    this.#limits = limits
    this.#settled = new LRUCache({
      maxSize: limits.maxCalls,
      sizeCalculation: () => 1,
      ttl: limits.window,
      perf: Date,
      updateAgeOnGet: true,
      disposeAfter: call => this.#answers.delete(call)
    })
    this.#answers = new LRUCache({
      maxSize: limits.maxBytes,
      sizeCalculation: ({ body }) => Math.max(1, body.length),
      dispose: (_answer, call) => call.forgetAnswer()
    })
  }

  get(key: string): KeyedCall | undefined {
    return this.#running.get(key) ?? this.#settled.get(key)
  }

  begin(key: string, hash: string, requestIds: readonly RequestId[]): KeyedCall {
    const call = new KeyedCall(hash, requestIds, this.#limits.abandonAfter, outcome => {
      this.#running.delete(key)
      if (outcome.kind === 'answer' && NOT_STARTED.includes(outcome.answer.status)) return
      this.#settled.set(key, call)
      if (outcome.kind === 'answer') this.#answers.set(call, outcome.answer)
    })
    this.#running.set(key, call)
    return call
  }

  /** The process is about to end: the time until a call is abandoned has become shorter. */
  beginClosing(): void {
    for (const call of this.#running.values()) call.awaitClients()
  }

  /** Records the answer of a call, unless it becomes a stream. `onEnd` is told when the endpoint has given it. */
  record(call: KeyedCall, res: ServerResponse, onEnd: () => void): void {
    let head: Omit<Answer, 'body'> | undefined
    const readHead = (status: number, given?: unknown): Omit<Answer, 'body'> => {
      // Before anything in front of us, such as compression, adds its own.
      const headers = { ...res.getHeaders() }
      foldHeaders(res, (name, value) => (headers[name.toLowerCase()] = value), given)
      return { status, headers }
    }
    const writeHead = res.writeHead as (this: ServerResponse, ...args: unknown[]) => ServerResponse
    res.writeHead = function writeHeadRecorded(this: ServerResponse, ...args: unknown[]): ServerResponse {
      const [status, reason, last] = args
      if (call.outcome === undefined)
        head = readHead(status as number, typeof reason === 'string' ? last : (last ?? reason))
      return writeHead.apply(this, args)
    }
    const { destroy } = res
    res.destroy = function destroyRecorded(this: ServerResponse, error?: Error): ServerResponse {
      call.abandon()
      return destroy.call(this, error)
    }
    const settle = (body: Buffer | undefined): void => {
      call.settle(
        body === undefined ? LOST : { kind: 'answer', answer: { ...(head ?? readHead(res.statusCode)), body } }
      )
      onEnd()
    }
    // A response that is ended without a head of its own is only now found out to be a stream, or not.
    const limit = Math.min(LONGEST_ANSWER, this.#limits.maxBytes)
    call.stopRecording = observeBody(res, limit, body => process.nextTick(settle, body))
  }
}

/** The key of a request, bound to its owner and session; `undefined` where it has none worth heeding. */
export function keyOf(req: IncomingMessage, owner: string, key = headerOf(req, 'idempotency-key')): string | undefined {
  if (key === undefined || key.length < SHORTEST_KEY || key.length > LONGEST_KEY) return undefined
  return JSON.stringify([owner, sessionOf(req) ?? null, key])
}

/** What makes two bodies the same request. */
export function hashOf(body: unknown): string | undefined {
  let text: string
  try {
    text = JSON.stringify(body)
  } catch {
    return undefined // Nested too deeply to be written: what can be read is not always that shallow.
  }
  return createHash('sha256').update(text).digest('base64url')
}

/** Gives a recorded answer once more. */
export function repeatAnswer(res: ServerResponse, { status, headers, body }: Answer): void {
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) res.setHeader(name, value)
  for (const name of ['Trailer', 'Transfer-Encoding']) res.removeHeader(name)
  res.writeHead(status)
  res.end(body)
}
