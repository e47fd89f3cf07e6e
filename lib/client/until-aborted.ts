// Waits for what others do no longer than a signal lets it: not everything that is given a signal
// listens to it.

/**
 * Resolves and rejects as `work` does, or rejects with the signal's reason as soon as that aborts.
 * What comes then is for `discard`.
 */
export function untilAborted<T>(
  signal: AbortSignal,
  work: Promise<T>,
  discard?: (late: T) => void
): Promise<T> {
  return new Promise((resolve, reject) => {
    const aborted = (): void => {
      reject(signal.reason as Error)
      work.then(discard).catch(() => undefined)
    }
    if (signal.aborted) return aborted()
    signal.addEventListener('abort', aborted)
    const stop = (): void => signal.removeEventListener('abort', aborted)
    work.then(resolve, reject).finally(stop)
  })
}
