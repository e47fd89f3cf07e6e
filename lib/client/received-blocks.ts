// What has been received of a stream's body: whole blocks for the caller, and the event id from
// which the next connection goes on.
import { cancelledRequest, isRequest, isResponse, type RequestId } from '../protocol/json-rpc.js'
import { WholeBlocks } from '../protocol/whole-blocks.js'
import { noteRequest } from './answers.js'
import { notesOf } from './block-notes.js'
import type { Call } from './stream-request.js'

export class ReceivedBlocks {
  lastEventId: string | undefined
  /** The reconnection time that the server has named, in milliseconds. */
  retry: number | undefined
  /** Attempts to connect since the last new event id. */
  attempt = 0
  /** Connections in a row without an event that has data. */
  empty = 0
  readonly #call: Call
  #blocks = new WholeBlocks()

  constructor(call: Call) {
    this.#call = call
    this.lastEventId = call.own.headers.get('last-event-id') ?? undefined
  }

  /** Whether every request has its response, so that only the end of the stream is missing. */
  get isAnswered(): boolean {
    return this.#call.hasRequests && this.#call.pending.size === 0
  }

  /** Bytes of a block that is not complete. */
  get pendingBytes(): number {
    return this.#blocks.pending
  }

  /** The blocks that a chunk completes; `undefined`: none. */
  take(chunk: Uint8Array): Uint8Array | undefined {
    const whole = this.#blocks.push(chunk)
    if (whole !== undefined) this.#note(whole)
    return whole
  }

  /** The connection is lost: the next one sends the incomplete block again. */
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
