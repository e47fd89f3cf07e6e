// Collects the body of an answer whose client has been given an event stream already, and makes
// messages of it.
import { newFields, readFields } from '../protocol/sse-fields.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import type { Stream } from '../streams/stream.js'
import {
  decoded,
  isEncoded,
  isTooLarge,
  type LateAnswer,
  messagesIn,
  missedHeaders
} from './late-answer.js'
import type { CaptureHost } from './capture-host.js'
import type { LateHead } from './capture-types.js'
import { GatheredBytes } from './gathered-bytes.js'

export class LateBody {
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
