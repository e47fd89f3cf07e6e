// Sends a resource: a redirect, or bytes, whole or the part that was asked for.
import { Readable } from 'node:stream'
import type { FileHandle } from 'node:fs/promises'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import fresh from 'fresh'
import parseRange from 'range-parser'
import { NATIVE_WRITE } from '../http/node-internals.js'
import { canAnswer } from '../http/reply.js'
import { preconditionFailed, rangeNotSatisfiable, tooLarge } from './resource-errors.js'
import {
  headerUri,
  type ResourceFacts,
  setHead,
  setProtection,
  typeInAnswer
} from './resource-head.js'
import type { ResourceRequest } from './resource-request.js'
import { discardBytes, readableOf, type Source } from './resource-source.js'
import { ClientGone, sendBytes } from './send-bytes.js'

export interface Delivery {
  readonly limit: number | undefined
  readonly timeout: number | null
  readonly pieceSize: number
  /** The response is one to a GET or HEAD of a download URL, not to a POST. */
  readonly isDownload: boolean
  /** The resource has been sent as a whole, to a client that has named no range. */
  readonly onWhole?: (() => void) | undefined
}

type Redirect = Source & { readonly kind: 'redirect' }
type ByteSource = Exclude<Source, Redirect>
type BytePart = Extract<Part, { readonly start: number }>

/** If it rejects after the head, the response must be broken off. */
export async function deliver(
  request: ResourceRequest,
  source: Source,
  delivery: Delivery
): Promise<void> {
  if (source.kind === 'redirect') return redirect(request, source)
  const { req, res } = request
  const { uri } = source.facts
  const part = partOf(req, source.facts)
  if (part.status === 412) throw preconditionFailed(uri)
  if (part.status === 416) throw rangeNotSatisfiable(uri, part.size)
  if (part.status === 304 || req.method === 'HEAD') {
    beginResponse(request, source, part, delivery.isDownload)
    return void res.end()
  }
  await sendPart(request, source, part, delivery)
  if (part.status === 200) delivery.onWhole?.()
}

export function contentTypeOf(source: Source, isDownload: boolean): string {
  return isDownload ? source.facts.mimeType : typeInAnswer(source.facts.mimeType)
}

/** [SEP-2532, redirect mode] With a 307, a client would repeat its POST at the storage. */
function redirect(request: ResourceRequest, { location, facts }: Redirect): void {
  const { res } = request
  request.isSending = true
  setProtection(res)
  res.writeHead(302, {
    Location: location,
    'MCP-Resource-Uri': headerUri(facts.uri),
    'Content-Length': 0
  })
  res.end()
}

/** Sets the head of a response with bytes, of the answer to a HEAD, or of a 304. */
function beginResponse(
  request: ResourceRequest,
  source: ByteSource,
  part: BytePart | (Part & { readonly status: 304 }),
  isDownload: boolean
): void {
  const { res } = request
  const { facts } = source
  // Earlier middleware may have answered while the source was opened.
  if (!canAnswer(res)) throw new ClientGone()
  request.isSending = true
  setHead(res, facts, contentTypeOf(source, isDownload))
  res.statusCode = part.status
  if (part.status === 304) return void res.removeHeader('Content-Type')
  const { start, end } = part
  if (part.status === 206)
    res.setHeader('Content-Range', `bytes ${start}-${part.end - 1}/${facts.size}`)
  if (end !== undefined) res.setHeader('Content-Length', end - start)
}

async function sendPart(
  request: ResourceRequest,
  source: ByteSource,
  part: BytePart,
  delivery: Delivery
): Promise<void> {
  const { res, signal } = request
  const { limit, timeout, pieceSize, isDownload } = delivery
  const { start, end } = part
  const isReusing = res.write === NATIVE_WRITE
  const bytes =
    source.kind === 'bytes'
      ? readableOf(await request.wait(source.read(start, end), timeout, discardBytes))
      : new FilePart(source.handle, start, end ?? 0, pieceSize, isReusing)
  const isTaken = isReusing && bytes instanceof FilePart
  await sendBytes(bytes, res, {
    size: end === undefined ? undefined : end - start,
    limit: end === undefined ? limit : undefined,
    tooLarge: () => tooLarge(source.facts.uri, undefined, limit ?? 0),
    timeout,
    signal,
    begin: () => {
      beginResponse(request, source, part, isDownload)
      res.writeHead(part.status)
    },
    onTaken: isTaken ? piece => bytes.release(piece) : undefined
  })
}

/** How many pieces of memory there are: one is sent while the next one is read. */
const PIECES = 2

/** It does not close the file, which its caller has opened. */
class FilePart extends Readable {
  readonly #handle: FileHandle
  /** The position of the next byte; `#end` is that of the byte after the last one. */
  #position: number
  readonly #end: number
  readonly #pieceSize: number
  /** Memory that may be used again. */
  #free: Buffer[] = []
  #made = 0
  /** Bytes are wanted, and a piece of memory is waited for. */
  #isWaiting = false
  /** Whether pieces come back by `release`. If not, each has memory of its own. */
  readonly #isReusing: boolean

  constructor(
    handle: FileHandle,
    start: number,
    end: number,
    pieceSize: number,
    isReusing: boolean
  ) {
    super({ highWaterMark: 1 })
    this.#handle = handle
    this.#position = start
    this.#end = end
    this.#pieceSize = Math.max(1, Math.min(pieceSize, end - start))
    this.#isReusing = isReusing
  }

  /** A piece has been sent: its memory may be used again. */
  release(piece: Uint8Array): void {
    if (this.destroyed) return
    this.#free.push(Buffer.from(piece.buffer))
    if (!this.#isWaiting) return
    this.#isWaiting = false
    this._read()
  }

  override _read(): void {
    const length = Math.min(this.#pieceSize, this.#end - this.#position)
    if (length <= 0) return void this.push(null)
    const memory = this.#memory()
    if (memory === undefined) {
      this.#isWaiting = true
      return
    }
    this.#handle.read(memory, 0, length, this.#position).then(
      ({ bytesRead }) => {
        this.#position += bytesRead
        // A file that has become shorter meanwhile ends here.
        this.push(bytesRead === 0 ? null : memory.subarray(0, bytesRead))
      },
      (error: Error) => void this.destroy(error)
    )
  }

  #memory(): Buffer | undefined {
    if (!this.#isReusing) return Buffer.allocUnsafeSlow(this.#pieceSize)
    if (this.#free.length > 0) return this.#free.pop()
    if (this.#made === PIECES) return undefined
    this.#made++
    return Buffer.allocUnsafeSlow(this.#pieceSize)
  }
}

/** What to answer. `end` is the byte after the last one; `undefined`: the size is not known. */
type Part =
  | { readonly status: 200; readonly start: 0; readonly end: number | undefined }
  | { readonly status: 206; readonly start: number; readonly end: number }
  | { readonly status: 304 }
  | { readonly status: 412 }
  | { readonly status: 416; readonly size: number }

type Validators = Pick<ResourceFacts, 'etag' | 'lastModified'>
type Sized = Validators & Pick<ResourceFacts, 'size'>

/** The part that a request asks for, with the conditions of RFC 9110, 13. */
function partOf(
  { method, headers }: Pick<IncomingMessage, 'method' | 'headers'>,
  facts: ResourceFacts
): Part {
  const { size, acceptsRanges } = facts
  const whole: Part = { status: 200, start: 0, end: size }
  const isRead = method !== 'POST'
  if (isPreconditionFailed(headers, facts, isRead)) return { status: 412 }
  if (isRead && isNotModified(headers, facts)) return { status: 304 }
  // [RFC 9110, 14.2] A HEAD has no ranges.
  const range = method === 'HEAD' ? undefined : freshRange(headers, facts)
  if (range === undefined || size === undefined || !acceptsRanges) return whole
  // [RFC 9110, 14.2] Invalid ranges, and several that are not adjacent, get the whole.
  const ranges = parseRange(size, range, { combine: true })
  if (ranges === -1) return { status: 416, size }
  const [only] = ranges === -2 ? [] : ranges
  if (only === undefined || (ranges as unknown[]).length > 1) return whole
  return { status: 206, start: only.start, end: only.end + 1 }
}

/** The `Range` of a request, unless its `If-Range` names another version of the resource. */
function freshRange(headers: IncomingHttpHeaders, facts: Sized): string | undefined {
  const { range, 'if-range': ifRange } = headers
  if (range === undefined || !/^ *bytes=/.test(range)) return undefined
  if (ifRange !== undefined && !matchesIfRange(String(ifRange), facts)) return undefined
  // [RFC 9110, 14.1.2] A suffix longer than the resource means all of it.
  const [, last] = /^ *bytes= *-(\d+) *$/.exec(range) ?? []
  if (last === undefined || facts.size === undefined || Number(last) <= facts.size) return range
  // An empty resource has no byte that a range could name: it is sent as a whole.
  return facts.size === 0 ? undefined : 'bytes=0-'
}

/** [RFC 9110, 13.1.5] A strong comparison: weak validators never match. */
function matchesIfRange(ifRange: string, { etag, lastModified }: Validators): boolean {
  if (ifRange.includes('"')) return ifRange === etag && !ifRange.startsWith('W/')
  return lastModified !== undefined && Date.parse(ifRange) === Date.parse(lastModified)
}

/** [RFC 9110, 13.1.2, 13.1.3] `fetch` adds `no-cache`, with which `fresh` never says 304. */
function isNotModified(
  { 'if-none-match': noneMatch, 'if-modified-since': since }: IncomingHttpHeaders,
  { etag, lastModified }: Validators
): boolean {
  const conditions = { 'if-none-match': noneMatch, 'if-modified-since': since }
  return fresh(conditions, { etag, 'last-modified': lastModified })
}

/** [RFC 9110, 13.1.1 and 13.1.4] The date counts only without `If-Match`. */
function isPreconditionFailed(
  headers: IncomingHttpHeaders,
  { etag, lastModified }: Validators,
  isRead: boolean
): boolean {
  const match = headers['if-match']
  if (match !== undefined) {
    // A strong comparison, as above. A tag may have commas in it.
    const matches = etag?.startsWith('"') && match.match(/(?:W\/)?"[^"]*"/g)?.includes(etag)
    return match !== '*' && matches !== true
  }
  const since = isRead ? Date.parse(headers['if-unmodified-since'] ?? '') : NaN
  // [RFC 9110, 13.1.4] An invalid date is ignored, and so is the condition without a date.
  return lastModified !== undefined && Date.parse(lastModified) > since
}
