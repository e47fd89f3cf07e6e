// `resources/stream` in a session on a wire: answered with a download URL.
import { nanoid } from 'nanoid'
import { EndpointError, faultError } from '../protocol/errors.js'
import {
  cancellation,
  isInitialize,
  isObject,
  isResponse,
  type Message,
  paramsOf,
  type RequestId,
  type RequestMessage
} from '../protocol/json-rpc.js'
import type { WireSession } from './wire.js'
import {
  OUR_ID,
  type WireClient,
  type WireMessage,
  type WireResources
} from '../protocol/shared-wire.js'

type Answered = (message: Message) => void

/** Requests whose results may have to be rewritten, at a time. Those beyond are not tracked. */
const MOST_REQUESTS = 100
/** Each may hold a file, or a request to another server. */
const MOST_OPENING = 20

export class SessionResources {
  readonly #resources: WireResources
  readonly #session: WireSession
  readonly #ended = new AbortController()
  readonly #opening = new Map<RequestId, AbortController>()
  readonly #methods = new Map<RequestId, string>()
  readonly #asked = new Map<RequestId, Answered>()
  #capabilities: unknown

  constructor(resources: WireResources, session: WireSession) {
    this.#resources = resources
    this.#session = session
  }

  /** The client has sent a request. `true`: it is answered here. */
  take(request: RequestMessage): boolean {
    const { id, method } = request
    if (isInitialize(request)) this.#capabilities = paramsOf(request)['capabilities']
    if (this.#resources.isAbout(method) && this.#methods.size < MOST_REQUESTS)
      this.#methods.set(id, method)
    if (method !== 'resources/stream') return false
    if (this.#opening.size >= MOST_OPENING || this.#opening.has(id))
      this.#send({ jsonrpc: '2.0', id, error: faultError('too-many-requests') })
    else void this.#open(request)
    return true
  }

  /** `true`: it was one for a resource, of which the server knows nothing. */
  cancel(id: RequestId): boolean {
    this.#methods.delete(id)
    const opening = this.#opening.get(id)
    opening?.abort(new Error('The client has cancelled the request'))
    return opening !== undefined
  }

  /** The server's message as it is to be sent; `undefined` if it answers a request of our own. */
  rewriteAnswer(message: WireMessage): WireMessage | undefined {
    if (!isResponse(message)) return message
    const answered = this.#asked.get(message.id)
    if (answered !== undefined) {
      answered(message)
      return undefined
    }
    const method = this.#methods.get(message.id)
    this.#methods.delete(message.id)
    if (method === undefined || !isObject(message.result)) return message
    const result = this.#resources.speakOf(method, message.result)
    return result === undefined ? message : { ...message, result }
  }

  async #open(request: RequestMessage): Promise<void> {
    const { id } = request
    const { id: sessionId, owner } = this.#session
    const opening = new AbortController()
    this.#opening.set(id, opening)
    // A later download asks, too: this request is not in `#opening` any more.
    const ask: WireClient['ask'] = (method, params) => this.#ask(method, params, opening.signal)
    const client = {
      owner,
      sessionId,
      capabilities: this.#capabilities,
      signal: opening.signal,
      ask
    }
    const answer = await this.#resources.answer(request, client)
    this.#opening.delete(id)
    // A client that has cancelled expects no response.
    if (!opening.signal.aborted) this.#send(answer)
  }

  #send(answer: WireMessage): void {
    this.#session.sendToClient(answer).catch((error: Error) => this.#session.onerror?.(error))
  }

  sessionEnded(): void {
    const reason = new Error('The session has ended')
    this.#ended.abort(reason)
    for (const opening of this.#opening.values()) opening.abort(reason)
    this.#resources.ended(this.#session.id, this.#session.owner)
  }

  /** @throws the error that the server answers, or the reason of an abort. */
  async #ask(
    method: string,
    params: Record<string, unknown> | undefined,
    opening: AbortSignal
  ): Promise<Record<string, unknown>> {
    const id = OUR_ID + nanoid()
    const signals = [this.#ended.signal, opening]
    let fail: (reason: Error) => void = () => undefined
    const withdraw = ({ target }: Event): void => {
      const reason = (target as AbortSignal).reason as Error
      fail(reason)
      // Nothing is sent any more if the session has ended.
      this.#session.sendToServer(cancellation(id, reason.message))
    }
    try {
      const answer = await new Promise<Message>((resolve, reject) => {
        fail = reject
        for (const signal of signals) {
          signal.throwIfAborted()
          signal.addEventListener('abort', withdraw)
        }
        this.#asked.set(id, resolve)
        this.#session.sendToServer({
          jsonrpc: '2.0',
          id,
          method,
          ...(params !== undefined && { params })
        })
      })
      const error = EndpointError.in(answer)
      if (error !== undefined) throw error
      if (!isObject(answer.result)) throw new Error(`The server did not answer ${method}`)
      return answer.result
    } finally {
      for (const signal of signals) signal.removeEventListener('abort', withdraw)
      this.#asked.delete(id)
    }
  }
}
