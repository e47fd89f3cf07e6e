// Waits for a time, unless a signal ends it.
import { LONGEST_TIMEOUT } from '../protocol/clock.js'

/** Resolves after so many milliseconds; rejects with the signal's reason as soon as that aborts. */
export function pause(delay: number, signal: AbortSignal | null | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const over = (): void => {
      signal?.removeEventListener('abort', aborted)
      resolve()
    }
    const aborted = (): void => {
      clearTimeout(timer)
      reject(signal?.reason as Error)
    }
    const timer = setTimeout(over, Math.min(delay, LONGEST_TIMEOUT))
    if (signal?.aborted) aborted()
    signal?.addEventListener('abort', aborted, { once: true })
  })
}
