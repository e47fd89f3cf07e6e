// The streams that a client follows on a wire which they share, and who gets their messages.
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

/** A stream that has not ended, or of which the client may not have all messages. */
export interface OpenStream {
  /** The sequence of the last message that was received; `undefined`: none was. */
  cursor?: number
  readonly requestId?: RequestId | undefined
  /** The call of `resume()` that gets its messages. */
  readonly taker?: Taker | undefined
}

interface Taker {
  readonly resolve: (result: unknown) => void
  readonly reject: (error: Error) => void
  readonly onNotification: ((notification: Message) => unknown) | undefined
}

export class OpenStreams {
  /** The session's own stream; `undefined` as long as the server has announced none. */
  declare own?: string
  /** How long clients should wait before they come back, in milliseconds. */
  declare retry?: number
  readonly #streams = new Map<string, OpenStream>()
  /** Streams beside those of open requests. An honest server has far fewer. */
  #most = 1000

  get ids(): Iterable<string> {
    return this.#streams.keys()
  }

  get(streamId: string): OpenStream | undefined {
    return this.#streams.get(streamId)
  }

  /** Whether the session is over: its own stream and all others have ended. */
  get areOver(): boolean {
    return this.own !== undefined && this.#streams.size === 0
  }

  /** @throws if the stream is followed already. */
  take(streamId: string, taker: Taker): void {
    if (this.#streams.has(streamId)) throw new Error('The stream is followed already')
    this.#streams.set(streamId, { taker })
    // The server announces the own stream of its session, too.
    this.#most += 2
  }

  /** The server has announced a stream; `false`: it was taken over, so it is not for `pending`. */
  created(
    streamId: string,
    requestId: RequestId | undefined,
    message: Message,
    pending: ReadonlySet<unknown>
  ): boolean {
    // Its request id is that of another client.
    const known = this.#streams.get(streamId)
    if (known?.taker) return false
    if (requestId === undefined) this.own ??= streamId
    if (!known) {
      this.#streams.set(streamId, {
        // Another id is not kept: it may be of any length, and nobody waits for its response.
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

  /** The stream of a message, with its cursor moved; `undefined`: unknown, or received before. */
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

  /** Gives a message to the caller of `resume()`; `false`: the client gets it. */
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
}

export function asError(error: unknown): Error {
  const { message = error, code, data } = objectIn(error)
  return Object.assign(new Error(String(message)), { code, data })
}
