// From the endpoint's bytes to a stream's events: the producer's side of a taken response.
import type { RequestId } from '../protocol/json-rpc.js'
import { transientLines, withoutIds } from '../protocol/sse-lines.js'
import {
  type BlockFields,
  type BlockListener,
  fieldOf,
  newFields,
  readFields
} from '../protocol/sse-fields.js'
import { KEEP_ALIVE_COMMENT } from '../protocol/sse-writer.js'
import type { Stream } from '../streams/stream.js'
import type { Producer } from '../streams/stream-types.js'
import type { Connection } from '../readers/connection.js'
import type { ProgressReport } from './progress-reports.js'
import { isEventStream, isPlainEncoding } from './response-headers.js'
import type { ResponseCapture } from './response-capture.js'
import type { CaptureHost, NotOurs } from './capture-host.js'
import { CountedSplitter } from './counted-splitter.js'
import { LateBody } from './late-body.js'
import type { Capture, LateHead } from './capture-types.js'

/** Bytes of comments that are kept until there is a connection: it comes at the end of the tick. */
const LONGEST_LEADING = 64 * 1024

export class EndpointCapture implements Capture, Producer {
  stream: Stream | undefined
  /**
   * The stream's first connection, as long as it is open: a call may wait much longer than that.
   */
  #connection: Connection | undefined
  #hasConnected = false
  /** Blocks without an event that came before the connection: its client is to have them first. */
  #leading: Uint8Array[] | undefined
  #leadingSize = 0
  readonly #response: ResponseCapture
  readonly #host: CaptureHost
  readonly #splitter: CountedSplitter
  /** The block that showed that the response is not ours, and all after it. */
  #withheld: Uint8Array[] | undefined
  #notOurs: NotOurs = 'own ids'
  /** Events of the endpoint's have gone into the stream. */
  #hasAppended = false
  /** Events that have come out of the write at hand. */
  #events = 0
  /** The response was taken before the endpoint had begun to answer. */
  readonly #isEarly: boolean
  /** What the endpoint then answers, if that is no event stream. */
  #body: LateBody | undefined
  #progress: ProgressReport | undefined

  constructor(response: ResponseCapture, host: CaptureHost, isEarly = false) {
    this.#response = response
    this.#host = host
    this.#isEarly = isEarly
    this.#splitter = new CountedSplitter(host.budget)
  }

  begin(): void {
    if (this.stream === undefined) return
    if (this.#isEarly) return this.#beginEarly(this.stream)
    this.#response.wire.sendHead(() => this.#host.setHeaders())
    const connection = this.#host.connect(this.stream)
    this.#hasConnected = true
    this.#progress = this.#host.reportProgress(this.stream)
    if (connection === undefined) return
    // The handler may have asked for a disconnect, which happens as soon as there is a connection.
    if (!connection.isClosed) this.#connection = connection
    this.#response.wire.cork()
    try {
      for (const block of this.#leading ?? [])
        this.stream.comment(transientLines(block, 0, block.length))
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
    this.#connection = connection
    connection.flush()
    // Some proxies hold a head back until the first byte of its body.
    if (!connection.hasWritten) stream.comment(KEEP_ALIVE_COMMENT)
  }

  /**
   * The stream has ended with an interim result for its client; what the endpoint still writes goes
   * to another stream.
   */
  goOnIn(stream: Stream): void {
    this.#progress?.stop()
    this.#progress = this.#connection = undefined
    this.stream = stream
  }

  lateHead(head: LateHead): void {
    const isStream = head.status === 200 && isEventStream(head.header('content-type'))
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
    this.#events = 0
    this.#splitter.push(bytes, this.#onBlock)
    if (this.#withheld !== undefined) return this.#stepAside(this.#withheld)
    if (this.#splitter.pending > this.#host.maxEventBytes) return stream.fail('event-too-large')
    // Without room, a block of more than half of the limit fails for its own size.
    const isTooLarge = this.#splitter.pending > this.#host.maxEventBytes / 2
    if (!this.#splitter.count()) return stream.fail(isTooLarge ? 'event-too-large' : 'overflow')
    return !stream.isFull && !stream.isEnded
  }

  end(): void {
    this.#host.whenKnown(() => {
      const { stream } = this
      if (stream !== undefined && this.#body !== undefined) this.#body.end(stream)
      else stream?.producerEnded()
    })
  }

  abort(): void {
    this.stream?.producerEnded()
  }

  connectionClosed(): void {
    this.#connection = undefined
  }

  get isFull(): boolean {
    return this.stream?.isFull ?? false
  }

  drain(): void {
    this.#response.drain()
  }

  unanswered(requestIds: readonly RequestId[]): void {
    this.#host.unanswered(requestIds)
  }

  release(): void {
    // The endpoint may keep its response for long: what is unfinished must not stay with it.
    this.#splitter.takePending()
    this.#body?.dispose()
    this.#progress?.stop()
    this.#response.release()
  }

  readonly #onBlock: BlockListener = (bytes, from, to, fields) => {
    if (this.#withheld !== undefined) {
      this.#withheld.push(copyOf(bytes, from, to))
      return
    }
    const notOurs = this.#whyNotOurs(bytes, from, to, fields)
    if (notOurs === undefined) {
      if (!this.#hasAppended && fields.dataLines > 0) this.#host.unnumbered()
      return this.#take(bytes, from, to, fields)
    }
    if (this.#isFollowedElsewhere) return this.#takeWithoutIds(bytes, from, to, notOurs)
    this.#notOurs = notOurs
    this.#withheld = [copyOf(bytes, from, to)]
  }

  #whyNotOurs(
    bytes: Uint8Array,
    from: number,
    to: number,
    fields: BlockFields
  ): NotOurs | undefined {
    if (fields.hasId) return 'own ids'
    const isFirst = !this.#hasAppended && !fields.isMessage
    return isFirst && fieldOf(bytes, from, to, 'event') === 'endpoint' ? 'HTTP+SSE' : undefined
  }

  /**
   * This response stays ours to its end: its client has a head of ours, or has left with one of our
   * ids, by which it may have come back.
   */
  get #isFollowedElsewhere(): boolean {
    return this.#isEarly || (this.#hasConnected && this.#connection === undefined)
  }

  #takeWithoutIds(bytes: Uint8Array, from: number, to: number, notOurs: NotOurs): void {
    if (notOurs === 'own ids' && this.stream !== undefined) this.#host.numbered(this.stream)
    const block = withoutIds(bytes, from, to)
    const fields = newFields()
    // Of a block that had only an id, a blank line is left.
    if (readFields(block, 0, fields) > 1) this.#take(block, 0, block.length, fields)
  }

  #take(bytes: Uint8Array, from: number, to: number, fields: BlockFields): void {
    const { stream } = this
    if (fields.dataLines === 0) {
      if (this.#hasConnected) return stream?.comment(transientLines(bytes, from, to))
      return this.#keepLeading(bytes, from, to)
    }
    this.#hasAppended = true
    this.#progress?.heard(bytes.subarray(from, to))
    stream?.append(bytes, from, to, fields, this.#events++ > 0)
  }

  #keepLeading(bytes: Uint8Array, from: number, to: number): void {
    this.#leadingSize += to - from
    if (this.#leadingSize > LONGEST_LEADING) return
    this.#leading ??= []
    this.#leading.push(copyOf(bytes, from, to))
  }

  #stepAside(withheld: Uint8Array[]): boolean {
    const { stream } = this
    if (stream !== undefined) {
      if (this.#hasAppended && !this.#hasConnected) this.begin()
      this.#connection?.detach()
      this.stream = undefined
      this.#host.stepAside(stream, this.#notOurs)
    }
    withheld.push(this.#splitter.takePending())
    return this.#response.stepAside(Buffer.concat([...(this.#leading ?? []), ...withheld]))
  }
}

/** A real copy: `slice` of a Buffer is a view, and its memory is reused by the next write. */
function copyOf(bytes: Uint8Array, from: number, to: number): Uint8Array {
  return Uint8Array.from(bytes.subarray(from, to))
}
