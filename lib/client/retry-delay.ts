// How long to wait: before the next attempt, and for anything of the network.
import { LONGEST_TIMEOUT, now } from '../protocol/clock.js'
import { alarm } from './alarm.js'
import type { ReconnectReason, RetrySettings } from './options.js'
import { untilAborted } from './aborting.js'
import { pause } from './pause.js'

type RetryTimes = Pick<RetrySettings, 'minTimeout' | 'maxTimeout' | 'timeoutFactor'>

/**
 * The wait before an attempt, in milliseconds: what the server asked for, or a growing delay,
 * spread so that clients that were cut off together do not come back together. Never above
 * `maxTimeout`, whatever the server says.
 *
 * @param attempt counts from 1, since the last event
 * @param retry the stream's reconnection time, if it has named one
 * @param retryAfter the `Retry-After` of a refusal, in milliseconds
 */
export function retryDelay(
  attempt: number,
  retry: number | undefined,
  retryAfter: number | undefined,
  { minTimeout, maxTimeout, timeoutFactor }: RetryTimes
): number {
  // Beyond its own reconnection time a server that does not answer gets more air; the first attempt
  // keeps to the word.
  const grown =
    Math.max(retry ?? 0, minTimeout * timeoutFactor ** (attempt - 1) || 0) * (1 + Math.random() / 4)
  return Math.min(retryAfter ?? (attempt === 1 ? retry : undefined) ?? grown, maxTimeout)
}

/**
 * The least wait before a connection, in milliseconds, however soon the server wants its client
 * back: a tenth of `minTimeout` since the last one was opened, and twice as long with each in a row
 * that brought nothing new, up to twice `minTimeout`.
 *
 * @param openedAt when the last one was opened
 * @param empty those in a row that brought nothing new
 */
export function leastDelay(
  openedAt: number,
  empty: number,
  { minTimeout, maxTimeout }: RetryTimes
): number {
  const least = Math.min((minTimeout / 10) * 2 ** empty || 0, 2 * minTimeout, maxTimeout)
  return Math.max(0, Math.ceil(openedAt + least - now()))
}

/**
 * Reads `Retry-After` as milliseconds: seconds or a date (RFC 9110, 10.2.3); `undefined` for
 * anything else.
 */
export function retryAfterOf({ headers }: Response): number | undefined {
  const value = headers.get('retry-after') ?? ''
  const delay = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now()
  return delay >= 0 ? delay : undefined
}

/** Whether a status says "not now" (RFC 9110, RFC 8470, RFC 6585). */
export function isPassing(status: number): boolean {
  return status >= 500 || [408, 425, 429].includes(status)
}

/** How long to wait before an attempt, beyond what the settings say. All are milliseconds. */
interface Wait {
  /** The stream's reconnection time, if it has named one. */
  readonly retry?: number | undefined
  /** The `Retry-After` of a refusal. */
  readonly retryAfter?: number | undefined
  readonly least?: number | undefined
}

/**
 * Tells `onReconnect` of an attempt, and waits until it is due; rejects as soon as that fails, or
 * with the signal's reason as soon as it aborts.
 */
export async function untilNextAttempt<Told extends { readonly attempt: number }>(
  told: Told,
  { retry, retryAfter, least = 0 }: Wait,
  settings: RetryTimes & { onReconnect(reconnection: Told & { readonly delay: number }): unknown },
  signal: AbortSignal | null | undefined
): Promise<void> {
  const delay = Math.max(retryDelay(told.attempt, retry, retryAfter, settings), least)
  await settings.onReconnect({ ...told, delay })
  return pause(delay, signal)
}

/** A status that says "not now", in the place of an answer. */
export class Refused extends Error {
  readonly retryAfter: number | undefined

  constructor(response: Response) {
    super(`HTTP ${response.status}`)
    this.retryAfter = retryAfterOf(response)
  }
}

/**
 * Makes attempts at a request until one of them does not reject, or `maxRetries` are used up.
 *
 * @param attempt rejects where the next one may succeed: with `Refused`, or with whatever went
 *   wrong on the way
 */
export async function retrying<T>(
  attempt: (isLast: boolean) => Promise<T>,
  settings: RetrySettings,
  signal: AbortSignal | null | undefined
): Promise<T> {
  for (let count = 1; ; count++) {
    const isLast = count > settings.maxRetries
    try {
      return await attempt(isLast)
    } catch (error) {
      if (isLast || signal?.aborted) throw error
      const isRefused = error instanceof Refused
      const reason: ReconnectReason = isRefused ? 'status' : 'error'
      await untilNextAttempt({ attempt: count, reason }, isRefused ? error : {}, settings, signal)
    }
  }
}

/**
 * Waits for something of the network for as long as `patience` lasts; `null`: for ever. Then
 * `giveUp` is to end it; without one, the wait ends with a rejection.
 */
export function within<T>(
  patience: number | null,
  work: Promise<T>,
  giveUp?: (silence: Error) => void
): Promise<T> {
  return new Promise((resolve, reject) => {
    const silence = alarm(patience ?? LONGEST_TIMEOUT, () =>
      (giveUp ?? reject)(new Error('Silence'))
    )
    work.then(resolve, reject).finally(silence)
  })
}

/**
 * Waits for what a connection brings, until that is aborted: by others, or by us when `patience` is
 * over. What comes then is for `discard`.
 */
export function onConnection<T>(
  connection: AbortController,
  patience: number | null,
  work: Promise<T>,
  discard?: (late: T) => void
): Promise<T> {
  return within(patience, untilAborted(connection.signal, work, discard), silence =>
    connection.abort(silence)
  )
}
