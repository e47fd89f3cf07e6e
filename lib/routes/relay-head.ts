// What two instances say to each other ahead of a body: a head in JSON, with its length in front.
import type { IncomingMessage } from 'node:http'
import { headerOf, headersWhere } from '../access/guards.js'
import { factsOf, type SocketFacts } from '../endpoint/loopback.js'
import { isPlainEncoding } from '../endpoint/response-headers.js'
import { parseStreamName } from '../protocol/event-id.js'
import { findLink, STREAM_PARAMETER, STREAM_RELATION } from '../protocol/link-header.js'

/** A request as it came to the instance that its client has reached. */
export interface RequestHead {
  readonly method: string
  readonly url: string
  /** A flat list, as they were sent. */
  readonly headers: readonly string[]
  /** What its guards ask the socket for. */
  readonly socket: SocketFacts
}

export interface ResponseHead {
  readonly status: number
  readonly headers: readonly (readonly [string, readonly string[]])[]
}

const LENGTH = 4
/** Bytes that a head may have: Node takes heads of 16 KiB, and applications may allow more. */
const LONGEST = 1024 * 1024

export function encodeHead(head: RequestHead | ResponseHead): Buffer {
  const json = Buffer.from(JSON.stringify(head))
  const bytes = Buffer.allocUnsafe(LENGTH + json.length)
  bytes.writeUInt32BE(json.length)
  bytes.set(json, LENGTH)
  return bytes
}

/** Reads the head ahead of a body, whose bytes never come together with its own. */
export class HeadReader<Head> {
  #bytes = Buffer.alloc(0)

  /** `undefined`: not all of it is there. Throws where it is none. */
  read(bytes: Uint8Array): Head | undefined {
    this.#bytes = Buffer.concat([this.#bytes, bytes])
    if (this.#bytes.length < LENGTH) return undefined
    const end = LENGTH + this.#bytes.readUInt32BE()
    if (end > LONGEST) throw new Error('The head of a relayed message is too long')
    if (this.#bytes.length < end) return undefined
    return JSON.parse(this.#bytes.toString('utf8', LENGTH)) as Head
  }
}

const EVENT_STREAM = /^text\/event-stream\s*(?:;|$)/i

export function isEventStream(head: ResponseHead): boolean {
  return EVENT_STREAM.test(valuesIn(head, 'content-type')?.[0] ?? '')
}

/** The stream that a response links to. */
export function streamIn(head: ResponseHead): string | undefined {
  const links = valuesIn(head, 'link')
  const target = links && findLink(links.join(), STREAM_RELATION, 'http://localhost')
  return target && parseStreamName(target.searchParams.get(STREAM_PARAMETER) ?? '')?.id
}

/**
 * Whether the instance that has the client writes comments where the other one is silent. Both know
 * by the head alone: an event stream of ours, that nothing has compressed on its way.
 */
export function takesComments(head: ResponseHead): boolean {
  const isPlain = isPlainEncoding(valuesIn(head, 'content-encoding')?.join())
  return isPlain && isEventStream(head) && streamIn(head) !== undefined
}

function valuesIn({ headers }: ResponseHead, wanted: string): readonly string[] | undefined {
  return headers.find(([name]) => name.toLowerCase() === wanted)?.[1]
}

/** Of the connection that a request came over, and not of the request (RFC 9110, 7.6.1). */
const OF_CONNECTION =
  /^(?:connection|expect|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade)$/i

const OF_BODY = /^content-(?:length|encoding|type)$/i

/** A request below the path that the middleware is mounted at. */
export type MountedRequest = IncomingMessage & { readonly originalUrl?: string }

/** @param body where it has been read already; `undefined`: it follows as it comes. */
export function requestHead(req: MountedRequest, body: string | undefined): RequestHead {
  const hasBody = body !== undefined
  const headers = headersWhere(
    req.rawHeaders,
    name => !OF_CONNECTION.test(name) && !(hasBody && OF_BODY.test(name))
  )
  if (hasBody) {
    const length = String(Buffer.byteLength(body))
    headers.push('Content-Type', 'application/json', 'Content-Length', length)
  }
  const url = req.originalUrl ?? req.url ?? '/'
  return { method: req.method ?? 'GET', url, headers, socket: factsOf(req.socket) }
}

export function acceptsEvents(req: IncomingMessage): boolean {
  return headerOf(req, 'accept')?.includes('text/event-stream') === true
}
