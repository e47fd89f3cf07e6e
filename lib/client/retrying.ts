// Attempts: how many are made, and how long is waited before the next one.
import { now } from '../protocol/clock.js'
import type { ReconnectReason, RetrySettings } from './options.js'
import { pause, type Signal } from './waiting.js'

type RetryTimes = Pick<RetrySettings, 'minTimeout' | 'maxTimeout' | 'timeoutFactor'>

/**
 * The wait in milliseconds: what the server has asked for, or a growing delay, random so that
 * clients that were cut off together do not come back together; `maxTimeout` at most.
 */
export function retryDelay(
  attempt: number,
  retry: number | undefined,
  retryAfter: number | undefined,
  { minTimeout, maxTimeout, timeoutFactor }: RetryTimes
): number {
  // The first attempt is made after exactly the reconnection time.
  const grown =
    Math.max(retry ?? 0, minTimeout * timeoutFactor ** (attempt - 1) || 0) * (1 + Math.random() / 4)
  return Math.min(retryAfter ?? (attempt === 1 ? retry : undefined) ?? grown, maxTimeout)
}

/**
 * Milliseconds, however soon the server wants its client: a tenth of `minTimeout` since `openedAt`,
 * doubled with each `empty` connection in a row, up to twice `minTimeout`.
 */
export function leastDelay(
  openedAt: number,
  empty: number,
  { minTimeout, maxTimeout }: RetryTimes
): number {
  const least = Math.min((minTimeout / 10) * 2 ** empty || 0, 2 * minTimeout, maxTimeout)
  return Math.max(0, Math.ceil(openedAt + least - now()))
}

/** `Retry-After` in milliseconds, from seconds or a date (RFC 9110, 10.2.3). */
export function retryAfterOf({ headers }: Response): number | undefined {
  const value = headers.get('retry-after') ?? ''
  const delay = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now()
  return delay >= 0 ? delay : undefined
}

/** Whether a status means that a later request may succeed (RFC 9110, RFC 8470, RFC 6585). */
export function isTemporary(status: number): boolean {
  return status >= 500 || [408, 425, 429].includes(status)
}

/** What else determines the wait before an attempt. All are milliseconds. */
interface Wait {
  /** The stream's reconnection time, if it has named one. */
  readonly retry?: number | undefined
  readonly retryAfter?: number | undefined
  /** The wait is not shorter than this. */
  readonly least?: number | undefined
}

/** Calls `onReconnect` and waits. Rejects if that does, on abort, or with `exhausted()`. */
export async function untilNextAttempt<Told extends { readonly attempt: number }>(
  told: Told,
  { retry, retryAfter, least = 0 }: Wait,
  settings: RetryTimes & {
    readonly maxRetries: number
    onReconnect(reconnection: Told & { readonly delay: number }): unknown
  },
  signal: Signal,
  exhausted: () => unknown
): Promise<void> {
  if (told.attempt > settings.maxRetries) throw exhausted()
  const delay = Math.round(Math.max(retryDelay(told.attempt, retry, retryAfter, settings), least))
  await settings.onReconnect({ ...told, delay })
  return pause(delay, signal)
}

/** A response whose status means that a later request may succeed. */
export class Refused extends Error {
  readonly retryAfter: number | undefined

  constructor(response: Response) {
    super(`HTTP ${response.status}`)
    this.retryAfter = retryAfterOf(response)
  }
}

/**
 * Makes attempts up to `maxRetries`. `make` rejects if another may succeed: `Refused`, or the
 * network.
 */
export async function retrying<T>(
  make: (isLast: boolean) => Promise<T>,
  settings: RetrySettings,
  signal: Signal
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await make(attempt > settings.maxRetries)
    } catch (error) {
      if (signal?.aborted) throw error
      const isRefused = error instanceof Refused
      const reason: ReconnectReason = isRefused ? 'status' : 'error'
      const wait = isRefused ? error : {}
      await untilNextAttempt({ attempt, reason }, wait, settings, signal, () => error)
    }
  }
}
