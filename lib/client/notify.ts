/**
 * Calls a callback of the caller without waiting for it. If it throws or rejects, `failed` gets the
 * error.
 */
export function notify(callback: () => unknown, failed: (error: Error) => void): void {
  new Promise(resolve => resolve(callback())).catch(failed)
}
