// Changes single messages of the endpoint, and leaves every other byte as it is.
import type { OutgoingHttpHeader, ServerResponse } from 'node:http'
import { isEventStreamType, isJsonType } from '../protocol/media-types.js'
import { isObject, type Message } from '../protocol/json-rpc.js'
import { spliceJson } from '../protocol/json-splice.js'
import { dataOf } from '../protocol/sse-fields.js'
import { withData } from '../protocol/sse-lines.js'
import { BlockSplitter } from '../protocol/sse-parser.js'
import { blocksIn, WholeBlocks } from '../protocol/whole-blocks.js'
import {
  callbackIn,
  encodingIn,
  GatheredBytes,
  headersSentError,
  swallow,
  withBytes
} from './chunk.js'
import {
  foldHeaders,
  headerIn,
  headersIn,
  isPlainEncoding,
  statusLineIn,
  stringOf
} from './response-headers.js'
import { type Layer, patchedResponse, type PatchedResponse } from './patched-response.js'

/** Reads a header of the answer, by its lower-case name. */
export type ReadHeader = (name: string) => string | undefined

export interface Rewriting {
  /**
   * Bytes of an answer, or of one event, that are looked at: of several, the most. What is larger
   * stays as it is.
   */
  readonly limit: number
  /** Shares what is unchanged with the original; `undefined`: the message stays as it is. */
  readonly rewrite?: (message: Message, header: ReadHeader) => Message | undefined
  /** Whether a head is held until the first message has come, for headers that depend on it. */
  readonly holdsHead?: (header: ReadHeader) => boolean
  /**
   * What a held head gets then. `first`: that message, or all of a JSON answer; empty if there is
   * none, or it is too large.
   */
  readonly headersFor?: (
    first: readonly Message[],
    header: ReadHeader
  ) => Readonly<Record<string, string>>
}

type HeadArguments = readonly [status: number, reason?: unknown, headers?: unknown]

/**
 * - `undecided`: there is no head yet.
 * - `untouched`: everything passes.
 * - `json`: the head and the body are held until the end.
 * - `events`: each event is held until it is whole.
 */
type State = 'undecided' | 'untouched' | 'json' | 'events'

const NOTHING = Buffer.alloc(0)
const BLANK_LINE = Buffer.from('\n\n')
const CR = 13
const LF = 10

const OF_BODY = ['ETag', 'Content-MD5', 'Digest', 'Content-Digest', 'Repr-Digest']

/** Of several, the one that is added last sees a message first. */
export function rewriteAnswer(res: ServerResponse, rewriting: Rewriting): void {
  const patched = patchedResponse(res)
  patched.rewriter(() => new RewrittenAnswer(patched)).add(rewriting)
}

class RewrittenAnswer implements Layer {
  readonly #patched: PatchedResponse
  #rewritings: readonly Rewriting[] = []
  /** Bytes that are looked at for any of them. */
  #limit = 0
  #state: State = 'undecided'
  #header: ReadHeader = () => undefined
  /** While it is held, it counts as sent: an error handler must not start another answer. */
  #head: HeadArguments | undefined
  /** The first message has not come, and headers depend on it. */
  #isHeadDue = false
  /** What has come of a JSON body, or while the head is held. */
  readonly #held = new GatheredBytes()
  readonly #events = new RewrittenEvents(json => this.#changed(json))

  constructor(patched: PatchedResponse) {
    this.#patched = patched
  }

  add(rewriting: Rewriting): void {
    this.#rewritings = [rewriting, ...this.#rewritings]
    this.#limit = Math.max(this.#limit, rewriting.limit)
  }

  get #res(): ServerResponse {
    return this.#patched.res
  }

  get #next(): Layer {
    return this.#patched.behindRewriter
  }

  // Layer

  get hasHead(): boolean {
    return this.#head !== undefined || this.#next.hasHead
  }

  implicitHeader(): void {
    if (this.#head === undefined) this.#next.implicitHeader()
  }

  writeHead(args: readonly unknown[]): ServerResponse {
    const head = args as HeadArguments
    if (this.#head !== undefined) throw headersSentError('write')
    if (this.#state === 'undecided') this.#decide(head)
    if (this.#state === 'json' || (this.#state === 'events' && this.#isHeadDue))
      return this.#holdHead(head)
    return this.#state === 'events' ? this.#sendHead(head) : this.#next.writeHead(head)
  }

  write(args: readonly unknown[]): boolean {
    this.#decideImplicitly()
    if (this.#state !== 'json' && this.#state !== 'events') return this.#next.write(args)
    const [chunk, encoding] = args
    const ready = withBytes(chunk, encoding, bytes =>
      this.#state === 'json' ? this.#holdJson(bytes) : this.#wholeEvents(bytes)
    )
    if (ready.length === 0) return swallow(args) && !this.#res.writableNeedDrain
    const callback = callbackIn(args)
    return this.#next.write(callback === undefined ? [ready] : [ready, callback])
  }

  end(args: readonly unknown[]): ServerResponse {
    this.#decideImplicitly()
    if (this.#state !== 'json' && this.#state !== 'events') return this.#next.end(args)
    const [chunk, encoding] = args
    const isChunk = typeof chunk === 'string' || chunk instanceof Uint8Array
    const last = isChunk ? Buffer.from(chunk as string, encodingIn(encoding)) : NOTHING
    const rest = this.#state === 'json' ? this.#wholeJson(last) : this.#lastEvents(last)
    const callback = callbackIn(args)
    this.#state = 'untouched'
    return this.#next.end([
      ...(rest.length > 0 ? [rest] : []),
      ...(callback === undefined ? [] : [callback])
    ])
  }

  flushHeaders(): void {
    this.#decideImplicitly()
    // The head of a JSON answer is of no use to the client before the body, and may change with it.
    if (this.#state !== 'json' && this.#head === undefined) this.#next.flushHeaders()
  }

  setHeader(name: string, value: OutgoingHttpHeader): ServerResponse {
    return this.#next.setHeader(name, value)
  }

  getHeader(name: string): OutgoingHttpHeader | undefined {
    return this.#next.getHeader(name)
  }

  destroy(error?: Error): ServerResponse {
    return this.#next.destroy(error)
  }

  // The head

  #decide(head: HeadArguments): State {
    const given = headersIn(head)
    const header: ReadHeader = name => headerIn(given, name) ?? stringOf(this.#res.getHeader(name))
    this.#header = header
    const contentType = this.#header('content-type') ?? ''
    const isPlain = isPlainEncoding(this.#header('content-encoding'))
    if (Number(head[0]) !== 200 || !isPlain) this.#state = 'untouched'
    else if (isJsonType(contentType)) this.#state = 'json'
    else this.#state = isEventStreamType(contentType) ? 'events' : 'untouched'
    this.#isHeadDue =
      this.#state !== 'untouched' &&
      this.#rewritings.some(({ holdsHead }) => holdsHead?.(header) === true)
    return this.#state
  }

  #decideImplicitly(): void {
    if (this.#state !== 'undecided') return
    const res = this.#res
    const head: HeadArguments = [res.statusCode]
    if (this.#decide(head) === 'events' && !res.headersSent) this.writeHead(head)
  }

  #holdHead(head: HeadArguments): ServerResponse {
    this.#head = head
    this.#patched.showHead()
    return this.#res
  }

  #takeHead(): HeadArguments | undefined {
    const head = this.#head
    this.#head = undefined
    return head
  }

  #sendHead(head: HeadArguments, length?: number): ServerResponse {
    const res = this.#res
    const hadLength = this.#header('content-length') !== undefined
    foldHeaders(headersIn(head), res)
    res.removeHeader('Content-Length')
    if (length !== undefined) {
      for (const name of OF_BODY) res.removeHeader(name)
      if (hadLength) res.setHeader('Content-Length', length)
    }
    return this.#next.writeHead(statusLineIn(head))
  }

  /** The first message is there, or will not come. */
  #completeHead(first: readonly Message[]): void {
    if (!this.#isHeadDue) return
    this.#isHeadDue = false
    for (const { headersFor } of this.#rewritings)
      for (const [name, value] of Object.entries(headersFor?.(first, this.#header) ?? {}))
        this.#addToHead(name, value)
  }

  #addToHead(name: string, value: string): void {
    const head = this.#head
    if (head !== undefined && head.length > 1) {
      foldHeaders(headersIn(head), this.#next)
      this.#head = statusLineIn(head) as HeadArguments
    }
    this.#next.setHeader(name, value)
    const header: ReadHeader = own => stringOf(this.#next.getHeader(own))
    this.#header = header
  }

  // The body

  /** Nothing while there is more to come; or all, once it is too large to be looked at. */
  #holdJson(bytes: Buffer): Buffer {
    this.#held.add(bytes)
    if (this.#held.size <= this.#limit) return NOTHING
    this.#state = 'untouched'
    this.#completeHead([])
    const head = this.#takeHead()
    if (head !== undefined) this.#next.writeHead(head)
    return this.#takeHeld()
  }

  #wholeJson(last: Buffer): Buffer {
    this.#held.add(last)
    const body = this.#takeHeld()
    const changed = this.#changed(body)
    this.#completeHead([])
    const head = this.#takeHead()
    if (head !== undefined) {
      if (changed === undefined) this.#next.writeHead(head)
      else this.#sendHead(head, changed.length)
    } else if (changed !== undefined && !this.#res.headersSent) {
      for (const name of OF_BODY) this.#res.removeHeader(name)
      if (this.#res.hasHeader('Content-Length'))
        this.#res.setHeader('Content-Length', changed.length)
    }
    return changed ?? body
  }

  #wholeEvents(bytes: Buffer): Buffer {
    const ready = this.#events.push(bytes)
    if (this.#events.pending <= this.#limit) return this.#behindHead(ready)
    // All that follows passes, too.
    this.#state = 'untouched'
    this.#completeHead([])
    return this.#behindHead(Buffer.concat([ready, this.#events.takeRest()]))
  }

  #lastEvents(last: Buffer): Buffer {
    const bytes = Buffer.concat([this.#wholeEvents(last), this.#events.end()])
    this.#completeHead([])
    return this.#behindHead(bytes)
  }

  /** Sends the head if it is complete; else the bytes are held as well. */
  #behindHead(bytes: Buffer): Buffer {
    if (this.#head === undefined) return bytes
    this.#held.add(bytes)
    if (this.#isHeadDue) return NOTHING
    this.#sendHead(this.#takeHead() as HeadArguments)
    return this.#takeHeld()
  }

  /** `undefined`: there was nothing to change. */
  #changed(json: Buffer): Buffer | undefined {
    if (json.length > this.#limit) return void this.#completeHead([])
    return rewrittenJson(
      json,
      // First, as others look at the headers.
      messages => this.#completeHead(messages),
      message => this.#rewritten(message)
    )
  }

  #rewritten(message: Message): Message | undefined {
    let rewritten: Message | undefined
    for (const { rewrite } of this.#rewritings)
      rewritten = rewrite?.(rewritten ?? message, this.#header) ?? rewritten
    return rewritten
  }

  #takeHeld(): Buffer {
    const bytes = this.#held.whole()
    this.#held.clear()
    return bytes
  }
}

/** Each event is held until it is whole, and every other byte stays as it is. */
class RewrittenEvents {
  readonly #changed: (json: Buffer) => Buffer | undefined
  readonly #blocks = new WholeBlocks()
  /** A block that was rewritten has ended with the CR of a CRLF, whose LF is to come. */
  #isLineFeedDue = false

  /** @param changed the data of an event as it is to be; `undefined`: it stays. */
  constructor(changed: (json: Buffer) => Buffer | undefined) {
    this.#changed = changed
  }

  /** Bytes of the event that has not come whole. */
  get pending(): number {
    return this.#blocks.pending
  }

  /** Returns the events that are whole. */
  push(bytes: Buffer): Buffer {
    // A copy: the memory of short writes is reused.
    const whole = this.#blocks.push(Buffer.from(bytes)) ?? NOTHING
    return Buffer.concat(Array.from(blocksIn(whole), block => this.#rewritten(block)))
  }

  /** Returns what has not come whole, as it is. */
  takeRest(): Uint8Array {
    return this.#blocks.takePending()
  }

  /** The same at the end, where an endpoint may leave out the blank line behind its last event. */
  end(): Uint8Array {
    const rest = this.takeRest()
    const last = Buffer.concat([rest, BLANK_LINE])
    return rewrittenEvent(last, this.#changed) ?? rest
  }

  #rewritten(block: Uint8Array): Uint8Array {
    const own = this.#isLineFeedDue && block[0] === LF ? block.subarray(1) : block
    this.#isLineFeedDue = false
    const rewritten = rewrittenEvent(own, this.#changed)
    if (rewritten === undefined) return own
    this.#isLineFeedDue = own.at(-1) === CR && own.at(-2) === LF
    return rewritten
  }
}

/** Shares what is unchanged with the original; `undefined`: the message stays as it is. */
type Rewrite = (message: Message) => Message | undefined

/** `undefined`: there is nothing to change, so that the bytes stay what they were. */
function rewrittenJson(
  json: Buffer,
  onMessages: (messages: readonly Message[]) => void,
  rewrite: Rewrite
): Buffer | undefined {
  const text = json.toString('utf8')
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return undefined
  }
  onMessages([body].flat().filter(isObject))
  let hasChanged = false
  const changed = (message: unknown): unknown => {
    const rewritten = isObject(message) ? rewrite(message) : undefined
    hasChanged ||= rewritten !== undefined
    return rewritten ?? message
  }
  const after = Array.isArray(body) ? body.map(changed) : changed(body)
  if (!hasChanged) return undefined
  try {
    return Buffer.from(spliceJson(text, body, after))
  } catch {
    // Nested too deeply to be written: what can be read is not always that shallow.
    return undefined
  }
}

/** All lines of a block stay, except that new ones replace those that held the message. */
function rewrittenEvent(
  block: Uint8Array,
  change: (data: Buffer) => Buffer | undefined
): Uint8Array | undefined {
  let rewritten: Uint8Array | undefined
  new BlockSplitter().push(block, (bytes, from, to, fields) => {
    if (fields.dataLines === 0) return
    const changed = change(Buffer.from(dataOf(bytes, from, to, fields)))
    if (changed !== undefined) rewritten = withData(bytes, from, to, changed.toString('utf8'))
  })
  return rewritten
}
