// A request that is at the endpoint in a session which the endpoint may not know.
import { Holder, type HeldAnswer } from '../../http/held-answer.js'
import type { Budget } from '../../streams/budget.js'
import { type DueQueue, Waiting } from '../../streams/due-queue.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import type { Session } from './session.js'

interface SentHost {
  /** Where bodies are counted. */
  readonly bodies: Budget
  /** Bodies are not kept for longer: an endpoint that refuses a session does so at once. */
  readonly kept: DueQueue
  accepted(session: Session): void
  refused(sent: Sent, held: HeldAnswer): void
}

interface Body {
  readonly message: unknown
  readonly text: string | undefined
}

export class Sent extends Holder {
  readonly request: RequestContext
  readonly session: Session
  /** The id that the endpoint was shown. */
  readonly shown: string
  readonly #host: SentHost
  #body: Body | undefined
  #bytes = 0
  readonly #wait = new Waiting(() => this.drop())

  constructor(request: RequestContext, session: Session, host: SentHost) {
    super()
    this.request = request
    this.session = session
    this.shown = session.endpointId
    this.#host = host
    this.#keep(request)
  }

  /** What is to be sent once more; `undefined`: it was not kept, or there is none. */
  get body(): Body | undefined {
    return this.#body
  }

  drop(): void {
    this.#body = undefined
    this.#wait.stop()
    this.#host.bodies.release(this.request.owner, this.#bytes)
    this.#bytes = 0
  }

  protected holds(status: number): boolean {
    const isRefused = (status === 404 || status === 400) && this.session.state !== 'ended'
    if (isRefused) {
      this.#wait.stop()
      return true
    }
    this.drop()
    if (status >= 200 && status < 300 && this.session.endpointId === this.shown)
      this.#host.accepted(this.session)
    return false
  }

  decide(held: HeldAnswer): void {
    this.#host.refused(this, held)
  }

  #keep({ body: message, text, memory, owner, isUnread }: RequestContext): void {
    const { bodies, kept } = this.#host
    if (isUnread || message === undefined || !bodies.hold(owner, memory)) return
    this.#bytes = memory
    this.#body = { message, text }
    kept.add(this.#wait)
  }
}
