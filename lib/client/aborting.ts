// Signals of callers, which may last as long as their process: what is done when one aborts, and
// what no longer needs to be.

export type Signal = AbortSignal | null | undefined

/** Calls `listener` when a signal aborts, at once where it has, until the result is called. */
export function onAbort(signal: Signal, listener: () => void): () => void {
  if (signal?.aborted) listener()
  // What is no signal is for the function that it was meant for to complain about.
  else signal?.addEventListener?.('abort', listener)
  return () => signal?.removeEventListener?.('abort', listener)
}

/** Aborts a controller of our own when a signal aborts; until that has aborted, or `release`. */
export function abortWith(
  signal: Signal,
  controller = new AbortController()
): { readonly controller: AbortController; readonly release: () => void } {
  const release = onAbort(signal, () => controller.abort(signal?.reason))
  onAbort(controller.signal, release)
  return { controller, release }
}

/**
 * Resolves and rejects as `work` does, or rejects with the signal's reason as soon as that aborts:
 * not everything that is given a signal listens to it. What comes then is for `discard`.
 */
export function untilAborted<T>(
  signal: Signal,
  work: Promise<T>,
  discard?: (late: T) => void
): Promise<T> {
  return new Promise((resolve, reject) => {
    const release = onAbort(signal, () => {
      reject(signal?.reason as Error)
      work.then(discard).catch(() => undefined)
    })
    work.then(resolve, reject).finally(release)
  })
}
