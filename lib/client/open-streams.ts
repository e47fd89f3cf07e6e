// A stream as its client sees it on a wire that all streams share, and who takes its messages.
import { isObject, isRequest, isResponse, type Message, type RequestId } from '../core/json-rpc.js'

/** A stream that the server still writes, or of which something may be missing. */
export interface OpenStream {
  /** The sequence of the last message that came; `undefined`: what came before is not known. */
  cursor: number | undefined
  /** The request that it answers; `undefined` for that of a session. */
  readonly requestId?: RequestId | undefined
  /** Who has asked for it with `resume`. */
  readonly taker?: Taker | undefined
}

export interface Taker {
  readonly resolve: (result: unknown) => void
  readonly reject: (error: Error) => void
  readonly onNotification: ((notification: Message) => void) | undefined
}

/** Gives a message to whoever has asked for its stream; `false`: it is not for them. */
export function give(taker: Taker, message: Message): boolean {
  if (isRequest(message) || message.method === 'notifications/stream/end') return false
  if (!isResponse(message)) taker.onNotification?.(message)
  else if (message.error === undefined) taker.resolve(message.result)
  else taker.reject(asError(message.error))
  return true
}

/** The beginning or the end of a stream. */
export function isMark({ method }: Message): boolean {
  return method === 'notifications/stream/create' || method === 'notifications/stream/end'
}

/** The error of a response, as something to throw: its `code` and `data` are JSON-RPC's. */
export function asError(error: unknown): Error {
  const { message, code, data } = isObject(error) ? error : { message: String(error) }
  return Object.assign(new Error(String(message)), { code, data })
}
