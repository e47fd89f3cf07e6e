// How long to wait before the next attempt. Pure arithmetic.

export interface RetryTimes {
  readonly minTimeout: number
  readonly maxTimeout: number
  readonly timeoutFactor: number
}

/**
 * The wait before an attempt, in milliseconds: what the server asked for, or a growing delay, spread so that clients that were
 * cut off together do not come back together. Never above `maxTimeout`, whatever the server says.
 *
 * @param attempt counts from 1, since the last event
 * @param retry the stream's reconnection time, if it has named one
 * @param retryAfter the `Retry-After` of a refusal, in milliseconds
 */
export function retryDelay(
  attempt: number,
  retry: number | undefined,
  retryAfter: number | undefined,
  times: RetryTimes
): number {
  const { minTimeout, maxTimeout, timeoutFactor } = times
  if (retryAfter !== undefined) return Math.min(retryAfter, maxTimeout)
  // Beyond its own reconnection time a server that does not answer gets more air; the first attempt keeps to the word.
  if (retry !== undefined && attempt === 1) return Math.min(retry, maxTimeout)
  const grown = Math.max(retry ?? 0, minTimeout * timeoutFactor ** (attempt - 1))
  return Math.min(grown * (1 + Math.random() / 4), maxTimeout)
}

/** Reads `Retry-After`: seconds or a date (RFC 9110, 10.2.3); `undefined` for anything else. */
export function parseRetryAfter(value: string | null, now: number): number | undefined {
  if (value === null || value.trim() === '') return undefined
  const seconds = Number(value)
  if (Number.isFinite(seconds)) return seconds < 0 ? undefined : seconds * 1000
  const date = Date.parse(value)
  return Number.isNaN(date) ? undefined : Math.max(0, date - now)
}

/** Waits, or rejects with the signal's reason as soon as it aborts. */
export function sleep(delay: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason as Error)
    const aborted = (): void => {
      clearTimeout(timer)
      reject(signal.reason as Error)
    }
    // Timers wrap around beyond 2^31 - 1 and would fire at once.
    const timer = setTimeout(
      () => {
        signal.removeEventListener('abort', aborted)
        resolve()
      },
      Math.min(delay, 2 ** 31 - 1)
    )
    signal.addEventListener('abort', aborted, { once: true })
  })
}
