// The head of a forwarded request or response: JSON ahead of the body, behind its length.
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

/** Bytes of the length. */
const LENGTH = 4
/** The most bytes of a head. Node takes heads of 16 KiB, and applications may allow more. */
const LONGEST = 1024 * 1024

export function encodeHead(head: RequestHead | RelayedHead): Buffer {
  const json = Buffer.from(JSON.stringify(head))
  const bytes = Buffer.allocUnsafe(LENGTH + json.length)
  bytes.writeUInt32BE(json.length)
  bytes.set(json, LENGTH)
  return bytes
}

/** Reads a head, which may come in several chunks. No chunk has bytes of both head and body. */
export class HeadReader<Head> {
  #bytes = Buffer.alloc(0)

  /** `undefined`: it is not complete yet. Throws if it is too long, or no JSON. */
  read(bytes: Uint8Array): Head | undefined {
    this.#bytes = Buffer.concat([this.#bytes, bytes])
    if (this.#bytes.length < LENGTH) return undefined
    const end = LENGTH + this.#bytes.readUInt32BE()
    if (end > LONGEST) throw new Error('The head of a relayed message is too long')
    if (this.#bytes.length < end) return undefined
    return JSON.parse(this.#bytes.toString('utf8', LENGTH)) as Head
  }
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
