// One unbroken body over as many connections as the network needs.
import { now } from '../protocol/clock.js'
import { STREAM_ERROR } from '../protocol/errors.js'
import type { RequestId } from '../protocol/json-rpc.js'
import { WholeBlocks } from '../protocol/whole-blocks.js'
import { answersOf } from './answers.js'
import { notesOf } from './block-notes.js'
import type { ClientSettings, ReconnectReason } from './options.js'
import { ResumptionError, type ResumptionErrorCode } from './resumption-error.js'
import {
  isPassing,
  leastDelay,
  retryAfterOf,
  retryDelay,
  untilNextAttempt,
  within
} from './retry-delay.js'
import {
  type Call,
  cancelStream,
  discard,
  isEventStream,
  requestStream,
  streamUrlOf
} from './stream-request.js'

type Reader = ReadableStreamDefaultReader<Uint8Array>
type Controller = ReadableStreamDefaultController<Uint8Array>

/** Milliseconds for which the end of a stream is awaited once all its responses are there. */
const PATIENCE_AFTER_RESPONSE = 1000
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

/** The body that the caller reads. It begins with that of the first response. */
export function unbrokenBody(
  first: Response,
  streamUrl: string,
  call: Call,
  settings: ClientSettings
): ReadableStream<Uint8Array> {
  const { maxRetries, idleTimeout, maxEventSize } = settings
  const { pending, asked, open } = call
  /** Milliseconds after which a server that waits for answers hears from us. */
  const signOfLife = Math.min(Math.max(idleTimeout ?? Infinity, settings.minTimeout), 45_000)
  const { signal, headers } = call.init
  const hasRequests = pending.size > 0
  /** Aborts when nothing more is handed up. */
  const over = new AbortController()
  let url = streamUrl
  let lastEventId = headers.get('last-event-id') ?? undefined
  /** The reconnection time that the server has named. */
  let retry: number | undefined
  /** Attempts since the last new event. */
  let attempt = 0
  let openedAt = now()
  /** Connections in a row that brought no message. */
  let empty = 0
  let reader = first.body?.getReader() as Reader | undefined
  let connection: AbortController | undefined
  let blocks = new WholeBlocks()
  /** How the last connection was lost. */
  let reason: ReconnectReason = 'end'
  let cause: unknown
  let abort: () => void

  const isOver = (): boolean => over.signal.aborted
  /** Every request has its response: only the end is missing. */
  const isAnswered = (): boolean => hasRequests && pending.size === 0
  /** The server waits for answers that are on their way to it. */
  const isEarly = (status: number): boolean =>
    status === 204 && now() - (call.answeredItselfAt ?? 0) < PATIENCE_WITH_ANSWERS
  /**
   * Without an id a client gets its whole turn, and then 204, even where the wire lost the turn:
   * the next one has it again.
   */
  let isTurnOver = false
  const mayHaveMissedTurn = (status: number): boolean => {
    const mayHave = status === 204 && lastEventId === undefined && !isTurnOver
    isTurnOver = status === 204
    return mayHave
  }
  const failure = (code: ResumptionErrorCode): ResumptionError =>
    new ResumptionError(code, url, cause)

  function start(controller: Controller): void {
    call.isConnected = () => reader !== undefined
    open.add(call)
    abort = () => {
      end(true)
      controller.error(signal?.reason)
    }
    if (signal?.aborted) abort()
    else signal?.addEventListener('abort', abort)
  }

  async function pull(controller: Controller): Promise<void> {
    try {
      while (!isOver()) {
        reader ??= isAnswered() ? undefined : await reconnect()
        if (reader === undefined) {
          end(false)
          return controller.close()
        }
        const whole = await read(reader)
        if (whole !== undefined && !isOver()) return controller.enqueue(whole)
      }
    } catch (error) {
      if (!isOver()) fail(error, controller)
    }
  }

  /**
   * The whole blocks of the next chunk; `undefined` where there are none, or where the connection
   * is lost.
   */
  async function read(from: Reader): Promise<Uint8Array | undefined> {
    reason = 'end'
    cause = undefined
    try {
      const patience = isAnswered() ? PATIENCE_AFTER_RESPONSE : idleTimeout
      const { value } = await within(patience, from.read(), () => {
        reason = 'idle'
        disconnect()
      })
      if (value !== undefined) return take(value)
    } catch (error) {
      if (error instanceof ResumptionError) throw error
      cause = error
      if (reason === 'end') reason = 'error'
    }
    reader = undefined
    blocks = new WholeBlocks()
    return undefined
  }

  function take(chunk: Uint8Array): Uint8Array | undefined {
    const whole = blocks.push(chunk)
    if (whole === undefined) {
      if (blocks.pending > maxEventSize) throw failure('event-too-large')
      return undefined
    }
    const notes = notesOf(whole)
    if (notes.hasData) empty = 0
    if (notes.id !== undefined && notes.id !== lastEventId) attempt = 0
    lastEventId = notes.id ?? lastEventId
    retry = notes.retry ?? retry
    for (const id of notes.answered) pending.delete(id)
    for (const id of notes.asked) if (hasRequests && !asked.has(id)) asked.set(id, undefined)
    if (notes.asked.length > 0) call.askedAt = now()
    for (const id of notes.withdrawn) asked.delete(id as RequestId)
    return whole
  }

  /** Opens the next connection; `undefined` where the server says that there is nothing more. */
  async function reconnect(): Promise<Reader | undefined> {
    let retryAfter: number | undefined
    let isUnauthorized = false
    /** The server has said that it waits for our answers. */
    let isOurTurn = false
    let isDue = false
    for (;;) {
      over.signal.throwIfAborted()
      if (!isDue) {
        if (++attempt > maxRetries) throw failure('retries-exhausted')
        const delay = Math.max(
          retryDelay(attempt, retry, retryAfter, settings),
          leastDelay(openedAt, empty, settings)
        )
        await untilNextAttempt({ attempt, delay, lastEventId, reason }, settings, over.signal)
      }
      retryAfter = undefined
      isDue = false
      // Where they take long, it hears from us all the same, and may have something to say by then.
      const answers = isOurTurn ? await answersOf(call, signOfLife, over.signal) : undefined
      // A server whose turn it never is again answers 204 without end.
      over.signal.throwIfAborted()
      connection = new AbortController()
      openedAt = now()
      empty++
      try {
        const method = answers === undefined ? 'GET' : 'POST'
        const response = await requestStream(
          method,
          url,
          call,
          settings,
          connection,
          lastEventId,
          answers
        )
        if (isEventStream(response)) {
          isTurnOver = false
          for (const { message } of answers ?? []) asked.delete(message.id as RequestId)
          url = streamUrlOf(response, url) ?? url
          return response.body?.getReader() as Reader | undefined
        }
        discard(response)
        const { status } = response
        if (status === 204 && pending.size === 0) return undefined
        if (status === 204 && answers === undefined && asked.size > 0) {
          // Whatever it has said of that, or a proxy has kept from us: this is how it takes them.
          call.server.handsOff = call.handsOff = isOurTurn = isDue = true
          call.stopWaiting?.()
          // It waits for us, and not we for it, for as long as that takes.
          attempt = 0
          continue
        }
        cause = new Error(`HTTP ${status}`)
        reason = 'status'
        retryAfter = retryAfterOf(response)
        if (status === 401 && !isUnauthorized) {
          // Once more, with headers made afresh: the token may just have been renewed.
          isUnauthorized = true
          retryAfter = 0
        } else if (
          !isPassing(status) &&
          // Without an event stream: browsers take a head that was cut off for the whole of it.
          status !== 200 &&
          !isEarly(status) &&
          !mayHaveMissedTurn(status)
        )
          throw failure(CODES[status] ?? 'refused')
      } catch (error) {
        if (error instanceof ResumptionError) throw error
        cause = error
        reason = 'error'
      }
    }
  }

  /**
   * A caller that waits for its response hears of it in the only language it listens to; the body
   * breaks right after.
   */
  function fail(error: unknown, controller: Controller): void {
    end(reader !== undefined)
    if (error instanceof ResumptionError)
      for (const id of pending) {
        const { message, code } = error
        const response = {
          jsonrpc: '2.0',
          id,
          error: { code: STREAM_ERROR, message, data: { reason: code } }
        }
        controller.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(response)}\n\n`))
      }
    // A broken stream drops what its readers have not taken out of it.
    setTimeout(() => controller.error(error))
  }

  function disconnect(): void {
    connection?.abort()
    reader?.cancel().catch(() => undefined)
  }

  /**
   * Nothing more is handed up. What the server still works on is cancelled, where nobody wants it
   * any more.
   */
  function end(isUnwanted: boolean): void {
    if (isOver()) return
    over.abort('over')
    call.onAnswer?.()
    call.stopWaiting?.()
    open.delete(call)
    signal?.removeEventListener('abort', abort)
    if (!isUnwanted) return
    disconnect()
    if (!isAnswered()) cancelStream(url, call, settings)
  }

  return new ReadableStream({ start, pull, cancel: () => end(true) }, { highWaterMark: 0 })
}
