// `currentStream()` for a handler whose client collects its result with resume tokens.
import { nanoid } from 'nanoid'
import type { StreamState } from '../streams/stream-types.js'
import { partialText, HandlerContext } from '../endpoint/handler-context.js'
import type { Call } from './call.js'

export class CallContext extends HandlerContext {
  readonly #call: Call

  constructor(instance: object, call: Call, id: string = nanoid()) {
    super(instance, id)
    this.#call = call
  }

  override get state(): StreamState {
    return this.#call.stream.state
  }

  override get signal(): AbortSignal {
    return this.#call.stream.signal
  }

  /** Whoever waits gets the next token now: that is how a connection ends here. */
  override disconnect(options: { readonly retry?: number } = {}): void {
    super.disconnect(options)
    this.#call.disconnect()
  }

  override partial(result: object): boolean {
    return this.#call.partial(partialText(result))
  }
}
