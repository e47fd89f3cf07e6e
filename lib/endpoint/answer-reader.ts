// The one reader of what an endpoint answers, by an event stream or by another body, of any status.
import { promisify } from 'node:util'
import { brotliDecompress, unzip } from 'node:zlib'
import { LF } from '../protocol/bytes.js'
import type { StreamFault } from '../protocol/errors.js'
import { isObject, isResponse } from '../protocol/json-rpc.js'
import { type WrittenMessage, writtenMessages } from '../protocol/json-splice.js'
import { isEventStreamType } from '../protocol/media-types.js'
import { type BlockFields, type BlockListener, dataOf } from '../protocol/sse-fields.js'
import { BlockSplitter } from '../protocol/sse-parser.js'
import type { Counter } from '../streams/budget.js'
import { GatheredBytes } from '../http/chunk.js'
import { isPlainEncoding } from '../http/response-headers.js'

export interface AnswerHead {
  readonly status: number
  /** A header, by its lower-case name. */
  readonly header: (name: string) => string | undefined
}

export interface AnswerLimits {
  /** Bytes of an event. */
  readonly event: number
  /** Bytes of another body, also once it is decoded. */
  readonly body: number
  /** Where bytes are counted that wait for the rest of an event, or of a body; else nowhere. */
  readonly budget?: Counter
  readonly owner?: string
}

/** Takes what is read. */
export interface AnswerSink {
  /** A block of an event stream, with data or without. */
  readonly onBlock: BlockListener
  /** A whole body that is no event stream, decoded. */
  body(body: Buffer): void
  /** There is no room for a body, or it cannot be decoded. */
  failed(fault: StreamFault): void
}

/** Counted in steps of so many bytes, so that what is small and soon whole costs nothing. */
const COUNTED_STEP = 4096

export class AnswerReader {
  readonly #sink: AnswerSink
  readonly #limits: AnswerLimits
  #splitter: BlockSplitter | undefined
  /** Bytes of the unfinished block, or of the body, that are counted. */
  #counted = 0
  #lastByte: number = LF
  #body: GatheredBytes | undefined
  #encoding: string | undefined

  constructor(sink: AnswerSink, limits: AnswerLimits) {
    this.#sink = sink
    this.#limits = limits
  }

  /** Without a head, the answer is an event stream. */
  head({ status, header }: AnswerHead): void {
    this.#encoding = header('content-encoding')
    const isStream = status === 200 && isEventStreamType(header('content-type'))
    if (!isStream || !isPlainEncoding(this.#encoding)) this.#body = new GatheredBytes()
  }

  get isBody(): boolean {
    return this.#body !== undefined
  }

  /** No event has begun. */
  get isBetweenEvents(): boolean {
    return this.#lastByte === LF && this.#body === undefined && this.#isWhole
  }

  /** There is no unfinished block, and none is counted. */
  get #isWhole(): boolean {
    return this.#counted === 0 && this.#pending === 0
  }

  get #pending(): number {
    return this.#splitter?.pending ?? 0
  }

  /** The memory of `bytes` may be reused after the call. */
  push(bytes: Uint8Array): StreamFault | undefined {
    if (this.#body !== undefined) return this.#gather(this.#body, bytes)
    this.#lastByte = bytes[bytes.length - 1] ?? this.#lastByte
    this.#splitter ??= new BlockSplitter()
    this.#splitter.push(bytes, this.#sink.onBlock)
    return this.#isWhole ? undefined : this.#faultOfPending()
  }

  /**
   * The endpoint has ended its answer: what is pending, and is a whole message, is an event.
   *
   * @param comesAgain an endpoint that numbers its events is asked again for those that are not
   *   whole, unless there is the response.
   */
  end(comesAgain = false): void {
    if (this.#body !== undefined) return this.#wholeBody(this.#body)
    if (this.#isWhole) return
    this.#splitter?.end((bytes, from, to, fields) => {
      const messages = messagesOfBlock(bytes, from, to, fields)
      const isLast = messages.some(({ message }) => isResponse(message))
      if (isLast || (messages.length > 0 && !comesAgain))
        this.#sink.onBlock(bytes, from, to, fields)
    })
    this.#count(0)
  }

  /** Drops what is unfinished. */
  drop(): void {
    if (this.#body !== undefined) this.#body.clear()
    else if (this.#isWhole) return
    else this.#splitter?.takePending()
    this.#count(0)
  }

  #faultOfPending(): StreamFault | undefined {
    const pending = this.#pending
    if (pending > this.#limits.event) return 'event-too-large'
    if (this.#count(pending - (pending % COUNTED_STEP))) return undefined
    return 'overflow'
  }

  #gather(body: GatheredBytes, bytes: Uint8Array): StreamFault | undefined {
    const size = body.size + bytes.length
    const counted = size < COUNTED_STEP ? 0 : size
    if (size <= this.#limits.body && this.#count(counted)) return void body.add(bytes)
    this.drop()
    return 'overflow'
  }

  /** `false`: there is no memory for it. */
  #count(bytes: number): boolean {
    const { budget, owner = '' } = this.#limits
    const more = bytes - this.#counted
    if (more > 0 && budget?.hold(owner, more) === false) return false
    if (more < 0) budget?.release(owner, -more)
    this.#counted = bytes
    return true
  }

  #wholeBody(body: GatheredBytes): void {
    const bytes = body.whole()
    this.drop()
    if (isPlainEncoding(this.#encoding)) return this.#sink.body(bytes)
    decoded(bytes, this.#encoding, this.#limits.body).then(
      plain => this.#sink.body(plain),
      (error: unknown) => this.#sink.failed(isTooLarge(error) ? 'overflow' : 'no-response')
    )
  }
}

/** Rejects where it cannot be decoded, or comes to more than `limit` bytes. */
async function decoded(body: Buffer, encoding: string | undefined, limit: number): Promise<Buffer> {
  const options = { maxOutputLength: limit }
  switch (encoding?.trim().toLowerCase()) {
    case 'gzip':
    case 'x-gzip':
    case 'deflate':
      return promisify<Buffer, object, Buffer>(unzip)(body, options)
    case 'br':
      return promisify<Buffer, object, Buffer>(brotliDecompress)(body, options)
    default:
      throw new Error('The content coding is not known')
  }
}

function isTooLarge(error: unknown): boolean {
  return isObject(error) && error['code'] === 'ERR_BUFFER_TOO_LARGE'
}

/** What a block says; nothing if it is an event of another type. */
export function messagesOfBlock(
  bytes: Uint8Array,
  from: number,
  to: number,
  fields: BlockFields
): readonly WrittenMessage[] {
  return fields.isMessage ? writtenMessages(dataOf(bytes, from, to, fields)) : []
}
