// Between a request for a resource and its bytes: may it have them, what are they, and are they
// still on their way.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { StreamError } from '../protocol/errors.js'
import { isObject } from '../protocol/json-rpc.js'
import { withoutStream } from '../protocol/link-header.js'
import { FIRST_STATELESS_REVISION } from '../protocol/revisions.js'
import { WhenIdle } from '../streams/when-idle.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import { askEndpoint, type Question, relayAnswer, type Reply } from '../endpoint/endpoint-client.js'
import { canAnswer, claim } from '../endpoint/reply.js'
import { closeWhenIdle } from '../endpoint/socket-closed.js'
import { admissionIn, EndpointError } from '../endpoint/admission.js'
import { deliver, type Delivery } from './deliver.js'
import { withoutDownload } from './download-url.js'
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

/** Bytes of the endpoint's verdict on who asks. */
const LONGEST_VERDICT = 1024 * 1024
/** Bytes of what a provider asks of the endpoint: half of the longest string that there is. */
const LONGEST_REPLY = 256 * 1024 * 1024

/** Large pieces are faster; with many transfers at once the memory that they take counts more. */
const PIECE_SIZE = 256 * 1024
const SMALL_PIECE_SIZE = 64 * 1024
const FEW_TRANSFERS = 8

export class ResourceService {
  readonly settings: ResourceSettings
  readonly #parts: InstanceParts
  readonly #report: (error: Error) => void
  readonly #visits = new Set<ResourceRequest>()
  readonly #idle = new WhenIdle(() => this.#visits.size === 0)

  constructor(settings: ResourceSettings, parts: InstanceParts, report: (error: Error) => void) {
    this.settings = settings
    this.#parts = parts
    this.#report = report
  }

  /**
   * Asks the endpoint for its verdict on who asks: with the same credentials, through everything in
   * front of it. `false`: it has refused, and its answer has been passed on.
   *
   * @throws {EndpointError} where it refuses by a JSON-RPC error.
   */
  async admits(visit: ResourceRequest, visitor: Requester): Promise<boolean> {
    const method = isStateless(visitor) ? 'server/discover' : 'ping'
    const admission = admissionIn(
      await this.#ask(visit, visitor, method, undefined, LONGEST_VERDICT)
    )
    if (admission.kind === 'error') throw admission.error
    if (admission.kind === 'admitted') return true
    this.#parts.debug('resource refused by the endpoint with %d', admission.response.statusCode)
    relayAnswer(admission.response, visit.res)
    return false
  }

  /**
   * Opens a resource for who asks.
   *
   * @throws {ResourceError} where there is none for it.
   */
  open(
    visit: ResourceRequest,
    visitor: Requester,
    uri: string,
    ask?: AskEndpoint
  ): Promise<Source> {
    const askEndpoint = ask ?? ((method, params) => this.#resultOf(visit, visitor, method, params))
    return this.openFor(visit, visitor, uri, visit.req.headers, askEndpoint)
  }

  /** The same, for a client that has not come by HTTP. */
  async openFor(
    visit: Waiting,
    visitor: Requester,
    uri: string,
    headers: IncomingHttpHeaders,
    askEndpoint: AskEndpoint
  ): Promise<Source> {
    const { open, timeout } = this.settings
    const context: ResourceContext = {
      owner: visitor.owner === '' ? undefined : visitor.owner,
      sessionId: visitor.sessionId,
      headers,
      maxStreamSize: visitor.maxStreamSize,
      signal: visit.signal,
      askEndpoint
    }
    // Called in a promise: what it throws at once is no different from what it throws later.
    const opening = new Promise<OpenedResource>(resolve => resolve(open(uri, context)))
    const opened = await visit.wait(opening, timeout, discardResource)
    if (opened === undefined || opened === null) throw notFound(uri, visitor.revision)
    if (opened === NOT_STREAMABLE)
      throw notSupported({ uri, suggestion: 'Use resources/read for this resource' })
    const source = await sourceOf(uri, opened)
    if (source === undefined) throw notFound(uri, visitor.revision)
    const { maxStreamSize } = visitor
    const { size } = source.facts
    if (maxStreamSize !== undefined && size !== undefined && size > maxStreamSize) {
      discardSource(source)
      throw tooLarge(uri, size, maxStreamSize)
    }
    return source
  }

  /** Sends a source. */
  async send(
    visit: ResourceRequest,
    visitor: Requester,
    source: Source,
    isDownload: boolean,
    onPart?: Delivery['onPart']
  ): Promise<void> {
    if (visit.signal.aborted) {
      // While a file was looked at, which nothing interrupts.
      discardSource(source)
      throw visit.signal.reason
    }
    // Somebody in front has answered meanwhile.
    if (!claim(visit.res)) return discardSource(source)
    const delivery = {
      limit: visitor.maxStreamSize,
      timeout: this.settings.timeout,
      pieceSize: this.#visits.size > FEW_TRANSFERS ? SMALL_PIECE_SIZE : PIECE_SIZE,
      isDownload,
      onPart
    }
    try {
      await deliver(visit, source, delivery)
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
    visit: ResourceRequest,
    work: () => Promise<void>,
    answer: (error: ResourceError | undefined) => void
  ): Promise<void> {
    this.#visits.add(visit)
    try {
      await work()
    } catch (error) {
      this.#failed(visit, error, answer)
    } finally {
      visit.end()
      this.#visits.delete(visit)
      if (this.#parts.isClosing) closeWhenIdle(visit.req.socket)
      this.#idle.check()
    }
  }

  get visits(): number {
    return this.#visits.size
  }

  /** Resolves when nothing is under way. */
  whenIdle(): Promise<void> {
    return this.#idle.wait()
  }

  /** Breaks off what is under way: who has had no byte yet is told why. */
  close(): void {
    for (const visit of [...this.#visits]) visit.breakOff(closing())
  }

  /**
   * What a client is told of what has gone wrong; `undefined`: nothing, for that is for `onError`.
   */
  errorOf(error: unknown): ResourceError | undefined {
    if (error instanceof EndpointError) return ofEndpoint(error)
    if (error instanceof ResourceError) return error
    if (!(error instanceof ClientGone)) this.tell(error)
    return undefined
  }

  tell(cause: unknown): void {
    this.#parts.debug('resource failed: %O', cause)
    this.#report(new StreamError('resource-failed', { cause }))
  }

  #failed(
    visit: ResourceRequest,
    thrown: unknown,
    answer: (error: ResourceError | undefined) => void
  ): void {
    const { res, signal } = visit
    // What was broken off fails in many ways, for one reason.
    const error: unknown = signal.aborted ? signal.reason : thrown
    const isAnswer = error instanceof ResourceError || error instanceof EndpointError
    if (error instanceof ClientGone) this.#parts.debug('resource broken off: its client has gone')
    else if (!isAnswer) this.tell(error)
    if (res.headersSent) return void (visit.isSending && res.destroy())
    if (!canAnswer(res) || error instanceof ClientGone) return void res.destroy()
    if (error instanceof EndpointError) answer(ofEndpoint(error))
    else answer(error instanceof ResourceError ? error : undefined)
  }

  async #resultOf(
    visit: ResourceRequest,
    visitor: Requester,
    method: string,
    params: Record<string, unknown> | undefined
  ): Promise<Record<string, unknown>> {
    const reply = await this.#ask(visit, visitor, method, params, LONGEST_REPLY)
    if (reply.kind === 'refusal') {
      reply.response.destroy()
      throw new Error(`The endpoint answered ${method} with ${reply.response.statusCode}`)
    }
    const error = EndpointError.in(reply.message)
    if (error !== undefined) throw error
    if (!isObject(reply.message?.result)) throw new Error(`The endpoint did not answer ${method}`)
    return reply.message.result
  }

  #ask(
    visit: ResourceRequest,
    visitor: Requester,
    method: string,
    params: Record<string, unknown> | undefined,
    limit: number
  ): Promise<Reply> {
    const { envelope, sessionId } = visitor
    const meta = isObject(params?.['_meta']) ? params['_meta'] : {}
    const question = {
      method,
      params: isStateless(visitor) ? { ...params, _meta: { ...envelope, ...meta } } : params,
      sessionId,
      signal: visit.signal,
      limit,
      ...(visit.req.method !== 'POST' && asClient(visit.req, visitor))
    }
    return visit.wait(askEndpoint(visit.req, question), this.settings.timeout, late => {
      if (late.kind === 'refusal') late.response.destroy()
    })
  }
}

function isStateless({ revision }: Requester): boolean {
  return revision !== undefined && revision >= FIRST_STATELESS_REVISION
}

/**
 * A download URL is fetched without what MCP wants in the head of its messages, and is none of the
 * endpoint's.
 */
function asClient(
  { originalUrl, url }: IncomingMessage & { originalUrl?: string },
  { revision }: Requester
): Pick<Question, 'path' | 'revision'> {
  return { path: withoutStream(withoutDownload(originalUrl ?? url ?? '/')), revision }
}
