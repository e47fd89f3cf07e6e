// A pause that a signal can end.
import { LONGEST_TIMEOUT } from '../protocol/clock.js'
import { onAbort } from './aborting.js'

/** Resolves after `delay` milliseconds; rejects with the signal's reason as soon as it aborts. */
export function pause(delay: number, signal: AbortSignal | null | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => {
        release()
        resolve()
      },
      Math.min(delay, LONGEST_TIMEOUT)
    )
    const release = onAbort(signal, () => {
      clearTimeout(timer)
      reject(signal?.reason as Error)
    })
  })
}
