// Endpoints get an error for each of their requests that no client will answer.
import type { IncomingMessage } from 'node:http'
import { faultError } from '../protocol/errors.js'
import type { RequestId } from '../protocol/json-rpc.js'
import { outsideOfCalls } from '../streams/timer.js'
import { type DebugLog, tellEndpoint } from './endpoint-client.js'

/** After an outage many streams are abandoned at once: other work must not wait. */
const MOST_AT_ONCE = 8

interface Asked {
  readonly req: IncomingMessage
  readonly ids: RequestId[]
  readonly sessionId: string | undefined
}

export class Unanswered {
  /** They take turns, so that many requests of one client do not delay those of others. */
  readonly #asked = new Set<Asked>()
  #telling = 0
  #isGoingOn = false
  readonly #debug: DebugLog
  readonly #most: number

  /** @param most beyond that, the client that has waited longest is told nothing. */
  constructor(debug: DebugLog, most: number) {
    this.#debug = debug
    this.#most = most
  }

  /** Tells the endpoint that a request came to, for each of its own requests. */
  tell(
    req: IncomingMessage,
    requestIds: readonly RequestId[],
    sessionId: string | undefined
  ): void {
    this.#debug('no answer to %d requests: the endpoint is told', requestIds.length)
    this.#asked.add({ req, ids: [...requestIds].reverse(), sessionId })
    const [oldest] = this.#asked
    if (this.#asked.size > this.#most && oldest !== undefined) {
      this.#debug('too many endpoints are to be told that nobody answers: one is not')
      this.#asked.delete(oldest)
    }
    this.#tellNext()
  }

  #tellNext(): void {
    for (const asked of this.#asked) {
      if (this.#telling >= MOST_AT_ONCE) return
      this.#asked.delete(asked)
      const id = asked.ids.pop()
      if (id === undefined) continue
      this.#asked.add(asked)
      this.#telling++
      void this.#tellOne(asked, id)
    }
  }

  async #tellOne(asked: Asked, id: RequestId): Promise<void> {
    const { req, sessionId } = asked
    const answer = { jsonrpc: '2.0', id, error: faultError('unanswered') }
    const isHeard = await outsideOfCalls(() =>
      tellEndpoint(this.#debug, req, answer, { sessionId })
    )
    this.#telling--
    // If it rejects one error it will reject the rest: drop them instead of timing out on each.
    if (!isHeard) this.#asked.delete(asked)
    this.#goOn()
  }

  /** Other work comes first: requests over memory connections would never yield to it. */
  #goOn(): void {
    if (this.#isGoingOn) return
    this.#isGoingOn = true
    setImmediate(() => {
      this.#isGoingOn = false
      this.#tellNext()
    })
  }
}
