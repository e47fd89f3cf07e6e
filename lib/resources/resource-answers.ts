// `resources/stream` (SEP-2532): the POST that asks for a resource, and the download URLs that are
// made out for one.
import type { IncomingMessage, ServerResponse } from 'node:http'
import accepts from 'accepts'
import { LONGEST_FIELD } from '../protocol/fields.js'
import type { StreamFault } from '../protocol/errors.js'
import {
  isObject,
  isRequest,
  type Message,
  paramsOf,
  type RequestId
} from '../protocol/json-rpc.js'
import { parseRevision } from '../protocol/revisions.js'
import type { WireClient, WireMessage, WireResources } from '../protocol/shared-wire.js'
import { metaOf } from '../protocol/streams-capability.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import { refuse } from '../endpoint/reply.js'
import type { RequestContext } from '../endpoint/request-context.js'
import { rewriteAnswer } from '../endpoint/rewrite-answer.js'
import { contentTypeOf } from './deliver.js'
import { DownloadTickets, type Ticket, type WireOrigin } from './download-tickets.js'
import { downloadNames, downloadUrl } from './download-url.js'
import { ResourceService } from './resource-service.js'
import {
  answerError,
  answerJson,
  clearHead,
  closing,
  internalError,
  INVALID_PARAMS,
  notSupported,
  ResourceError,
  usedUp
} from './resource-errors.js'
import { headerUri, type ResourceFacts } from './resource-head.js'
import {
  declarationIn,
  declarationOf,
  envelopeIn,
  isOfResources,
  maxStreamSizeOf,
  negotiationFor,
  revisionIn,
  speakingOfStreams
} from './resource-negotiation.js'
import { resumedFrom } from './resource-ranges.js'
import { discardSource, type Source } from './resource-source.js'
import type { ResourceSettings } from './resource-types.js'
import { ResourceRequest, type Requester, Waiting } from './resource-request.js'

const DOWNLOAD_METHODS = 'GET, HEAD, OPTIONS'
/** Characters of a URI as a header has it: clients take heads of 16 KiB at most. */
const LONGEST_URI = 4096

type StreamRequest = Message & { readonly id: RequestId }

export class ResourceAnswers {
  readonly #settings: ResourceSettings
  readonly #parts: InstanceParts
  readonly #desk: ResourceService
  readonly #tickets: DownloadTickets

  /** `report` hears of what fails on our side. */
  constructor(
    settings: ResourceSettings,
    parts: InstanceParts,
    maxTickets: number,
    report: (error: Error) => void
  ) {
    this.#settings = settings
    this.#parts = parts
    this.#desk = new ResourceService(settings, parts, report)
    this.#tickets = new DownloadTickets(maxTickets, settings.ticketTtl, parts.newId)
    parts.sessionEnded.add((sessionId, owner) => this.#tickets.endSession(sessionId, owner))
  }

  /** Bytes of the download URLs that have been given out. */
  get remembered(): number {
    return this.#tickets.bytes
  }

  /** Lets the endpoint's answers speak of streams, where they speak of resources. */
  negotiate({ req, res, messages, owner }: RequestContext): void {
    const { sessions } = this.#parts
    const { streamable } = this.#settings
    const rewriting = negotiationFor(messages, sessions, owner, streamable, error =>
      this.#desk.tell(error)
    )
    if (rewriting === undefined) return
    // Nor could what has been compressed behind us be read.
    leaveUncompressed(req)
    rewriteAnswer(res, rewriting)
  }

  /**
   * The request for a resource that a body is. In a batch it is the endpoint's: there is only one
   * response to put bytes in.
   */
  requestIn(body: unknown): StreamRequest | undefined {
    return isObject(body) && body['method'] === 'resources/stream' && isRequest(body)
      ? body
      : undefined
  }

  /** Answers a POST that asks for a resource. */
  answer(context: RequestContext, message: StreamRequest): Promise<void> {
    const { req, res } = context
    const visit = new ResourceRequest(req, res)
    const { uri } = paramsOf(message)
    const fail = (error: ResourceError | undefined): void =>
      answerError(res, message.id, error ?? internalError(isUri(uri) ? uri : undefined))
    return this.#desk.serve(visit, () => this.#answer(context, visit, message), fail)
  }

  async #answer(
    { req, res, owner, session, revision }: RequestContext,
    visit: ResourceRequest,
    message: StreamRequest
  ): Promise<void> {
    leaveUncompressed(req)
    if (this.#parts.isClosing) throw closing()
    const visitor: Requester = {
      owner,
      sessionId: session,
      revision: revision ?? parseRevision(revisionIn(message)),
      envelope: envelopeIn(message),
      maxStreamSize: undefined
    }
    // Before anything else: who may not ask learns nothing, not even that the question was wrong.
    if (!(await this.#desk.admits(visit, visitor))) return

    const { uri } = paramsOf(message)
    if (!isUri(uri)) throw badUri()
    const inSession = this.#parts.sessions.resourceStreamingOf(owner, session)
    const declaration = declarationOf(message, inSession)
    if (declaration === undefined) throw notDeclared(uri)
    const maxStreamSize = maxStreamSizeOf(declaration)
    await this.#deliver(visit, { ...visitor, maxStreamSize }, uri, message.id)
    this.#parts.debug('resource answered with %d', res.statusCode)
  }

  async #deliver(
    visit: ResourceRequest,
    visitor: Requester,
    uri: string,
    id: RequestId
  ): Promise<void> {
    const source = await this.#desk.open(visit, visitor, uri)
    const { mode, publicUrl } = this.#settings
    const type = contentTypeOf(source, false)
    const isAcceptable = acceptsType(visit.req, type)
    const isDownload = source.kind !== 'redirect' && (mode === 'download' || !isAcceptable)
    if (isDownload && publicUrl !== undefined) {
      discardSource(source)
      return this.#makeOut(visit.res, visitor, source, publicUrl, id)
    }
    if (!isAcceptable) {
      discardSource(source)
      throw notSupported({ uri, suggestion: `Accept ${type} or */* for this resource` })
    }
    return this.#desk.send(visit, visitor, source, false)
  }

  #makeOut(
    res: ServerResponse,
    visitor: Requester,
    { facts }: Source,
    publicUrl: string,
    id: RequestId
  ): void {
    answerJson(
      res,
      JSON.stringify({ jsonrpc: '2.0', id, result: this.#ticketFor(visitor, facts, publicUrl) })
    )
  }

  /** [SEP-2532, download URL mode] */
  #ticketFor(
    visitor: Requester,
    { uri, mimeType, size }: ResourceFacts,
    publicUrl: string,
    wire?: WireOrigin
  ): Record<string, unknown> {
    const { id } = this.#tickets.issue({ ...visitor, uri }, wire)
    return {
      uri,
      mimeType,
      ...(size !== undefined && { size }),
      downloadUrl: downloadUrl(publicUrl, id)
    }
  }

  /**
   * For transports that carry no bytes; `undefined`: without a public URL there are no downloads.
   */
  get onWires(): WireResources | undefined {
    const { publicUrl } = this.#settings
    if (publicUrl === undefined) return undefined
    return {
      isAbout: isOfResources,
      speakOf: (method, result) =>
        speakingOfStreams(method, result, this.#settings.streamable, error =>
          this.#desk.tell(error)
        ),
      answer: (message, wire) => this.#answerOnWire(message, wire, publicUrl),
      ended: (sessionId, owner) => this.#tickets.endSession(sessionId, owner)
    }
  }

  /** [SEP-2532, WebSocket Transport] A wire gets a download URL, whatever the mode is over HTTP. */
  async #answerOnWire(
    message: StreamRequest,
    wire: WireClient,
    publicUrl: string
  ): Promise<WireMessage> {
    const { id } = message
    const { uri } = paramsOf(message)
    const { owner, signal, capabilities, sessionId, ask } = wire
    const work = new Waiting()
    const gone = (): void => work.gone()
    signal.addEventListener('abort', gone)
    try {
      if (this.#parts.isClosing) throw closing()
      if (!isUri(uri)) throw badUri()
      const declaration = declarationOf(message, declarationIn(capabilities))
      if (declaration === undefined) throw notDeclared(uri)
      const visitor: Requester = {
        owner,
        sessionId: undefined,
        revision: parseRevision(revisionIn(message)),
        envelope: envelopeIn(message),
        maxStreamSize: maxStreamSizeOf(declaration)
      }
      const inEnvelope: WireOrigin['ask'] = (method, params) =>
        ask(method, withEnvelope(params, visitor.envelope))
      const source = await this.#desk.openFor(work, visitor, uri, {}, inEnvelope)
      discardSource(source)
      const result = this.#ticketFor(visitor, source.facts, publicUrl, {
        sessionId,
        ask: inEnvelope
      })
      return { jsonrpc: '2.0', id, result }
    } catch (error) {
      const {
        code,
        message: text,
        data
      } = this.#desk.errorOf(error) ?? internalError(isUri(uri) ? uri : undefined)
      return {
        jsonrpc: '2.0',
        id,
        error: { code, message: text, ...(data !== undefined && { data }) }
      }
    } finally {
      signal.removeEventListener('abort', gone)
    }
  }

  /** The downloads that a request's URL names; none where there are no download URLs. */
  downloadsIn(req: IncomingMessage): readonly string[] {
    return this.#settings.publicUrl === undefined || req.method === 'OPTIONS'
      ? []
      : downloadNames(req.url ?? '')
  }

  /** Answers a request for a download URL. */
  answerDownload(context: RequestContext, names: readonly string[]): Promise<void> | void {
    const { req, res } = context
    // Before any look-up: a page that may not read downloads learns nothing about them.
    if (context.isForeign) return this.#refuse(res, 403, 'foreign-origin')
    if (req.method !== 'GET' && req.method !== 'HEAD')
      return this.#refuse(res, 405, 'method-not-allowed', { Allow: DOWNLOAD_METHODS })
    const ticket = names.length === 1 ? this.#tickets.get(names[0] as string) : undefined
    if (ticket === undefined || !mayDownload(context, ticket))
      return this.#refuse(res, 404, 'download-unknown')
    if (ticket.delivery.isOver(resumedFrom(req.headers.range)))
      return this.#refuse(res, 404, 'download-unknown')
    if (ticket.isExpired) return this.#refuse(res, 410, 'download-expired')
    return this.#download(context, ticket)
  }

  #download({ req, res, cameByCookie }: RequestContext, ticket: Ticket): Promise<void> {
    const visit = new ResourceRequest(req, res)
    const { facts } = ticket
    const work = async (): Promise<void> => {
      leaveUncompressed(req)
      if (this.#parts.isClosing) throw closing()
      // A browser that follows a link has no credentials that the endpoint could judge by: its
      // verdict is that on the request for the URL. A ticket of another wire ends with its session,
      // which is all that its server has to say of it.
      if (ticket.wire === undefined && !cameByCookie && !(await this.#desk.admits(visit, facts)))
        return
      const source = await this.#desk.open(visit, facts, facts.uri, ticket.wire?.ask)
      let over: ((isWhole: boolean) => void) | undefined
      let isWhole = false
      try {
        await this.#desk.send(visit, facts, source, true, part => {
          over = ticket.delivery.begin(part, source.facts.size, () => visit.breakOff(usedUp()))
          if (over === undefined) throw usedUp()
        })
        isWhole = true
      } finally {
        over?.(isWhole)
      }
    }
    return this.#desk.serve(visit, work, error => this.#refuseDownload(res, error))
  }

  /** [SEP-2532, Error Handling] At a download URL, errors are HTTP statuses. */
  #refuseDownload(res: ServerResponse, error: ResourceError | undefined): void {
    clearHead(res)
    if (error === undefined) return this.#refuse(res, 500, 'resource-failed')
    if (error.isOfEndpoint) return answerError(res, null, error, 403)
    if (error.status === 416) return this.#refuse(res, 416, 'range-not-satisfiable', error.headers)
    if (error.status === 412) return this.#refuse(res, 412, 'precondition-failed')
    if (error.status === 404) return this.#refuse(res, 404, 'download-unknown')
    if (error.status === 503) return this.#refuse(res, 503, 'closing', error.headers)
    this.#refuse(res, 404, 'resource-not-found')
  }

  #refuse(
    res: ServerResponse,
    status: number,
    fault: StreamFault,
    headers?: Record<string, string>
  ): void {
    this.#parts.debug('download URL refused with %d: %s', status, fault)
    if (status !== 500 && status !== 412 && status !== 416)
      this.#parts.count('refused', undefined, fault)
    refuse(res, status, fault, headers)
  }

  /** How many are under way. */
  get transfers(): number {
    return this.#desk.visits
  }

  /** Resolves when no transfer is under way. */
  whenIdle(): Promise<void> {
    return this.#desk.whenIdle()
  }

  /** For a restart: transfers are broken off, and their clients ask for the rest elsewhere. */
  close(): void {
    this.#desk.close()
  }
}

function isUri(uri: unknown): uri is string {
  if (typeof uri !== 'string' || uri.length > LONGEST_URI) return false
  return URL.canParse(uri) && headerUri(uri).length <= LONGEST_URI
}

/**
 * [SEP-2532, download URL mode, 2] Who may use a download URL: the same owner, in the same session.
 * A browser that follows a link can send no session: there its owner's cookie must do.
 */
function mayDownload(context: RequestContext, ticket: Ticket): boolean {
  // On a wire without an owner, as with its streams, who knows the id may have it.
  if (ticket.wire !== undefined && ticket.owner === '') return true
  if (!context.mayRead(ticket.owner)) return false
  const { session, owner, cameByCookie } = context
  if (ticket.sessionId === undefined || ticket.sessionId === session) return true
  return session === undefined && cameByCookie && ticket.owner === owner
}

function badUri(): ResourceError {
  return new ResourceError(
    INVALID_PARAMS,
    `Invalid params: uri must be an absolute URI of at most ${LONGEST_URI} characters, ` +
      'percent-encoded'
  )
}

function notDeclared(uri: string): ResourceError {
  const suggestion =
    'Declare the client capability resourceStreaming, in initialize or in _meta of the request'
  return notSupported({ uri, suggestion })
}

/** What a request of 2026-07-28 says of its client, in another one of it. */
function withEnvelope(
  params: Record<string, unknown> | undefined,
  envelope: Record<string, unknown> | undefined
): Record<string, unknown> | undefined {
  return envelope === undefined
    ? params
    : { ...params, _meta: { ...envelope, ...metaOf(params ?? {}) } }
}

/**
 * What compresses, in front of us, would take the length away, and the ranges with it. It asks the
 * request when the head leaves.
 */
function leaveUncompressed(req: IncomingMessage): void {
  delete req.headers['accept-encoding']
}

/** [SEP-2532, open question 4] Without `Accept` a client takes anything (RFC 9110, 12.5.1). */
function acceptsType(req: IncomingMessage, type: string): boolean {
  const [essence = type] = type.split(';', 1)
  const { accept } = req.headers
  if (accept === undefined || accept.length > LONGEST_FIELD) return true
  return accepts(req).type([type, essence.trim()]) !== false
}
