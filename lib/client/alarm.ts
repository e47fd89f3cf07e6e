// A timer for data that is expected from the network. If it fires late, the process was asleep or
// blocked, and has not yet read what has arrived meanwhile.
import { LONGEST_TIMEOUT, now } from '../protocol/clock.js'

/** Milliseconds of delay up to which a timer counts as on time: a busy process delays it, too. */
const LATE = 500
/** Milliseconds that a process gets after a sleep to read what its sockets have received. */
const LAST_LOOK = 1000

/**
 * Calls `ring` after `delay` milliseconds; after a sleep of the process only when it has had time
 * to read from its sockets. Returns a function that stops the timer.
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
