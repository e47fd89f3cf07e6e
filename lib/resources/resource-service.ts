// Between a request for a resource and its bytes: may it have them, what are they, and are they
// still on their way.
import type { IncomingHttpHeaders } from 'node:http'
import { withEnvelope } from '../protocol/envelope.js'
import { StreamError } from '../protocol/errors.js'
import { WhenIdle } from '../streams/when-idle.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import { canAnswer, claim, relayAnswer } from '../endpoint/reply.js'
import { closeWhenIdle } from '../endpoint/socket-closed.js'
import { EndpointError } from '../protocol/endpoint-error.js'
import { deliver, type Delivery } from './deliver.js'
import { EndpointQuestions } from './endpoint-questions.js'
import {
  closing,
  notFound,
  notSupported,
  ofEndpoint,
  ResourceError,
  tooLarge
} from './resource-errors.js'
import { discardResource, discardSource, type Source, sourceOf } from './resource-source.js'
import {
  NOT_STREAMABLE,
  type OpenedResource,
  type ResourceContext,
  type ResourceSettings
} from './resource-types.js'
import { ClientGone } from './send-bytes.js'
import type { ResourceRequest, Requester, Waiting } from './resource-request.js'

type AskEndpoint = ResourceContext['askEndpoint']

/** Large pieces are faster; with many transfers at once the memory that they take counts more. */
const PIECE_SIZE = 256 * 1024
const SMALL_PIECE_SIZE = 64 * 1024
const FEW_TRANSFERS = 8

export class ResourceService {
  readonly settings: ResourceSettings
  readonly #parts: InstanceParts
  readonly #endpoint: EndpointQuestions
  readonly #report: (error: Error) => void
  readonly #requests = new Set<ResourceRequest>()
  readonly #idle = new WhenIdle(() => this.#requests.size === 0)

  constructor(settings: ResourceSettings, parts: InstanceParts, report: (error: Error) => void) {
    this.settings = settings
    this.#parts = parts
    this.#endpoint = new EndpointQuestions(settings.timeout)
    this.#report = report
  }

  /**
   * Asks the endpoint whether it admits the requester: with the same credentials, through
   * everything in front of it. `false`: it has refused, and its answer has been passed on.
   *
   * @throws {EndpointError} where it refuses by a JSON-RPC error.
   */
  async admits(request: ResourceRequest, requester: Requester): Promise<boolean> {
    const admission = await this.#endpoint.admissionOf(request, requester)
    if (admission.kind === 'error') throw admission.error
    if (admission.kind === 'admitted') return true
    this.#parts.debug('resource refused by the endpoint with %d', admission.response.statusCode)
    relayAnswer(admission.response, request.res)
    return false
  }

  /**
   * Opens a resource for its requester.
   *
   * @param ask the server of the wire that its download URL was made out on, if it was on one.
   * @throws {ResourceError} where there is none for it.
   */
  open(
    request: ResourceRequest,
    requester: Requester,
    uri: string,
    ask?: AskEndpoint
  ): Promise<Source> {
    const askEndpoint: AskEndpoint = ask
      ? inNameOf(requester, ask)
      : (method, params) => this.#endpoint.resultOf(request, requester, method, params)
    return this.#open(request, requester, uri, request.req.headers, askEndpoint)
  }

  /** The same, for a client that has not come by HTTP. */
  openOnWire(
    request: Waiting,
    requester: Requester,
    uri: string,
    ask: AskEndpoint
  ): Promise<Source> {
    return this.#open(request, requester, uri, {}, inNameOf(requester, ask))
  }

  async #open(
    request: Waiting,
    requester: Requester,
    uri: string,
    headers: IncomingHttpHeaders,
    askEndpoint: AskEndpoint
  ): Promise<Source> {
    const { open, timeout } = this.settings
    const context: ResourceContext = {
      owner: requester.owner === '' ? undefined : requester.owner,
      sessionId: requester.sessionId,
      headers,
      maxStreamSize: requester.maxStreamSize,
      signal: request.signal,
      askEndpoint
    }
    // Called in a promise: what it throws at once is no different from what it throws later.
    const opening = new Promise<OpenedResource>(resolve => resolve(open(uri, context)))
    const opened = await request.wait(opening, timeout, discardResource)
    if (opened === undefined || opened === null) throw notFound(uri, requester.revision)
    if (opened === NOT_STREAMABLE)
      throw notSupported({ uri, suggestion: 'Use resources/read for this resource' })
    const source = await sourceOf(uri, opened).catch((error: unknown) => {
      discardResource(opened)
      throw error
    })
    if (source === undefined) throw notFound(uri, requester.revision)
    const { maxStreamSize } = requester
    const { size } = source.facts
    if (maxStreamSize !== undefined && size !== undefined && size > maxStreamSize) {
      discardSource(source)
      throw tooLarge(uri, size, maxStreamSize)
    }
    return source
  }

  /** Sends a source. */
  async send(
    request: ResourceRequest,
    requester: Requester,
    source: Source,
    isDownload: boolean,
    onPart?: Delivery['onPart']
  ): Promise<void> {
    if (request.signal.aborted) {
      // While a file was looked at, which nothing interrupts.
      discardSource(source)
      throw request.signal.reason
    }
    // Somebody in front has answered meanwhile.
    if (!claim(request.res)) return discardSource(source)
    const delivery = {
      limit: requester.maxStreamSize,
      timeout: this.settings.timeout,
      pieceSize: this.#requests.size > FEW_TRANSFERS ? SMALL_PIECE_SIZE : PIECE_SIZE,
      isDownload,
      onPart
    }
    try {
      await deliver(request, source, delivery)
    } finally {
      // It has been read to its end, or will not be. It is not closed while the system reads from
      // it.
      if (source.kind === 'file') discardSource(source)
    }
  }

  /**
   * Does something for a request, and ends its response in the end, come what may. `answer` is told
   * of what has gone wrong while there is still an answer to give; what is under way already is
   * broken off.
   */
  async serve(
    request: ResourceRequest,
    work: () => Promise<void>,
    answer: (error: ResourceError | undefined) => void
  ): Promise<void> {
    this.#requests.add(request)
    try {
      await work()
    } catch (error) {
      this.#failed(request, error, answer)
    } finally {
      request.end()
      this.#requests.delete(request)
      if (this.#parts.isClosing) closeWhenIdle(request.req.socket)
      this.#idle.check()
    }
  }

  get requests(): number {
    return this.#requests.size
  }

  /** Resolves when nothing is under way. */
  whenIdle(): Promise<void> {
    return this.#idle.wait()
  }

  /** Breaks off what is under way: a client that has had no byte yet is told why. */
  close(): void {
    for (const request of [...this.#requests]) request.breakOff(closing())
  }

  /**
   * What a client is told of what has gone wrong; `undefined`: nothing, for that is for `onError`.
   */
  errorOf(error: unknown): ResourceError | undefined {
    if (EndpointError.is(error)) return ofEndpoint(error)
    if (error instanceof ResourceError) return error
    if (!(error instanceof ClientGone)) this.tell(error)
    return undefined
  }

  tell(cause: unknown): void {
    this.#parts.debug('resource failed: %O', cause)
    this.#report(new StreamError('resource-failed', { cause }))
  }

  #failed(
    request: ResourceRequest,
    thrown: unknown,
    answer: (error: ResourceError | undefined) => void
  ): void {
    const { res, signal } = request
    // What was broken off fails in many ways, for one reason.
    const error: unknown = signal.aborted ? signal.reason : thrown
    const isAnswer = error instanceof ResourceError || EndpointError.is(error)
    if (error instanceof ClientGone) this.#parts.debug('resource broken off: its client has gone')
    else if (!isAnswer) this.tell(error)
    if (res.headersSent) return void (request.isSending && res.destroy())
    if (!canAnswer(res) || error instanceof ClientGone) return void res.destroy()
    if (EndpointError.is(error)) answer(ofEndpoint(error))
    else answer(error instanceof ResourceError ? error : undefined)
  }
}

/** Asks the server behind a wire, and says who the client is that it is asked for. */
function inNameOf({ envelope }: Requester, ask: AskEndpoint): AskEndpoint {
  return envelope === undefined
    ? ask
    : (method, params) => ask(method, withEnvelope(params, envelope))
}
