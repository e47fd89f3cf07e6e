// Aborts when a stream fails, or is cancelled or abandoned.
import type { StreamState } from './stream-types.js'

export class EndSignal {
  readonly #controller = new AbortController()
  readonly #stream: { readonly state: StreamState; readonly isEnded: boolean }

  constructor(stream: { readonly state: StreamState; readonly isEnded: boolean }) {
    this.#stream = stream
    this.update()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** The stream has ended. */
  update(): void {
    const { state, isEnded } = this.#stream
    if (isEnded && state !== 'completed')
      this.#controller.abort(new DOMException(`The stream was ${state}`, 'AbortError'))
  }
}
