// The error with which a body fails when its stream cannot go on.
import { objectIn } from '../protocol/json-rpc.js'

/**
 * - `stream-unknown` (404), `events-evicted` (410): the server does not have the stream or its
 *   events any more.
 * - `unauthorized` (401, also with fresh headers), `refused` (any other 4xx, or a redirect).
 * - `retries-exhausted`: `maxRetries` attempts in a row brought nothing new.
 * - `no-response`: the server says that the stream is over, and a response is missing.
 * - `event-too-large`: an event grew beyond `maxEventSize`.
 */
export type ResumptionErrorCode =
  | 'stream-unknown'
  | 'events-evicted'
  | 'unauthorized'
  | 'refused'
  | 'retries-exhausted'
  | 'no-response'
  | 'event-too-large'

/**
 * The error of a stream that cannot go on. `cause` is what the last connection, or the last attempt
 * to make one, failed with; the message has the words of both.
 */
export class ResumptionError extends Error {
  override readonly name = 'ResumptionError'
  declare readonly code: ResumptionErrorCode
  declare readonly streamUrl: string

  constructor(code: ResumptionErrorCode, streamUrl: string, cause?: unknown) {
    const { message } = objectIn(cause)
    const why = typeof message === 'string' ? `: ${message}` : ''
    super(`The stream cannot go on: ${code.replace(/-/g, ' ')}${why}`, { cause })
    this.code = code
    this.streamUrl = streamUrl
  }
}
