// Closes a socket when the process is about to end: with its response, or at a deadline.
import { Timer } from '../streams/timer.js'
import type { Sink } from './sink.js'

export class SocketRelease {
  #deadline: Timer | undefined
  #onReleased: (() => void) | undefined

  /** @param onReleased called when the socket has closed, or is left to other code. */
  constructor(sink: Sink, onReleased: () => void) {
    this.#onReleased = onReleased
    sink.closeSocket(() => this.released())
  }

  /** Whether the socket is still waited for. */
  get isPending(): boolean {
    return this.#onReleased !== undefined
  }

  /** Sets the deadline, in milliseconds; `cut` destroys the response. */
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
