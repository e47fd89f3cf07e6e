// The one clock for everything that lasts: the wall clock may be set while it does.

/** Any start will do, but 0, which means "never" to some. */
const START = Date.now()

/** Milliseconds that only ever go forward. Not the time of day. */
export function now(): number {
  return START + performance.now()
}

/** The same for a cache. */
export const CLOCK = { now }

/** Milliseconds: timers wrap around beyond this. */
export const LONGEST_TIMEOUT = 2 ** 31 - 1
