// The one clock for all durations: a monotonic one, because the wall clock may be set meanwhile.

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
