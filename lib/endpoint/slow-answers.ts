// Endpoints that are slow: which requests wait, and what their clients get meanwhile.
import type { IncomingMessage } from 'node:http'
import { DueQueue } from '../streams/due-queue.js'
import { FairStore } from '../streams/fair-store.js'
import { keyOf } from '../streams/groups.js'
import { acceptsEvents } from '../protocol/media-types.js'
import type { RequestFacts } from './request-facts.js'

export interface SlowAnswersSettings {
  /** Milliseconds without a head after which a client gets an event stream; `null`: never. */
  readonly upgradeAfter: number | null
  /**
   * Milliseconds until a client that takes only JSON gets a head, and between spaces; `null`:
   * never.
   */
  readonly jsonKeepAlive: number | null
  readonly maxSessions: number
}

/** Times as long for a client that only claims to read event streams, as servers require it. */
const UNSHOWN = 5

/** The request that waits. */
interface SlowRequest {
  readonly req: IncomingMessage
  /** As its client has sent it. */
  readonly accept: string
  readonly prefersStream: boolean
  readonly owner: string
  readonly session: string | undefined
  readonly facts: RequestFacts
}

export class SlowAnswers {
  /** Where clients wait that have shown that they read event streams; others wait here first. */
  readonly soon: DueQueue | undefined
  /** Where the others wait for the rest of their time. */
  readonly later: DueQueue | undefined
  /** Where clients wait that take only JSON. */
  readonly json: DueQueue | undefined
  /** Sessions whose clients have shown that they read event streams. */
  readonly #readers: FairStore<object>

  constructor({ upgradeAfter, jsonKeepAlive, maxSessions }: SlowAnswersSettings) {
    if (upgradeAfter !== null) {
      this.soon = new DueQueue(upgradeAfter)
      this.later = new DueQueue(upgradeAfter * (UNSHOWN - 1))
    }
    if (jsonKeepAlive !== null) this.json = new DueQueue(jsonKeepAlive)
    this.#readers = new FairStore({ maxSize: maxSessions })
  }

  /** The process is about to end: clients that wait get nothing in the meantime. */
  close(): void {
    for (const queue of [this.soon, this.later, this.json]) queue?.close()
  }

  /** The queue in which a request waits for its answer; `undefined`: none. */
  queueFor({ req, accept }: SlowRequest): DueQueue | undefined {
    if (req.method !== 'POST' || (req.httpVersionMajor === 1 && req.httpVersionMinor === 0))
      return undefined
    return this.soon !== undefined && acceptsEvents(accept) ? this.soon : this.json
  }

  hasShown({ prefersStream, owner, session, facts }: SlowRequest): boolean {
    if (prefersStream || facts.isOfKnownClient) return true
    return session !== undefined && this.#readers.get(keyOf(owner, session)) !== undefined
  }

  /** It was given an event stream that it asked for, or has said in `initialize` who it is. */
  shown(owner: string, session: string): void {
    if (this.soon !== undefined) this.#readers.set(keyOf(owner, session), owner, SHOWN)
  }
}

const SHOWN = {}
