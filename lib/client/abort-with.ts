// Controllers of our own that abort together with a signal of somebody else's.

/**
 * Aborts a controller when a signal aborts, until `release`: signals of callers may last as long as
 * their process.
 */
export function abortWith(
  signal: AbortSignal | null | undefined,
  controller = new AbortController()
): { readonly controller: AbortController; readonly release: () => void } {
  const aborted = (): void => controller.abort(signal?.reason)
  if (signal?.aborted) aborted()
  else signal?.addEventListener('abort', aborted, { signal: controller.signal })
  return { controller, release: () => signal?.removeEventListener('abort', aborted) }
}
