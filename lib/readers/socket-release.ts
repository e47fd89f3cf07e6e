// The process is about to end: a socket closes with its response, or when nobody waits any longer.
import { Timer } from '../streams/timer.js'
import type { Sink } from './sink.js'

export class SocketRelease {
  #deadline: Timer | undefined
  #onReleased: (() => void) | undefined

  /** @param onReleased called when the socket has closed, or is somebody else's. */
  constructor(sink: Sink, onReleased: () => void) {
    this.#onReleased = onReleased
    sink.closeSocket(() => this.released())
  }

  /** The socket is still waited for. */
  get isPending(): boolean {
    return this.#onReleased !== undefined
  }

  /** Waits no longer than so many milliseconds; `cut` destroys the response. */
  within(patience: number, cut: () => void): void {
    this.#deadline ??= new Timer(() => {
      cut()
      setImmediate(() => this.released())
    })
    this.#deadline.start(patience)
  }

  released(): void {
    const onReleased = this.#onReleased
    this.#onReleased = undefined
    this.#deadline?.stop()
    onReleased?.()
  }
}
