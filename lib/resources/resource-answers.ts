// `resources/stream` (SEP-2532): by POST, and on wires that carry no bytes.
import type { IncomingMessage } from 'node:http'
import Negotiator from 'negotiator'
import { revisionIn } from '../protocol/envelope.js'
import { LONGEST_FIELD } from '../protocol/media-types.js'
import {
  isObject,
  isRequest,
  type Message,
  paramsOf,
  type RequestId
} from '../protocol/json-rpc.js'
import type { WireClient, WireResources } from '../protocol/shared-wire.js'
import { type Elsewhere, type Here, UNKNOWN } from '../streams/directory.js'
import { resourceStreamingIn } from '../streams/sessions.js'
import type { Answer, Feature, FeatureCounts, Named } from '../endpoint/feature.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import { streamNamesIn } from '../endpoint/mcp-request.js'
import { refuseAndCount } from '../endpoint/refusals.js'
import type { RequestContext } from '../endpoint/request-context.js'
import { rewriteAnswer } from '../http/rewrite-answer.js'
import { contentTypeOf } from './deliver.js'
import { DOWNLOAD_PARAMETER, type Ticket } from './download-tickets.js'
import { ResourceDownloads } from './resource-downloads.js'
import {
  answerError,
  answerInstead,
  type Failure,
  internalError,
  invalidParams,
  notSupported,
  type ResourceError
} from './resource-errors.js'
import {
  declarationOf,
  envelopeOf,
  isOfResources,
  maxStreamSizeOf,
  METHODS_OF_RESOURCES,
  negotiationFor,
  speakingOfStreams
} from './resource-negotiation.js'
import {
  leaveUncompressed,
  type Requester,
  ResourceRequest,
  Waiting,
  type WantedResource
} from './resource-request.js'
import { ResourceService } from './resource-service.js'
import type { Source } from './resource-source.js'
import type { ResourceSettings } from './resource-types.js'
import { isUri, URI_RULE } from './resource-head.js'
import { ResourceLinks } from './resource-links.js'

export class ResourceAnswers implements Feature {
  readonly triggers = {
    query: [DOWNLOAD_PARAMETER],
    methods: ['resources/stream', ...METHODS_OF_RESOURCES]
  }
  readonly service: ResourceService
  readonly downloads: ResourceDownloads
  readonly links: ResourceLinks
  /** Without `publicUrl` there are no downloads, and without them nothing for other wires. */
  readonly onWires: { readonly resources?: WireResources }
  readonly #parts: InstanceParts

  constructor(settings: ResourceSettings, parts: InstanceParts, maxTickets: number) {
    this.#parts = parts
    this.service = new ResourceService(settings, parts)
    this.downloads = new ResourceDownloads(parts, this.service, maxTickets)
    this.links = new ResourceLinks(this.downloads.tickets, settings.publicUrl)
    const resources = resourcesOnWires(this.service, this.downloads)
    this.onWires = resources === undefined ? {} : { resources }
  }

  // Feature

  namedByHead(req: IncomingMessage): readonly Named[] {
    return this.downloads.namesIn(req).map(name => ({ kind: 'ticket', name }))
  }

  find(id: string): Here<Ticket, Ticket> {
    return this.downloads.tickets.find(id)
  }

  /** A request for a download URL (SEP-2532), whose query names a ticket. */
  byHead(context: RequestContext): Answer | undefined {
    const names = this.downloads.namesIn(context.req)
    const [name] = names
    // What names a stream as well is for the stream.
    if (name === undefined || streamNamesIn(context.req).length > 0) return undefined
    return async () => {
      // A foreign page learns nothing about downloads, so nothing is looked up for it.
      const isLookedFor = names.length === 1 && !context.isForeign
      const { directory } = this.#parts
      const found = isLookedFor ? await directory.find('ticket', name) : UNKNOWN
      return this.downloads.answer(context, found as Here<Ticket, Ticket> | Elsewhere)
    }
  }

  byMessage(context: RequestContext): Answer | undefined {
    const wanted = requestIn(context.body)
    if (wanted === undefined) return undefined
    // Before the endpoint is asked, and before any look-up.
    if (context.isForeign) return () => refuseAndCount(context, 403, 'foreign-origin')
    return () => this.answer(context, wanted)
  }

  counts(): FeatureCounts {
    return { transfers: this.service.requests, remembered: this.downloads.tickets.bytes }
  }

  whenIdle(): Promise<void> | undefined {
    return this.service.whenIdle()
  }

  expire(): void {
    this.service.close()
  }

  /** Adds what streaming needs to the endpoint's answers about resources. */
  rewrite({ req, res, messages, owner }: RequestContext): void {
    const { sessions } = this.#parts
    const rewriting = negotiationFor(messages, sessions, owner, this.service.isStreamable)
    if (rewriting === undefined) return
    // An answer that was compressed behind us could not be read.
    leaveUncompressed(req)
    rewriteAnswer(res, rewriting)
  }

  answer(context: RequestContext, message: ResourceMessage): Promise<void> {
    const { req, res } = context
    const request = new ResourceRequest(req, res)
    const { uri } = paramsOf(message)
    const fail = (failure: Failure | undefined): void =>
      answerError(res, message.id, failure ?? internalError(isUri(uri) ? uri : undefined))
    return this.service.serve(request, () => this.#answer(context, request, message), fail)
  }

  async #answer(
    { res, owner, session, revision }: RequestContext,
    request: ResourceRequest,
    message: ResourceMessage
  ): Promise<void> {
    const requester: Requester = {
      owner,
      sessionId: session,
      revision: revision ?? revisionIn(message),
      envelope: envelopeOf(message),
      maxStreamSize: undefined
    }
    // First, so that a client that is refused learns nothing.
    if (!(await this.service.admits(request, requester))) return

    const { uri } = paramsOf(message)
    if (!isUri(uri)) throw badUri()
    const inSession = this.#parts.sessions.of(owner, session).resourceStreaming
    const declaration = declarationOf(message, inSession)
    if (declaration === undefined) throw notDeclared(uri)
    const wanted = { ...requester, uri, maxStreamSize: maxStreamSizeOf(declaration) }
    await this.service.open(request, wanted, source =>
      this.#deliver(request, wanted, source, message)
    )
    this.#parts.debug('resource answered with %d', res.statusCode)
  }

  #deliver(
    request: ResourceRequest,
    wanted: WantedResource,
    source: Source,
    { id }: ResourceMessage
  ): Promise<void> | void {
    const { mode, publicUrl } = this.service.settings
    const { uri } = wanted
    const type = contentTypeOf(source, false)
    const isAcceptable = acceptsType(request.req, type)
    const isDownload = source.kind !== 'redirect' && (mode === 'download' || !isAcceptable)
    if (isDownload && publicUrl !== undefined) {
      const result = this.downloads.ticketFor(wanted, source.facts, publicUrl)
      return answerInstead(request.res, JSON.stringify({ jsonrpc: '2.0', id, result }))
    }
    if (!isAcceptable)
      throw notSupported({ uri, suggestion: `Accept ${type} or */* for this resource` })
    return this.service.send(request, wanted, source, false)
  }
}

/** A batch is left to the endpoint: one response cannot carry bytes and other answers. */
function requestIn(body: unknown): ResourceMessage | undefined {
  return isObject(body) && body['method'] === 'resources/stream' && isRequest(body)
    ? body
    : undefined
}

/** [SEP-2532, open question 4] Without `Accept` a client takes anything (RFC 9110, 12.5.1). */
function acceptsType(req: IncomingMessage, type: string): boolean {
  const [essence = type] = type.split(';', 1)
  const { accept } = req.headers
  if (accept === undefined || accept.length > LONGEST_FIELD) return true
  return new Negotiator(req).mediaTypes([type, essence.trim()]).length > 0
}

/** `undefined`: there are no downloads without `publicUrl`. */
function resourcesOnWires(
  service: ResourceService,
  downloads: ResourceDownloads
): WireResources | undefined {
  const { publicUrl } = service.settings
  if (publicUrl === undefined) return undefined
  /** [SEP-2532, WebSocket Transport] A wire gets a download URL, whatever the mode is over HTTP. */
  const resultOnWire = async (
    message: ResourceMessage,
    { owner, signal, capabilities, sessionId, ask }: WireClient
  ): Promise<Record<string, unknown>> => {
    service.throwIfClosing()
    const { uri } = paramsOf(message)
    if (!isUri(uri)) throw badUri()
    const declaration = declarationOf(message, resourceStreamingIn(capabilities))
    if (declaration === undefined) throw notDeclared(uri)
    const wanted = {
      uri,
      owner,
      sessionId: undefined,
      revision: revisionIn(message),
      envelope: envelopeOf(message),
      maxStreamSize: maxStreamSizeOf(declaration)
    }
    const work = new Waiting()
    const gone = (): void => work.gone()
    signal.addEventListener('abort', gone)
    try {
      return await service.openOnWire(
        work,
        wanted,
        ({ facts }) => downloads.ticketFor(wanted, facts, publicUrl, { sessionId, ask }),
        ask
      )
    } finally {
      signal.removeEventListener('abort', gone)
    }
  }
  return {
    isAbout: isOfResources,
    speakOf: (method, result) => speakingOfStreams(method, result, service.isStreamable),
    answer: async (message, wire) => {
      const { id } = message
      try {
        const result = await resultOnWire(message, wire)
        return { jsonrpc: '2.0', id, result }
      } catch (error) {
        const { uri } = paramsOf(message)
        const failure = service.failureOf(error) ?? internalError(isUri(uri) ? uri : undefined)
        const { code, message: text, data } = failure
        const told = { code, message: text, ...(data !== undefined && { data }) }
        return { jsonrpc: '2.0', id, error: told }
      }
    },
    ended: (sessionId, owner) => downloads.tickets.endSession(sessionId, owner)
  }
}

type ResourceMessage = Message & { readonly id: RequestId }

function badUri(): ResourceError {
  return invalidParams(`uri ${URI_RULE}`)
}

function notDeclared(uri: string): ResourceError {
  const suggestion =
    'Declare the client capability resourceStreaming, in initialize or in _meta of the request'
  return notSupported({ uri, suggestion })
}
