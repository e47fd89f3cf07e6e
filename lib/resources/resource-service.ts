// Serves resources: asks the endpoint, calls the provider, sends the bytes.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { withEnvelope } from '../protocol/envelope.js'
import { EndpointError, StreamError } from '../protocol/errors.js'
import { WhenIdle } from '../streams/when-idle.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import { breakOff, canAnswer, claim, relayAnswer } from '../http/reply.js'
import { closeWhenIdle } from '../http/sockets.js'
import { isObject } from '../protocol/json-rpc.js'
import { withoutStream } from '../protocol/link-header.js'
import { isStateless } from '../protocol/revisions.js'
import { admissionIn } from '../endpoint/admission.js'
import { askEndpoint, type Question, type Reply } from '../endpoint/endpoint-client.js'
import { deliver, type Delivery } from './deliver.js'
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
  type IsStreamable,
  NOT_STREAMABLE,
  type OpenedResource,
  type ResourceContext,
  type ResourceSettings
} from './resource-types.js'
import { ClientGone } from './send-bytes.js'
import { withoutDownload } from './download-tickets.js'

type AskEndpoint = ResourceContext['askEndpoint']
/** What is done with an open resource, which is closed afterwards. */
type Use<T> = (source: Source) => T | Promise<T>

/** Bytes per piece. Large ones are faster; with many transfers they would take too much memory. */
const PIECE_SIZE = 256 * 1024
const SMALL_PIECE_SIZE = 64 * 1024
const FEW_TRANSFERS = 8

export class ResourceService {
  readonly settings: ResourceSettings
  readonly #parts: InstanceParts
  readonly #requests = new Set<ResourceRequest>()
  readonly #idle = new WhenIdle(() => this.#requests.size === 0)

  constructor(settings: ResourceSettings, parts: InstanceParts) {
    this.settings = settings
    this.#parts = parts
  }

  /** `false`: the refusal has been passed on. @throws {EndpointError} for a JSON-RPC error. */
  async admits(request: ResourceRequest, requester: Requester): Promise<boolean> {
    const method = isStateless(requester.revision) ? 'server/discover' : 'ping'
    const reply = await this.#ask(request, requester, method, undefined, LONGEST_ADMISSION)
    const admission = admissionIn(reply)
    if (admission.kind === 'error') throw admission.error
    if (admission.kind === 'admitted') return true
    this.#parts.debug('resource refused by the endpoint with %d', admission.response.statusCode)
    relayAnswer(admission.response, request.res)
    return false
  }

  /** `ask`: of the transport on which its URL was given out. @throws {ResourceError} */
  open<T>(
    request: ResourceRequest,
    wanted: WantedResource,
    use: Use<T>,
    ask?: AskEndpoint
  ): Promise<T> {
    const askEndpoint: AskEndpoint = ask
      ? inNameOf(wanted, ask)
      : (method, params) => this.#resultOf(request, wanted, method, params)
    return this.#open(request, wanted, use, askEndpoint, request.req.headers)
  }

  /** The same, for a client on another transport than HTTP. */
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
      sessionId: sessionId && this.#parts.sessions.endpointIdOf(sessionId),
      headers,
      maxStreamSize,
      signal,
      askEndpoint
    }
    // Called inside a promise, so that what it throws at once is treated like a rejection.
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
      // Opening a file cannot be interrupted, so the client may have gone meanwhile.
      signal.throwIfAborted()
      const { size = 0 } = source.facts
      if (maxStreamSize !== undefined && size > maxStreamSize)
        throw tooLarge(uri, size, maxStreamSize)
      return await use(source)
    } finally {
      // A file closes only after the read that is under way.
      discardSource(source)
    }
  }

  async send(
    request: ResourceRequest,
    { maxStreamSize }: Requester,
    source: Source,
    isDownload: boolean,
    onWhole?: Delivery['onWhole']
  ): Promise<void> {
    // Earlier middleware may have answered meanwhile.
    if (!claim(request.res)) return
    await deliver(request, source, {
      limit: maxStreamSize,
      timeout: this.settings.timeout,
      pieceSize: this.#requests.size > FEW_TRANSFERS ? SMALL_PIECE_SIZE : PIECE_SIZE,
      isDownload,
      onWhole
    })
  }

  /** Does the work. If it fails before the head, `answer` gets the failure. */
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
      request.unwatch()
      this.#requests.delete(request)
      if (this.#parts.isClosing) closeWhenIdle(request.req.socket)
      this.#idle.check()
    }
  }

  /** @throws {ResourceError} if the server is closing. */
  throwIfClosing(): void {
    if (this.#parts.isClosing) throw closing()
  }

  get requests(): number {
    return this.#requests.size
  }

  /** Resolves when nothing is under way. */
  whenIdle(): Promise<void> | undefined {
    return this.#idle.wait()
  }

  /** Breaks off what is under way. A client that has not got the head yet is told why. */
  close(): void {
    for (const request of [...this.#requests]) request.breakOff(closing())
  }

  /** What the client is told; `undefined`: not the cause, which `onError` gets. */
  failureOf(error: unknown): Failure | undefined {
    if (error instanceof ResourceError || EndpointError.is(error)) return error
    if (error instanceof ClientGone) this.#parts.debug('resource broken off: its client has gone')
    else this.#tell(error)
    return undefined
  }

  /** Whether an entry of a list is marked. */
  readonly isStreamable: IsStreamable = (uri, entry) => {
    const { streamable } = this.settings
    if (typeof streamable === 'boolean') return streamable
    try {
      return streamable(uri, entry) === true
    } catch (error) {
      // A list without marks is better than no list.
      this.#tell(error)
      return false
    }
  }

  #tell(cause: unknown): void {
    this.#parts.debug('resource failed: %O', cause)
    this.#parts.report(new StreamError('resource-failed', { cause }), undefined)
  }

  /** @throws if the endpoint refuses, or answers without a result. */
  async #resultOf(
    request: ResourceRequest,
    requester: Requester,
    method: string,
    params: Record<string, unknown> | undefined
  ): Promise<Record<string, unknown>> {
    const reply = await this.#ask(request, requester, method, params, LONGEST_REPLY)
    if (reply.kind === 'refusal') {
      reply.response.destroy()
      throw new Error(`The endpoint answered ${method} with ${reply.response.statusCode}`)
    }
    const error = EndpointError.in(reply.message)
    if (error !== undefined) throw error
    if (!isObject(reply.message?.result)) throw new Error(`The endpoint did not answer ${method}`)
    return reply.message.result
  }

  /** Asks with the credentials of one request, through everything in front of the endpoint. */
  #ask(
    request: ResourceRequest,
    requester: Requester,
    method: string,
    params: Record<string, unknown> | undefined,
    limit: number
  ): Promise<Reply> {
    const { envelope = {}, sessionId } = requester
    const question = {
      method,
      params: isStateless(requester.revision) ? withEnvelope(params, envelope) : params,
      sessionId,
      signal: request.signal,
      limit,
      ...(request.req.method !== 'POST' && asClient(request.req, requester))
    }
    return request.wait(askEndpoint(request.req, question), this.settings.timeout, late => {
      if (late.kind === 'refusal') late.response.destroy()
    })
  }

  #failed(
    request: ResourceRequest,
    thrown: unknown,
    answer: (failure: Failure | undefined) => void
  ): void {
    const { res, signal } = request
    // Work that was aborted fails in many ways; the cause is the reason of the abort.
    const error: unknown = signal.aborted ? signal.reason : thrown
    const failure = this.failureOf(error)
    if (res.headersSent) return void (request.isSending && breakOff(res))
    if (!canAnswer(res) || error instanceof ClientGone) return void res.destroy()
    answer(failure)
  }
}

/** Asks the server behind a wire, with the `_meta` in which the client's request says who it is. */
function inNameOf({ envelope }: Requester, ask: AskEndpoint): AskEndpoint {
  return envelope === undefined
    ? ask
    : (method, params) => ask(method, withEnvelope(params, envelope))
}

/** The most bytes of its answer to whether it admits a client. */
const LONGEST_ADMISSION = 1024 * 1024
/** The most bytes of its answer to a provider: half of the longest string that V8 can make. */
const LONGEST_REPLY = 256 * 1024 * 1024

/** The URL of a download means nothing to the endpoint, and the request has no headers of MCP. */
function asClient(
  { originalUrl, url }: IncomingMessage & { originalUrl?: string },
  { revision }: Requester
): Pick<Question, 'path' | 'revision'> {
  return { path: withoutStream(withoutDownload(originalUrl ?? url ?? '/')), revision }
}
