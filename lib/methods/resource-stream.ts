// `resources/stream` (SEP-2532): the POST that asks for a resource, and the download URLs that are made out for one.
import type { IncomingMessage, ServerResponse } from 'node:http'
import accepts from 'accepts'
import { faultMessage, STREAM_ERROR, type StreamFault } from '../core/errors.js'
import { isObject, isRequest, type Message, paramsOf, type RequestId } from '../core/json-rpc.js'
import { parseRevision } from '../core/protocol-version.js'
import { cameByCookie, headerOf, isForeignOrigin, mayRead, sessionOf } from '../http/guards.js'
import type { House } from '../http/house.js'
import { refuse } from '../http/reply.js'
import { rewriteAnswer } from '../http/rewrite-answer.js'
import { contentTypeOf, type Progress } from './deliver.js'
import { DownloadTickets, type Ticket } from './download-tickets.js'
import { downloadNames, downloadUrl } from './download-url.js'
import { discardSource, ResourceDesk } from './resource-desk.js'
import {
  answerError,
  answerJson,
  canAnswer,
  clearHead,
  internalError,
  INVALID_PARAMS,
  notSupported,
  ResourceError
} from './resource-errors.js'
import { headerUri } from './resource-head.js'
import { declarationOf, envelopeIn, maxStreamSizeOf, negotiationFor, revisionIn } from './resource-negotiation.js'
import { resumedFrom } from './resource-ranges.js'
import type { Source } from './resource-source.js'
import type { ResourceSettings } from './resource-types.js'
import { Visit, type Visitor } from './visit.js'

const DOWNLOAD_METHODS = 'GET, HEAD, OPTIONS'
/** Characters of a URI as a header has it: clients take heads of 16 KiB at most. */
const LONGEST_URI = 4096

type StreamRequest = Message & { readonly id: RequestId }

export class ResourceRoom {
  readonly #settings: ResourceSettings
  readonly #house: House
  readonly #desk: ResourceDesk
  readonly #tickets: DownloadTickets

  /** `report` hears of what fails on our side. */
  constructor(settings: ResourceSettings, house: House, maxTickets: number, report: (error: Error) => void) {
    this.#settings = settings
    this.#house = house
    this.#desk = new ResourceDesk(settings, house, report)
    this.#tickets = new DownloadTickets(maxTickets, settings.ticketTtl)
  }

  /** Lets the endpoint's answers speak of streams, where they speak of resources. */
  negotiate(req: IncomingMessage, res: ServerResponse, messages: readonly Message[]): void {
    const { sessions } = this.#house
    const rewriting = negotiationFor(messages, sessions, this.#settings.streamable, error => this.#desk.tell(error))
    if (rewriting === undefined) return
    // Nor could what has been compressed behind us be read.
    leaveUncompressed(req)
    rewriteAnswer(res, rewriting)
  }

  /** The request for a resource that a body is. In a batch it is the endpoint's: there is only one response to put bytes in. */
  requestIn(body: unknown): StreamRequest | undefined {
    return isObject(body) && body['method'] === 'resources/stream' && isRequest(body) ? body : undefined
  }

  /** Answers a POST that asks for a resource. */
  answer(req: IncomingMessage, res: ServerResponse, message: StreamRequest, owner: string): Promise<void> {
    const visit = new Visit(req, res)
    const { uri } = paramsOf(message)
    const fail = (error: ResourceError | undefined): void =>
      answerError(res, message.id, error ?? internalError(isUri(uri) ? uri : undefined))
    return this.#desk.serve(visit, () => this.#answer(visit, message, owner), fail)
  }

  async #answer(visit: Visit, message: StreamRequest, owner: string): Promise<void> {
    const { req, res } = visit
    leaveUncompressed(req)
    if (this.#house.isClosing) throw closing()
    const sessionId = sessionOf(req)
    const revision =
      (sessionId === undefined ? undefined : this.#house.sessions.revisionOf(sessionId)) ??
      parseRevision(headerOf(req, 'mcp-protocol-version')) ??
      parseRevision(revisionIn(message))
    const visitor: Visitor = { owner, sessionId, revision, envelope: envelopeIn(message), maxStreamSize: undefined }
    // Before anything else: who may not ask learns nothing, not even that the question was wrong.
    if (!(await this.#desk.admits(visit, visitor))) return

    const { uri } = paramsOf(message)
    if (!isUri(uri))
      throw new ResourceError(
        INVALID_PARAMS,
        `Invalid params: uri must be an absolute URI of at most ${LONGEST_URI} characters, percent-encoded`
      )
    const inSession = sessionId === undefined ? undefined : this.#house.sessions.resourceStreamingOf(sessionId)
    const declaration = declarationOf(message, inSession)
    if (declaration === undefined)
      throw notSupported({
        uri,
        suggestion: 'Declare the client capability resourceStreaming, in initialize or in _meta of the request'
      })
    const maxStreamSize = maxStreamSizeOf(declaration)
    await this.#deliver(visit, { ...visitor, maxStreamSize }, uri, message.id)
    this.#house.debug('resource answered with %d', res.statusCode)
  }

  async #deliver(visit: Visit, visitor: Visitor, uri: string, id: RequestId): Promise<void> {
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
    return this.#desk.send(visit, visitor, source, false, newProgress())
  }

  /** [SEP-2532, download URL mode] */
  #makeOut(res: ServerResponse, visitor: Visitor, { facts }: Source, publicUrl: string, id: RequestId): void {
    const { uri, mimeType, size } = facts
    const ticket = this.#tickets.issue({ ...visitor, uri })
    const result = {
      uri,
      mimeType,
      ...(size !== undefined && { size }),
      downloadUrl: downloadUrl(publicUrl, ticket.id)
    }
    answerJson(res, JSON.stringify({ jsonrpc: '2.0', id, result }))
  }

  /** The downloads that a request's URL names; none where there are no download URLs. */
  downloadsIn(req: IncomingMessage): readonly string[] {
    return this.#settings.publicUrl === undefined || req.method === 'OPTIONS' ? [] : downloadNames(req.url ?? '')
  }

  /** Answers a request for a download URL. */
  answerDownload(
    req: IncomingMessage,
    res: ServerResponse,
    names: readonly string[],
    owner: string
  ): Promise<void> | void {
    // Before any look-up: a page that may not read downloads learns nothing about them.
    if (isForeignOrigin(req, this.#house.allowedOrigins)) return this.#refuse(res, 403, 'foreign-origin')
    if (req.method !== 'GET' && req.method !== 'HEAD')
      return this.#refuse(res, 405, 'method-not-allowed', { Allow: DOWNLOAD_METHODS })
    const ticket = names.length === 1 ? this.#tickets.get(names[0] as string) : undefined
    const session = sessionOf(req)
    // As with stream URLs: the credentials must be the same, the session may be left out.
    const isTheirs =
      ticket !== undefined &&
      mayRead(req, ticket.owner, owner) &&
      (session === undefined || ticket.sessionId === undefined || session === ticket.sessionId)
    if (!isTheirs) return this.#refuse(res, 404, 'download-unknown')
    switch (ticket.stateFor(resumedFrom(req.headers.range))) {
      case 'used':
        return this.#refuse(res, 404, 'download-unknown')
      case 'expired':
        return this.#refuse(res, 410, 'download-expired')
      case 'good':
        return this.#download(req, res, ticket)
    }
  }

  #download(req: IncomingMessage, res: ServerResponse, ticket: Ticket): Promise<void> {
    const visit = new Visit(req, res)
    const { facts } = ticket
    const work = async (): Promise<void> => {
      leaveUncompressed(req)
      if (this.#house.isClosing) throw closing()
      // A browser that follows a link has no credentials that the endpoint could judge by: its verdict is that on the request for the URL.
      if (!cameByCookie(req) && !(await this.#desk.admits(visit, facts))) return
      const source = await this.#desk.open(visit, facts, facts.uri)
      const progress = newProgress()
      let isWhole = false
      try {
        await this.#desk.send(visit, facts, source, true, progress)
        isWhole = true
      } finally {
        if (progress.hasBytes) ticket.delivered(progress.from, progress.to, source.facts.size, isWhole)
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
    if (error.status === 503) return this.#refuse(res, 503, 'closing', error.headers)
    this.#refuse(res, 404, 'resource-not-found')
  }

  #refuse(res: ServerResponse, status: number, fault: StreamFault, headers?: Record<string, string>): void {
    this.#house.debug('download URL refused with %d: %s', status, fault)
    if (status !== 500 && status !== 412 && status !== 416) this.#house.count('refused', undefined, fault)
    if (canAnswer(res)) refuse(res, status, fault, headers)
  }

  /** For a restart: short transfers end, long ones are broken off, and their clients ask for the rest elsewhere. */
  close(patience: number): Promise<void> {
    return this.#desk.close(patience)
  }
}

function isUri(uri: unknown): uri is string {
  if (typeof uri !== 'string' || uri.length > LONGEST_URI) return false
  return URL.canParse(uri) && headerUri(uri).length <= LONGEST_URI
}

function newProgress(): Progress {
  return { from: 0, to: 0, hasBytes: false }
}

function closing(): ResourceError {
  return new ResourceError(STREAM_ERROR, faultMessage('closing'), { reason: 'closing' }, 503, { Connection: 'close' })
}

/** What compresses, in front of us, would take the length away, and the ranges with it. It asks the request when the head leaves. */
function leaveUncompressed(req: IncomingMessage): void {
  delete req.headers['accept-encoding']
}

/** [SEP-2532, open question 4] Without `Accept` a client takes anything (RFC 9110, 12.5.1). */
function acceptsType(req: IncomingMessage, type: string): boolean {
  const [essence = type] = type.split(';', 1)
  return req.headers.accept === undefined || accepts(req).type([type, essence.trim()]) !== false
}
