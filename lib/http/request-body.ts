// The body of a request, whether it has been parsed in front of us or not. It is taken ahead of
// whoever reads it, and the request is left as if nobody had: it lies there until somebody does.
import { AsyncResource } from 'node:async_hooks'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { headersWhere } from '../access/guards.js'
import { costOfJson, isArrayText, memoryOf } from '../protocol/json-bounds.js'
import { type Message, MOST_MESSAGES } from '../protocol/json-rpc.js'
import { isJsonText, JSON_TYPE } from '../protocol/media-types.js'
import type { Budget } from '../streams/budget.js'
import { letBodyCome, pieceCount, piecesIn } from './node-internals.js'

type Next = (error?: unknown) => void
type ParsedRequest = IncomingMessage & { body?: unknown; _body?: boolean }

/** body-parser 1 (Express 4) leaves an empty object for a body that it does not parse. */
export function isParsed(req: IncomingMessage): boolean {
  const { body, _body } = req as ParsedRequest
  if (body === undefined) return false
  return _body === true || req.readableEnded
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
  const known = parse(bytes, 'utf-8')
  // The text stays on the request, beside what is made of it.
  return { ...known, memory: known.memory + bytes.length }
}

/** Gives those behind us another message; `text` is its JSON. */
export function replaceBody(req: IncomingMessage, message: object, text: string): void {
  const bytes = Buffer.from(text)
  const parsed = req as ParsedRequest
  if (isParsed(req))
    parsed.body =
      typeof parsed.body === 'string' ? text : Buffer.isBuffer(parsed.body) ? bytes : message
  else {
    // From Node 26 on, `read()` gives one chunk.
    while (req.readableLength > 0) req.read()
    req.unshift(bytes)
  }
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

type Charset = 'utf-8' | 'utf-16le' | 'utf-16be'

const CHARSETS: Readonly<Record<string, Charset>> = {
  'utf-8': 'utf-8',
  utf8: 'utf-8',
  'utf-16': 'utf-16le',
  'utf-16le': 'utf-16le',
  'utf-16be': 'utf-16be'
}

/** `undefined`: another charset, or compressed: inflating undoes the limit of a parser behind. */
function charsetOf(headers: IncomingHttpHeaders): Charset | undefined {
  const coding = headers['content-encoding'] ?? 'identity'
  if (coding.trim().toLowerCase() !== 'identity') return undefined
  const charset = charsetIn(headers['content-type'] ?? '')
  return Object.hasOwn(CHARSETS, charset) ? CHARSETS[charset] : undefined
}

/** Whether a `Content-Type` names UTF-8, or no charset: JSON is in UTF-8 by default. */
export function isUtf8(contentType: string): boolean {
  return CHARSETS[charsetIn(contentType)] === 'utf-8'
}

/** UTF-8 where a `Content-Type` names none. */
export function charsetIn(contentType: string): string {
  const [, charset = 'utf-8'] = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(contentType) ?? []
  return charset.toLowerCase()
}

/** Of JSON that can be read as it comes, as its head says, not longer than `limit`. */
function charsetOfMessage({ headers }: IncomingMessage, limit: number): Charset | undefined {
  const type = headers['content-type']
  if (Number(headers['content-length']) > limit) return undefined
  if (type === JSON_TYPE && headers['content-encoding'] === undefined) return 'utf-8'
  return type === undefined || isJsonText(type) ? charsetOf(headers) : undefined
}

/** Cost of what we parse beside the endpoint, at the most: any 4 MiB take less than 50 ms so. */
const MOST_COST = 4_000_000
/** Stands for every batch of too many messages, which are not looked at. */
const OVERSIZED_BATCH: readonly (Message & { readonly jsonrpc: string })[] = Array.from(
  { length: MOST_MESSAGES + 1 },
  () => ({ jsonrpc: '2.0' })
)

export interface KnownBody {
  /** `undefined`: it is no JSON, or too much to be parsed here. */
  readonly body: unknown
  /** What it was parsed from, as it was written. */
  readonly text?: string | undefined
  /** Bytes that it takes in memory, parsed; `undefined`: it has not been read here. */
  readonly memory?: number
}

interface Parsed extends KnownBody {
  readonly memory: number
  readonly isTooComplex?: boolean
}

function parse(bytes: Buffer, charset: Charset): Parsed {
  const cost = costOfJson(bytes)
  if (cost > MOST_COST) {
    const body = isArrayText(bytes) ? OVERSIZED_BATCH : undefined
    return { body, memory: 2 * bytes.length + cost, isTooComplex: true }
  }
  // [RFC 8259, 8.1] Some begin a text with a byte order mark, and parsers pass over it.
  const text =
    charset === 'utf-8'
      ? bytes.toString().replace(/^\ufeff/, '')
      : new TextDecoder(charset).decode(bytes)
  // A string takes two bytes a character as soon as it has one beyond Latin-1.
  const isShort = text.length === bytes.length && !bytes.includes('\\u')
  const memory = (isShort ? 1 : 2) * bytes.length + cost
  try {
    return { body: JSON.parse(text) as unknown, text, memory }
  } catch {
    return { body: undefined, memory }
  }
}

/** A request whose body is wanted. */
interface Incoming {
  readonly req: IncomingMessage
  readonly owner: string
  readonly instance: {
    /** Bytes up to which a body is read. */
    readonly maxBodyBytes: number
    /** Where the bytes of bodies that are waited for are counted. */
    readonly bodies: Budget
  }
}

/** `no-room`: as many bytes wait as may. `gone`: its client has left before all had come. */
type Taken = Buffer | 'too-large' | 'no-room' | 'gone'
type Done = (taken: Taken) => void
type Known<From> = (from: From, body: KnownBody) => void

const UNKNOWN: KnownBody = { body: undefined }

/**
 * `known` is not called if the client leaves before all has come. A body is unknown that is too
 * large, that is no JSON, or that is left to whoever reads it.
 */
export function readAhead<From extends Incoming>(from: From, known: Known<From>): void {
  const { req, instance } = from
  if (isParsed(req)) return known(from, parsedBody(req, instance.maxBodyBytes))
  // A parser that is called later would miss what has flowed past.
  const isReadByOthers = req.readableFlowing !== null || req.readableDidRead
  const isReadable = !isReadByOthers && !req.destroyed
  const charset = isReadable ? charsetOfMessage(req, instance.maxBodyBytes) : undefined
  if (charset === undefined) return known(from, UNKNOWN)
  takeBody(from, tellBody, known, charset)
}

function tellBody<From extends Incoming>(
  taken: Taken,
  from: From,
  known: Known<From>,
  charset: Charset
): void {
  if (taken === 'gone') return
  // Somebody in front may have begun to read it meanwhile.
  const isLeft = typeof taken === 'string' || from.req.readableFlowing !== null
  known(from, isLeft ? UNKNOWN : parse(taken, charset))
}

type ReadBody =
  | { readonly body: unknown; readonly text: string | undefined; readonly fault?: undefined }
  | {
      readonly fault: 'invalid-json' | 'body-too-large' | 'body-too-complex' | 'body-unreadable'
      readonly status: number
    }

const INVALID: ReadBody = { fault: 'invalid-json', status: 400 }

/** To its end, whatever its `Content-Type`: nobody else gets it. */
export async function readBody(from: Incoming): Promise<ReadBody> {
  const { headers, readableDidRead } = from.req
  if (isParsed(from.req)) {
    const { body, text } = parsedBody(from.req, from.instance.maxBodyBytes)
    return body === undefined ? INVALID : { body, text }
  }
  if (readableDidRead) return INVALID
  const charset = charsetOf(headers)
  const taken =
    charset && (await new Promise<Taken>(resolve => takeBody(from, resolve, undefined, charset)))
  // What lies there is dropped, and the rest of what is too large.
  from.req.resume()
  if (taken === undefined || charset === undefined) return { fault: 'body-unreadable', status: 415 }
  if (taken === 'too-large') return { fault: 'body-too-large', status: 413 }
  if (taken === 'no-room') return { fault: 'body-too-large', status: 503 }
  return taken === 'gone' ? INVALID : readBytes(taken, charset)
}

function readBytes(bytes: Buffer, charset: Charset): ReadBody {
  const { body, text, isTooComplex } = parse(bytes, charset)
  if (isTooComplex === true) return { fault: 'body-too-complex', status: 413 }
  return text === undefined ? INVALID : { body, text }
}

/** `done` is called in the async context of the caller, with what else it has been given here. */
function takeBody<From extends Incoming, With>(
  from: From,
  done: (taken: Taken, from: From, rest: With, charset: Charset) => void,
  rest: With,
  charset: Charset,
  isSecondLook = false
): void {
  const { req, instance } = from
  // Also where its client has left meanwhile: what has come whole is run.
  if (req.complete || req.readableLength > instance.maxBodyBytes)
    done(lyingIn(from), from, rest, charset)
  // The rest of the packet is parsed in this turn: most bodies are whole by its end.
  else if (!isSecondLook) setImmediate(takeBody<From, With>, from, done, rest, charset, true)
  else if (req.destroyed) done('gone', from, rest, charset)
  else new ComingBody(from, taken => done(taken, from, rest, charset)).wait()
}

/** All that has come, or that it is more than is read. */
function lyingIn({ req, instance }: Incoming): Buffer | 'too-large' {
  if (req.readableLength > instance.maxBodyBytes) return 'too-large'
  const pieces = piecesIn(req)
  return pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces)
}

/** Bytes that a piece counts for at the least: each is an object. */
const SMALLEST_PIECE = 256

/** A body that is not whole by the end of the packet that its request has come in. */
class ComingBody {
  readonly #from: Incoming
  readonly #done: Done
  #stop: ReturnType<typeof letBodyCome> | undefined
  /** Bytes that the budget knows of. */
  #counted = 0

  constructor(from: Incoming, done: Done) {
    this.#from = from
    this.#done = AsyncResource.bind(done)
  }

  wait(): void {
    const { req, instance } = this.#from
    req.once('close', this.#gone)
    this.#stop = letBodyCome(req, instance.maxBodyBytes, this.#hasMore)
    this.#hasMore()
  }

  readonly #hasMore = (): void => {
    const { req, instance } = this.#from
    if (req.complete) this.#settle(lyingIn(this.#from))
    else if (req.readableLength > instance.maxBodyBytes) this.#settle('too-large')
    else if (!this.#count()) this.#settle('no-room')
  }

  readonly #gone = (): void => this.#settle('gone')

  /** `false`: there is no room for it. A client may send single bytes. */
  #count(): boolean {
    const { req, instance, owner } = this.#from
    const held = Math.max(req.readableLength, (pieceCount(req) - 1) * SMALLEST_PIECE)
    if (!instance.bodies.hold(owner, held - this.#counted)) return false
    this.#counted = held
    return true
  }

  #settle(taken: Taken): void {
    const stop = this.#stop
    if (stop === undefined) return
    this.#stop = undefined
    const { req, instance, owner } = this.#from
    req.off('close', this.#gone)
    instance.bodies.release(owner, this.#counted)
    stop(() => this.#done(taken))
  }
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
