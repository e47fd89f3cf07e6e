// Sends a resource: a redirect, a file by `send`, or the bytes of a source, whole or the part that was asked for.
import type { Stats } from 'node:fs'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { sep } from 'node:path'
import send from 'send'
import { STREAM_ERROR } from '../core/errors.js'
import { mayReuse } from '../http/connections.js'
import { FilePart } from './file-part.js'
import { ResourceError } from './resource-errors.js'
import { headerUri, setHead, setProtection, typeInAnswer } from './resource-head.js'
import { freshRange, partOf } from './resource-ranges.js'
import { discardBytes, fileTag, readableOf, type Source } from './resource-source.js'
import { sendBytes } from './send-bytes.js'
import type { Visit } from './visit.js'

export interface Delivery {
  readonly limit: number | undefined
  readonly timeout: number | null
  /** How large the pieces of a file are. */
  readonly pieceSize: number
  /** The response is one to a GET or HEAD of a download URL, not to a POST. */
  readonly isDownload: boolean
}

/** What has been handed to the socket. It counts up while bytes leave. */
export interface Progress {
  from: number
  to: number
  /** There were bytes to send, and not a head alone. */
  hasBytes: boolean
}

/** Conditions that the answer to a POST has no use for. */
const OF_POST = ['range', 'if-match'] as const

/** Resolves when the response has been handed to the system. Rejects while there is still an answer to give, or with a response that is broken. */
export async function deliver(visit: Visit, source: Source, delivery: Delivery, progress: Progress): Promise<void> {
  switch (source.kind) {
    case 'redirect':
      return redirect(visit, source)
    case 'file':
      return deliverFile(visit, source, delivery, progress)
    case 'bytes':
      return deliverBytes(visit, source, delivery, progress)
  }
}

export function contentTypeOf(source: Source, isDownload: boolean): string {
  return isDownload ? source.facts.mimeType : typeInAnswer(source.facts.mimeType)
}

/** [SEP-2532, redirect mode] 302, for 307 would POST the request to the storage. */
function redirect({ res }: Visit, { location, facts }: Source & { kind: 'redirect' }): void {
  setProtection(res)
  res.writeHead(302, { Location: location, 'MCP-Resource-Uri': headerUri(facts.uri), 'Content-Length': 0 })
  res.end()
}

function deliverFile(
  { req, res, signal }: Visit,
  { path, facts, hasOwnTag }: Source & { kind: 'file' },
  { limit, timeout, pieceSize, isDownload }: Delivery,
  progress: Progress
): Promise<void> {
  return new Promise((resolve, reject) => {
    setHead(res, facts, isDownload ? facts.mimeType : typeInAnswer(facts.mimeType))
    const asked = { method: req.method, headers: headersForSend(req.headers, facts, isDownload) } as IncomingMessage
    const sender = send(asked, path.split(sep).map(encodeURIComponent).join(sep), {
      cacheControl: false,
      etag: false,
      lastModified: false,
      dotfiles: 'allow',
      index: false
    })
    let found: Stats | undefined
    sender.on('headers', (_res, _path, stats: Stats) => {
      found = stats
      // Of the file as `send` has found it: it may have changed a moment ago.
      if (!hasOwnTag) res.setHeader('ETag', fileTag(stats))
    })
    sender.on('error', (error: Error & { status?: number }) => reject(refusalOf(error, facts.uri, facts.size)))
    sender.on('directory', () => reject(new Error('The file has become a folder')))
    // Without bytes there is nothing else to wait for.
    const done = (): void => resolve()
    res.once('finish', done)
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
    // The last step of `send` that an application may take over: which bytes, and to where. Here they are counted.
    const { stream } = sender as unknown as { stream: unknown }
    if (typeof stream !== 'function') throw new TypeError('send has no step `stream`')
    Object.assign(sender, {
      stream(file: string, { start }: { start: number }) {
        const size = Number(res.getHeader('Content-Length'))
        begin(progress, start)
        res.off('finish', done)
        const isReusing = mayReuse(res)
        // Not more than that: a file that is being written to is as good as it was a moment ago.
        const isSame = ({ ino }: Stats): boolean => ino === found?.ino
        const bytes = new FilePart(file, start, start + size, pieceSize, isReusing, isSame)
        sendBytes(bytes, res, {
          size,
          limit,
          timeout,
          begin: () => undefined,
          onBytes: count => void (progress.to += count),
          onTaken: isReusing ? piece => bytes.release(piece) : undefined
        }).then(resolve, reject)
      }
    } satisfies { stream(file: string, options: { start: number }): void })
    sender.pipe(res)
  })
}

/** The conditions that `send` reads, without those that have been decided on already. */
function headersForSend(
  headers: IncomingHttpHeaders,
  facts: Parameters<typeof freshRange>[1],
  isDownload: boolean
): IncomingHttpHeaders {
  const { range: _range, 'if-range': _ifRange, ...rest } = headers
  const kept = isDownload ? rest : Object.fromEntries(OF_POST.map(name => [name, rest[name as keyof typeof rest]]))
  const range = freshRange(headers, facts)
  return range === undefined ? kept : { ...kept, range }
}

function refusalOf(error: Error & { status?: number }, uri: string, size: number | undefined): Error {
  return error.status === 412 || error.status === 416 ? refusedPart(error.status, uri, size) : error
}

async function deliverBytes(
  visit: Visit,
  source: Source & { kind: 'bytes' },
  { limit, timeout, isDownload }: Delivery,
  progress: Progress
): Promise<void> {
  const { req, res } = visit
  const { facts } = source
  const part = partOf(req.headers, facts, isDownload)
  if (part.status === 412 || part.status === 416) {
    source.discard()
    throw refusedPart(part.status, facts.uri, facts.size)
  }
  setHead(res, facts, isDownload ? facts.mimeType : typeInAnswer(facts.mimeType))
  res.statusCode = part.status
  if (part.status === 304) {
    source.discard()
    res.removeHeader('Content-Type')
    return void res.end()
  }
  const { start, end } = part
  if (part.status === 206) res.setHeader('Content-Range', `bytes ${start}-${(end ?? 0) - 1}/${facts.size}`)
  if (end !== undefined) res.setHeader('Content-Length', end - start)
  if (req.method === 'HEAD') {
    source.discard()
    return void res.end()
  }
  const bytes = readableOf(await visit.wait(source.read(start, end), timeout, discardBytes))
  begin(progress, start)
  await sendBytes(bytes, res, {
    size: end === undefined ? undefined : end - start,
    limit: end === undefined ? limit : undefined,
    timeout,
    begin: () => void res.writeHead(part.status),
    onBytes: count => void (progress.to += count)
  })
}

function begin(progress: Progress, start: number): void {
  progress.from = progress.to = start
  progress.hasBytes = true
}

function refusedPart(status: 412 | 416, uri: string, size: number | undefined): ResourceError {
  if (status === 412)
    return new ResourceError(STREAM_ERROR, 'Precondition failed', { uri, reason: 'precondition-failed' }, 412)
  const data = { uri, reason: 'range-not-satisfiable', ...(size !== undefined && { size }) }
  return new ResourceError(STREAM_ERROR, 'Range not satisfiable', data, 416, { 'Content-Range': `bytes */${size}` })
}
