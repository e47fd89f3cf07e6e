// One answer in JSON to a client that takes nothing else: white space while the endpoint is silent,
// then what it has said.
import { now } from '../protocol/clock.js'
import { type DueQueue, Waiting } from '../streams/due-queue.js'
import { isResponse } from '../protocol/json-rpc.js'
import { writtenMessages } from '../protocol/json-splice.js'
import { dataOf, newFields, readBlocks } from '../protocol/sse-fields.js'
import type { Stream } from '../streams/stream.js'
import type { Reader } from '../streams/stream-types.js'
import type { Sink } from './connection.js'

/** [RFC 8259, 2] White space may stand in front of any JSON text. */
const SPACE = Buffer.from(' ')

export class JsonReply implements Reader {
  readonly #stream: Stream
  readonly #sink: Sink
  readonly #isBatch: boolean
  readonly #queue: DueQueue
  readonly #silence = new Waiting(() => this.#breakSilence())
  #isClosed = false

  /** @param queue says how often the silence is broken. */
  constructor(stream: Stream, sink: Sink, isBatch: boolean, queue: DueQueue) {
    this.#stream = stream
    this.#sink = sink
    this.#isBatch = isBatch
    this.#queue = queue
  }

  /** Follows the stream to its end. */
  start(): void {
    this.#stream.attach(this, 0)
    this.#sink.onClose(() => this.#close())
    this.#breakSilence()
  }

  finish(): void {
    if (this.#isClosed) return
    const texts = this.#responses()
    this.#close()
    if (this.#sink.isOver) return
    this.#sink.write(Buffer.from(this.#isBatch ? `[${texts.join(',')}]` : (texts[0] ?? '')))
    this.#sink.end()
  }

  wake(): void {
    if (this.#stream.isEnded) this.finish()
  }

  takeOver(): void {
    this.#close()
    this.#sink.destroy()
  }

  giveWay(): void {
    this.takeOver()
  }

  comment(_bytes: Uint8Array, giveBack: () => void): void {
    giveBack()
  }

  /** Its client would not come back. */
  disconnect(): boolean {
    return false
  }

  #breakSilence(): void {
    if (this.#isClosed || this.#sink.isOver) return
    this.#sink.write(SPACE)
    this.#queue.add(this.#silence)
  }

  #responses(): string[] {
    const { log } = this.#stream
    const texts: string[] = []
    const fields = newFields()
    for (let cursor = log.first - 1; cursor < log.last;) {
      const batch = log.read(cursor)
      readBlocks(batch.bytes, 0, fields, (bytes, from, to) => {
        if (fields.isMessage) texts.push(...responsesIn(dataOf(bytes, from, to, fields)))
      })
      cursor = batch.last
      this.#stream.markWritten(batch, now())
      batch.giveBack()
    }
    return texts
  }

  #close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#silence.stop()
    this.#stream.detach(this)
  }
}

/** Each as it was written. */
function responsesIn(text: string): string[] {
  return writtenMessages(text).flatMap(({ message, text }) => (isResponse(message) ? [text] : []))
}
