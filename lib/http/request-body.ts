// The body of a request, whether it has been parsed in front of us or not.
import { isAscii } from 'node:buffer'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { headersWhere } from '../access/guards.js'
import { costOfJson, type JsonCost, type JsonSize, memoryOf } from '../protocol/json-bounds.js'
import { type Message, MOST_MESSAGES } from '../protocol/json-rpc.js'
import { isJsonText, JSON_TYPE } from '../protocol/media-types.js'

type Next = (error?: unknown) => void
type ParsedRequest = IncomingMessage & { body?: unknown; _body?: boolean }

/** body-parser 1 (Express 4) leaves an empty object for a body that it does not parse. */
export function isParsed(req: IncomingMessage): boolean {
  const { body, _body } = req as ParsedRequest
  if (body === undefined) return false
  return _body === true || req.readableEnded || (req.complete && req.readableLength === 0)
}

/** Then it is not read ahead: a parser that is called later would miss what has flowed past. */
export function isReadByOthers(req: IncomingMessage): boolean {
  return req.readableFlowing !== null || req.readableDidRead
}

/** Holds a body that flows, until `next` is called or the response is over. Returns that `next`. */
export function holdBody(req: IncomingMessage, res: ServerResponse, next: Next): Next {
  req.pause()
  const resume = (): void => void req.resume()
  res.once('close', resume)
  return error => {
    res.off('close', resume)
    req.resume()
    next(error)
  }
}

/** What a parser has left, in front or behind. Text is parsed up to `limit` bytes. */
export function parsedBody(req: IncomingMessage, limit: number): KnownBody {
  const { body } = req as ParsedRequest
  if (typeof body !== 'string' && !Buffer.isBuffer(body)) return { body }
  const bytes = Buffer.from(body)
  if (bytes.length > limit) return { body: undefined, memory: bytes.length }
  const known = knownOf(parse(bytes, 'utf-8'))
  // The text stays on the request, beside what is made of it.
  return { ...known, memory: (known.memory ?? 0) + bytes.length }
}

/** Takes what has come of a body and was not read: from Node 26 on, `read()` gives one chunk. */
export function takeBuffered(req: IncomingMessage): Buffer | string | undefined {
  const chunks: (Buffer | string)[] = []
  while (req.readableLength > 0) chunks.push(req.read() as Buffer | string)
  const [first] = chunks
  if (chunks.length < 2) return first
  return typeof first === 'string' ? chunks.join('') : Buffer.concat(chunks as Buffer[])
}

/** Gives those behind us another message; `text` is its JSON. */
export function replaceBody(req: IncomingMessage, message: object, text: string): void {
  const bytes = Buffer.from(text)
  const parsed = req as ParsedRequest
  if (isParsed(req))
    parsed.body =
      typeof parsed.body === 'string' ? text : Buffer.isBuffer(parsed.body) ? bytes : message
  else req.unshift(typeof takeBuffered(req) === 'string' ? text : bytes)
  const { headers, rawHeaders } = req
  if (headers['content-length'] !== undefined) headers['content-length'] = String(bytes.length)
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] as string).toLowerCase()
    if (name === 'content-length') rawHeaders[i + 1] = String(bytes.length)
  }
}

/** `undefined`: none. The SDK's adapters rebuild headers from `rawHeaders`, so both change. */
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

export const INVALID: ReadBody = { fault: 'invalid-json', status: 400 }

/** One that was parsed before is taken as it is. */
export function readParsed({ body }: ParsedRequest): ReadBody {
  const isText = typeof body === 'string' || Buffer.isBuffer(body)
  return isText ? readBytes(Buffer.from(body), 'utf-8') : { body, text: undefined }
}

export function readBytes(bytes: Buffer, charset: Charset): ReadBody {
  const { body, text, cost } = parse(bytes, charset)
  if (cost.size !== 'fine') return { fault: 'body-too-complex', status: 413 }
  return text === undefined ? INVALID : { body, text }
}

interface Parsed {
  readonly body?: unknown
  /** What it was parsed from, as it was written; `undefined`: it is no JSON, or too much. */
  readonly text?: string
  readonly cost: JsonCost
}

function parse(bytes: Buffer, charset: Charset): Parsed {
  const cost = costOfJson(bytes, BOUNDS)
  if (cost.size !== 'fine') return { cost }
  // [RFC 8259, 8.1] Some begin a text with a byte order mark, and parsers pass over it.
  const text =
    charset === 'utf-8'
      ? bytes.toString().replace(/^\ufeff/, '')
      : new TextDecoder(charset).decode(bytes)
  try {
    return { body: JSON.parse(text) as unknown, text, cost }
  } catch {
    return { cost }
  }
}

export type Charset = 'utf-8' | 'utf-16le' | 'utf-16be'

const CHARSETS: Readonly<Record<string, Charset>> = {
  'utf-8': 'utf-8',
  utf8: 'utf-8',
  'utf-16': 'utf-16le',
  'utf-16le': 'utf-16le',
  'utf-16be': 'utf-16be'
}

/** `undefined`: another charset, or compressed: inflating undoes the limit of a parser behind. */
export function charsetOf(headers: IncomingHttpHeaders): Charset | undefined {
  const coding = headers['content-encoding'] ?? 'identity'
  if (coding.trim().toLowerCase() !== 'identity') return undefined
  const charset = charsetIn(headers['content-type'] ?? '')
  return Object.hasOwn(CHARSETS, charset) ? CHARSETS[charset] : undefined
}

/** Whether a `Content-Type` names UTF-8, or no charset: JSON is in UTF-8 by default. */
export function isUtf8(contentType: string): boolean {
  return CHARSETS[charsetIn(contentType)] === 'utf-8'
}

function charsetIn(contentType: string): string {
  const [, charset = 'utf-8'] = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(contentType) ?? []
  return charset.toLowerCase()
}

/** Of JSON that can be read as it comes, as its head says, not longer than `limit`. */
export function charsetOfMessage({ headers }: IncomingMessage, limit: number): Charset | undefined {
  const type = headers['content-type']
  if (Number(headers['content-length']) > limit) return undefined
  if (type === JSON_TYPE && headers['content-encoding'] === undefined) return 'utf-8'
  return type === undefined || isJsonText(type) ? charsetOf(headers) : undefined
}

/** Bounds on what we parse beside the endpoint: with them, any 4 MiB take less than 50 ms. */
const BOUNDS = { parts: 100_000, elements: 250_000 }
/** Stands for every batch of too many messages, which are not looked at. */
const OVERSIZED_BATCH: readonly (Message & { readonly jsonrpc: string })[] = Array.from(
  { length: MOST_MESSAGES + 1 },
  () => ({ jsonrpc: '2.0' })
)
export interface KnownBody {
  readonly body: unknown
  readonly text?: string | undefined
  /** Bytes that it takes in memory, parsed; `undefined`: it has not been read here. */
  readonly memory?: number
}

function knownOf({ body, text, cost }: Parsed): KnownBody {
  const { size, memory } = cost
  return size === 'fine' ? { body, text, memory } : { body: unparsed(size), memory }
}

/** What stands for a body that is not parsed: there is no need to know more of it. */
function unparsed(size: Exclude<JsonSize, 'fine'>): unknown {
  return size === 'large-batch' ? OVERSIZED_BATCH : undefined
}

/** Parses what has been read: `undefined` where it is no JSON, or too much to be parsed here. */
export function parseBody(bytes: Buffer, charset: Charset): KnownBody {
  const known = knownOf(parse(bytes, charset))
  // A string takes two bytes a character as soon as it has one beyond Latin-1.
  const isShort = isAscii(bytes) && !bytes.includes('\\u')
  return isShort ? known : { ...known, memory: (known.memory ?? 0) + bytes.length }
}

const OF_HEADER = 48

/** Bytes of memory that a request takes as long as the endpoint holds it, roughly. */
export function memoryOfRequest(req: IncomingMessage, ofBody: number | undefined): number {
  const { body } = req as ParsedRequest
  let memory = ofBody ?? (body === undefined ? unreadBytes(req) : memoryOf(body))
  for (const text of req.rawHeaders) memory += text.length + OF_HEADER
  return memory + (req.url?.length ?? 0)
}

/** Of a body that was not read; without a length, the most that may have come. */
function unreadBytes({ headers, socket }: IncomingMessage): number {
  if (headers['content-length'] !== undefined) return Number(headers['content-length'])
  return headers['transfer-encoding'] === undefined ? 0 : socket.bytesRead
}
