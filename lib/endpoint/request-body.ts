// The body of a request, whether it has been parsed in front of us or not.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Duplex, Readable } from 'node:stream'
import bodyParser from 'body-parser'
import { headersWhere } from '../access/guards.js'
import { type JsonSize, sizeOfJson } from '../protocol/json-bounds.js'
import { type Message, MOST_MESSAGES } from '../protocol/json-rpc.js'
import { type BodyLimits, CountedBody } from './counted-body.js'

type ParsedRequest = IncomingMessage & { body?: unknown; _body?: boolean }

/**
 * Whether a parser has left it there already. For a body that it does not parse, body-parser 1,
 * which is in Express 4, leaves an empty object, and the bytes where they are.
 */
export function isParsed(req: IncomingMessage): boolean {
  const { body, _body } = req as ParsedRequest
  if (body === undefined) return false
  return _body === true || req.readableEnded || (req.complete && req.readableLength === 0)
}

/**
 * The body that a parser has left on the request, in front of the middleware or behind it. Text
 * and bytes are parsed here, unless there are more than `limit` bytes.
 */
export function parsedBody(req: IncomingMessage, limit: number): KnownBody {
  const { body } = req as ParsedRequest
  if (typeof body !== 'string' && !Buffer.isBuffer(body)) return { body }
  const bytes = Buffer.from(body)
  return bytes.length > limit ? { body: undefined } : knownOf(parseUtf8(bytes))
}

/**
 * Gives those behind us another message than the one that has been read ahead; `text` is its JSON.
 */
export function replaceBody(req: IncomingMessage, message: object, text: string): void {
  const bytes = Buffer.from(text)
  const parsed = req as ParsedRequest
  if (isParsed(req))
    parsed.body =
      typeof parsed.body === 'string' ? text : Buffer.isBuffer(parsed.body) ? bytes : message
  else req.unshift(typeof req.read() === 'string' ? text : bytes)
  const { headers, rawHeaders } = req
  delete headers['content-encoding']
  if (headers['content-length'] !== undefined) headers['content-length'] = String(bytes.length)
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] as string).toLowerCase()
    if (name === 'content-length') rawHeaders[i + 1] = String(bytes.length)
    if (name === 'content-encoding') rawHeaders[i + 1] = 'identity'
  }
}

/**
 * Gives those behind us another header than the one that came; `undefined`: none. The SDK's
 * adapters rebuild headers from `rawHeaders`, so it must change in both.
 */
export function replaceHeader(req: IncomingMessage, name: string, value: string | undefined): void {
  const kept = headersWhere(req.rawHeaders, other => other.toLowerCase() !== name)
  if (value === undefined) delete req.headers[name]
  else {
    req.headers[name] = value
    kept.push(name, value)
  }
  req.rawHeaders = kept
}

export type ReadBody =
  | { readonly body: unknown; readonly text: string | undefined; readonly fault?: undefined }
  | {
      readonly fault: 'invalid-json' | 'body-too-large' | 'body-too-complex' | 'body-unreadable'
      readonly status: number
    }

/**
 * Reads the JSON body of a request that we answer ourselves, whatever its `Content-Type`. One that
 * a parser has read before is taken as it is, as its cost has been paid. While it comes it is
 * counted.
 */
export async function readBody(req: IncomingMessage, limits: BodyLimits): Promise<ReadBody> {
  const { body } = req as ParsedRequest
  if (isParsed(req)) {
    if (typeof body !== 'string' && !Buffer.isBuffer(body)) return { body, text: undefined }
    return readParsed(parseUtf8(Buffer.from(body)))
  }
  if (req.readableDidRead) return { fault: 'invalid-json', status: 400 }
  const counted = await gather(req, limits)
  const { whole: bytes, isTooLarge } = counted
  counted.dispose()
  if (bytes === undefined) return { fault: 'body-too-large', status: isTooLarge ? 413 : 503 }
  const { headers } = req
  return readParsed(await new Promise(resolve => decode(bytes, headers, limits.limit, resolve)))
}

/** Resolves when all has come, or too much: the rest is then read and dropped. */
function gather(req: IncomingMessage, limits: BodyLimits): Promise<CountedBody> {
  const body = new CountedBody(limits)
  body.beginCounting()
  return new Promise(resolve => {
    const add = (chunk: Buffer | string): void => {
      if (body.add(Buffer.from(chunk))) return
      req.off('data', add).resume()
      resolve(body)
    }
    req.on('data', add)
    for (const event of ['end', 'close']) req.once(event, () => resolve(body))
  })
}

function readParsed({ body, text, size, status }: Parsed): ReadBody {
  if (size !== 'fine') return { fault: 'body-too-complex', status: 413 }
  if (status === undefined) return { body, text }
  if (status === 413) return { fault: 'body-too-large', status }
  return status === 415
    ? { fault: 'body-unreadable', status }
    : { fault: 'invalid-json', status: 400 }
}

/** A body that has been parsed, or why it has not been. */
interface Parsed {
  readonly body?: unknown
  /** What it was parsed from, as it was written, where that is known. */
  readonly text?: string | undefined
  readonly size: JsonSize
  /** Why it has not been parsed. */
  readonly status?: number | undefined
}

function parseUtf8(bytes: Buffer): Parsed {
  const size = sizeOf(bytes)
  if (size !== 'fine') return { size }
  const text = withoutMark(bytes.toString())
  try {
    return { body: JSON.parse(text) as unknown, text, size }
  } catch {
    return { size, status: 400 }
  }
}

/** [RFC 8259, 8.1] Some begin a text with a byte order mark, and parsers pass over it. */
function withoutMark(text: string): string {
  return text.replace(/^\ufeff/, '')
}

type HttpError = Error & { readonly status?: number }

/** Parses with body-parser, which knows encodings and charsets. JSON need not be an object. */
function decode(
  encoded: Buffer,
  headers: IncomingHttpHeaders,
  limit: number,
  done: (parsed: Parsed) => void
): void {
  const req = Object.assign(Readable.from([encoded]), { headers }) as unknown as ParsedRequest
  let text: string | undefined
  let size: JsonSize = 'fine'
  const verify = (_req: unknown, _res: unknown, bytes: Buffer, charset: string): void => {
    size = sizeOf(bytes)
    if (size !== 'fine') throw new RangeError('Too much to be parsed')
    if (charset === 'utf-8') text = withoutMark(bytes.toString('utf8'))
  }
  const parser = bodyParser.json({ limit, type: () => true, strict: false, verify })
  parser(req, undefined as never, (error: HttpError | undefined) =>
    done({ body: req.body, text, size, status: error && (error.status ?? 400) })
  )
}

/**
 * Whether a body is worth reading ahead: JSON, as far as its head says, and not longer than
 * `limit`.
 */
export function mayBeMessage({ headers, socket }: IncomingMessage, limit: number): boolean {
  const type = headers['content-type']
  // A body that is pulled, as in a test without a server, comes only when the endpoint reads it.
  const isPushed = socket instanceof Duplex
  return (
    isPushed &&
    (type === undefined || IS_JSON.test(type)) &&
    !(Number(headers['content-length']) > limit)
  )
}

const IS_JSON = /^\s*[\w!#$&^.+-]+\/(?:[\w!#$&^.+-]+\+)?json\s*(?:;|$)/i

/** Bounds on what we parse beside the endpoint: with them, any 4 MiB take less than 50 ms. */
const BOUNDS = { parts: 100_000, elements: 250_000 }
/** Stands for every batch of too many messages, which are not looked at. */
const OVERSIZED_BATCH: readonly (Message & { readonly jsonrpc: string })[] = Array.from(
  { length: MOST_MESSAGES + 1 },
  () => ({ jsonrpc: '2.0' })
)
/** Bytes that are parsed in a millisecond or two, whatever they are. */
const SMALL = 32 * 1024

function sizeOf(bytes: Buffer): JsonSize {
  return bytes.length <= SMALL ? 'fine' : sizeOfJson(bytes, BOUNDS)
}

interface KnownBody {
  readonly body: unknown
  readonly text?: string | undefined
}

function knownOf({ body, text, size, status }: Parsed): KnownBody {
  if (size !== 'fine') return { body: unparsed(size) }
  return status === undefined ? { body, text } : { body: undefined }
}

/** What stands for a body that is not parsed: there is no need to know more of it. */
function unparsed(size: 'large-batch' | 'large'): unknown {
  return size === 'large-batch' ? OVERSIZED_BATCH : undefined
}

/**
 * Parses what has been read, compressed or not; `undefined` where it is no JSON, or too much to be
 * parsed here. With the text that it was parsed from, if that is known.
 */
export function parseBody(
  bytes: Buffer,
  headers: IncomingHttpHeaders,
  limit: number,
  done: (body: unknown, text?: string) => void
): void {
  const parsed = (all: Parsed): void => {
    const { body, text } = knownOf(all)
    done(body, text)
  }
  if (isPlain(headers)) parsed(parseUtf8(bytes))
  else decode(bytes, headers, limit, parsed)
}

function isPlain(headers: IncomingHttpHeaders): boolean {
  return (
    isUtf8(headers['content-type'] ?? '') &&
    (headers['content-encoding'] ?? 'identity').toLowerCase() === 'identity'
  )
}

/** Whether a `Content-Type` names UTF-8, or no charset: JSON is in UTF-8 by default. */
export function isUtf8(contentType: string): boolean {
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(contentType)?.[1] ?? 'utf-8'
  return /^utf-?8$/i.test(charset)
}
