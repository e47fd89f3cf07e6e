// Between a request for a resource and its bytes: may it have them, what are they, and are they
// still on their way.
import type { IncomingHttpHeaders } from 'node:http'
import { EndpointError } from '../protocol/endpoint-error.js'
import { withEnvelope } from '../protocol/envelope.js'
import { StreamError } from '../protocol/errors.js'
import { WhenIdle } from '../streams/when-idle.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import { breakOff, canAnswer, claim, relayAnswer } from '../endpoint/reply.js'
import { closeWhenIdle } from '../endpoint/socket-closed.js'
import { deliver, type Delivery } from './deliver.js'
import { EndpointQuestions } from './endpoint-questions.js'
import {
  closing,
  type Failure,
  notFound,
  notSupported,
  ResourceError,
  tooLarge
} from './resource-errors.js'
import {
  leaveUncompressed,
  type Requester,
  type ResourceRequest,
  type Waiting,
  type WantedResource
} from './resource-request.js'
import { discardResource, discardSource, type Source, sourceOf } from './resource-source.js'
import {
  NOT_STREAMABLE,
  type OpenedResource,
  type ResourceContext,
  type ResourceSettings
} from './resource-types.js'
import { ClientGone } from './send-bytes.js'

type AskEndpoint = ResourceContext['askEndpoint']
/** What is done with a resource that is open: afterwards it is let go. */
type Use<T> = (source: Source) => T | Promise<T>

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
   * Opens a resource for who has asked for it, and lets go of it after its use.
   *
   * @param ask the server of the wire that its download URL was made out on, if it was on one.
   * @throws {ResourceError} where there is none for it.
   */
  open<T>(
    request: ResourceRequest,
    wanted: WantedResource,
    use: Use<T>,
    ask?: AskEndpoint
  ): Promise<T> {
    const askEndpoint: AskEndpoint = ask
      ? inNameOf(wanted, ask)
      : (method, params) => this.#endpoint.resultOf(request, wanted, method, params)
    return this.#open(request, wanted, use, askEndpoint, request.req.headers)
  }

  /** The same, for a client that has not come by HTTP. */
  openOnWire<T>(
    request: Waiting,
    wanted: WantedResource,
    use: Use<T>,
    ask: AskEndpoint
  ): Promise<T> {
    return this.#open(request, wanted, use, inNameOf(wanted, ask), {})
  }

  async #open<T>(
    request: Waiting,
    { uri, owner, sessionId, revision, maxStreamSize }: WantedResource,
    use: Use<T>,
    askEndpoint: AskEndpoint,
    headers: IncomingHttpHeaders
  ): Promise<T> {
    const { open, timeout } = this.settings
    const { signal } = request
    const context: ResourceContext = {
      owner: owner === '' ? undefined : owner,
      sessionId,
      headers,
      maxStreamSize,
      signal,
      askEndpoint
    }
    // Called in a promise: what it throws at once is no different from what it throws later.
    const opening = new Promise<OpenedResource>(resolve => resolve(open(uri, context)))
    const opened = await request.wait(opening, timeout, discardResource)
    if (opened === undefined || opened === null) throw notFound(uri, revision)
    if (opened === NOT_STREAMABLE)
      throw notSupported({ uri, suggestion: 'Use resources/read for this resource' })
    const source = await sourceOf(uri, opened).catch((error: unknown) => {
      discardResource(opened)
      throw error
    })
    if (source === undefined) throw notFound(uri, revision)
    try {
      // Nothing interrupts the look at a file.
      signal.throwIfAborted()
      const { size = 0 } = source.facts
      if (maxStreamSize !== undefined && size > maxStreamSize)
        throw tooLarge(uri, size, maxStreamSize)
      return await use(source)
    } finally {
      // What is still being read from a file is waited for.
      discardSource(source)
    }
  }

  /** Sends what has been opened. */
  async send(
    request: ResourceRequest,
    { maxStreamSize }: Requester,
    source: Source,
    isDownload: boolean,
    onBegin?: Delivery['onBegin']
  ): Promise<void> {
    // Somebody in front may have answered meanwhile.
    if (!claim(request.res)) return
    await deliver(request, source, {
      limit: maxStreamSize,
      timeout: this.settings.timeout,
      pieceSize: this.#requests.size > FEW_TRANSFERS ? SMALL_PIECE_SIZE : PIECE_SIZE,
      isDownload,
      onBegin
    })
  }

  /**
   * Does something for a request, and ends its response in the end, come what may. `answer` is told
   * of what has gone wrong while there is still an answer to give; what is under way already is
   * broken off.
   */
  async serve(
    request: ResourceRequest,
    work: () => Promise<void>,
    answer: (error: Failure | undefined) => void
  ): Promise<void> {
    leaveUncompressed(request.req)
    this.#requests.add(request)
    try {
      await request.turn()
      this.throwIfClosing()
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

  /** @throws {ResourceError} where the process is about to end. */
  throwIfClosing(): void {
    if (this.#parts.isClosing) throw closing()
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
  failureOf(error: unknown): Failure | undefined {
    if (error instanceof ResourceError || EndpointError.is(error)) return error
    if (error instanceof ClientGone) this.#parts.debug('resource broken off: its client has gone')
    else this.tell(error)
    return undefined
  }

  tell(cause: unknown): void {
    this.#parts.debug('resource failed: %O', cause)
    this.#report(new StreamError('resource-failed', { cause }))
  }

  #failed(
    request: ResourceRequest,
    thrown: unknown,
    answer: (failure: Failure | undefined) => void
  ): void {
    const { res, signal } = request
    // What was broken off fails in many ways, for one reason.
    const error: unknown = signal.aborted ? signal.reason : thrown
    const failure = this.failureOf(error)
    if (res.headersSent) return void (request.isSending && breakOff(res))
    if (!canAnswer(res) || error instanceof ClientGone) return void res.destroy()
    answer(failure)
  }
}

/** Asks the server behind a wire, and says who the client is that it is asked for. */
function inNameOf({ envelope }: Requester, ask: AskEndpoint): AskEndpoint {
  return envelope === undefined
    ? ask
    : (method, params) => ask(method, withEnvelope(params, envelope))
}
