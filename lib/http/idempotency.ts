// A POST that is sent again attaches to what the first one started: a lost response never runs a tool twice.
import { createHash } from 'node:crypto'
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { LRUCache } from 'lru-cache'
import { headerOf, sessionOf } from './guards.js'
import { observeBody } from './observe-body.js'
import { foldHeaders } from './response-headers.js'

/** What became of a call. */
export type Outcome =
  | { readonly kind: 'stream'; readonly streamId: string }
  | { readonly kind: 'answer'; readonly status: number; readonly headers: OutgoingHttpHeaders; readonly body: Buffer }
  /** It ran, and its answer was too large to keep. */
  | { readonly kind: 'lost' }

/** One call under its key. */
export class KeyedCall {
  readonly #hash: string
  #outcome: Outcome | undefined
  #waiting: ((outcome: Outcome) => void)[] = []

  constructor(hash: string) {
    this.#hash = hash
  }

  isFor(hash: string): boolean {
    return this.#hash === hash
  }

  settle(outcome: Outcome): void {
    if (this.#outcome !== undefined) return
    this.#outcome = outcome
    const waiting = this.#waiting
    this.#waiting = []
    for (const listener of waiting) listener(outcome)
  }

  whenSettled(listener: (outcome: Outcome) => void): void {
    if (this.#outcome === undefined) this.#waiting.push(listener)
    else listener(this.#outcome)
  }
}

export interface KeyedEntry {
  readonly key: string
  readonly call: KeyedCall
}

/** Keys shorter than this are not unguessable, so they prove nothing about who sends them: they are not heeded. */
const SHORTEST_KEY = 16
const LONGEST_KEY = 256
/** Bytes of an answer that is kept for a repetition. */
const LONGEST_ANSWER = 1024 * 1024
/** A gateway's words, or a server's that has not started: the next attempt is a fresh one. */
const NOT_STARTED = [429, 502, 503, 504]

export class KeyedCalls {
  readonly #calls: LRUCache<string, KeyedCall>

  constructor(max: number, ttl: number) {
    this.#calls = new LRUCache({ max, ttl, perf: Date, updateAgeOnGet: true })
  }

  get(key: string): KeyedCall | undefined {
    return this.#calls.get(key)
  }

  begin(key: string, hash: string): KeyedEntry {
    const call = new KeyedCall(hash)
    this.#calls.set(key, call)
    return { key, call }
  }

  /** Records the answer of a call that does not become a stream. `onEnd` is told when it has been given. */
  record({ key, call }: KeyedEntry, res: ServerResponse, onEnd: () => void): void {
    const { writeHead, setHeader } = res as unknown as Record<
      'writeHead' | 'setHeader',
      (this: ServerResponse, ...args: unknown[]) => never
    >
    res.writeHead = function writeHeadFolded(this: ServerResponse, ...args: unknown[]): ServerResponse {
      const [status, reason, last] = args
      const isReason = typeof reason === 'string'
      // Headers that go straight into the head cannot be read back afterwards.
      foldHeaders(this, setHeader, isReason ? last : (last ?? reason))
      return isReason ? writeHead.call(this, status, reason) : writeHead.call(this, status)
    }
    observeBody(res, LONGEST_ANSWER, body => {
      const { statusCode: status } = res
      if (NOT_STARTED.includes(status) && this.#calls.peek(key) === call) this.#calls.delete(key)
      call.settle(
        body === undefined ? { kind: 'lost' } : { kind: 'answer', status, headers: { ...res.getHeaders() }, body }
      )
      onEnd()
    })
  }
}

/** The key of a request, bound to its owner and session; `undefined` where it has none worth heeding. */
export function keyOf(req: IncomingMessage, owner: string): string | undefined {
  const key = headerOf(req, 'idempotency-key')
  if (key === undefined || key.length < SHORTEST_KEY || key.length > LONGEST_KEY) return undefined
  return JSON.stringify([owner, sessionOf(req) ?? null, key])
}

/** What makes two bodies the same request. */
export function hashOf(body: unknown): string {
  return createHash('sha256').update(JSON.stringify(body)).digest('base64url')
}

/** Gives a recorded answer once more. */
export function repeatAnswer(
  res: ServerResponse,
  { status, headers, body }: Extract<Outcome, { kind: 'answer' }>
): void {
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) res.setHeader(name, value)
  res.removeHeader('Transfer-Encoding')
  res.writeHead(status)
  res.end(body)
}
