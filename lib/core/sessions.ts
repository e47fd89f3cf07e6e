// What is known of each MCP session: which revision it negotiated, and whether its client follows stream links.
import { LRUCache } from 'lru-cache'

/** What a client has declared of the streams that it takes (SEP-2532). */
export interface ResourceStreaming {
  /** Bytes; `Infinity`: it has named no limit; `NaN`: it has named one that is none. */
  readonly maxStreamSize: number
}

interface SessionFacts {
  revision: string | undefined
  /** Its client has fetched a stream URL: it follows links, whether it announced that or not. */
  proved: boolean
  resourceStreaming?: ResourceStreaming | undefined
  /** Its client has declared the Streams draft in `initialize`. */
  hasStreams: boolean
}

/** A bounded memory: of a session that was forgotten, the protocol version header still tells the revision. */
export class Sessions {
  readonly #facts: LRUCache<string, SessionFacts>

  constructor(max: number) {
    this.#facts = new LRUCache({ maxSize: max, sizeCalculation: () => 1 })
  }

  revisionOf(sessionId: string): string | undefined {
    return this.#facts.get(sessionId)?.revision
  }

  hasProved(sessionId: string): boolean {
    return this.#facts.get(sessionId)?.proved ?? false
  }

  hasStreams(sessionId: string): boolean {
    return this.#facts.get(sessionId)?.hasStreams ?? false
  }

  /** The endpoint has answered `initialize`. `hasStreams`: the client has declared the Streams draft there. */
  negotiated(sessionId: string, revision: string | undefined, hasStreams = false): void {
    this.#facts.set(sessionId, { ...this.#facts.get(sessionId), revision, proved: false, hasStreams })
  }

  /** Its client has said in `initialize` whether it can receive resources as streams. */
  declare(sessionId: string, resourceStreaming: ResourceStreaming | undefined): void {
    const facts = this.#facts.get(sessionId)
    this.#facts.set(sessionId, { revision: undefined, proved: false, hasStreams: false, ...facts, resourceStreaming })
  }

  resourceStreamingOf(sessionId: string): ResourceStreaming | undefined {
    return this.#facts.get(sessionId)?.resourceStreaming
  }

  prove(sessionId: string): void {
    const facts = this.#facts.get(sessionId)
    if (facts === undefined) this.#facts.set(sessionId, { revision: undefined, proved: true, hasStreams: false })
    else facts.proved = true
  }

  delete(sessionId: string): void {
    this.#facts.delete(sessionId)
  }
}
