// The id of a session in the endpoint's answers: its client gets the one that it knows.
import type { ServerResponse } from 'node:http'
import { isEventStreamType } from '../protocol/media-types.js'
import { includesId, isResponse, type Message, type RequestId } from '../protocol/json-rpc.js'
import { writtenMessages } from '../protocol/json-splice.js'
import { dataOf } from '../protocol/sse-fields.js'
import { BlockSplitter } from '../protocol/sse-parser.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import { GatheredBytes, hasChunk, headersSentError, swallow, withBytes } from '../http/chunk.js'
import {
  foldHeaders,
  headerIn,
  headersIn,
  isPlainEncoding,
  statusLineIn,
  stringOf
} from '../http/response-headers.js'
import { pipelineOf, type ResponsePipeline } from '../http/response-pipeline.js'
import { Stage } from '../http/stage.js'

const SESSION = 'mcp-session-id'
const ENCODING = 'content-encoding'

abstract class SessionHead extends Stage {
  readonly kind = 'rewrite'
  protected readonly pipeline: ResponsePipeline

  constructor(pipeline: ResponsePipeline) {
    super()
    this.pipeline = pipeline
  }

  /** Adds it nearest to the endpoint: all else of ours sees the id that the client gets. */
  static addTo<T extends unknown[]>(
    this: new (pipeline: ResponsePipeline, ...rest: T) => SessionHead,
    res: ServerResponse,
    ...rest: T
  ): void {
    const pipeline = pipelineOf(res)
    pipeline.add(new this(pipeline, ...rest))
  }

  protected headerOf(args: readonly unknown[], name: string): string | undefined {
    return headerIn(headersIn(args), name) ?? stringOf(this.pipeline.res.getHeader(name))
  }

  /** The arguments of `writeHead` with another id. */
  protected withId(args: readonly unknown[], id: string): readonly unknown[] {
    foldHeaders(headersIn(args), (name, value) => this.next.setHeader(name, value))
    this.next.setHeader(SESSION, id)
    return statusLineIn(args)
  }
}

/** What the answer to a request in a session needs to know of it. */
export interface HeadedSession {
  readonly id: string
  readonly endpointId: string
  readonly hasNotices: boolean
  /** Messages in JSON that its client is to have with the next event stream. */
  takeNotices(): readonly string[]
}

export class TranslatedHead extends SessionHead {
  readonly #session: HeadedSession
  readonly #mayNotify: boolean
  #isTold = false

  /** @param mayNotify its client reads the answer. */
  constructor(pipeline: ResponsePipeline, session: HeadedSession, mayNotify: boolean) {
    super(pipeline)
    this.#session = session
    this.#mayNotify = mayNotify
  }

  override writeHead(args: readonly unknown[]): ServerResponse {
    if (this.#isTold) return this.next.writeHead(args)
    const isStream = isEventStreamType(this.headerOf(args, 'content-type'))
    const head = this.#translated(args)
    if (!isStream || Number(args[0]) !== 200 || !this.#mayNotify || !this.#session.hasNotices)
      return this.next.writeHead(head)
    foldHeaders(headersIn(head), (name, value) => this.next.setHeader(name, value))
    // Some SDKs name the length of a stream that has come to its end by now.
    this.pipeline.res.removeHeader('Content-Length')
    const res = this.next.writeHead(statusLineIn(head))
    for (const notice of this.#session.takeNotices()) this.next.write([encodeMessage(notice)])
    return res
  }

  override write(args: readonly unknown[]): boolean {
    this.#tellImplicitly()
    return this.next.write(args)
  }

  override end(args: readonly unknown[]): ServerResponse {
    this.#tellImplicitly()
    return this.next.end(args)
  }

  override flushHeaders(): void {
    this.#tellImplicitly()
    this.next.flushHeaders()
  }

  #translated(args: readonly unknown[]): readonly unknown[] {
    this.#isTold = true
    const { id, endpointId } = this.#session
    return this.headerOf(args, SESSION) === endpointId ? this.withId(args, id) : args
  }

  /** Where the endpoint writes no head, those behind this stage read what has been set. */
  #tellImplicitly(): void {
    if (!this.#isTold) this.#translated([this.pipeline.res.statusCode])
  }
}

/** Bytes in which the result of `initialize` must come. */
const LONGEST_RESULT = 1024 * 1024

/**
 * Holds the head of an answer to `initialize` until its result has come: what the endpoint is able
 * to do goes into the id, and the id is in the head.
 */
export class SealingHead extends SessionHead {
  readonly #requestId: RequestId
  readonly #seal: (endpointId: string, result: unknown) => string | undefined
  #head: readonly unknown[] | undefined
  #isOver = false
  readonly #body = new GatheredBytes()

  constructor(
    pipeline: ResponsePipeline,
    requestId: RequestId,
    seal: (endpointId: string, result: unknown) => string | undefined
  ) {
    super(pipeline)
    this.#requestId = requestId
    this.#seal = seal
  }

  override get hasHead(): boolean {
    return this.#head !== undefined || this.next.hasHead
  }

  override implicitHeader(): void {
    if (this.#head === undefined) this.next.implicitHeader()
  }

  override writeHead(args: readonly unknown[]): ServerResponse {
    if (this.#head !== undefined) throw headersSentError('write')
    return this.#holds(args) ? this.pipeline.res : this.next.writeHead(args)
  }

  override flushHeaders(): void {
    if (!this.#holds([this.pipeline.res.statusCode])) this.next.flushHeaders()
  }

  override write(args: readonly unknown[]): boolean {
    if (!this.#holds([this.pipeline.res.statusCode])) return this.next.write(args)
    this.#add(args)
    const isStream = isEventStreamType(this.headerOf(this.#head ?? [], 'content-type'))
    if (this.#body.size <= LONGEST_RESULT && !(isStream && this.#messages().length > 0))
      return swallow(args)
    this.#sendHead()
    const hasRoom = this.next.write([this.#body.whole()])
    this.#body.clear()
    return swallow(args) && hasRoom
  }

  override end(args: readonly unknown[]): ServerResponse {
    if (!this.#holds([this.pipeline.res.statusCode])) return this.next.end(args)
    this.#add(args)
    this.#sendHead()
    const callbacks = args.filter(arg => typeof arg === 'function')
    return this.next.end([this.#body.whole(), ...callbacks])
  }

  /** Whether the head is held, from now on or already. */
  #holds(args: readonly unknown[]): boolean {
    if (this.#isOver || this.#head !== undefined) return !this.#isOver
    const status = Number(args[0])
    const names = this.headerOf(args, SESSION) !== undefined
    if (status < 200 || status > 299 || !names || !isPlainEncoding(this.headerOf(args, ENCODING))) {
      this.#isOver = true
      return false
    }
    this.#head = args
    this.pipeline.showHead()
    return true
  }

  #add(args: readonly unknown[]): void {
    if (hasChunk(args)) withBytes(args[0], args[1], bytes => this.#body.add(bytes))
  }

  #sendHead(): void {
    const head = this.#head as readonly unknown[]
    const answer = this.#messages().find(
      message => isResponse(message) && includesId([this.#requestId], message.id)
    )
    const id = this.#seal(this.headerOf(head, SESSION) as string, answer?.result)
    this.#isOver = true
    this.#head = undefined
    this.next.writeHead(id === undefined ? head : this.withId(head, id))
  }

  #messages(): Message[] {
    const body = this.#body.whole()
    if (!isEventStreamType(this.headerOf(this.#head ?? [], 'content-type')))
      return writtenMessages(body.toString()).map(({ message }) => message)
    const messages: Message[] = []
    new BlockSplitter().push(body, (bytes, from, to, fields) => {
      if (fields.dataLines === 0) return
      const data = dataOf(bytes, from, to, fields)
      messages.push(...writtenMessages(data).map(({ message }) => message))
    })
    return messages
  }
}
