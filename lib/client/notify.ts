/**
 * Calls a function of the caller's that hears of something. Nobody waits for it; what it throws, or
 * rejects with, is for `failed`.
 */
export function notify(callback: () => unknown, failed: (error: Error) => void): void {
  new Promise(resolve => resolve(callback())).catch(failed)
}
