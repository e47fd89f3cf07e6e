// Reads the stream of a call that has become a task to its end, in place of the client.
import { now } from '../../protocol/clock.js'
import type { StreamFault } from '../../protocol/errors.js'
import { includesId, isResponse, type Message } from '../../protocol/json-rpc.js'
import { type WrittenMessage, writtenMessages } from '../../protocol/json-splice.js'
import { dataOf, newFields, readBlocks } from '../../protocol/sse-fields.js'
import { SoleReader } from '../../readers/sole-reader.js'
import type { Stream } from '../../streams/stream.js'
import { Timer } from '../../streams/timer.js'

/** Takes what the endpoint answers to a task's request. */
export interface TaskListener {
  /** A notification, or a request of the endpoint; `text` is how it wrote it. */
  heard(message: Message, text: string): void
  /** The response. */
  answered(message: Message, text: string): void
  /** There will be no response. Default: the endpoint has ended without one. */
  unanswered(fault?: StreamFault): void
}

/** Milliseconds for which the end of a stream is awaited once the response is there. */
const PATIENCE = 1000

/** Shared by all readers: it is filled and read synchronously. */
const FIELDS = newFields()

export class TaskReader extends SoleReader {
  readonly #stream: Stream
  readonly #listener: TaskListener
  #cursor = 0
  #hasResponse = false
  /** The first response under another id. */
  #foreign: WrittenMessage | undefined
  /** Runs from the response on, as an endpoint may not end its response by itself. */
  readonly #patience = new Timer(() => this.leave())

  /** Begins to read. */
  constructor(stream: Stream, listener: TaskListener) {
    super()
    this.#stream = stream
    this.#listener = listener
    stream.attach(this, 0)
  }

  /** The answer is not wanted any more: the endpoint sees its response close. */
  leave(): void {
    this.#patience.stop()
    this.#stream.detach(this)
  }

  wake(): void {
    const { log } = this.#stream
    while (this.#cursor < log.last) {
      const batch = log.read(this.#cursor)
      this.#cursor = batch.last
      const texts: string[] = []
      readBlocks(batch.bytes, 0, FIELDS, (bytes, from, to) => {
        if (FIELDS.isMessage) texts.push(dataOf(bytes, from, to, FIELDS))
      })
      this.#stream.markWritten(batch, now())
      // No client comes back for these events.
      log.evict(Infinity, log.written)
      for (const text of texts) this.#read(text)
    }
  }

  override finish(): void {
    this.wake()
    // What stands in front of the endpoint may have numbered its requests anew.
    if (!this.#hasResponse && this.#foreign !== undefined) this.#answered(this.#foreign)
    else if (!this.#hasResponse) this.#listener.unanswered()
    this.leave()
  }

  #read(data: string): void {
    for (const written of writtenMessages(data)) {
      const { message, text } = written
      if (this.#hasResponse) return
      if (!isResponse(message)) {
        if (typeof message.method === 'string') this.#listener.heard(message, text)
      } else if (includesId(this.#stream.requestIds, message.id)) this.#answered(written)
      else this.#foreign ??= written
    }
  }

  #answered({ message, text }: WrittenMessage): void {
    this.#hasResponse = true
    this.#patience.start(PATIENCE)
    this.#listener.answered(message, text)
  }
}
