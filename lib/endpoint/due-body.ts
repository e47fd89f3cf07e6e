// A body that comes while the endpoint already answers: what has to wait until the request's
// messages are known.
import { type Message, requestIdsIn } from '../protocol/json-rpc.js'
import type { Stream } from '../streams/stream.js'

export class DueBody {
  readonly #onKnown: (() => void)[] = []
  readonly #answered = new Set<unknown>()

  /** A response to a request that is not known yet. */
  answered(id: unknown): void {
    this.#answered.add(id)
  }

  /** Calls back once the body has come, or will not. */
  whenKnown(listener: () => void): void {
    this.#onKnown.push(listener)
  }

  /** The body has come: the stream owes what has not been answered by now. */
  known(stream: Stream, messages: readonly Message[]): void {
    stream.owe(requestIdsIn(messages).filter(id => !this.#answered.has(id)))
    for (const listener of this.#onKnown) listener()
  }
}
