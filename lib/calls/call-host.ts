// What a resumable call is known by, and what it wants of those who keep it.
import type { Stream } from '../streams/stream.js'
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

/** Where the tokens of calls are kept. */
export interface CallHost<Call> {
  /** Bytes that a message of a call may have, or a part of its result. */
  readonly maxCallBytes: number
  /** Opens its stream. */
  open(call: Call): Stream
  /** Gives out a token. */
  issue(call: Call): string
  /** A token is not valid any more. */
  retire(token: string, call: Call, reason: ResumeTokenFault): void
  /** It has ended, and nobody waits for it. Without a token, nobody can ask for it again. */
  settled(call: Call): void
}
