// The id of a session in the endpoint's answers: its client gets the one that it knows.
import type { ServerResponse } from 'node:http'
import { isEventStreamType } from '../protocol/media-types.js'
import type { RequestId } from '../protocol/json-rpc.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import { AnswerReader } from '../endpoint/endpoint-answer.js'
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
import { HeadStage } from '../http/stage.js'
import type { Session } from './revivals.js'

const SESSION = 'mcp-session-id'

abstract class SessionHead extends HeadStage {
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

export class TranslatedHead extends SessionHead {
  readonly #session: Session
  readonly #mayNotify: boolean
  #isTold = false

  /** @param mayNotify its client reads the answer. */
  constructor(pipeline: ResponsePipeline, session: Session, mayNotify: boolean) {
    super(pipeline)
    this.#session = session
    this.#mayNotify = mayNotify
  }

  override writeHead(args: readonly unknown[]): ServerResponse {
    if (this.#isTold) return this.next.writeHead(args)
    const isStream = isEventStreamType(this.headerOf(args, 'content-type'))
    const head = this.#translated(args)
    const { notices } = this.#session
    if (!isStream || Number(args[0]) !== 200 || !this.#mayNotify || notices.length === 0)
      return this.next.writeHead(head)
    this.#session.notices = []
    foldHeaders(headersIn(head), (name, value) => this.next.setHeader(name, value))
    // Some SDKs name the length of a stream that has come to its end by now.
    this.pipeline.res.removeHeader('Content-Length')
    const res = this.next.writeHead(statusLineIn(head))
    for (const notice of notices) this.next.write([encodeMessage(notice)])
    return res
  }

  #translated(args: readonly unknown[]): readonly unknown[] {
    this.#isTold = true
    const { id, endpointId } = this.#session
    return this.headerOf(args, SESSION) === endpointId ? this.withId(args, id) : args
  }

  /** Where the endpoint writes no head, those behind this stage read what has been set. */
  protected override implyHead(): void {
    if (!this.#isTold) this.#translated([this.pipeline.res.statusCode])
  }
}

/** Bytes in which the result of `initialize` must come. */
const LONGEST_RESULT = 1024 * 1024

/**
 * Holds the head of an answer to `initialize` until its first message has come: what the endpoint
 * is able to do goes into the id, and the id is in the head.
 */
export class SealingHead extends SessionHead {
  readonly #requestId: RequestId
  readonly #seal: (endpointId: string, result: unknown) => string | undefined
  /** While it is held. */
  #head: readonly unknown[] | undefined
  #reader: AnswerReader | undefined
  readonly #body = new GatheredBytes()
  #hasCome = false
  #result: unknown
  #isOver = false

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
    this.#read(args)
    if (!this.#hasCome) return swallow(args)
    this.#sendHead()
    const hasRoom = this.next.write([this.#body.whole()])
    this.#body.clear()
    return swallow(args) && hasRoom
  }

  override end(args: readonly unknown[]): ServerResponse {
    if (!this.#holds([this.pipeline.res.statusCode])) return this.next.end(args)
    this.#read(args)
    this.#reader?.end()
    this.#sendHead()
    return this.next.end([this.#body.whole(), ...args.filter(arg => typeof arg === 'function')])
  }

  /** Whether the head is held, from now on or already. */
  #holds(args: readonly unknown[]): boolean {
    if (this.#isOver || this.#head !== undefined) return !this.#isOver
    const status = Number(args[0])
    const isPlain = isPlainEncoding(this.headerOf(args, 'content-encoding'))
    this.#isOver = status !== 200 || !isPlain || this.headerOf(args, SESSION) === undefined
    if (this.#isOver) return false
    this.#head = args
    this.pipeline.showHead()
    const headers = { 'content-type': [this.headerOf(args, 'content-type') ?? ''] }
    // Ids are compared as they are, whatever their type.
    const id = this.#requestId as string
    this.#reader = new AnswerReader({ status, headers }, id, LONGEST_RESULT, {
      message: () => (this.#hasCome = true),
      answered: answer => {
        this.#hasCome = true
        if (answer.kind === 'response') this.#result = answer.message.result
      }
    })
    return true
  }

  #read(args: readonly unknown[]): void {
    if (!hasChunk(args)) return
    withBytes(args[0], args[1], bytes => {
      this.#body.add(bytes)
      this.#reader?.push(bytes)
    })
  }

  #sendHead(): void {
    const head = this.#head as readonly unknown[]
    const id = this.#seal(this.headerOf(head, SESSION) as string, this.#result)
    this.#isOver = true
    this.#head = this.#reader = undefined
    this.next.writeHead(id === undefined ? head : this.withId(head, id))
  }
}
