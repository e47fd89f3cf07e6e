// A call that its client has given a key, so that it may ask for the answer again: what the run of
// the endpoint has to do with it. `features/idempotency` makes it.
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { ResponseCapture } from '../http/response-capture.js'

export interface RecordedAnswer {
  readonly kind: 'answer'
  readonly status: number
  readonly headers: OutgoingHttpHeaders
  readonly body: Buffer
}

/** What became of a call. */
export type KeyedOutcome =
  | { readonly kind: 'stream'; readonly streamId: string }
  | RecordedAnswer
  /** It ran, and there is no answer to give: it was too large to keep, or was not wanted. */
  | { readonly kind: 'lost' }

/** What makes two requests the same. */
export interface CallKey {
  /** Bound to its owner, session and path. */
  readonly key: string
  /** A digest of its body; `undefined`: that could not be read, and its key alone names it. */
  readonly hash: string | undefined
  /** Bytes of memory that the request takes. */
  readonly size: number
}

/** The endpoint at work on a call. */
export interface KeyedRun {
  /** Lets the endpoint see that its client has gone. */
  showClose(): void
  /** Lets the endpoint see when its own client leaves, as the answer cannot be asked for again. */
  detach(): void
}

export interface KeyedCall {
  /** What it is kept under; `undefined`: it has been settled. */
  readonly key: string | undefined
  readonly isSettled: boolean
  /** A client waits, for as long as its connection is open. */
  awaitedBy(res: ServerResponse, onSettled?: (outcome: KeyedOutcome) => void): void
  /** The endpoint begins to work on it. */
  runs(run: KeyedRun): void
  /** The same: records its answer, unless that becomes a stream. */
  record(res: ServerResponse, run: ResponseCapture): void
  /** Returns the endpoint at work on it; `undefined`: it was settled before, or has not begun. */
  settle(outcome: KeyedOutcome): KeyedRun | undefined
  /** No client came back, or the answer is not wanted any more. */
  abandon(): void
  /** Its answer is not kept: the endpoint gives it to its own client alone. */
  giveUp(): void
}
