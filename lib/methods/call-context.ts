// `currentStream()` for a handler whose client collects its result with resume tokens.
import { nanoid } from 'nanoid'
import type { StreamState } from '../core/stream-types.js'
import { partialText, RequestContext } from '../http/current-stream.js'
import type { ResumableCall } from './resumable-call.js'

export class CallContext extends RequestContext {
  readonly #call: ResumableCall

  constructor(instance: object, call: ResumableCall) {
    super(instance, nanoid())
    this.#call = call
  }

  override get state(): StreamState {
    return this.#call.state
  }

  override get signal(): AbortSignal {
    return this.#call.signal
  }

  /** Whoever waits gets the next token now: that is how a connection ends here. */
  override disconnect(options: { readonly retry?: number } = {}): void {
    super.disconnect(options)
    this.#call.answerNow()
  }

  override partial(result: object): boolean {
    return this.#call.partial(partialText(result))
  }
}
