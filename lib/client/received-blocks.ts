// What has come of a stream's body: whole blocks for the caller, and where the next connection goes
// on.
import { cancelledRequest, isRequest, isResponse, type RequestId } from '../protocol/json-rpc.js'
import { WholeBlocks } from '../protocol/whole-blocks.js'
import { noteRequest } from './answers.js'
import { notesOf } from './block-notes.js'
import type { Call } from './stream-request.js'

export class ReceivedBlocks {
  lastEventId: string | undefined
  /** The reconnection time that the server has named. */
  retry: number | undefined
  /** Attempts since the last new event. */
  attempt = 0
  /** Connections in a row that brought no message. */
  empty = 0
  readonly #call: Call
  #blocks = new WholeBlocks()

  constructor(call: Call) {
    this.#call = call
    this.lastEventId = call.own.headers.get('last-event-id') ?? undefined
  }

  /** Every request has its response: only the end is missing. */
  get isAnswered(): boolean {
    return this.#call.hasRequests && this.#call.pending.size === 0
  }

  /** Bytes of a block that has not come whole. */
  get pendingBytes(): number {
    return this.#blocks.pending
  }

  /** The whole blocks that a chunk completes; `undefined`: none. */
  take(chunk: Uint8Array): Uint8Array | undefined {
    const whole = this.#blocks.push(chunk)
    if (whole !== undefined) this.#note(whole)
    return whole
  }

  /** The connection is lost: what has not come whole comes again. */
  dropPending(): void {
    this.#blocks = new WholeBlocks()
  }

  #note(whole: Uint8Array): void {
    const { pending, asked } = this.#call
    const { hasData, messages, id = this.lastEventId, retry = this.retry } = notesOf(whole)
    if (hasData) this.empty = 0
    if (id !== this.lastEventId) this.attempt = 0
    this.lastEventId = id
    this.retry = retry
    for (const message of messages) {
      if (isResponse(message)) pending.delete(message.id)
      else if (!isRequest(message)) asked.delete(cancelledRequest(message) as RequestId)
      else noteRequest(this.#call, message.id)
    }
  }
}
