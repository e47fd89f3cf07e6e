// The Resuming draft: a call that takes long is answered with a token in the meantime, and goes on without a connection.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { nanoid } from 'nanoid'
import {
  cancelledRequest,
  errorResponse,
  isRequest,
  isRequestId,
  isResponse,
  type Message,
  paramsOf,
  type RequestId
} from '../core/json-rpc.js'
import { parseRevision } from '../core/protocol-version.js'
import { runInContext } from '../http/current-stream.js'
import { headerOf, isForeignOrigin, sessionOf } from '../http/guards.js'
import { type House, refuseAndCount } from '../http/house.js'
import { sendToEndpoint } from '../http/inject.js'
import { tellEndpoint, tellUnanswered } from '../http/tell-endpoint.js'
import { CallContext } from './call-context.js'
import { type CallCounts, Calls, type CallsLimits } from './calls.js'
import { answerToolsList, type DurationHints, withHints } from './duration-hints.js'
import { readAnswer } from './endpoint-answer.js'
import { interimResult } from './interim-result.js'
import { Leg } from './leg.js'
import { type Interim, ResumableCall } from './resumable-call.js'
import { INVALID_PARAMS, type ResumeTokenFault, tokenFaultMessage } from './token-fault.js'
import { type Ask, askOf, endpointRequest, hasToken, parametersOf, tokenOf } from './token-request.js'

export interface ResumeTokensSettings {
  /** Milliseconds after which a request is answered with a token, where it does not say how long it waits. */
  readonly after: number
  /** The methods whose requests may get tokens. */
  readonly methods: ReadonlySet<string>
  /** What `tools/list` says about how long tools take. */
  readonly hints: DurationHints
  readonly limits: CallsLimits
}

type Request = Message & { readonly id: RequestId; readonly method: string }

/** A POST, as far as it could be read ahead. */
export interface Post {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly owner: string
  readonly messages: readonly Message[]
  /** Its body is an array, even of one message (2025-03-26). */
  readonly isBatch: boolean
  /** It may be sent again under its `Idempotency-Key`. */
  readonly isKeyed: boolean
}

/** Milliseconds that a client may ask to wait for: what official clients wait for an answer by themselves. */
const LONGEST_WAIT = 60_000

export class ResumeTokens {
  readonly #instance: object
  readonly #house: House
  readonly #settings: ResumeTokensSettings
  readonly #calls: Calls

  constructor(instance: object, house: House, settings: ResumeTokensSettings) {
    this.#instance = instance
    this.#house = house
    this.#settings = settings
    this.#calls = new Calls(settings.limits)
  }

  /** What answers a POST in the endpoint's place; `undefined` where the endpoint does. */
  answerFor(post: Post): (() => void) | undefined {
    const { req, messages, isBatch } = post
    // Whatever its id is: what the endpoint would make of it is not known.
    const asking = messages.filter(({ id, method }) => id !== undefined && typeof method === 'string')
    if (asking.some(hasToken)) return isBatch ? () => this.#refuseBatch(post, asking) : () => this.#resume(post)
    const [request] = messages
    if (isBatch || request === undefined || !isRequest(request) || this.#house.isClosing) return undefined
    const { methods, hints, limits } = this.#settings
    const ask = methods.has(request.method) ? askOf(req, request) : undefined
    const isHinted = request.method === 'tools/list' && hints.size > 0
    const parameters = ask !== undefined || isHinted ? parametersOf(request) : undefined
    if (parameters === undefined) return undefined
    const list = isHinted ? () => answerToolsList(this.#house, post, request, hints, limits.maxCallBytes) : undefined
    if (ask === undefined) return list
    if (!this.#calls.isFull) return () => this.#begin(post, request, parameters, ask)
    this.#house.debug('no resume tokens: as many calls run as may')
    this.#house.count('refused', undefined, 'full')
    return list
  }

  /** Hears what the endpoint says about cancelled requests and ended sessions. */
  watch(req: IncomingMessage, res: ServerResponse, messages: readonly Message[], owner: string): void {
    const session = sessionOf(req)
    // Without a session and without an owner, a request id says nothing about whose request it is.
    if ((session === undefined && owner === '') || this.#calls.running === 0) return
    const cancelled = messages.flatMap(message => cancelledRequest(message) ?? [])
    res.once('close', () => {
      if (!res.headersSent) return
      const { statusCode } = res
      const isAccepted = statusCode >= 200 && statusCode < 300
      const isLost = statusCode === 404 && req.method === 'POST'
      // A leg that has been answered is not there any more: its client has merely waited in vain for what the wire lost.
      if (isAccepted) for (const id of cancelled) this.#calls.findByRequest(id, owner, session)?.cancel(req)
      if (session === undefined || (!isLost && !(isAccepted && req.method === 'DELETE'))) return
      for (const call of this.#calls.ofSession(session, owner)) {
        if (isLost) call.fail('session-ended')
        else call.cancel(req)
      }
    })
  }

  /** Hears, from wherever they come, which requests of the endpoint have been answered: nobody is asked again. */
  noteAnswers(req: IncomingMessage, res: ServerResponse, messages: readonly Message[], owner: string): void {
    const session = sessionOf(req)
    const answers = messages.filter(isResponse)
    if (answers.length === 0 || session === undefined || this.#calls.running === 0) return
    res.once('close', () => {
      if (!res.headersSent || res.statusCode < 200 || res.statusCode > 299) return
      for (const call of this.#calls.ofSession(session, owner)) for (const { id } of answers) call.answered(id)
    })
  }

  /** What is held at this moment, and results that had to make room before their time. */
  counts(): CallCounts {
    return this.#calls.counts()
  }

  /** The process is about to end: whoever waits is told so. */
  close(): void {
    this.#calls.close()
  }

  #begin({ req, res, owner, isKeyed }: Post, request: Request, parameters: string, ask: Ask): void {
    const { method } = request
    const revision = this.#revisionOf(req, request)
    const facts = { owner, sessionId: sessionOf(req), method, parameters }
    const call = new ResumableCall(facts, this.#calls, interimOf(method, revision))
    this.#calls.begin(call)
    this.#house.debug('%s may be resumed with tokens', method)
    const leg = new Leg(req, res, request, { isKept: isKeyed, isAskedByHeader: ask.isByHeader })
    call.join(undefined, leg, this.#waitOf(ask))
    if (!call.isEnded) runInContext(new CallContext(this.#instance, call), () => this.#run(call, leg, request))
  }

  /** Lets the endpoint answer to us, as it would to the client. */
  #run(call: ResumableCall, { req, acceptsEvents, sessionId }: Leg, request: Request): void {
    const id = nanoid()
    const { debug } = this.#house
    const { hints, limits } = this.#settings
    const sent = sendToEndpoint(req, endpointRequest(request, id), { signal: call.signal })
    sent.then(
      response => {
        call.onDrain = () => response.resume()
        readAnswer(response, id, limits.maxCallBytes, {
          message: (message, text) => {
            if (acceptsEvents) {
              if (!call.tell(message, text)) response.pause()
            } else if (isRequest(message)) {
              // Its client takes nothing but its answer.
              tellUnanswered(this.#house, req, message.id, sessionId)
            }
          },
          answered: answer => call.settle(request.method === 'tools/list' ? withHints(answer, hints) : answer)
        })
      },
      (error: unknown) => {
        debug('the endpoint did not answer: %o', error)
        call.fail('endpoint-failed')
      }
    )
    if (sessionId !== undefined) call.onCancelled = by => this.#tellCancelled(by ?? req, id, sessionId)
  }

  /** A request with a token never reaches the endpoint: an old token must not run a tool again. */
  #resume({ req, res, owner, messages, isKeyed }: Post): void {
    // It is answered here, so the endpoint's own guard is not asked.
    if (isForeignOrigin(req, this.#house.allowedOrigins)) return refuseAndCount(this.#house, res, 403, 'foreign-origin')
    const [request] = messages
    if (request === undefined || !isRequest(request)) {
      this.#house.count('refused', undefined, 'token-invalid')
      return sendJson(res, refusalOf(null, 'token-invalid'))
    }
    const ask = askOf(req, request) as Ask
    const leg = new Leg(req, res, request, { isKept: isKeyed, isAskedByHeader: ask.isByHeader })
    const token = tokenOf(request)
    const found = this.#calls.find(token, owner, sessionOf(req))
    const fault =
      typeof found === 'string'
        ? found
        : found.facts.method !== request.method
          ? 'method-changed'
          : found.facts.parameters !== parametersOf(request)
            ? 'parameters-changed'
            : undefined
    if (fault !== undefined || typeof found === 'string') {
      this.#house.debug('%s with a resume token refused: %s', request.method, fault)
      this.#house.count('refused', undefined, fault)
      return leg.refuse(fault ?? 'token-invalid')
    }
    found.join(token, leg, this.#waitOf(ask))
  }

  /** Of a batch (2025-03-26) one request could be answered without the others, but not withheld from the endpoint without them. */
  #refuseBatch({ res }: Post, asking: readonly Message[]): void {
    const reason = 'token-in-batch'
    this.#house.count('refused', undefined, reason)
    sendJson(res, `[${asking.map(({ id }) => refusalOf(isRequestId(id) ? id : null, reason)).join(',')}]`)
  }

  #waitOf({ wait }: Ask): number {
    const { after } = this.#settings
    return wait === undefined ? after : Math.min(wait, Math.max(LONGEST_WAIT, after))
  }

  #revisionOf(req: IncomingMessage, request: Request): string | undefined {
    const session = sessionOf(req)
    const negotiated = session === undefined ? undefined : this.#house.sessions.revisionOf(session)
    return negotiated ?? parseRevision(headerOf(req, 'mcp-protocol-version')) ?? revisionIn(request)
  }

  /** An endpoint with sessions knows cancellation only as a notification; the client's own names an id that it never saw. */
  #tellCancelled(req: IncomingMessage, requestId: string, sessionId: string): void {
    const params = { requestId, reason: 'The client has cancelled the request' }
    tellEndpoint(this.#house, req, { method: 'notifications/cancelled', params }, sessionId)
  }
}

function revisionIn(request: Message): string | undefined {
  const { _meta } = paramsOf(request) as { _meta?: Record<string, unknown> }
  return parseRevision(_meta?.['io.modelcontextprotocol/protocolVersion'])
}

/** Nothing of the request that a call began with is kept with what makes its interim answers. */
function interimOf(method: string, revision: string | undefined): Interim {
  return (token, partial) => interimResult(method, revision, token, partial)
}

function refusalOf(id: RequestId | null, reason: ResumeTokenFault): string {
  return errorResponse(id, INVALID_PARAMS, tokenFaultMessage(reason), { reason })
}

function sendJson(res: ServerResponse, body: string): void {
  res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) })
  res.end(body)
}
