// The one error that a stream's reader can get from us.

/**
 * - `stream-unknown` (404), `events-evicted` (410): the server does not have it any more.
 * - `unauthorized` (401, also with fresh headers), `refused` (any other 4xx, a redirect, or something else than a stream).
 * - `retries-exhausted`: `maxRetries` attempts in a row brought nothing new; `cause` is what the last one met.
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

/** A stream that cannot go on. */
export class ResumptionError extends Error {
  readonly code: ResumptionErrorCode
  readonly streamUrl: string

  constructor(code: ResumptionErrorCode, streamUrl: string, cause?: unknown) {
    super(MESSAGES[code], cause === undefined ? undefined : { cause })
    this.name = 'ResumptionError'
    this.code = code
    this.streamUrl = streamUrl
  }
}

const MESSAGES: Record<ResumptionErrorCode, string> = {
  'stream-unknown': 'The server does not know the stream any more',
  'events-evicted': 'The server no longer has the events that are missing',
  unauthorized: 'The server does not accept the credentials for the stream any more',
  refused: 'The server refused to resume the stream',
  'retries-exhausted': 'The stream could not be resumed: no attempt got through',
  'no-response': 'The stream ended without a response',
  'event-too-large': 'An event of the stream is larger than allowed'
}
