// The connections of one body, one after the other: when the next one is opened, and what follows
// from a response that is not an event stream.
import { now } from '../protocol/clock.js'
import type { RequestId } from '../protocol/json-rpc.js'
import type { WrittenMessage } from '../protocol/json-splice.js'
import { answersOf } from './answers.js'
import type { ReconnectReason } from './options.js'
import type { ReceivedBlocks } from './received-blocks.js'
import { ResumptionError, type ResumptionErrorCode } from './resumption-error.js'
import { isPassing, leastDelay, retryAfterOf, untilNextAttempt } from './retry-delay.js'
import {
  type Call,
  cancelStream,
  discard,
  isEventStream,
  requestStream,
  streamUrlOf
} from './stream-request.js'

/**
 * Milliseconds for which a 204 may mean that answers are still on their way to the server, after
 * they were sent at once. The middleware gives its endpoint the same time to take an answer.
 */
const PATIENCE_WITH_ANSWERS = 30_000

/** The errors for statuses; any other status is `refused`. */
const CODES: Partial<Record<number, ResumptionErrorCode>> = {
  204: 'no-response',
  401: 'unauthorized',
  404: 'stream-unknown',
  410: 'events-evicted'
}

/** What is known from the attempts to open one connection. */
interface Attempts {
  /** The `Retry-After` of the last response, in milliseconds. */
  retryAfter?: number | undefined
  /** The next attempt is made at once, and not counted. */
  isDue?: boolean
  /** There was a 401 already. */
  isUnauthorized?: boolean
  /** The server has ended its turn: it waits for the client's answers. */
  isOurTurn?: boolean
}

export class BodyConnections {
  #url: string
  #current: AbortController | undefined
  #openedAt = now()
  /** How the last connection was lost. */
  #reason: ReconnectReason = 'end'
  #cause: unknown
  /**
   * The number of 204s since the last connection to a client without an event id. The server sends
   * such a client the whole turn, and then a 204. If the network lost that turn, the next request
   * gets it again, so the first 204 does not count.
   */
  #turnsOver = 0
  readonly #call: Call
  readonly #received: ReceivedBlocks
  /** Aborts when the body is over. */
  readonly #over: AbortSignal

  constructor(streamUrl: string, call: Call, received: ReceivedBlocks, over: AbortSignal) {
    this.#url = streamUrl
    this.#call = call
    this.#received = received
    this.#over = over
  }

  /**
   * Opens the next connection; `undefined` if the server says that the stream is complete.
   *
   * @throws {ResumptionError} if the stream cannot go on.
   */
  async next(): Promise<ReadableStreamDefaultReader<Uint8Array> | undefined> {
    const attempts: Attempts = {}
    for (;;) {
      await this.#wait(attempts)
      // If an answer takes long, the next request has none, as a sign of life; the server may have
      // something new by then.
      const answers = attempts.isOurTurn ? await answersOf(this.#call, this.#over) : undefined
      // Without this check, a call that is over would keep asking a server that always answers 204.
      this.#over.throwIfAborted()
      try {
        const response = await this.#request(answers)
        if (isEventStream(response) && response.body) {
          this.#opened(response, answers)
          return response.body.getReader()
        }
        discard(response)
        if (response.status === 204 && this.#call.pending.size === 0) return undefined
        this.#refused(response, attempts, answers !== undefined)
      } catch (error) {
        if (error instanceof ResumptionError) throw error
        this.lost('error', error)
      }
    }
  }

  lost(reason: ReconnectReason, cause?: unknown): void {
    this.#reason = reason
    this.#cause = cause
  }

  disconnect(): void {
    this.#current?.abort()
  }

  /** Tells the server that the stream is not wanted any more. */
  cancelStream(): void {
    cancelStream(this.#url, this.#call)
  }

  failure(code: ResumptionErrorCode): ResumptionError {
    return new ResumptionError(code, this.#url, this.#cause)
  }

  async #wait(attempts: Attempts): Promise<void> {
    this.#over.throwIfAborted()
    const { isDue, retryAfter } = attempts
    attempts.isDue = false
    attempts.retryAfter = undefined
    if (isDue) return
    const received = this.#received
    const { settings } = this.#call
    if (++received.attempt > settings.maxRetries) throw this.failure('retries-exhausted')
    const { attempt, lastEventId, retry, empty } = received
    await untilNextAttempt(
      { attempt, lastEventId, reason: this.#reason },
      { retry, retryAfter, least: leastDelay(this.#openedAt, empty, settings) },
      settings,
      this.#over
    )
  }

  #request(answers: readonly WrittenMessage[] | undefined): Promise<Response> {
    this.#current = new AbortController()
    this.#openedAt = now()
    this.#received.empty++
    const { lastEventId } = this.#received
    return requestStream(this.#call, this.#current, { url: this.#url, lastEventId, answers })
  }

  #opened(response: Response, answers: readonly WrittenMessage[] | undefined): void {
    this.#turnsOver = 0
    this.#cause = undefined
    answers?.forEach(({ message }) => this.#call.asked.delete(message.id as RequestId))
    this.#url = streamUrlOf(response, this.#url, this.#call.settings) ?? this.#url
  }

  /**
   * The response is not an event stream: decides how the next attempt is made.
   *
   * @throws {ResumptionError} if there must not be another one.
   */
  #refused(response: Response, attempts: Attempts, hadAnswers: boolean): void {
    const call = this.#call
    const { status } = response
    if (status === 204 && !hadAnswers && call.asked.size > 0) {
      // A 204 while requests are open: the server hands off, even if its `Preference-Applied` did
      // not say so, or a proxy has removed it.
      call.server.handsOff = call.handsOff = attempts.isOurTurn = attempts.isDue = true
      call.stopWaiting?.()
      // The server waits for the client, so these attempts are not counted.
      this.#received.attempt = 0
      return
    }
    this.lost('status', new Error(`HTTP ${status}`))
    attempts.retryAfter = retryAfterOf(response)
    if (status === 401 && !attempts.isUnauthorized) {
      // Once more, with new headers: the token may have been renewed since.
      attempts.isUnauthorized = true
      attempts.retryAfter = 0
      return
    }
    // A 200 without an event stream: over plain HTTP, browsers take a head that was cut off for a
    // whole one.
    if (isPassing(status) || status === 200) return
    if (status === 204 && this.#mayMeanMore()) return
    throw this.failure(CODES[status] ?? 'refused')
  }

  /** Whether a 204 may mean something else than that there is nothing more. */
  #mayMeanMore(): boolean {
    // The server still waits for answers that were sent to its endpoint.
    if (now() - (this.#call.answeredItselfAt ?? 0) < PATIENCE_WITH_ANSWERS) return true
    return this.#received.lastEventId === undefined && this.#turnsOver++ === 0
  }
}
