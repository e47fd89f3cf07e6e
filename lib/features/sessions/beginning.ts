// A session that is being begun again, and the requests that wait for it.
import type { RequestContext } from '../../endpoint/request-context.js'

/**
 * - `begun`: the endpoint has it, under another id.
 * - `busy`: it cannot be begun now. Its client is to come back with the request.
 * - `refused`: what the endpoint has answered to the request stands.
 */
export type BeginningOutcome = 'begun' | 'busy' | 'refused'

export class Beginning {
  /** `left`: all requests that waited have gone before its turn came. */
  readonly outcome: Promise<BeginningOutcome | 'left'>
  readonly #requests = new Set<RequestContext>()
  readonly #gone = new AbortController()

  /** @param begin is called at once; the signal aborts when nobody waits. */
  constructor(begin: (beginning: Beginning, signal: AbortSignal) => typeof this.outcome) {
    this.outcome = begin(this, this.#gone.signal)
  }

  join(request: RequestContext): void {
    this.#requests.add(request)
    request.res.once('close', () => {
      this.#requests.delete(request)
      if (this.#requests.size === 0) this.#gone.abort()
    })
  }

  /** One that waits, in whose name it is begun. */
  get request(): RequestContext {
    const [first] = this.#requests
    return first as RequestContext
  }
}
