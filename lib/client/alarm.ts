// A timer for what is expected of the network. Where it comes late, the process was asleep, and has
// not read yet what came meanwhile.
import { LONGEST_TIMEOUT, now } from '../protocol/clock.js'

/** Milliseconds beyond which a timer has not merely waited for a busy process. */
const LATE = 500
/** Milliseconds for reading what lies in a socket. */
const LAST_LOOK = 1000

/**
 * Calls `ring` after so many milliseconds, at the latest when the process has had time to read
 * since. Returns what stops it.
 */
export function alarm(delay: number, ring: () => void): () => void {
  let timer: ReturnType<typeof setTimeout>
  const set = (time: number): void => {
    const due = now() + time
    timer = setTimeout(() => (now() - due > LATE ? set(Math.min(delay, LAST_LOOK)) : ring()), time)
  }
  set(Math.min(delay, LONGEST_TIMEOUT))
  return () => clearTimeout(timer)
}
