// `resources/stream` (SEP-2532): the POST that asks for a resource. Download URLs and other wires
// have files of their own.
import type { IncomingMessage, ServerResponse } from 'node:http'
import accepts from 'accepts'
import { LONGEST_FIELD } from '../protocol/fields.js'
import { revisionIn } from '../protocol/envelope.js'
import { isObject, isRequest, paramsOf, type RequestId } from '../protocol/json-rpc.js'
import type { WireResources } from '../protocol/shared-wire.js'
import type { Elsewhere, Here } from '../streams/directory.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import type { RequestContext } from '../endpoint/request-context.js'
import { rewriteAnswer } from '../endpoint/rewrite-answer.js'
import { contentTypeOf } from './deliver.js'
import type { Ticket } from './download-tickets.js'
import { ResourceDownloads } from './resource-downloads.js'
import {
  answerError,
  answerJson,
  closing,
  internalError,
  notSupported,
  type ResourceError
} from './resource-errors.js'
import { badUri, isUri, notDeclared, type ResourceMessage } from './resource-message.js'
import {
  declarationOf,
  envelopeOf,
  maxStreamSizeOf,
  negotiationFor
} from './resource-negotiation.js'
import { leaveUncompressed, ResourceRequest, type Requester } from './resource-request.js'
import { ResourceService } from './resource-service.js'
import { discardSource, type Source } from './resource-source.js'
import type { ResourceSettings } from './resource-types.js'
import { resourcesOnWires } from './wire-resources.js'

export class ResourceAnswers {
  readonly #settings: ResourceSettings
  readonly #parts: InstanceParts
  readonly #service: ResourceService
  readonly #downloads: ResourceDownloads

  /** `report` hears of what fails on our side. */
  constructor(
    settings: ResourceSettings,
    parts: InstanceParts,
    maxTickets: number,
    report: (error: Error) => void
  ) {
    this.#settings = settings
    this.#parts = parts
    this.#service = new ResourceService(settings, parts, report)
    this.#downloads = new ResourceDownloads(settings, parts, this.#service, maxTickets)
  }

  /** Bytes of the download URLs that have been given out. */
  get remembered(): number {
    return this.#downloads.remembered
  }

  /** Lets the endpoint's answers speak of streams, where they speak of resources. */
  negotiate({ req, res, messages, owner }: RequestContext): void {
    const { sessions } = this.#parts
    const { streamable } = this.#settings
    const rewriting = negotiationFor(messages, sessions, owner, streamable, error =>
      this.#service.tell(error)
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
  requestIn(body: unknown): ResourceMessage | undefined {
    return isObject(body) && body['method'] === 'resources/stream' && isRequest(body)
      ? body
      : undefined
  }

  /** Answers a POST that asks for a resource. */
  answer(context: RequestContext, message: ResourceMessage): Promise<void> {
    const { req, res } = context
    const request = new ResourceRequest(req, res)
    const { uri } = paramsOf(message)
    const fail = (error: ResourceError | undefined): void =>
      answerError(res, message.id, error ?? internalError(isUri(uri) ? uri : undefined))
    return this.#service.serve(request, () => this.#answer(context, request, message), fail)
  }

  async #answer(
    { req, res, owner, session, revision }: RequestContext,
    request: ResourceRequest,
    message: ResourceMessage
  ): Promise<void> {
    leaveUncompressed(req)
    if (this.#parts.isClosing) throw closing()
    const requester: Requester = {
      owner,
      sessionId: session,
      revision: revision ?? revisionIn(message),
      envelope: envelopeOf(message),
      maxStreamSize: undefined
    }
    // Before anything else: a client that is refused learns nothing, not even of a bad request.
    if (!(await this.#service.admits(request, requester))) return

    const { uri } = paramsOf(message)
    if (!isUri(uri)) throw badUri()
    const inSession = this.#parts.sessions.resourceStreamingOf(owner, session)
    const declaration = declarationOf(message, inSession)
    if (declaration === undefined) throw notDeclared(uri)
    const maxStreamSize = maxStreamSizeOf(declaration)
    await this.#deliver(request, { ...requester, maxStreamSize }, uri, message.id)
    this.#parts.debug('resource answered with %d', res.statusCode)
  }

  async #deliver(
    request: ResourceRequest,
    requester: Requester,
    uri: string,
    id: RequestId
  ): Promise<void> {
    const source = await this.#service.open(request, requester, uri)
    const { mode, publicUrl } = this.#settings
    const type = contentTypeOf(source, false)
    const isAcceptable = acceptsType(request.req, type)
    const isDownload = source.kind !== 'redirect' && (mode === 'download' || !isAcceptable)
    if (isDownload && publicUrl !== undefined) {
      discardSource(source)
      return this.#makeOut(request.res, requester, source, publicUrl, id)
    }
    if (!isAcceptable) {
      discardSource(source)
      throw notSupported({ uri, suggestion: `Accept ${type} or */* for this resource` })
    }
    return this.#service.send(request, requester, source, false)
  }

  #makeOut(
    res: ServerResponse,
    requester: Requester,
    { facts }: Source,
    publicUrl: string,
    id: RequestId
  ): void {
    const result = this.#downloads.ticketFor(requester, facts, publicUrl)
    answerJson(res, JSON.stringify({ jsonrpc: '2.0', id, result }))
  }

  /**
   * For transports that carry no bytes; `undefined`: without a public URL there are no downloads.
   */
  get onWires(): WireResources | undefined {
    return resourcesOnWires({
      settings: this.#settings,
      parts: this.#parts,
      service: this.#service,
      downloads: this.#downloads
    })
  }

  /** The downloads that a request's URL names; none where there are no download URLs. */
  downloadsIn(req: IncomingMessage): readonly string[] {
    return this.#downloads.namesIn(req)
  }

  findTicket(id: string): Here<Ticket, Ticket> {
    return this.#downloads.find(id)
  }

  /** Answers a request for a download URL, by what was found under its name. */
  answerDownload(
    context: RequestContext,
    found: Here<Ticket, Ticket> | Elsewhere
  ): Promise<void> | void {
    return this.#downloads.answer(context, found)
  }

  /** How many are under way. */
  get transfers(): number {
    return this.#service.requests
  }

  /** Resolves when no transfer is under way. */
  whenIdle(): Promise<void> {
    return this.#service.whenIdle()
  }

  /** For a restart: transfers are broken off, and their clients ask for the rest elsewhere. */
  close(): void {
    this.#service.close()
  }
}

/** [SEP-2532, open question 4] Without `Accept` a client takes anything (RFC 9110, 12.5.1). */
function acceptsType(req: IncomingMessage, type: string): boolean {
  const [essence = type] = type.split(';', 1)
  const { accept } = req.headers
  if (accept === undefined || accept.length > LONGEST_FIELD) return true
  return accepts(req).type([type, essence.trim()]) !== false
}
