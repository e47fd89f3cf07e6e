// One unbroken body, made of the bodies of as many connections as are needed.
import { now } from '../protocol/clock.js'
import { STREAM_ERROR } from '../protocol/errors.js'
import {
  cancelledRequest,
  errorResponse,
  isRequest,
  isResponse,
  mayConcernRequests,
  type Message,
  messagesOf,
  type RequestId
} from '../protocol/json-rpc.js'
import type { WrittenMessage } from '../protocol/json-splice.js'
import { dataOf, fieldOf } from '../protocol/sse-fields.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import { readWholeBlocks, WholeBlocks } from '../protocol/whole-blocks.js'
import { isTemporary, leastDelay, retryAfterOf, untilNextAttempt } from './retrying.js'
import { onAbort, within } from './waiting.js'
import { answersOf, noteRequest } from './answers.js'
import type { ReconnectReason } from './options.js'
import { ResumptionError, type ResumptionErrorCode } from './resumption-error.js'
import {
  type StreamCall,
  cancelStream,
  discard,
  isEventStream,
  requestStream,
  streamUrlOf
} from './stream-request.js'

type Reader = ReadableStreamDefaultReader<Uint8Array>
type Controller = ReadableStreamDefaultController<Uint8Array>

/** Milliseconds for which the end of a stream is awaited after all its responses have come. */
const PATIENCE_AFTER_RESPONSE = 1000

/** Milliseconds in which answers that were sent at once may still be on their way. */
const PATIENCE_WITH_ANSWERS = 30_000

const CODES: Partial<Record<number, ResumptionErrorCode>> = {
  204: 'no-response',
  401: 'unauthorized',
  404: 'stream-unknown',
  410: 'events-evicted'
}

interface Attempts {
  retryAfter?: number | undefined
  /** The next attempt is made at once, and not counted. */
  isDue?: boolean
  /** There was a 401 already. */
  isUnauthorized?: boolean
  /** The server has ended its turn: it waits for the client's answers. */
  isOurTurn?: boolean
}

/** The source of a stream that reads nothing ahead. */
export class UnbrokenBody {
  readonly #call: StreamCall
  #url: string
  readonly #over = new AbortController()
  /** Stops listening to the caller's signal. */
  #unlisten: (() => void) | undefined

  /** The body of the present connection; `undefined`: there is none. */
  #reader: Reader | undefined
  #connection: AbortController | undefined
  #openedAt = now()
  /** How the last connection was lost. */
  #reason: ReconnectReason = 'end'
  #cause: unknown
  #blocks = new WholeBlocks()

  #lastEventId: string | undefined
  /** The reconnection time that the server has named, in milliseconds. */
  #retry: number | undefined
  /** Attempts to connect since the last new event id. */
  #attempt = 0
  /** Connections in a row without an event that has data. */
  #empty = 0
  /** 204s since a connection without an event id: the first may be a turn that was lost. */
  #turnsOver = 0

  constructor(first: Response, streamUrl: string, call: StreamCall) {
    this.#call = call
    this.#url = streamUrl
    this.#reader = first.body?.getReader()
    this.#lastEventId = call.own.headers.get('last-event-id') ?? undefined
  }

  start(controller: Controller): void {
    const { signal } = this.#call.own
    this.#call.isConnected = () => this.#reader !== undefined
    this.#unlisten = onAbort(signal, () => {
      this.#end(true)
      controller.error(signal?.reason)
    })
  }

  async pull(controller: Controller): Promise<void> {
    try {
      while (!this.#isOver) {
        this.#reader ??= this.#isAnswered ? undefined : await this.#connect()
        if (this.#reader === undefined) {
          this.#end(false)
          return controller.close()
        }
        const whole = await this.#read(this.#reader)
        if (whole !== undefined && !this.#isOver) return controller.enqueue(whole)
      }
    } catch (error) {
      if (!this.#isOver) this.#fail(error, controller)
    }
  }

  cancel(): void {
    this.#end(true)
  }

  get #isOver(): boolean {
    return this.#over.signal.aborted
  }

  /** Whether every request has its response, so that only the end of the stream is missing. */
  get #isAnswered(): boolean {
    return this.#call.hasRequests && this.#call.pending.size === 0
  }

  // Reading

  /** The blocks that the next chunk completes; an incomplete one is dropped with its connection. */
  async #read(from: Reader): Promise<Uint8Array | undefined> {
    const { idleTimeout, maxEventSize } = this.#call.settings
    let reason: ReconnectReason | undefined
    let cause: unknown
    try {
      const patience = this.#isAnswered ? PATIENCE_AFTER_RESPONSE : idleTimeout
      const { value } = await within(patience, from.read(), () => {
        reason = 'idle'
        this.#disconnect()
      })
      if (value) {
        const whole = this.#blocks.push(value)
        if (whole !== undefined) this.#note(whole)
        else if (this.#blocks.pending > maxEventSize) throw this.#failure('event-too-large')
        return whole
      }
    } catch (error) {
      if (error instanceof ResumptionError) throw error
      cause = error
      reason ??= 'error'
    }
    this.#lost(reason ?? 'end', cause ?? new Error('The connection ended early'))
    this.#reader = undefined
    this.#blocks = new WholeBlocks()
    return undefined
  }

  #note(whole: Uint8Array): void {
    const { pending, asked } = this.#call
    const { hasData, messages, id = this.#lastEventId, retry = this.#retry } = notesOf(whole)
    if (hasData) this.#empty = 0
    if (id !== this.#lastEventId) this.#attempt = 0
    this.#lastEventId = id
    this.#retry = retry
    for (const message of messages) {
      if (isResponse(message)) pending.delete(message.id)
      else if (!isRequest(message)) asked.delete(cancelledRequest(message) as RequestId)
      else noteRequest(this.#call, message.id)
    }
  }

  // Connecting

  /** @throws {ResumptionError} if the stream cannot go on; `undefined`: it is complete. */
  async #connect(): Promise<Reader | undefined> {
    const call = this.#call
    const attempts: Attempts = {}
    for (;;) {
      await this.#wait(attempts)
      // Without answers, the request is a sign of life; the server may have something new by then.
      const answers = attempts.isOurTurn ? await answersOf(call, this.#over.signal) : undefined
      // Without this check, a call that is over would keep asking a server that always answers 204.
      this.#over.signal.throwIfAborted()
      try {
        const response = await this.#request(answers)
        if (isEventStream(response) && response.body) {
          this.#turnsOver = 0
          this.#cause = undefined
          answers?.forEach(({ message }) => call.asked.delete(message.id as RequestId))
          this.#url = streamUrlOf(response, this.#url, call.settings) ?? this.#url
          return response.body.getReader()
        }
        discard(response)
        if (response.status === 204 && call.pending.size === 0) return undefined
        this.#refused(response, attempts, answers !== undefined)
      } catch (error) {
        if (error instanceof ResumptionError) throw error
        this.#lost('error', error)
      }
    }
  }

  async #wait(attempts: Attempts): Promise<void> {
    this.#over.signal.throwIfAborted()
    const { isDue, retryAfter } = attempts
    attempts.isDue = false
    attempts.retryAfter = undefined
    if (isDue) return
    const { settings } = this.#call
    const attempt = ++this.#attempt
    await untilNextAttempt(
      { attempt, lastEventId: this.#lastEventId, reason: this.#reason },
      { retry: this.#retry, retryAfter, least: leastDelay(this.#openedAt, this.#empty, settings) },
      settings,
      this.#over.signal,
      () => this.#failure('retries-exhausted')
    )
  }

  #request(answers: readonly WrittenMessage[] | undefined): Promise<Response> {
    this.#connection = new AbortController()
    this.#openedAt = now()
    this.#empty++
    const request = { url: this.#url, lastEventId: this.#lastEventId, answers }
    return requestStream(this.#call, this.#connection, request)
  }

  /** @throws {ResumptionError} if there must be no other attempt. */
  #refused(response: Response, attempts: Attempts, hadAnswers: boolean): void {
    const call = this.#call
    const { status } = response
    if (status === 204 && !hadAnswers && call.asked.size > 0) {
      // A 204 while requests are open: the server hands off, whatever `Preference-Applied` said.
      call.server.handsOff = call.handsOff = attempts.isOurTurn = attempts.isDue = true
      call.stopWaiting?.()
      // The server waits for the client, so these attempts are not counted.
      this.#attempt = 0
      return
    }
    this.#lost('status', new Error(`HTTP ${status}`))
    attempts.retryAfter = retryAfterOf(response)
    if (status === 401 && !attempts.isUnauthorized) {
      // Once more, with new headers: the token may have been renewed since.
      attempts.isUnauthorized = true
      attempts.retryAfter = 0
      return
    }
    // Over plain HTTP, browsers take a head that was cut off for a whole one.
    if (isTemporary(status) || status === 200) return
    if (status === 204 && this.#mayMeanMore()) return
    throw this.#failure(CODES[status] ?? 'refused')
  }

  /** Whether a 204 may mean something else than that there is nothing more. */
  #mayMeanMore(): boolean {
    // The server still waits for answers that were sent to its endpoint.
    if (now() - (this.#call.answeredItselfAt ?? 0) < PATIENCE_WITH_ANSWERS) return true
    return this.#lastEventId === undefined && this.#turnsOver++ === 0
  }

  #lost(reason: ReconnectReason, cause?: unknown): void {
    this.#reason = reason
    this.#cause = cause
  }

  #disconnect(): void {
    this.#connection?.abort()
    this.#reader?.cancel().catch(() => undefined)
  }

  // Ending

  #failure(code: ResumptionErrorCode): ResumptionError {
    return new ResumptionError(code, this.#url, this.#cause)
  }

  /** Each open request gets an error, so that its call rejects at once; then the body fails. */
  #fail(error: unknown, controller: Controller): void {
    this.#end(this.#reader !== undefined)
    const { message = String(error), code } = Object(error) as Partial<ResumptionError>
    for (const id of this.#call.pending) {
      const response = errorResponse(id, { code: STREAM_ERROR, message, data: { reason: code } })
      controller.enqueue(encodeMessage(response))
    }
    // An error drops what has not been read from a stream, so it comes a little later.
    setTimeout(() => controller.error(error))
  }

  /** If the body is unwanted, the stream is cancelled, unless all responses have come. */
  #end(isUnwanted: boolean): void {
    if (this.#isOver) return
    const call = this.#call
    this.#over.abort('over')
    call.onAnswer?.()
    call.stopWaiting?.()
    call.all.delete(call)
    this.#unlisten?.()
    if (!isUnwanted) return
    this.#disconnect()
    if (!this.#isAnswered) cancelStream(this.#url, call)
  }
}

interface BlockNotes {
  /** The last event id. An empty one resets the id (WHATWG 9.2.6). */
  id?: string
  /** The last reconnection time, in milliseconds. */
  retry?: number
  /** Whether an event has data; a primer has only an id. */
  hasData: boolean
  /** All responses, requests and cancellations; other messages may be among them. */
  readonly messages: Message[]
}

/** Reads whole blocks, with the line ends that they were received with. */
export function notesOf(blocks: Uint8Array): BlockNotes {
  const notes: BlockNotes = { hasData: false, messages: [] }
  readWholeBlocks(blocks, (bytes, from, to, fields) => {
    const id = fields.hasId ? fieldOf(bytes, from, to, 'id') : undefined
    if (id !== undefined && !id.includes('\0')) notes.id = id
    const retry = fieldOf(bytes, from, to, 'retry')
    if (retry !== undefined && /^\d+$/.test(retry)) notes.retry = Number(retry)
    const { dataLines, dataFrom, dataTo, isMessage } = fields
    if (dataLines === 0 || (dataLines === 1 && dataFrom === dataTo)) return
    notes.hasData = true
    const mayConcern = dataLines > 1 || mayConcernRequests(bytes, dataFrom, dataTo)
    if (isMessage && mayConcern) noteMessages(dataOf(bytes, from, to, fields), notes)
  })
  return notes
}

function noteMessages(data: string, { messages }: BlockNotes): void {
  try {
    for (const message of messagesOf(JSON.parse(data))) messages.push(message)
  } catch {
    // Not JSON: the client that reads the body reports it.
  }
}
