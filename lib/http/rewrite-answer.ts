// Changes single messages of the endpoint, and leaves every other byte as it is.
import type { ServerResponse } from 'node:http'
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
import { pipelineOf, type ResponsePipeline } from './response-pipeline.js'
import { Stage } from './stage.js'

/** Reads a header of the answer, by its lower-case name. */
export type ReadHeader = (name: string) => string | undefined

export interface Rewriting {
  /** Bytes of an answer, or of one event, that are looked at. What is larger stays as it is. */
  readonly limit: number
  /** Shares what is unchanged with the original; `undefined`: the message stays as it is. */
  readonly rewrite: (message: Message, header: ReadHeader) => Message | undefined
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

export function rewriteAnswer(res: ServerResponse, rewriting: Rewriting): void {
  const pipeline = pipelineOf(res)
  pipeline.add(new RewrittenAnswer(pipeline, rewriting))
}

class RewrittenAnswer extends Stage {
  readonly kind = 'rewrite'
  readonly #pipeline: ResponsePipeline
  readonly #rewriting: Rewriting
  #state: State = 'undecided'
  #head: HeadArguments | undefined
  /** While a head is held it counts as sent: an error handler must not start another answer. */
  #isHeadHeld = false
  /** What has come of a JSON body. */
  readonly #held = new GatheredBytes()
  readonly #events: RewrittenEvents

  constructor(pipeline: ResponsePipeline, rewriting: Rewriting) {
    super()
    this.#pipeline = pipeline
    this.#rewriting = rewriting
    this.#events = new RewrittenEvents(rewriting.limit, json => this.#changed(json))
  }

  get #res(): ServerResponse {
    return this.#pipeline.res
  }

  override get hasHead(): boolean {
    return this.#isHeadHeld || this.next.hasHead
  }

  override implicitHeader(): void {
    if (!this.#isHoldingHead) this.next.implicitHeader()
  }

  get #isHoldingHead(): boolean {
    return this.#state === 'json' && this.#head !== undefined
  }

  override writeHead(args: readonly unknown[]): ServerResponse {
    const head = args as HeadArguments
    if (this.#isHoldingHead) throw headersSentError('write')
    if (this.#state === 'undecided') this.#decide(head)
    switch (this.#state) {
      case 'json':
        this.#head = head
        this.#isHeadHeld = true
        this.#pipeline.showHead()
        return this.#res
      case 'events':
        return this.#sendHead(head)
      default:
        return this.next.writeHead(head)
    }
  }

  #decide(head: HeadArguments): State {
    const given = headersIn(head)
    const header: ReadHeader = name => headerIn(given, name) ?? stringOf(this.#res.getHeader(name))
    this.#header = header
    const contentType = header('content-type') ?? ''
    const isPlain = isPlainEncoding(header('content-encoding'))
    if (Number(head[0]) !== 200 || !isPlain) this.#state = 'untouched'
    else if (isJsonType(contentType)) this.#state = 'json'
    else this.#state = isEventStreamType(contentType) ? 'events' : 'untouched'
    return this.#state
  }

  #header: ReadHeader = () => undefined

  #decideImplicitly(): void {
    if (this.#state !== 'undecided') return
    const res = this.#res
    // A length that was set is not that of the body that will be sent.
    if (this.#decide([res.statusCode]) === 'events' && !res.headersSent)
      res.removeHeader('Content-Length')
  }

  #sendHead(head: HeadArguments, length?: number): ServerResponse {
    const res = this.#res
    const hadLength = this.#header('content-length') !== undefined
    foldHeaders(headersIn(head), (name, value) => res.setHeader(name, value))
    res.removeHeader('Content-Length')
    if (length !== undefined) {
      for (const name of OF_BODY) res.removeHeader(name)
      if (hadLength) res.setHeader('Content-Length', length)
    }
    return this.next.writeHead(statusLineIn(head))
  }

  override write(args: readonly unknown[]): boolean {
    this.#decideImplicitly()
    if (this.#state !== 'json' && this.#state !== 'events') return this.next.write(args)
    const [chunk, encoding] = args
    const ready = withBytes(chunk, encoding, bytes =>
      this.#state === 'json' ? this.#holdJson(bytes) : this.#wholeEvents(bytes)
    )
    if (ready.length === 0) return swallow(args) && !this.#res.writableNeedDrain
    const callback = callbackIn(args)
    return this.next.write(callback === undefined ? [ready] : [ready, callback])
  }

  override end(args: readonly unknown[]): ServerResponse {
    this.#decideImplicitly()
    if (this.#state !== 'json' && this.#state !== 'events') return this.next.end(args)
    const [chunk, encoding] = args
    const isChunk = typeof chunk === 'string' || chunk instanceof Uint8Array
    const last = isChunk ? Buffer.from(chunk as string, encodingIn(encoding)) : Buffer.alloc(0)
    const rest = this.#state === 'json' ? this.#wholeJson(last) : this.#lastEvents(last)
    const callback = callbackIn(args)
    this.#state = 'untouched'
    return this.next.end([
      ...(rest.length > 0 ? [rest] : []),
      ...(callback === undefined ? [] : [callback])
    ])
  }

  override flushHeaders(): void {
    this.#decideImplicitly()
    // The head of a JSON answer is of no use to the client before the body, and may change with it.
    if (this.#state !== 'json') this.next.flushHeaders()
  }

  /** Nothing while there is more to come; or all, once it is too large to be looked at. */
  #holdJson(bytes: Buffer): Buffer {
    this.#held.add(bytes)
    if (this.#held.size <= this.#rewriting.limit) return NOTHING
    this.#state = 'untouched'
    this.#isHeadHeld = false
    if (this.#head !== undefined) this.next.writeHead(this.#head)
    return this.#takeHeld()
  }

  #wholeJson(last: Buffer): Buffer {
    this.#held.add(last)
    const body = this.#takeHeld()
    const changed = body.length > this.#rewriting.limit ? undefined : this.#changed(body)
    const head = this.#head
    this.#head = undefined
    this.#isHeadHeld = false
    if (head !== undefined) {
      if (changed === undefined) this.next.writeHead(head)
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
    if (!this.#events.isTooLong) return ready
    // All that follows passes, too.
    this.#state = 'untouched'
    return Buffer.concat([ready, this.#events.takeRest()])
  }

  #lastEvents(last: Buffer): Buffer {
    return Buffer.concat([this.#wholeEvents(last), this.#events.end()])
  }

  /** `undefined`: there was nothing to change. */
  #changed(json: Buffer): Buffer | undefined {
    return rewrittenJson(json, message => this.#rewriting.rewrite(message, this.#header))
  }

  #takeHeld(): Buffer {
    const bytes = this.#held.whole()
    this.#held.clear()
    return bytes
  }
}

/** Each event is held until it is whole, and every other byte stays as it is. */
class RewrittenEvents {
  readonly #limit: number
  readonly #changed: (json: Buffer) => Buffer | undefined
  readonly #blocks = new WholeBlocks()
  /** A block that was rewritten has ended with the CR of a CRLF, whose LF is to come. */
  #isLineFeedDue = false

  /** @param changed the data of an event as it is to be; `undefined`: it stays. */
  constructor(limit: number, changed: (json: Buffer) => Buffer | undefined) {
    this.#limit = limit
    this.#changed = changed
  }

  /** The event that has not come whole is too large to be looked at. */
  get isTooLong(): boolean {
    return this.#blocks.pending > this.#limit
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
    return rest.length <= this.#limit ? (rewrittenEvent(last, this.#changed) ?? rest) : rest
  }

  #rewritten(block: Uint8Array): Uint8Array {
    const own = this.#isLineFeedDue && block[0] === LF ? block.subarray(1) : block
    this.#isLineFeedDue = false
    if (own.length > this.#limit) return own
    const rewritten = rewrittenEvent(own, this.#changed)
    if (rewritten === undefined) return own
    this.#isLineFeedDue = own.at(-1) === CR && own.at(-2) === LF
    return rewritten
  }
}

/** Shares what is unchanged with the original; `undefined`: the message stays as it is. */
type Rewrite = (message: Message) => Message | undefined

/** `undefined`: there is nothing to change, so that the bytes stay what they were. */
function rewrittenJson(json: Buffer, rewrite: Rewrite): Buffer | undefined {
  const text = json.toString('utf8')
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return undefined
  }
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
