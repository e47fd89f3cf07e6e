// Download URLs that are made out for resources, and the requests for them.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { StreamFault } from '../protocol/errors.js'
import { type Elsewhere, type Here, isKnown } from '../streams/directory.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import { refuse } from '../endpoint/reply.js'
import type { RequestContext } from '../endpoint/request-context.js'
import { DownloadTickets, type Ticket, type WireOrigin } from './download-tickets.js'
import { downloadNames, downloadUrl } from './download-url.js'
import { answerError, clearHead, closing, type ResourceError, usedUp } from './resource-errors.js'
import type { ResourceFacts } from './resource-head.js'
import { resumedFrom } from './resource-ranges.js'
import { leaveUncompressed, ResourceRequest, type Requester } from './resource-request.js'
import type { ResourceService } from './resource-service.js'
import type { ResourceSettings } from './resource-types.js'

const DOWNLOAD_METHODS = 'GET, HEAD, OPTIONS'

export class ResourceDownloads {
  readonly #settings: ResourceSettings
  readonly #parts: InstanceParts
  readonly #service: ResourceService
  readonly #tickets: DownloadTickets

  constructor(
    settings: ResourceSettings,
    parts: InstanceParts,
    service: ResourceService,
    maxTickets: number
  ) {
    this.#settings = settings
    this.#parts = parts
    this.#service = service
    this.#tickets = new DownloadTickets(maxTickets, settings.ticketTtl, parts.newId)
    parts.sessionEnded.add((sessionId, owner) => this.endSession(sessionId, owner))
  }

  /** Bytes of the download URLs that have been given out. */
  get remembered(): number {
    return this.#tickets.bytes
  }

  /** Those of a session are good no more. */
  endSession(sessionId: string, owner: string): void {
    this.#tickets.endSession(sessionId, owner)
  }

  /** [SEP-2532, download URL mode] Makes one out: the result that names it. */
  ticketFor(
    requester: Requester,
    { uri, mimeType, size }: ResourceFacts,
    publicUrl: string,
    wire?: WireOrigin
  ): Record<string, unknown> {
    const { id } = this.#tickets.issue({ ...requester, uri }, wire)
    return {
      uri,
      mimeType,
      ...(size !== undefined && { size }),
      downloadUrl: downloadUrl(publicUrl, id)
    }
  }

  /** The downloads that a request's URL names; none where there are no download URLs. */
  namesIn(req: IncomingMessage): readonly string[] {
    return this.#settings.publicUrl === undefined || req.method === 'OPTIONS'
      ? []
      : downloadNames(req.url ?? '')
  }

  find(id: string): Here<Ticket, Ticket> {
    return this.#tickets.find(id)
  }

  /** Answers a request for a download URL. */
  answer(context: RequestContext, found: Here<Ticket, Ticket> | Elsewhere): Promise<void> | void {
    const { req, res } = context
    if (context.isForeign) return this.#refuse(res, 403, 'foreign-origin')
    if (req.method !== 'GET' && req.method !== 'HEAD')
      return this.#refuse(res, 405, 'method-not-allowed', { Allow: DOWNLOAD_METHODS })
    if (!isKnown(found) || !mayDownload(context, found.value))
      return this.#refuse(res, 404, 'download-unknown')
    if (found.value.delivery.isOver(resumedFrom(req.headers.range)))
      return this.#refuse(res, 404, 'download-unknown')
    if (found.kind === 'ended') return this.#refuse(res, 410, 'download-expired')
    return this.#download(context, found.value)
  }

  #download({ req, res, cameByCookie }: RequestContext, ticket: Ticket): Promise<void> {
    const request = new ResourceRequest(req, res)
    const { facts } = ticket
    const work = async (): Promise<void> => {
      leaveUncompressed(req)
      if (this.#parts.isClosing) throw closing()
      // A browser that follows a link has no credentials that the endpoint could judge by: its
      // word is that on the request for the URL. A ticket of another wire ends with its session,
      // which is all that its server has to say of it.
      if (
        ticket.wire === undefined &&
        !cameByCookie &&
        !(await this.#service.admits(request, facts))
      )
        return
      const source = await this.#service.open(request, facts, facts.uri, ticket.wire?.ask)
      let over: ((isWhole: boolean) => void) | undefined
      let isWhole = false
      try {
        await this.#service.send(request, facts, source, true, part => {
          over = ticket.delivery.begin(part, source.facts.size, () => request.breakOff(usedUp()))
          if (over === undefined) throw usedUp()
        })
        isWhole = true
      } finally {
        over?.(isWhole)
      }
    }
    return this.#service.serve(request, work, error => this.#refuseDownload(res, error))
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
}

/**
 * [SEP-2532, download URL mode, 2] Who may use a download URL: the same owner, in the same session.
 * A browser that follows a link can send no session: there its owner's cookie must do.
 */
function mayDownload(context: RequestContext, ticket: Ticket): boolean {
  // On a wire without an owner its id is enough, as with its streams.
  if (ticket.wire !== undefined && ticket.owner === '') return true
  if (!context.mayRead(ticket.owner)) return false
  const { session, owner, cameByCookie } = context
  if (ticket.sessionId === undefined || ticket.sessionId === session) return true
  return session === undefined && cameByCookie && ticket.owner === owner
}
