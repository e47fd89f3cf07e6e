// What is known of each session: its revision, and whether its client follows links.
import { FairStore } from './fair-store.js'
import { keyOf } from './groups.js'
import { MOST_ID_LENGTH, objectIn } from '../protocol/json-rpc.js'

/** What a client has declared about receiving resources as streams (SEP-2532). */
export interface ResourceStreaming {
  /** In bytes. `Infinity`: the client has set no limit; `NaN`: it has sent an invalid one. */
  readonly maxStreamSize: number
}

/** `undefined`: it has not declared it. */
export function resourceStreamingIn(capabilities: unknown): ResourceStreaming | undefined {
  const declared = objectIn(capabilities)['resourceStreaming']
  if (declared === undefined || declared === null || declared === false) return undefined
  const max = objectIn(declared)['maxStreamSize'] ?? Infinity
  return { maxStreamSize: typeof max === 'number' && max >= 0 ? max : NaN }
}

/** A session that the endpoint has handed out or accepted, whoever is in it. */
interface SeenSession {
  /** The first one that was. */
  readonly owner: string
  isOver: boolean
}

/** One object for as long as it is known, so that those who have it see what changes. */
export class SessionFacts {
  readonly revision: string | undefined = undefined
  /** Its client has fetched a stream URL, so it follows links, whether it announced that or not. */
  readonly followsLinks: boolean = false
  /** Its client has come back for a call by an event id. */
  readonly isResumed: boolean = false
  /** Its client has sent an answer at once, so it does not keep answers until the hand-off. */
  readonly isDirect: boolean = false
  readonly resourceStreaming: ResourceStreaming | undefined = undefined
  /** Its client has declared the Streams draft in `initialize`. */
  readonly hasStreams: boolean = false
  /** Its client has shown that it reads event streams. */
  readonly readsEvents: boolean = false
  /** `undefined`: the endpoint has not shown that it knows it. */
  readonly seen: SeenSession | undefined = undefined
}

/** Of a request without a session, or in one that nobody knows. */
export const NOTHING_KNOWN = Object.freeze(new SessionFacts())

/**
 * By owner and session id, as clients can send any id. If evicted, `MCP-Protocol-Version` counts.
 */
export class Sessions {
  /** Other processes hand out sessions that the endpoint knows as well. */
  areShared = false
  onOpened: (sessionId: string, owner: string) => void = () => undefined
  /** The name by which a session is known here, by the id that its client has. */
  nameOf: (id: string) => string = id => id
  /** The reverse; `undefined`: it is not known any more. */
  idOf: (name: string) => string | undefined = name => name
  /** The id that the endpoint has given it. */
  endpointIdOf: (name: string) => string = name => name
  /** Whether calls of a session that was begun again here may still run at another instance. */
  hasMoved: (name: string) => boolean = () => false
  readonly #known: FairStore<SessionFacts>
  /** By id alone. */
  readonly #seen: FairStore<SeenSession>

  constructor(max: number) {
    this.#known = new FairStore({ maxSize: max })
    this.#seen = new FairStore({ maxSize: max })
  }

  /** Of whichever owner: a token that has been renewed makes another one. */
  isSeen(sessionId: string): boolean {
    return (
      this.areShared || sessionId.length > MOST_ID_LENGTH || this.#seen.get(sessionId) !== undefined
    )
  }

  /** The endpoint has handed out a session, or has accepted a request in it. */
  see(owner: string, sessionId: string): void {
    if (!this.isSeen(sessionId)) this.#seen.set(sessionId, owner, { owner, isOver: false })
  }

  of(owner: string, sessionId: string | undefined): SessionFacts {
    if (sessionId === undefined || sessionId.length > MOST_ID_LENGTH) return NOTHING_KNOWN
    const known = this.#known.get(keyOf(owner, sessionId))
    if (known?.seen?.isOver === false) return known
    const seen = this.#seen.get(sessionId)
    if (seen === undefined) return known ?? NOTHING_KNOWN
    return this.#note(owner, sessionId, { seen })
  }

  /** `hasStreams`: the client has declared the Streams draft in `initialize`. */
  negotiated(
    owner: string,
    sessionId: string,
    revision: string | undefined,
    hasStreams = false
  ): void {
    const shown = { followsLinks: false, isResumed: false, isDirect: false }
    this.#note(owner, sessionId, { revision, ...shown, hasStreams })
    this.onOpened(sessionId, owner)
  }

  /** Notes what its client has said in `initialize` about receiving resources as streams. */
  declare(
    owner: string,
    sessionId: string,
    resourceStreaming: ResourceStreaming | undefined
  ): void {
    this.#note(owner, sessionId, { resourceStreaming })
  }

  noteFollowsLinks(owner: string, sessionId: string): void {
    this.#note(owner, sessionId, { followsLinks: true })
  }

  noteResumed(owner: string, sessionId: string): void {
    if (!this.of(owner, sessionId).isResumed) this.#note(owner, sessionId, { isResumed: true })
  }

  noteDirectAnswer(owner: string, sessionId: string): void {
    if (!this.of(owner, sessionId).isDirect) this.#note(owner, sessionId, { isDirect: true })
  }

  /** It was given an event stream that it asked for, or has said in `initialize` who it is. */
  noteReadsEvents(owner: string, sessionId: string): void {
    if (!this.of(owner, sessionId).readsEvents) this.#note(owner, sessionId, { readsEvents: true })
  }

  delete(owner: string, sessionId: string): void {
    this.#known.delete(keyOf(owner, sessionId))
    const seen = this.#seen.peek(sessionId)
    if (seen?.owner !== owner) return
    seen.isOver = true
    this.#seen.delete(sessionId)
  }

  #note(owner: string, sessionId: string, facts: Partial<SessionFacts>): SessionFacts {
    if (sessionId.length > MOST_ID_LENGTH) return NOTHING_KNOWN
    const key = keyOf(owner, sessionId)
    let known = this.#known.get(key)
    if (known === undefined) this.#known.set(key, owner, (known = new SessionFacts()))
    return Object.assign(known, facts)
  }
}
