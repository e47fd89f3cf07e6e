// Waiting. A signal may live as long as the process: no listener may stay on it.
import { LONGEST_TIMEOUT, now } from '../protocol/clock.js'

export type Signal = AbortSignal | null | undefined

/** Calls `listener` when a signal aborts or has aborted. Returns what removes it. */
export function onAbort(signal: Signal, listener: () => void): () => void {
  if (signal?.aborted) listener()
  // A value that is not a signal is ignored here: the `fetch` that it is passed to rejects it.
  else signal?.addEventListener?.('abort', listener)
  return () => signal?.removeEventListener?.('abort', listener)
}

/**
 * Aborts a controller when a signal aborts, until it has aborted or `stop` is called. What
 * `AbortSignal.any` makes is not given back while the signal lives (nodejs/node#54614, #64476), and
 * that of a transport lives as long as its client.
 */
export function abortWith(
  signal: Signal,
  controller = new AbortController()
): { readonly controller: AbortController; readonly stop: () => void } {
  const unlisten = onAbort(signal, () => controller.abort(signal?.reason))
  onAbort(controller.signal, unlisten)
  return { controller, stop: unlisten }
}

/** Settles as `work`, or on abort, which `fetch` may ignore. `discard` gets a late value. */
export function untilAborted<T>(
  signal: Signal,
  work: Promise<T>,
  discard?: (late: T) => void
): Promise<T> {
  return new Promise((resolve, reject) => {
    const unlisten = onAbort(signal, () => {
      reject(signal?.reason as Error)
      work.then(discard).catch(() => undefined)
    })
    work.then(resolve, reject).finally(unlisten)
  })
}

/** Resolves after `delay` milliseconds; rejects with the signal's reason as soon as it aborts. */
export function pause(delay: number, signal: Signal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => {
        unlisten()
        resolve()
      },
      Math.min(delay, LONGEST_TIMEOUT)
    )
    const unlisten = onAbort(signal, () => {
      clearTimeout(timer)
      reject(signal?.reason as Error)
    })
  })
}

/** Milliseconds of delay up to which a timer counts as on time: a busy process delays it, too. */
const LATE = 500
/** Milliseconds that a process gets after a sleep to read what its sockets have received. */
const LAST_LOOK = 1000

/** Rings after `delay` ms, but after a sleep only once sockets could be read. Returns its end. */
export function alarm(delay: number, ring: () => void): () => void {
  let timer: ReturnType<typeof setTimeout>
  const set = (time: number): void => {
    const due = now() + time
    timer = setTimeout(() => (now() - due > LATE ? set(Math.min(delay, LAST_LOOK)) : ring()), time)
  }
  set(Math.min(delay, LONGEST_TIMEOUT))
  return () => clearTimeout(timer)
}

/** Waits `patience` milliseconds at most (`null`: no limit), then calls `giveUp` or rejects. */
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

/** Waits until the connection aborts, here after `patience`. `discard` gets a late answer. */
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
