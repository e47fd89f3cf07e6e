// Links that handlers give out: download URLs in the shape of `resource_link`.
import mime from 'mime'
import { LONGEST_TIMEOUT } from '../protocol/clock.js'
import { type Envelope, envelopeIn, metaOf, revisionIn } from '../protocol/envelope.js'
import { paramsOf } from '../protocol/json-rpc.js'
import type { Caller, LinkOptions, MakeLink, ResourceLink } from '../http/handler-context.js'
import { downloadTarget, type DownloadTickets, downloadUrl } from './download-tickets.js'
import { fileName, isUri, nameInUri, URI_RULE } from './resource-head.js'
import { ENVELOPE_RULE, isShort } from './resource-negotiation.js'
import type { Requester } from './resource-request.js'

export class ResourceLinks {
  readonly #tickets: DownloadTickets
  readonly #publicUrl: string | undefined

  constructor(tickets: DownloadTickets, publicUrl: string | undefined) {
    this.#tickets = tickets
    this.#publicUrl = publicUrl
  }

  /** Keeps what it has to know of a request, and not the request itself. */
  for({ owner, session, revision, req, messages }: Caller): MakeLink {
    const [message = {}] = messages
    const requester = {
      owner,
      sessionId: session,
      revision: revision ?? revisionIn(message),
      envelope: envelopeIn(metaOf(paramsOf(message))),
      maxStreamSize: undefined
    }
    const requestUrl = req.originalUrl ?? req.url ?? ''
    return (uri, options) => this.#link(requester, requestUrl, uri, options)
  }

  #link(
    requester: Requester & { readonly envelope: Envelope },
    requestUrl: string,
    uri: string,
    options: LinkOptions = {}
  ): ResourceLink {
    if (!isUri(uri)) throw new TypeError(`link: the URI ${URI_RULE}`)
    const { ttl, anyone = false, filename } = checked(options)
    if (!isShort(requester.envelope)) throw new TypeError(`link: of the request, ${ENVELOPE_RULE}`)
    const wanted = { ...requester, uri, filename, isForAnyone: anyone }
    const { id } = this.#tickets.issue(wanted, undefined, ttl)
    const name = filename ?? nameInUri(uri) ?? uri
    const mimeType = mime.getType(nameInUri(uri) ?? '') ?? mime.getType(name)
    return {
      type: 'resource_link',
      uri:
        this.#publicUrl === undefined
          ? // Whoever gets a link for all is not to get what its maker's URL says besides.
            downloadTarget(anyone ? '' : requestUrl, id)
          : downloadUrl(this.#publicUrl, id),
      name,
      ...(mimeType !== null && { mimeType })
    }
  }
}

/** @throws {TypeError} naming the option. */
function checked(options: LinkOptions): LinkOptions {
  if (typeof options !== 'object' || (options as object | null) === null)
    throw new TypeError('link: options must be an object')
  const { ttl, filename, anyone, ...others } = options
  const [other] = Object.keys(others)
  if (other !== undefined) throw new TypeError(`link: unknown option \`${other}\``)
  if (ttl !== undefined && !(Number.isSafeInteger(ttl) && ttl >= 1 && ttl <= LONGEST_TIMEOUT))
    throw new TypeError(
      `link: \`ttl\` must be a whole number of milliseconds, 1 to ${LONGEST_TIMEOUT}`
    )
  if (anyone !== undefined && typeof anyone !== 'boolean')
    throw new TypeError('link: `anyone` must be a boolean')
  if (filename === undefined) return options
  const name = typeof filename === 'string' ? fileName(filename) : undefined
  if (name === undefined) throw new TypeError('link: `filename` must be the name of a file')
  return { ...options, filename: name }
}
