// How many timers a process sets: those of its modules, not those that Node sets for its sockets.

/** From now on, what is set by the global functions is counted. */
export function countTimers() {
  const counts = { set: 0, pending: 0 }
  const waiting = new WeakSet()
  const { setTimeout, clearTimeout } = globalThis
  const done = timer => {
    if (waiting.delete(timer)) counts.pending--
  }
  globalThis.setTimeout = (work, delay, ...args) => {
    const timer = setTimeout(
      (...given) => {
        done(timer)
        work(...given)
      },
      delay,
      ...args
    )
    waiting.add(timer)
    counts.set++
    counts.pending++
    return timer
  }
  globalThis.clearTimeout = timer => {
    if (typeof timer === 'object' && timer !== null) done(timer)
    clearTimeout(timer)
  }
  return counts
}
