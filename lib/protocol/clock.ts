// The one clock for all durations: monotonic, as the wall clock may be set; and a time limit.

/** Any start but 0 will do: lru-cache takes a time of 0 for "not set". */
const START = Date.now()

/** Milliseconds that never go back. Not the time of day. */
export function now(): number {
  return START + performance.now()
}

/** The same, in the form that lru-cache takes. */
export const CLOCK = { now }

/** Milliseconds: a timer with a longer delay fires at once. */
export const LONGEST_TIMEOUT = 2 ** 31 - 1

/** The value of a promise; `undefined` if it has not settled within so many milliseconds. */
export async function within<T>(milliseconds: number, promise: Promise<T>): Promise<T | undefined> {
  // A rejection after the time limit must not become an unhandled one.
  promise.catch(() => undefined)
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<undefined>(resolve => {
    timer = setTimeout(() => resolve(undefined), milliseconds)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
