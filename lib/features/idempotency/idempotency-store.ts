// All calls under an `Idempotency-Key`: those that run, and what is remembered of the rest.
import { Budget, timesTheRest } from '../../streams/budget.js'
import { DueQueue } from '../../streams/due-queue.js'
import { type Here, type KeptValue, UNKNOWN } from '../../streams/directory.js'
import { FairStore } from '../../streams/fair-store.js'
import { Sweep, sweepPeriod } from '../../streams/timer.js'
import { WhenIdle } from '../../streams/when-idle.js'
import type { FeatureCounts, Fullness } from '../../endpoint/feature.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { KeyedOutcome, RecordedAnswer } from '../../endpoint/keyed-call.js'
import {
  type IdempotencyHost,
  IdempotentRequest,
  type KeyedRequest,
  LOST,
  type SettledCall
} from './idempotent-request.js'

/** Bytes of one answer that is kept for a repetition. */
const LONGEST_ANSWER = 1024 * 1024
/** Refusals (4xx) may take one part in so many of what other answers may take. */
const REFUSED_SHARE = 8
/** The endpoint has not begun. Not 502 or 504: a server behind a gateway may be at work. */
const NOT_STARTED = [429, 503]

export interface IdempotencyLimits {
  /** Calls that are answered and remembered, and calls that go on without a client. */
  readonly maxCalls: number
  /** Milliseconds for which they are remembered. */
  readonly window: number
  /** Of all answers that are kept, and of what calls hold without a client. */
  readonly maxBytes: number
  /** Milliseconds after which an unanswered call is abandoned, once its client has gone. */
  readonly abandonAfter: number
}

export class IdempotencyStore implements IdempotencyHost {
  abandonments: DueQueue
  readonly alone: Budget
  readonly held: Budget
  readonly longestAnswer: number
  readonly #parts: InstanceParts
  readonly #limits: IdempotencyLimits
  readonly #running = new Map<string, IdempotentRequest>()
  readonly #idle = new WhenIdle(() => this.#running.size === 0)
  readonly #settled: FairStore<SettledCall>
  readonly #answered: FairStore<SettledCall>
  /** Apart, as a client can be refused under as many names as it likes. */
  readonly #refused: FairStore<SettledCall>
  readonly #sweep: Sweep
  #evictions = 0
  #isClosing = false

  constructor(parts: InstanceParts, limits: IdempotencyLimits) {
    const { maxCalls, window: ttl, maxBytes } = limits
    this.#parts = parts
    this.#limits = limits
    this.abandonments = new DueQueue(limits.abandonAfter)
    this.#sweep = new Sweep(sweepPeriod(ttl), () => this.#expire())
    // Something is left for owners that have little.
    this.alone = new Budget(maxCalls, { mostOfOwner: timesTheRest(1) })
    this.held = new Budget(maxBytes, { mostOfOwner: timesTheRest(1) })
    this.longestAnswer = Math.min(LONGEST_ANSWER, maxBytes)
    this.#settled = new FairStore({
      maxSize: maxCalls,
      ttl,
      updateAgeOnGet: true,
      onEvict: (_call, key, isEviction) => {
        this.#answered.delete(key)
        if (isEviction) this.#evictions++
      }
    })
    this.#answered = new FairStore({
      maxSize: maxBytes,
      sizeOf: sizeOfCall,
      onEvict: call => {
        call.outcome = LOST
        this.#evictions++
      }
    })
    this.#refused = new FairStore({
      maxSize: Math.ceil(maxBytes / REFUSED_SHARE),
      ttl,
      updateAgeOnGet: true,
      sizeOf: sizeOfCall,
      onEvict: (_call, _key, isEviction) => {
        if (isEviction) this.#evictions++
      }
    })
  }

  // As a feature

  counts(): FeatureCounts {
    return {
      keyed: this.#running.size,
      bytes: this.#answered.size + this.#refused.size + this.held.used,
      evictions: this.#evictions
    }
  }

  fullness(): { readonly keyed: Fullness } {
    return { keyed: { used: this.#answered.size, max: this.#limits.maxBytes } }
  }

  /** The process is about to end: a call whose client does not come back soon is abandoned. */
  abandonAfter(milliseconds: number): void {
    this.#isClosing = true
    this.#sweep.close()
    const { abandonments } = this
    this.abandonments = new DueQueue(Math.min(milliseconds, this.#limits.abandonAfter))
    for (const call of [...this.#running.values()]) call.awaitClients()
    abandonments.close()
  }

  /** Resolves when all calls have been answered. */
  whenIdle(): Promise<void> | undefined {
    return this.#idle.wait()
  }

  /** Clients that have sent a call again are told that its answer is lost. */
  expire(): void {
    for (const call of [...this.#running.values()]) call.giveUp()
  }

  /** A stream is kept for other instances, so the outcome of its call is kept, too. */
  keepStream(key: string): void {
    const call = this.#settled.peek(key)
    if (call !== undefined) this.#keepForOthers(key, call)
  }

  /** Keeps for other instances every answer that was given in the last `time` milliseconds. */
  keepSince(time: number): void {
    for (const store of [this.#settled, this.#refused])
      for (const [key, call] of store.since(time)) this.#keepForOthers(key, call)
  }

  protected callUnder(key: string): Here<IdempotentRequest, SettledCall> {
    const running = this.#running.get(key)
    if (running !== undefined) return { kind: 'local', value: running }
    const settled = this.#settled.get(key) ?? this.#refused.get(key)
    if (settled === undefined) return UNKNOWN
    // A use of its answer, too: what was used last is evicted last.
    this.#answered.get(key)
    return { kind: 'ended', value: settled }
  }

  protected begin(request: KeyedRequest): IdempotentRequest {
    const call = new IdempotentRequest(request, this)
    this.#running.set(request.key, call)
    return call
  }

  // IdempotencyHost

  refused(): void {
    const { debug, count } = this.#parts
    debug('call under a key given up: no client, and as much is held already as may be')
    count('refused', undefined, 'full')
  }

  settled({ key, owner, hash }: KeyedRequest, outcome: KeyedOutcome, isUnread: boolean): void {
    this.#running.delete(key)
    this.#sweep.start()
    this.#idle.check()
    const isForgotten = outcome.kind === 'answer' && NOT_STARTED.includes(outcome.status)
    const { directory } = this.#parts
    if (isForgotten) return directory.keyForgotten(key)
    directory.keySettled(key, owner)
    if (outcome.kind !== 'answer') return void this.#settled.set(key, owner, { hash, outcome })
    const call: SettledCall = { hash, outcome: ownCopy(outcome) }
    const { status } = outcome
    if (isUnread || this.#isClosing) this.#keepForOthers(key, call)
    if (status >= 400 && status < 500 && this.#refused.set(key, owner, call)) return
    if (!this.#answered.set(key, owner, call)) call.outcome = LOST
    this.#settled.set(key, owner, call)
  }

  #keepForOthers(key: string, { hash, outcome }: SettledCall): void {
    if (outcome.kind === 'lost') return
    const { body, ...said } = outcome.kind === 'answer' ? outcome : { ...outcome, body: NOTHING }
    const head: Head = { kind: 'key', hash, outcome: said }
    this.#parts.kept?.keep(key, head, [body], this.#limits.window)
  }

  /** `false`: nothing is left that may expire. */
  #expire(): boolean {
    this.#settled.purgeStale()
    this.#refused.purgeStale()
    return this.#settled.count + this.#refused.count > 0
  }
}

function sizeOfCall({ outcome }: SettledCall): number {
  return outcome.kind === 'answer' ? sizeOfAnswer(outcome) : 1
}

/** Bytes that an answer takes beside its head and its body. */
const ANSWER_SIZE = 256
/** In memory of its own: a small body would keep the piece of Node's pool. */
function ownCopy(answer: RecordedAnswer): RecordedAnswer {
  if (answer.body.buffer.byteLength === answer.body.length) return answer
  const body = Buffer.allocUnsafeSlow(answer.body.length)
  answer.body.copy(body)
  return { ...answer, body }
}

/** Bytes that an answer takes while it is kept. */
function sizeOfAnswer({ headers, body }: RecordedAnswer): number {
  let size = ANSWER_SIZE + body.length
  for (const [name, value] of Object.entries(headers)) size += name.length + String(value).length
  return size
}

type KeptOutcome = Exclude<KeyedOutcome, { readonly kind: 'lost' }>

interface Head {
  readonly kind: 'key'
  readonly hash?: string | undefined
  readonly outcome: Exclude<KeptOutcome, RecordedAnswer> | Omit<RecordedAnswer, 'body'>
}

const NOTHING = new Uint8Array(0)

/** `undefined`: the value is not the outcome of a call under a key. */
export function keptOutcomeIn({
  head,
  bytes
}: KeptValue): { readonly hash: string | undefined; readonly outcome: KeptOutcome } | undefined {
  const { kind, hash, outcome } = head as Head
  if (kind !== 'key') return undefined
  if (outcome.kind === 'stream') return { hash, outcome }
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return { hash, outcome: { ...outcome, body } }
}
