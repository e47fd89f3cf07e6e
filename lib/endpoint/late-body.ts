// The body of an answer whose client has had an event stream before: it becomes messages.
import { newFields, readFields } from '../protocol/sse-fields.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import type { Stream } from '../streams/stream.js'
import type { LateHead } from '../http/capture-types.js'
import { GatheredBytes } from '../http/chunk.js'
import {
  decoded,
  isEncoded,
  isTooLarge,
  type LateAnswer,
  messagesIn,
  missedHeaders
} from './late-answer.js'
import type { RequestContext } from './request-context.js'
import { warnOfMissed } from '../http/warnings.js'

export class LateBody {
  readonly #head: LateHead
  readonly #request: RequestContext
  readonly #body = new GatheredBytes()

  constructor(head: LateHead, request: RequestContext) {
    this.#head = head
    this.#request = request
  }

  /** `false`: there is no room for it, and what has come is dropped. */
  add(bytes: Buffer): boolean {
    const size = this.#body.size + bytes.length
    const { instance, owner } = this.#request
    const isTooMuch = size > instance.maxAnswerBytes
    if (isTooMuch || !instance.table.budget.reserve(bytes.length, false, owner)) {
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
    this.#warnOfMissed(answer)
    if (!isEncoded(answer)) return this.#settle(stream, messagesIn(answer, stream.owed))
    decoded(answer, this.#request.instance.maxAnswerBytes).then(
      plain => this.#settle(stream, messagesIn(plain, stream.owed)),
      (error: unknown) => {
        if (!isTooLarge(error)) return this.#settle(stream, [])
        this.dispose()
        stream.fail('overflow')
      }
    )
  }

  dispose(): void {
    const { instance, owner } = this.#request
    instance.table.budget.unreserve(this.#body.size, owner)
    this.#body.clear()
  }

  #warnOfMissed(answer: LateAnswer): void {
    const session = answer.header('mcp-session-id')
    const isOwn = session === undefined || session === this.#request.session
    warnOfMissed(missedHeaders(answer).filter(name => name !== 'mcp-session-id' || !isOwn))
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
