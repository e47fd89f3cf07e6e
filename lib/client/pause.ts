// Waits for a time, unless a signal ends it.
import { LONGEST_TIMEOUT } from '../protocol/clock.js'

/** Resolves after so many milliseconds; rejects with the signal's reason as soon as that aborts. */
export function pause(delay: number, signal: AbortSignal | null | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      if (signal?.aborted) reject(signal.reason as Error)
      else resolve()
    }
    const timer = setTimeout(end, Math.min(delay, LONGEST_TIMEOUT))
    if (signal?.aborted) end()
    else signal?.addEventListener('abort', end)
  })
}
