// Reads a request's body ahead of the endpoint, and leaves the request as if nobody had read it.
import { AsyncResource } from 'node:async_hooks'
import { type IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import bodyParser from 'body-parser'
import { expectProperties } from './hidden-class.js'

/** Bytes up to which a body is read ahead: what the official SDK accepts. A larger one goes to the endpoint unseen. */
const LIMIT = 4 * 1024 * 1024

type ParsedRequest = IncomingMessage & { body?: unknown; _body?: boolean }

/** The body that a parser in front of us, or since, has left on the request. */
export function parsedBody(req: IncomingMessage): unknown {
  return (req as ParsedRequest).body
}

export type ReadBody =
  | { readonly body: unknown; readonly fault?: undefined }
  | { readonly fault: 'invalid-json' | 'body-too-large' | 'body-unreadable'; readonly status: number }

/** Reads the JSON body of a request that is ours to answer, wherever it is by now; whatever type it calls itself. */
export async function readBody(req: IncomingMessage): Promise<ReadBody> {
  const { body, _body } = req as ParsedRequest
  const isParsed = body !== undefined && (_body === true || req.readableEnded || req.complete)
  if (isParsed) return typeof body === 'string' || Buffer.isBuffer(body) ? parseJson(body.toString()) : { body }
  if (req.readableDidRead) return { fault: 'invalid-json', status: 400 }
  const error = await new Promise<HttpError | undefined>(resolve => anyJson(req, undefined as never, resolve))
  if (error === undefined) return { body: (req as ParsedRequest).body }
  if (error.status === 413) return { fault: 'body-too-large', status: 413 }
  return error.status === 415 ? { fault: 'body-unreadable', status: 415 } : { fault: 'invalid-json', status: 400 }
}

type HttpError = Error & { readonly status?: number }

function parseJson(text: string): ReadBody {
  try {
    return { body: JSON.parse(text) as unknown }
  } catch {
    return { fault: 'invalid-json', status: 400 }
  }
}

/**
 * Calls `whenRead` with the parsed JSON body, or with `undefined` where there is none to be had: invalid JSON, too large, already
 * read by somebody. What the endpoint then says about such a body is its own affair. A client that leaves half-way is
 * never heard of again: `whenRead` is not called.
 *
 * The bytes stay in the request: a parser behind us, or an endpoint that reads the raw request, finds all of them.
 */
export function readAhead(req: IncomingMessage, whenRead: (body: unknown) => void): void {
  const { body, _body } = req as ParsedRequest
  if (body !== undefined && (_body === true || req.readableEnded || req.complete)) return whenRead(body)
  if (req.readableDidRead || req.destroyed) return whenRead(undefined)
  // The parser calls from outside: what runs behind us belongs to the async context of the request.
  // (Not `AsyncResource.bind`, which costs more than all the rest of a small call.)
  const context = new AsyncResource('mcp-streams.body', { requireManualDestroy: true })
  const done = (parsed: unknown): void => context.runInAsyncScope(whenRead, undefined, parsed)

  const early = req.readableLength > 0 ? takeAndPutBack(req) : undefined
  const chunks: Buffer[] = early === undefined ? [] : [early]
  let size = early?.length ?? 0
  if (req.complete || size > LIMIT) return finish()

  // The parser pushes what arrives into the request's buffer; looking over its shoulder consumes nothing. While we wait it must
  // not stop at the buffer's mark, for nobody reads yet.
  expectProperties(req, IncomingMessage.prototype, 'aborted')
  const push = req.push
  req.push = function pushObserved(this: IncomingMessage, chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    const hasRoom = push.call(this, chunk, encoding)
    if (chunk !== null) {
      chunks.push(chunk)
      size += chunk.length
      if (size <= LIMIT) return true
      // Not before the parser has heard that there is no room: it would stop a socket that the endpoint has just started.
      req.push = push
      process.nextTick(finish)
      return hasRoom
    }
    req.push = push
    finish()
    return hasRoom
  }

  function finish(): void {
    if (size > LIMIT) done(undefined)
    else parse(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks), req.headers, done)
  }
}

function takeAndPutBack(req: IncomingMessage): Buffer | undefined {
  const bytes = req.read() as Buffer | string | null
  if (bytes === null) return undefined
  req.unshift(bytes)
  return typeof bytes === 'string' ? Buffer.from(bytes) : bytes
}

const parser = bodyParser.json({ limit: LIMIT, type: () => true })
/** Also what is no object: the error is about its being no answer then. */
const anyJson = bodyParser.json({ limit: LIMIT, type: () => true, strict: false })

function parse(bytes: Buffer, headers: IncomingHttpHeaders, done: (body: unknown) => void): void {
  if (isPlain(headers)) {
    let body: unknown
    try {
      body = JSON.parse(bytes.toString('utf8'))
    } catch {
      body = undefined
    }
    return done(body)
  }
  // Compressed, or in another charset: body-parser knows how. It reads a copy, so that the original stays unread.
  const copy = Object.assign(Readable.from([bytes]), { headers }) as unknown as ParsedRequest
  parser(copy, undefined as never, error => done(error === undefined ? copy.body : undefined))
}

function isPlain(headers: IncomingHttpHeaders): boolean {
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(headers['content-type'] ?? '')?.[1] ?? 'utf-8'
  return /^utf-?8$/i.test(charset) && (headers['content-encoding'] ?? 'identity').toLowerCase() === 'identity'
}
