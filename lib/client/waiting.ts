// Waiting: for time to pass, for the network, until a signal aborts. A signal may live as long as
// the process, so no listener may stay on it that is not needed any more.
import { LONGEST_TIMEOUT, now } from '../protocol/clock.js'

export type Signal = AbortSignal | null | undefined

/**
 * Calls `listener` when a signal aborts, or at once if it has aborted. Returns a function that
 * removes the listener.
 */
export function onAbort(signal: Signal, listener: () => void): () => void {
  if (signal?.aborted) listener()
  // A value that is not a signal is ignored here: the `fetch` that it is passed to rejects it.
  else signal?.addEventListener?.('abort', listener)
  return () => signal?.removeEventListener?.('abort', listener)
}

/**
 * Aborts a controller when a signal aborts. It stops listening to the signal when the controller
 * has aborted, or when `release` is called.
 */
export function abortWith(
  signal: Signal,
  controller = new AbortController()
): { readonly controller: AbortController; readonly release: () => void } {
  const release = onAbort(signal, () => controller.abort(signal?.reason))
  onAbort(controller.signal, release)
  return { controller, release }
}

/**
 * Settles as `work` does, or rejects with the signal's reason as soon as the signal aborts: a
 * `fetch` of the caller's may ignore its signal. If `work` resolves after that, `discard` gets the
 * value.
 */
export function untilAborted<T>(
  signal: Signal,
  work: Promise<T>,
  discard?: (late: T) => void
): Promise<T> {
  return new Promise((resolve, reject) => {
    const release = onAbort(signal, () => {
      reject(signal?.reason as Error)
      work.then(discard).catch(() => undefined)
    })
    work.then(resolve, reject).finally(release)
  })
}

/** Resolves after `delay` milliseconds; rejects with the signal's reason as soon as it aborts. */
export function pause(delay: number, signal: Signal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => {
        release()
        resolve()
      },
      Math.min(delay, LONGEST_TIMEOUT)
    )
    const release = onAbort(signal, () => {
      clearTimeout(timer)
      reject(signal?.reason as Error)
    })
  })
}

/** Milliseconds of delay up to which a timer counts as on time: a busy process delays it, too. */
const LATE = 500
/** Milliseconds that a process gets after a sleep to read what its sockets have received. */
const LAST_LOOK = 1000

/**
 * A timer for data that is expected from the network: calls `ring` after `delay` milliseconds;
 * after a sleep of the process only when it has had time to read from its sockets. Returns a
 * function that stops the timer.
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

/**
 * Waits for an answer of the network, `patience` milliseconds at most; `null`: no limit. After that
 * `giveUp` is called, which has to end `work`; without one, the promise rejects.
 */
export function within<T>(
  patience: number | null,
  work: Promise<T>,
  giveUp?: (silence: Error) => void
): Promise<T> {
  return new Promise((resolve, reject) => {
    const silence = alarm(patience ?? LONGEST_TIMEOUT, () =>
      (giveUp ?? reject)(new Error('Silence'))
    )
    work.then(resolve, reject).finally(silence)
  })
}

/**
 * Waits for an answer on a connection, until the connection is aborted, which happens here after
 * `patience` milliseconds. If the answer comes later, `discard` gets it.
 */
export function onConnection<T>(
  connection: AbortController,
  patience: number | null,
  work: Promise<T>,
  discard?: (late: T) => void
): Promise<T> {
  return within(patience, untilAborted(connection.signal, work, discard), silence =>
    connection.abort(silence)
  )
}
