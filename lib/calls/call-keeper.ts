// What a resumable call is known by, and what it wants of those who keep it.
import type { ResumeTokenFault } from './token-fault.js'

/** What a request must have in common with the one that began the call. */
export interface CallFacts {
  readonly owner: string
  readonly sessionId: string | undefined
  /** A digest of whose it is and where: by owner, session and path. A token holds nowhere else. */
  readonly scope: string
  readonly method: string
  /** A digest of its parameters. */
  readonly parameters: string
}

/** Where calls are kept. */
export interface CallKeeper<Call> {
  /** Bytes that one call may keep. */
  readonly maxCallBytes: number
  /** Milliseconds without a request after which a call is abandoned. */
  readonly abandonAfter: number
  /** The process is about to end: who has to come back for a call may find nobody. */
  readonly isClosing: boolean
  /** Gives out a token. */
  issue(call: Call): string
  /** A token is not valid any more. */
  retire(token: string, call: Call, reason: ResumeTokenFault): void
  /** An owner's calls keep more bytes, or fewer. `false`: there is no room for them. */
  resize(bytes: number, owner: string): boolean
  /**
   * Its answer is there, or has been fetched once more: from now on it may be forgotten in time.
   */
  settled(call: Call): void
  /** It is over, and nothing of it is wanted. */
  dropped(call: Call): void
}
