// The streams as their client sees them on a wire that all of them share, and who takes their
// messages.
import type { EventId } from '../protocol/event-id.js'
import {
  isRequest,
  isResponse,
  type Message,
  objectIn,
  paramsOf,
  type RequestId
} from '../protocol/json-rpc.js'
import { ResumptionError } from './resumption-error.js'

/** A stream that the server still writes, or of which something may be missing. */
export interface OpenStream {
  /** The sequence of the last message that came; `undefined`: what came before is not known. */
  cursor?: number
  /** The request that it answers; `undefined` for that of a session. */
  readonly requestId?: RequestId | undefined
  /** The caller of `resume` that it is for. */
  readonly taker?: Taker | undefined
}

export interface Taker {
  readonly resolve: (result: unknown) => void
  readonly reject: (error: Error) => void
  readonly onNotification: ((notification: Message) => unknown) | undefined
}

export class OpenStreams {
  /** The stream of the session; `undefined` while the server has named none. */
  declare own?: string
  /** What the server wants clients to wait, in milliseconds. */
  declare retry?: number
  readonly #streams = new Map<string, OpenStream>()
  /**
   * How many streams there may be beside those of requests without a response. An honest server
   * ends its streams, and so has far fewer.
   */
  #most = 1000

  get ids(): Iterable<string> {
    return this.#streams.keys()
  }

  get(streamId: string): OpenStream | undefined {
    return this.#streams.get(streamId)
  }

  /** The session is over, and with it all that it has said: nothing is on its way any more. */
  get areOver(): boolean {
    return this.own !== undefined && this.#streams.size === 0
  }

  /** @throws where it is followed already. */
  take(streamId: string, taker: Taker): void {
    if (this.#streams.has(streamId)) throw new Error('The stream is followed already')
    this.#streams.set(streamId, { taker })
    // The own stream of its session comes with it.
    this.#most += 2
  }

  /**
   * The server has created a stream. `false`: it is none of this client's requests.
   *
   * @param pending requests of the client's without a response.
   */
  created(
    streamId: string,
    requestId: RequestId | undefined,
    message: Message,
    pending: ReadonlySet<unknown>
  ): boolean {
    // A stream that was taken over is of none of this client's requests; nor is the other session's
    // own, which comes with it.
    const known = this.#streams.get(streamId)
    if (known?.taker) return false
    if (requestId === undefined) this.own ??= streamId
    if (!known) {
      this.#streams.set(streamId, {
        // Any other may be of any length, and nobody waits for its response.
        requestId: pending.has(requestId) ? requestId : undefined
      })
      for (const oldest of this.ids) {
        if (this.#streams.size <= this.#most + pending.size) break
        if (oldest !== this.own) this.delete(oldest)
      }
    }
    const { min } = objectIn(objectIn(paramsOf(message)['stream'])['resumeInterval'])
    if (typeof min === 'number') this.retry = min * 1000
    return true
  }

  /**
   * The stream of a message; `undefined` where it is not followed, or has brought this message
   * before.
   */
  advance({ streamId, sequence }: EventId): OpenStream | undefined {
    const stream = this.#streams.get(streamId)
    if (!stream || sequence <= (stream.cursor ?? 0)) return undefined
    stream.cursor = sequence
    return stream
  }

  delete(streamId: string, error?: Error): void {
    const stream = this.#streams.get(streamId)
    this.#streams.delete(streamId)
    stream?.taker?.reject(error ?? new ResumptionError('no-response', streamId))
  }

  /** Gives a message to the caller of `resume`; `false`: it is not for one. */
  give(streamId: string, message: Message): boolean {
    const taker = this.#streams.get(streamId)?.taker
    if (!taker || isRequest(message)) return false
    if (!isResponse(message))
      Promise.resolve()
        .then(() => taker.onNotification?.(message))
        .catch((error: Error) => this.delete(streamId, error))
    else if (message.error === undefined) taker.resolve(message.result)
    else taker.reject(asError(message.error))
    return true
  }

  deleteAll(): void {
    for (const streamId of this.ids) this.delete(streamId)
  }
}

/** The error of a response, as something to throw: its `code` and `data` are JSON-RPC's. */
export function asError(error: unknown): Error {
  const { message = error, code, data } = objectIn(error)
  return Object.assign(new Error(String(message)), { code, data })
}
