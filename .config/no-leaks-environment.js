// Jest's Node environment that fails a spec file which leaves a socket, a server, a child process
// or a timer behind.
import LightEnvironment from './light-environment.js'
import { setImmediate as turn, setTimeout as pause } from 'node:timers/promises'

// What was closed just before the last test ended needs a few turns of the event loop to be gone.
const GRACE_TURNS = 5
const GRACE_PAUSES = 40
const PAUSE = 25

export default class NoLeaksEnvironment extends LightEnvironment {
  #handlesOfJest = new WeakSet(process._getActiveHandles())
  #timers = new TimerWatch()

  async setup() {
    await super.setup()
    this.#timers.watch(this.global, 'setTimeout')
    this.#timers.watch(this.global, 'setInterval')
  }

  async handleTestEvent(event, state) {
    if (event.name !== 'run_finish') return

    for (let round = 0; round < GRACE_TURNS + GRACE_PAUSES && this.#leaks().length > 0; round++) {
      await (round < GRACE_TURNS ? turn() : pause(PAUSE))
    }
    const leaks = this.#leaks()
    if (leaks.length === 0) return

    const error = new Error(
      `This spec file left behind:\n${leaks.map(leak => `  - ${leak}`).join('\n')}`
    )
    // A stack would show this file only, which is never where the leak is.
    error.stack = 'Error: leak'
    state.unhandledErrors.push(error)
    // Reported once is enough: the run must fail, not hang.
    for (const leak of [...this.#handles(), ...this.#timers.pending()]) leak.unref?.()
  }

  #leaks() {
    const handles = this.#handles().map(describeHandle)
    return [
      ...handles.filter(text => text !== undefined),
      ...this.#timers.pending().map(describeTimer)
    ]
  }

  #handles() {
    return process._getActiveHandles().filter(handle => !this.#handlesOfJest.has(handle))
  }
}

/**
 * Names a handle that a spec can leak; undefined for the rest: standard streams, and pipes to
 * Jest's parent.
 */
function describeHandle(handle) {
  switch (handle.constructor.name) {
    case 'Server':
      return `a server that listens on port ${handle.address()?.port}`
    case 'TLSSocket':
    case 'Socket':
      // A pipe has no port, and a socket that is destroyed only waits for its 'close'.
      if (handle.destroyed || handle.remotePort === undefined) return undefined
      return `a socket from port ${handle.localPort} to port ${handle.remotePort}`
    case 'ChildProcess':
      return `a child process: ${handle.spawnargs.join(' ')}`
    case 'Worker':
    case 'FSWatcher':
      return `a ${handle.constructor.name}`
    default:
      return undefined
  }
}

/**
 * Remembers the timers set by a spec and by all it imports: those of Node itself and of Jest never
 * come by here.
 */
class TimerWatch {
  #timers = []
  #pruneAt = 1024

  watch(global, name) {
    const set = global[name]
    const watched = (...args) => {
      const timer = set(...args)
      this.#remember(timer)
      return timer
    }
    // Also util.promisify(setTimeout), which hangs on a property of the function.
    global[name] = Object.defineProperties(watched, Object.getOwnPropertyDescriptors(set))
  }

  pending() {
    this.#prune()
    return this.#timers.map(reference => reference.deref())
  }

  // Weakly, because a spec may measure the memory that its timers hold; Node holds a timer for as
  // long as it is pending.
  #remember(timer) {
    this.#timers.push(new WeakRef(timer))
    if (this.#timers.length >= this.#pruneAt) {
      this.#prune()
      this.#pruneAt = Math.max(1024, this.#timers.length * 2)
    }
  }

  #prune() {
    this.#timers = this.#timers.filter(reference => reference.deref()?._destroyed === false)
  }
}

function describeTimer(timer) {
  const kind = timer._repeat === null ? 'timeout' : 'interval'
  const callback = String(timer._onTimeout).replace(/\s+/g, ' ').slice(0, 100)
  return `a pending ${kind} of ${timer._idleTimeout} ms (${timer.hasRef() ? "ref'd" : "unref'd"}): ${callback}`
}
