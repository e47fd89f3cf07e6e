// A request that is at the endpoint in a session which the endpoint may not know.
import type { IncomingMessage } from 'node:http'
import { Holder, type HeldAnswer } from '../../http/held-answer.js'
import { passedOnOf } from '../../http/response-headers.js'
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

/** Its client gets another answer than the endpoint's: without a body, or in JSON. */
export function answerInstead(
  held: HeldAnswer,
  status: number,
  headers: Readonly<Record<string, string>> = {},
  json?: string
): void {
  const patched = held.instead()
  if (patched === undefined) return held.pass()
  const type = json === undefined ? {} : { 'Content-Type': 'application/json' }
  patched.act('writeHead', [status, { 'Cache-Control': 'no-store', ...type, ...headers }])
  patched.act('end', json === undefined ? [] : [json])
}

/** Its client gets what the endpoint has answered to another request. */
export function replaceBy(held: HeldAnswer, answer: IncomingMessage): void {
  const patched = held.instead()
  if (patched === undefined) {
    answer.destroy()
    return held.pass()
  }
  const { res } = patched
  for (const [name, value] of passedOnOf(answer)) res.setHeader(name, value)
  answer.once('error', () => patched.act('destroy', []))
  res.once('close', () => answer.destroy())
  answer.on('data', (chunk: Buffer) => {
    if (patched.act('write', [chunk]) === false) answer.pause()
  })
  res.on('drain', () => answer.resume())
  answer.once('end', () => patched.act('end', []))
  patched.act('writeHead', [answer.statusCode ?? 502])
}
