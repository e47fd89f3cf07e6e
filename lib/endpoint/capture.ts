// From the endpoint's bytes to a stream's events: the producer's side of a taken response.
import type { RequestId } from '../protocol/json-rpc.js'
import { transientLines, withoutIds } from '../protocol/sse-lines.js'
import {
  type BlockFields,
  type BlockListener,
  dataOf,
  fieldOf,
  newFields,
  readFields
} from '../protocol/sse-fields.js'
import type { StreamFault } from '../protocol/errors.js'
import { encodeMessage, KEEP_ALIVE_COMMENT } from '../protocol/sse-writer.js'
import { isEventStreamType } from '../protocol/media-types.js'
import type { Stream } from '../streams/stream.js'
import type { Producer } from '../streams/stream-types.js'
import { writtenMessages } from '../protocol/json-splice.js'
import { BlockSplitter } from '../protocol/sse-parser.js'
import type { ByteBudget } from '../streams/event-log.js'
import type { ProgressReport } from './progress-reports.js'
import { isPlainEncoding } from './response-headers.js'
import type { ResponseCapture } from './response-capture.js'
import type { CaptureHost } from './capture-host.js'
import { EndpointResumption, type ResumedStream } from './endpoint-resumption.js'
import type { Capture, LateHead } from './capture-types.js'
import {
  decoded,
  isEncoded,
  isTooLarge,
  type LateAnswer,
  messagesIn,
  missedHeaders
} from './late-answer.js'
import { GatheredBytes } from './chunk.js'

/** Bytes of comments that are kept until there is a connection: it comes at the end of the tick. */
const LONGEST_LEADING = 64 * 1024

/** How a response of the HTTP+SSE transport of 2024-11-05 begins. */
const HTTP_SSE = /^\ufeff?(?:(?::.*)?\r?\n)*event: ?endpoint\r?\n/
/** Bytes in which that beginning must be found. */
const HTTP_SSE_LENGTH = 1024

export class EndpointCapture implements Capture, Producer, ResumedStream {
  stream: Stream | undefined
  #hasConnected = false
  #hasHead = false
  /** Lines besides events that came before the connection: its client is to have them first. */
  #leading: Uint8Array[] | undefined
  #leadingSize = 0
  readonly #response: ResponseCapture
  readonly #host: CaptureHost
  readonly #splitter: CountedSplitter
  #hasWritten = false
  /** Events parsed from the current `write()`. */
  #events = 0
  /** The response was taken before the endpoint had begun to answer. */
  readonly #isEarly: boolean
  /** What the endpoint then answers, if that is no event stream. */
  #body: LateBody | undefined
  #progress: ProgressReport | undefined
  /** Set where the endpoint gives its events ids. */
  #resumption: EndpointResumption | undefined

  constructor(response: ResponseCapture, host: CaptureHost, isEarly = false) {
    this.#response = response
    this.#host = host
    this.#isEarly = isEarly
    this.#splitter = new CountedSplitter(host.budget)
  }

  sendHead(): boolean {
    if (this.stream === undefined || this.stream.kind === 'listen') return false
    this.#response.wire.sendHead(() => this.#host.setHeaders())
    return (this.#hasHead = true)
  }

  begin(): void {
    if (this.stream === undefined) return
    if (this.#isEarly) return this.#beginEarly(this.stream)
    if (!this.#hasHead) this.#response.wire.sendHead(() => this.#host.setHeaders())
    const connection = this.#host.connect(this.stream)
    this.#hasConnected = true
    this.#progress = this.#host.reportProgress(this.stream)
    if (connection === undefined) return
    this.#response.wire.cork()
    try {
      for (const lines of this.#leading ?? []) this.stream.comment(lines)
      this.#leading = undefined
      connection.flush()
    } finally {
      this.#response.wire.uncork()
    }
    if (!connection.hasWritten && !connection.isClosed) this.#response.wire.flushHead()
  }

  #beginEarly(stream: Stream): void {
    this.#hasConnected = true
    const connection = this.#host.beginEarly(stream)
    this.#progress = this.#host.reportProgress(stream)
    if (connection === undefined || connection.isClosed) return
    connection.flush()
    // Some proxies hold a head back until the first byte of its body.
    if (!connection.hasWritten) stream.comment(KEEP_ALIVE_COMMENT)
  }

  /** The client has an interim result; what the endpoint still writes goes to another stream. */
  goOnIn(stream: Stream): void {
    this.#progress?.stop()
    this.#progress = undefined
    this.stream = stream
  }

  lateHead(head: LateHead): void {
    const isStream = head.status === 200 && isEventStreamType(head.header('content-type'))
    if (!isStream || !isPlainEncoding(head.header('content-encoding')))
      this.#body = new LateBody(head, this.#host)
  }

  write(bytes: Buffer): boolean {
    const { stream } = this
    if (stream === undefined) return false
    if (this.#body !== undefined) {
      if (!stream.isEnded && !this.#body.add(bytes)) stream.fail('overflow')
      return !stream.isEnded
    }
    const isFirst = !this.#hasWritten && !this.#hasConnected
    if (isFirst && stream.kind === 'listen' && isHttpSse(bytes)) return this.#leave(stream, bytes)
    this.#hasWritten = true
    this.#events = 0
    this.#splitter.push(bytes, this.#onBlock)
    const fault = this.#splitter.isWhole ? undefined : this.#faultOfPending()
    if (fault !== undefined) return stream.fail(fault)
    return !stream.isFull && !stream.isEnded
  }

  #faultOfPending(): StreamFault | undefined {
    const { maxEventBytes } = this.#host
    const { pending } = this.#splitter
    if (pending > maxEventBytes) return 'event-too-large'
    if (this.#splitter.count()) return undefined
    // Without room, a block of more than half of the limit fails for its own size.
    return pending > maxEventBytes / 2 ? 'event-too-large' : 'overflow'
  }

  end(): void {
    const { stream } = this
    this.#splitter.end(this.#onBlock)
    if (stream !== undefined && this.#body !== undefined) this.#body.end(stream)
    else this.closed(true)
  }

  abort(): void {
    this.closed(false)
  }

  // ResumedStream

  resumed(bytes: Buffer): boolean {
    const hasRoom = this.write(bytes)
    // The SDKs leave a stream open after they have replayed its response, for more to come.
    if (this.stream?.isOwing === false) this.stream.producerEnded()
    return hasRoom
  }

  closed(isAtWill: boolean): void {
    if (!this.#comesBack()) this.refused()
    // The endpoint wants no connection to be held: so do we, if its client comes back.
    else if (isAtWill) this.#host.disconnect(this.#resumption?.retry)
  }

  refused(): void {
    const { stream } = this
    // Its client comes back by itself, as it would have to the endpoint.
    if (stream?.kind === 'listen') stream.endpointId = this.#resumption?.lastId
    stream?.producerEnded()
  }

  /** The endpoint has closed its stream, and is asked to go on. */
  #comesBack(): boolean {
    const { stream } = this
    if (stream?.isOwing !== true || stream.isEnded) return false
    // An unfinished event comes again as a whole.
    this.#splitter.drop()
    return this.#resumption?.comeBack() === true
  }

  connectionClosed(): void {
    // The stream does not need it.
  }

  get isFull(): boolean {
    return this.stream?.isFull ?? false
  }

  drain(): void {
    this.#response.drain()
    this.#resumption?.drain()
  }

  unanswered(requestIds: readonly RequestId[]): void {
    this.#host.unanswered(requestIds)
  }

  release(): void {
    // The endpoint may keep its response for long: what is unfinished must not stay with it.
    this.#splitter.drop()
    this.#resumption?.stop()
    this.#body?.dispose()
    this.#progress?.stop()
    this.#response.release()
  }

  readonly #onBlock: BlockListener = (bytes, from, to, fields) => {
    const isNumbered = fields.hasId || (fields.dataLines === 0 && hasRetry(bytes, from, to))
    if (isNumbered) this.#resumption ??= new EndpointResumption(this, this.#host)
    if (this.#resumption?.note(bytes, from, to, fields) === false) return
    if (fields.hasId) return this.#takeWithoutIds(bytes, from, to, fields)
    if (fields.dataLines === 0) return this.#pass(bytes, from, to)
    this.#append(bytes, from, to, fields)
  }

  /** The endpoint has ids of its own: ours take their place. */
  #takeWithoutIds(bytes: Uint8Array, from: number, to: number, fields: BlockFields): void {
    const block = withoutIds(bytes, from, to)
    readFields(block, 0, fields)
    const { dataLines, dataFrom, dataTo } = fields
    const isPrimer = dataLines === 1 && dataFrom === dataTo
    if (dataLines === 0 || isPrimer) return this.#pass(block, 0, block.length)
    this.#append(block, 0, block.length, fields)
  }

  #append(bytes: Uint8Array, from: number, to: number, fields: BlockFields): void {
    this.#progress?.heard(bytes.subarray(from, to))
    this.stream?.append(bytes, from, to, fields, this.#events++ > 0)
  }

  #pass(bytes: Uint8Array, from: number, to: number): void {
    const lines = transientLines(bytes, from, to)
    if (lines.length === 0) return
    if (this.#hasConnected) return this.stream?.comment(lines)
    this.#leadingSize += lines.length
    if (this.#leadingSize > LONGEST_LEADING) return
    this.#leading ??= []
    this.#leading.push(lines)
  }

  /** The response is not ours: it goes on without us, from its first byte. */
  #leave(stream: Stream, bytes: Buffer): boolean {
    this.stream = undefined
    this.#host.left(stream)
    return this.#response.stepAside(bytes)
  }
}

function hasRetry(bytes: Uint8Array, from: number, to: number): boolean {
  return fieldOf(bytes, from, to, 'retry') !== undefined
}

function isHttpSse(bytes: Buffer): boolean {
  return HTTP_SSE.test(bytes.toString('utf8', 0, HTTP_SSE_LENGTH))
}

/** Counted in steps of so many bytes, so that whole events cost nothing. */
const COUNTED_STEP = 4096

/** Cuts an event stream into blocks, and counts the bytes of the unfinished one. */
class CountedSplitter {
  readonly #splitter = new BlockSplitter()
  readonly #budget: ByteBudget
  /** Bytes of the unfinished block that are counted. */
  #counted = 0

  constructor(budget: ByteBudget) {
    this.#budget = budget
  }

  /** Bytes of an unfinished block. */
  get pending(): number {
    return this.#splitter.pending
  }

  push(bytes: Uint8Array, onBlock: BlockListener): void {
    this.#splitter.push(bytes, onBlock)
  }

  /** There is no unfinished block, and none is counted. */
  get isWhole(): boolean {
    return this.#counted === 0 && this.#splitter.pending === 0
  }

  /** Counts what is unfinished now. `false`: there is no memory for it. */
  count(): boolean {
    const bytes = this.pending - (this.pending % COUNTED_STEP)
    const more = bytes - this.#counted
    if (more > 0 && !this.#budget.reserve(more)) return false
    if (more < 0) this.#budget.unreserve(-more)
    this.#counted = bytes
    return true
  }

  /** The endpoint has ended its response: what is pending, and is a whole message, is an event. */
  end(onBlock: BlockListener): void {
    if (this.isWhole) return
    this.#splitter.end((bytes, from, to, fields) => {
      if (isMessage(bytes, from, to, fields)) onBlock(bytes, from, to, fields)
    })
    this.count()
  }

  drop(): void {
    if (this.isWhole) return
    this.#splitter.takePending()
    this.count()
  }
}

function isMessage(bytes: Uint8Array, from: number, to: number, fields: BlockFields): boolean {
  if (fields.dataLines === 0 || !fields.isMessage) return false
  return writtenMessages(dataOf(bytes, from, to, fields)).length > 0
}

/** The body of an answer whose client has an event stream already: it becomes messages. */
class LateBody {
  readonly #head: LateHead
  readonly #host: CaptureHost
  readonly #body = new GatheredBytes()

  constructor(head: LateHead, host: CaptureHost) {
    this.#head = head
    this.#host = host
  }

  /** `false`: there is no room for it, and what has come is dropped. */
  add(bytes: Buffer): boolean {
    const size = this.#body.size + bytes.length
    if (size > this.#host.maxAnswerBytes || !this.#host.budget.reserve(bytes.length)) {
      this.dispose()
      return false
    }
    this.#body.add(bytes)
    return true
  }

  /** The endpoint has ended its answer: its messages go into the stream, which ends. */
  end(stream: Stream): void {
    if (stream.isEnded) return this.dispose()
    const answer: LateAnswer = { ...this.#head, body: this.#body.whole() }
    const missed = missedHeaders(answer)
    if (missed.length > 0) this.#host.missed(missed, answer.header('mcp-session-id'))
    if (!isEncoded(answer)) return this.#settle(stream, messagesIn(answer, stream.owed))
    decoded(answer, this.#host.maxAnswerBytes).then(
      plain => this.#settle(stream, messagesIn(plain, stream.owed)),
      (error: unknown) => {
        if (!isTooLarge(error)) return this.#settle(stream, [])
        this.dispose()
        stream.fail('overflow')
      }
    )
  }

  dispose(): void {
    this.#host.budget.unreserve(this.#body.size)
    this.#body.clear()
  }

  #settle(stream: Stream, messages: readonly string[]): void {
    this.dispose()
    for (const [i, message] of messages.entries()) {
      const block = encodeMessage(message)
      const fields = newFields()
      readFields(block, 0, fields)
      // As if in one write, because the endpoint could not be asked to wait in between.
      stream.append(block, 0, block.length, fields, i > 0)
    }
    stream.producerEnded()
  }
}
