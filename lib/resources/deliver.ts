// Sends a resource: a redirect, or the bytes of a file or another source, whole or the part that
// was asked for.
import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { STREAM_ERROR } from '../protocol/errors.js'
import { hasNativeWrite } from '../endpoint/node-internals.js'
import { canAnswer } from '../endpoint/reply.js'
import { FilePart } from './file-part.js'
import { ResourceError, tooLarge } from './resource-errors.js'
import { headerUri, setHead, setProtection, typeInAnswer } from './resource-head.js'
import { partOf } from './resource-ranges.js'
import { discardBytes, discardSource, readableOf, type Source } from './resource-source.js'
import { ClientGone, sendBytes } from './send-bytes.js'
import type { Part } from './ticket-delivery.js'
import type { ResourceRequest } from './resource-request.js'

export interface Delivery {
  readonly limit: number | undefined
  readonly timeout: number | null
  /** How large the pieces of a file are. */
  readonly pieceSize: number
  /** The response is one to a GET or HEAD of a download URL, not to a POST. */
  readonly isDownload: boolean
  /**
   * Told which bytes are about to be sent, if any are. What it throws is the answer in their place.
   */
  readonly onPart?: ((part: Part) => void) | undefined
}

/**
 * Resolves when the response has been handed to the system. Rejects while there is still an answer
 * to give, or with a response that is broken.
 */
export async function deliver(
  request: ResourceRequest,
  source: Source,
  delivery: Delivery
): Promise<void> {
  if (source.kind === 'redirect') return redirect(request, source)
  return deliverBytes(request, source, delivery)
}

export function contentTypeOf(source: Source, isDownload: boolean): string {
  return isDownload ? source.facts.mimeType : typeInAnswer(source.facts.mimeType)
}

/** [SEP-2532, redirect mode] 302, for 307 would POST the request to the storage. */
function redirect(
  request: ResourceRequest,
  { location, facts }: Source & { kind: 'redirect' }
): void {
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

type ByteSource = Exclude<Source, { readonly kind: 'redirect' }>

async function deliverBytes(
  request: ResourceRequest,
  source: ByteSource,
  delivery: Delivery
): Promise<void> {
  const { req, res } = request
  const { facts } = source
  const part = partOf(req.headers, facts, delivery.isDownload)
  if (part.status === 412 || part.status === 416) {
    discardSource(source)
    throw refusedPart(part.status, facts.uri, facts.size)
  }
  const setOwnHead = (): void => {
    // Somebody in front may have answered while the source was opened.
    if (!canAnswer(res)) throw new ClientGone()
    request.isSending = true
    setHead(res, facts, contentTypeOf(source, delivery.isDownload))
    res.statusCode = part.status
    if (part.status === 304) return void res.removeHeader('Content-Type')
    const { start, end } = part
    if (part.status === 206)
      res.setHeader('Content-Range', `bytes ${start}-${(end ?? 0) - 1}/${facts.size}`)
    if (end !== undefined) res.setHeader('Content-Length', end - start)
  }
  if (part.status === 304 || req.method === 'HEAD') {
    discardSource(source)
    setOwnHead()
    return void res.end()
  }
  const { start, end } = part
  const sent = { from: start, to: start, end: end ?? Infinity }
  try {
    delivery.onPart?.(sent)
  } catch (error) {
    discardSource(source)
    throw error
  }
  const { bytes, onTaken } = await openBytes(request, source, start, end, delivery)
  const { limit, timeout } = delivery
  await sendBytes(bytes, res, {
    size: end === undefined ? undefined : end - start,
    limit: end === undefined ? limit : undefined,
    tooLarge: () => tooLarge(facts.uri, undefined, limit ?? 0),
    timeout,
    signal: request.signal,
    begin: () => {
      setOwnHead()
      res.writeHead(part.status)
    },
    onBytes: count => void (sent.to += count),
    onTaken
  })
}

interface OpenBytes {
  readonly bytes: Readable
  readonly onTaken?: (piece: Uint8Array) => void
}

async function openBytes(
  request: ResourceRequest,
  source: ByteSource,
  start: number,
  end: number | undefined,
  { timeout, pieceSize }: Delivery
): Promise<OpenBytes> {
  if (source.kind === 'file') return openPart(request.res, source, start, end ?? 0, pieceSize)
  return { bytes: readableOf(await request.wait(source.read(start, end), timeout, discardBytes)) }
}

function openPart(
  res: ServerResponse,
  { handle }: Source & { kind: 'file' },
  start: number,
  end: number,
  pieceSize: number
): OpenBytes {
  const isReusing = hasNativeWrite(res)
  const bytes = new FilePart(handle, start, end, pieceSize, isReusing)
  return isReusing ? { bytes, onTaken: piece => bytes.release(piece) } : { bytes }
}

function refusedPart(status: 412 | 416, uri: string, size: number | undefined): ResourceError {
  if (status === 412)
    return new ResourceError(
      STREAM_ERROR,
      'Precondition failed',
      { uri, reason: 'precondition-failed' },
      412
    )
  const data = { uri, reason: 'range-not-satisfiable', ...(size !== undefined && { size }) }
  return new ResourceError(STREAM_ERROR, 'Range not satisfiable', data, 416, {
    'Content-Range': `bytes */${size}`
  })
}
