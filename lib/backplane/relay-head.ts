// The head of a forwarded request or response: JSON in the first chunk, ahead of the body.
import type { IncomingMessage } from 'node:http'
import { headersWhere } from '../access/guards.js'
import { type RelayKind, socketFactsOf, type SocketFacts } from '../http/loopback.js'
import { isPlainEncoding } from '../http/response-headers.js'
import { parseStreamName } from '../protocol/event-id.js'
import { findLink, STREAM_PARAMETER, STREAM_RELATION } from '../protocol/link-header.js'
import { isEventStreamType } from '../protocol/media-types.js'

export interface RequestHead {
  readonly kind: RelayKind
  readonly method: string
  readonly url: string
  /** Names and values in turn, as in `rawHeaders` of Node. */
  readonly headers: readonly string[]
  /** What the code in front of the endpoint may ask the socket for. */
  readonly socket: SocketFacts
}

export interface RelayedHead {
  /** The other instance leaves, and has not begun it: it is to be answered elsewhere. */
  readonly isHandedBack: boolean
  readonly status: number
  readonly headers: readonly (readonly [string, readonly string[]])[]
}

export function encodeHead(head: RequestHead | RelayedHead): Buffer {
  return Buffer.from(JSON.stringify(head))
}

/**
 * Reads a head. Node takes heads of 16 KiB, which one chunk has room for; where an application
 * allows more, this throws for a head that is cut off by the end of its chunk.
 */
export function decodeHead<Head>(chunk: Uint8Array): Head {
  return JSON.parse(Buffer.from(chunk).toString()) as Head
}

export function isEventStream(head: RelayedHead): boolean {
  return isEventStreamType(valuesIn(head, 'content-type')?.[0])
}

export function streamIn(head: RelayedHead): string | undefined {
  const links = valuesIn(head, 'link')
  const target = links && findLink(links.join(), STREAM_RELATION, 'http://localhost')
  return target && parseStreamName(target.searchParams.get(STREAM_PARAMETER) ?? '')?.id
}

/** Whether the client's instance writes comments: into our event streams, uncompressed. */
export function takesComments(head: RelayedHead): boolean {
  const isPlain = isPlainEncoding(valuesIn(head, 'content-encoding')?.join())
  return isPlain && isEventStream(head) && streamIn(head) !== undefined
}

function valuesIn({ headers }: RelayedHead, wanted: string): readonly string[] | undefined {
  return headers.find(([name]) => name.toLowerCase() === wanted)?.[1]
}

/** Headers of a connection, which are not forwarded (RFC 9110, section 7.6.1). */
const OF_CONNECTION =
  /^(?:connection|expect|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade)$/i

/** Headers of a body, which are written anew if it was read. */
const OF_BODY = /^content-(?:length|encoding|type)$/i

/** A request to Express: `url` lacks the path that the middleware is mounted at. */
export type MountedRequest = IncomingMessage & { readonly originalUrl?: string }

/** @param body the body if it was read already; `undefined`: it follows as it comes. */
export function requestHead(
  req: MountedRequest,
  kind: RelayKind,
  body: string | undefined
): RequestHead {
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
  return { kind, method: req.method ?? 'GET', url, headers, socket: socketFactsOf(req.socket) }
}
