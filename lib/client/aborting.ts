// Listening to the signals of callers. A signal may live as long as the process, so no listener may
// stay on it that is not needed any more.

export type Signal = AbortSignal | null | undefined

/**
 * Calls `listener` when a signal aborts, or at once if it has aborted. Returns a function that
 * removes the listener.
 */
export function onAbort(signal: Signal, listener: () => void): () => void {
  if (signal?.aborted) listener()
  // A value that is not a signal is ignored here: the `fetch` that it is passed to rejects it.
  else signal?.addEventListener?.('abort', listener)
  return () => signal?.removeEventListener?.('abort', listener)
}

/**
 * Aborts a controller when a signal aborts. It stops listening to the signal when the controller
 * has aborted, or when `release` is called.
 */
export function abortWith(
  signal: Signal,
  controller = new AbortController()
): { readonly controller: AbortController; readonly release: () => void } {
  const release = onAbort(signal, () => controller.abort(signal?.reason))
  onAbort(controller.signal, release)
  return { controller, release }
}

/**
 * Settles as `work` does, or rejects with the signal's reason as soon as the signal aborts: a
 * `fetch` of the caller's may ignore its signal. If `work` resolves after that, `discard` gets the
 * value.
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
