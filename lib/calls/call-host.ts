// By what a resumable call is identified, and what it needs of the store that keeps it.
import type { Stream } from '../streams/stream.js'
import type { ResumeTokenFault } from './token-fault.js'

/** What a request must have in common with the one that began the call. */
export interface CallFacts {
  readonly owner: string
  readonly sessionId: string | undefined
  /** A digest of owner, session and path: a token is valid for no others. */
  readonly scope: string
  readonly method: string
  /** A digest of its parameters. */
  readonly parameters: string
}

/** What keeps calls and their tokens. */
export interface CallHost<Call> {
  /** The greatest size in bytes of a message of a call, or of a part of its result. */
  readonly maxCallBytes: number
  /** Opens the stream of a call. */
  open(call: Call): Stream
  /** Makes a token for a call. */
  issue(call: Call): string
  /** A token is not valid any more; `reason` is what its client is told. */
  retire(token: string, call: Call, reason: ResumeTokenFault): void
  /**
   * The call has ended, and no request waits for it. If it has no token, nobody can ask for it
   * again.
   */
  settled(call: Call): void
}
