// What a resumable call is known by, and what it wants of those who keep it.
import type { ResumableCall } from './resumable-call.js'
import type { ResumeTokenFault } from './token-fault.js'

/** What a request must have in common with the one that began the call. */
export interface CallFacts {
  readonly owner: string
  readonly sessionId: string | undefined
  readonly method: string
  /** A digest of its parameters. */
  readonly parameters: string
}

/** Where calls are kept. */
export interface CallKeeper {
  /** Bytes that one call may keep. */
  readonly maxCallBytes: number
  /** Milliseconds without a request after which a call is abandoned. */
  readonly abandonAfter: number
  /** Gives out a token. */
  issue(call: ResumableCall): string
  /** A token is not valid any more. */
  retire(token: string, call: ResumableCall, reason: ResumeTokenFault): void
  /** More bytes are kept, or fewer. `false`: there is no room for them. */
  resize(bytes: number): boolean
  /** Its answer is there, or has been fetched once more: from now on it may be forgotten in time. */
  settled(call: ResumableCall): void
  /** It is over, and nothing of it is wanted. */
  dropped(call: ResumableCall): void
}
