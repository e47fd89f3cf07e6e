// One JSON reply: white space while the endpoint is silent, then its response.
import { now } from '../../protocol/clock.js'
import { type DueQueue, Waiting } from '../../streams/due-queue.js'
import { isResponse, type Message } from '../../protocol/json-rpc.js'
import { writtenMessages } from '../../protocol/json-splice.js'
import { dataOf, newFields, readBlocks } from '../../protocol/sse-fields.js'
import type { Stream } from '../../streams/stream.js'
import type { OutgoingAnswers } from '../../readers/outgoing.js'
import type { Sink } from '../../readers/sink.js'
import { SoleReader } from '../../readers/sole-reader.js'

/** [RFC 8259, 2] White space may precede any JSON text. */
const SPACE = Buffer.from(' ')

export class JsonReply extends SoleReader {
  readonly #stream: Stream
  readonly #sink: Sink
  readonly #isBatch: boolean
  readonly #queue: DueQueue
  readonly #outgoing: OutgoingAnswers
  readonly #silence = new Waiting(() => this.#breakSilence())
  #isClosed = false
  /** The sequences of the events that are known to be one response each. */
  readonly #known = new Set<number>()

  /** @param queue says how often the silence is broken. */
  constructor(
    stream: Stream,
    sink: Sink,
    isBatch: boolean,
    queue: DueQueue,
    outgoing: OutgoingAnswers
  ) {
    super()
    this.#stream = stream
    this.#sink = sink
    this.#isBatch = isBatch
    this.#queue = queue
    this.#outgoing = outgoing
  }

  /** Follows the stream to its end. */
  start(): void {
    this.#stream.attach(this, 0)
    this.#sink.onClose(() => this.#close())
    this.#breakSilence()
  }

  override finish(): void {
    if (this.#isClosed) return
    const texts = this.#responses()
    this.#close()
    if (this.#sink.isOver) return
    const json = this.#isBatch ? `[${texts.join(',')}]` : (texts[0] ?? '')
    const outgoing = this.#outgoing
    outgoing.write(this.#sink, this.#stream.owner, outgoing.answerOf(json))
  }

  wake(said: readonly Message[] = []): void {
    const isKnown = said.length === 1 && said.every(isResponse)
    // An endpoint may send any number of responses that nobody waits for.
    if (isKnown && this.#known.size < this.#stream.requestIds.length)
      this.#known.add(this.#stream.last)
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
        cursor++
        if (!fields.isMessage) return
        const text = dataOf(bytes, from, to, fields)
        const isKnown = this.#known.has(cursor) && text.startsWith('{')
        texts.push(...(isKnown ? [text] : responsesIn(text)))
      })
      cursor = batch.last
      this.#stream.markWritten(batch, now())
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

function responsesIn(text: string): string[] {
  return writtenMessages(text).flatMap(({ message, text }) => (isResponse(message) ? [text] : []))
}
