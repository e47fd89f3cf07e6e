// The connections of one body, one after the other: when the next is opened, and what the server
// means by an answer that is no event stream.
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
 * Milliseconds for which answers that go straight to the server may be on their way: as long as it
 * gives its endpoint for each.
 */
const PATIENCE_WITH_ANSWERS = 30_000

const CODES: Partial<Record<number, ResumptionErrorCode>> = {
  204: 'no-response',
  401: 'unauthorized',
  404: 'stream-unknown',
  410: 'events-evicted'
}

/** What the attempts at one connection have brought so far. */
interface Attempts {
  /** Milliseconds that the last refusal has asked for. */
  retryAfter?: number | undefined
  /** The next one follows at once, and does not count. */
  isDue?: boolean
  isUnauthorized?: boolean
  /** The server has said that it waits for our answers. */
  isOurTurn?: boolean
}

export class BodyConnections {
  #url: string
  #current: AbortController | undefined
  #openedAt = now()
  /** How the last one was lost. */
  #reason: ReconnectReason = 'end'
  #cause: unknown
  /**
   * Without an id a client gets its whole turn, and then 204, even where the wire lost the turn:
   * the next one has it again.
   */
  #turnsOver = 0
  readonly #call: Call
  readonly #received: ReceivedBlocks
  /** Aborts when nothing more is handed up. */
  readonly #over: AbortSignal

  constructor(streamUrl: string, call: Call, received: ReceivedBlocks, over: AbortSignal) {
    this.#url = streamUrl
    this.#call = call
    this.#received = received
    this.#over = over
  }

  /**
   * Opens the next one; `undefined` where the server says that there is nothing more.
   *
   * @throws {ResumptionError} where the stream cannot go on.
   */
  async next(): Promise<ReadableStreamDefaultReader<Uint8Array> | undefined> {
    const attempts: Attempts = {}
    for (;;) {
      await this.#wait(attempts)
      // Where they take long, it hears from us all the same, and may have something to say by then.
      const answers = attempts.isOurTurn ? await answersOf(this.#call, this.#over) : undefined
      // A server whose turn it never is again answers 204 without end.
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

  /** Tells the server that nobody wants the rest. */
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
    this.#url = streamUrlOf(response, this.#url) ?? this.#url
  }

  /**
   * The server has given no event stream: says what the next attempt is to be.
   *
   * @throws {ResumptionError} where there is to be none.
   */
  #refused(response: Response, attempts: Attempts, hadAnswers: boolean): void {
    const call = this.#call
    const { status } = response
    if (status === 204 && !hadAnswers && call.asked.size > 0) {
      // Whatever it has said of that, or a proxy has kept from us: this is how it takes them.
      call.server.handsOff = call.handsOff = attempts.isOurTurn = attempts.isDue = true
      call.stopWaiting?.()
      // It waits for us, and not we for it, for as long as that takes.
      this.#received.attempt = 0
      return
    }
    this.lost('status', new Error(`HTTP ${status}`))
    attempts.retryAfter = retryAfterOf(response)
    if (status === 401 && !attempts.isUnauthorized) {
      // Once more, with headers made afresh: the token may just have been renewed.
      attempts.isUnauthorized = true
      attempts.retryAfter = 0
      return
    }
    // Without an event stream: browsers take a head that was cut off for the whole of it.
    if (isPassing(status) || status === 200) return
    if (status === 204 && this.#mayMeanMore()) return
    throw this.failure(CODES[status] ?? 'refused')
  }

  /** Whether a 204 may mean something else than that there is nothing more. */
  #mayMeanMore(): boolean {
    // The server waits for answers that are on their way to it.
    if (now() - (this.#call.answeredItselfAt ?? 0) < PATIENCE_WITH_ANSWERS) return true
    return this.#received.lastEventId === undefined && this.#turnsOver++ === 0
  }
}
