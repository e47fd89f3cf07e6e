// Gives out download URLs for resources, and answers the requests for them.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { StreamFault } from '../protocol/errors.js'
import { type Elsewhere, type Here, isKnown } from '../streams/directory.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import { refuse } from '../http/reply.js'
import type { RequestContext } from '../endpoint/request-context.js'
import {
  downloadNames,
  DownloadTickets,
  downloadUrl,
  type Ticket,
  type WireOrigin
} from './download-tickets.js'
import {
  answerError,
  clearHead,
  type Failure,
  type HttpRefusal,
  ResourceError
} from './resource-errors.js'
import type { ResourceFacts } from './resource-head.js'
import { ResourceRequest, type WantedResource } from './resource-request.js'
import type { ResourceService } from './resource-service.js'
import type { Source } from './resource-source.js'

const DOWNLOAD_METHODS = 'GET, HEAD, OPTIONS'
const NOT_FOUND: HttpRefusal = { status: 404, fault: 'resource-not-found' }

export class ResourceDownloads {
  readonly tickets: DownloadTickets
  readonly #parts: InstanceParts
  readonly #service: ResourceService

  constructor(parts: InstanceParts, service: ResourceService, maxTickets: number) {
    this.#parts = parts
    this.#service = service
    this.tickets = new DownloadTickets(maxTickets, service.settings.ticketTtl, parts.newId)
    parts.sessionEnded.add((sessionId, owner) => this.tickets.endSession(sessionId, owner))
  }

  /** [SEP-2532, download URL mode] Gives out a download URL. Returns the result that names it. */
  ticketFor(
    wanted: WantedResource,
    { uri, mimeType, size }: ResourceFacts,
    publicUrl: string,
    wire?: WireOrigin
  ): Record<string, unknown> {
    const { id } = this.tickets.issue(wanted, wire)
    return {
      uri,
      mimeType,
      ...(size !== undefined && { size }),
      downloadUrl: downloadUrl(publicUrl, id)
    }
  }

  /** The downloads that a request's URL names. */
  namesIn(req: IncomingMessage): readonly string[] {
    return req.method === 'OPTIONS' ? [] : downloadNames(req.url ?? '')
  }

  answer(context: RequestContext, found: Here<Ticket, Ticket> | Elsewhere): Promise<void> | void {
    const { req, res } = context
    if (context.isForeign) return this.#refuse(res, 403, 'foreign-origin')
    if (req.method !== 'GET' && req.method !== 'HEAD')
      return this.#refuse(res, 405, 'method-not-allowed', { Allow: DOWNLOAD_METHODS })
    if (!isKnown(found) || !mayDownload(context, found.value))
      return this.#refuse(res, 404, 'download-unknown')
    if (found.kind === 'ended') return this.#refuse(res, 410, 'download-expired')
    return this.#download(context, found.value)
  }

  #download({ req, res, cameByCookie }: RequestContext, ticket: Ticket): Promise<void> {
    const request = new ResourceRequest(req, res)
    const { wire, isForAnyone, facts: wanted } = ticket
    const send = (source: Source): Promise<void> =>
      this.#service.send(request, wanted, renamed(source, wanted.filename), true, () =>
        ticket.delivered()
      )
    const work = async (): Promise<void> => {
      // A browser has no credentials on a link: the endpoint has admitted the request for the URL.
      // The ticket of a wire ends with its session.
      const isAdmitted =
        wire !== undefined ||
        isForAnyone ||
        cameByCookie ||
        (await this.#service.admits(request, wanted))
      if (isAdmitted) await this.#service.open(request, wanted, send, wire?.ask)
    }
    return this.#service.serve(request, work, failure => this.#refuseDownload(res, failure))
  }

  /** [SEP-2532, Error Handling] At a download URL, errors are HTTP statuses. */
  #refuseDownload(res: ServerResponse, failure: Failure | undefined): void {
    clearHead(res)
    if (failure === undefined) return this.#refuse(res, 500, 'resource-failed')
    // An error of the endpoint: at a download URL, it is a refusal.
    if (!(failure instanceof ResourceError)) return answerError(res, null, failure, 403)
    const { status, fault, headers } = failure.refusal ?? NOT_FOUND
    this.#refuse(res, status, fault, headers)
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

function renamed(source: Source, name: string | undefined): Source {
  return name === undefined ? source : { ...source, facts: { ...source.facts, name } }
}

/** [SEP-2532, download URL mode, 2] A link in a browser has no session, but a cookie. */
function mayDownload(context: RequestContext, ticket: Ticket): boolean {
  if (ticket.isForAnyone) return true
  // On a transport without an owner, the id is enough, as it is for streams.
  if (ticket.wire !== undefined && ticket.owner === '') return true
  if (!context.mayRead(one => one === ticket.owner)) return false
  const { session, owner, cameByCookie } = context
  if (ticket.sessionId === undefined || ticket.sessionId === session) return true
  return session === undefined && cameByCookie && ticket.owner === owner
}
