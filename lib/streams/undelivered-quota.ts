// What no connection has been given yet, counted for each session and owner: whoever disconnects
// must not fill the memory with it.

/** How much may be unsent. */
export interface UndeliveredLimit {
  readonly messages: number
  readonly bytes: number
}

/**
 * The limits of one stream, of one session's streams together, and of one owner's (Streams draft,
 * "Security Considerations").
 */
export interface UndeliveredLimits {
  readonly stream: UndeliveredLimit
  readonly session: UndeliveredLimit
  readonly owner: UndeliveredLimit
}

interface Tally {
  messages: number
  bytes: number
  /** Streams that count towards it; with the last one it goes. */
  streams: number
}

/** A tally that a stream counts towards. */
interface Group {
  readonly key: string
  readonly tally: Tally
  readonly limit: UndeliveredLimit
}

/** Of a stream that is nobody's in particular. */
const NO_GROUPS: readonly Group[] = []

/** Whose streams they are. */
export interface UndeliveredOwner {
  /** '' is nobody in particular: strangers do not share a limit. */
  readonly owner: string
  readonly sessionId: string | undefined
}

/** The tallies of all sessions and owners that have streams. */
export class UndeliveredQuota {
  readonly #limits: UndeliveredLimits
  readonly #tallies = new Map<string, Tally>()

  constructor(limits: UndeliveredLimits) {
    this.#limits = limits
  }

  /** How many tallies there are. */
  get size(): number {
    return this.#tallies.size
  }

  /** The part that a new stream has in them. */
  share({ owner, sessionId }: UndeliveredOwner): UndeliveredShare {
    const groups: Group[] = []
    // With the owner, who proves who he is: a session id may be of the client's choosing.
    if (sessionId !== undefined)
      groups.push(this.#join(JSON.stringify([owner, sessionId]), this.#limits.session))
    if (owner !== '') groups.push(this.#join(JSON.stringify([owner]), this.#limits.owner))
    return new UndeliveredShare(this.#limits.stream, groups.length === 0 ? NO_GROUPS : groups, this)
  }

  /** A stream is kept no longer. */
  leave(groups: readonly Group[]): void {
    for (const { key, tally } of groups) if (--tally.streams === 0) this.#tallies.delete(key)
  }

  #join(key: string, limit: UndeliveredLimit): Group {
    let tally = this.#tallies.get(key)
    if (tally === undefined) this.#tallies.set(key, (tally = { messages: 0, bytes: 0, streams: 0 }))
    tally.streams++
    return { key, tally, limit }
  }
}

/** One stream's part. */
export class UndeliveredShare {
  #messages = 0
  #bytes = 0
  #hasLeft = false
  readonly #limit: UndeliveredLimit
  readonly #groups: readonly Group[]
  readonly #tallies: UndeliveredQuota

  constructor(limit: UndeliveredLimit, groups: readonly Group[], tallies: UndeliveredQuota) {
    this.#limit = limit
    this.#groups = groups
    this.#tallies = tallies
  }

  /** Notes how much of the stream is unsent now. */
  note(messages: number, bytes: number): void {
    if (this.#hasLeft) return
    for (const { tally } of this.#groups) {
      tally.messages += messages - this.#messages
      tally.bytes += bytes - this.#bytes
    }
    this.#messages = messages
    this.#bytes = bytes
  }

  /** The stream itself has as much as it may. */
  get isFull(): boolean {
    return this.#messages >= this.#limit.messages || this.#bytes >= this.#limit.bytes
  }

  /** Less than half of that: who waited may go on. */
  get hasRoom(): boolean {
    return this.#messages < this.#limit.messages / 2 && this.#bytes < this.#limit.bytes / 2
  }

  /**
   * All streams of its session, or of its owner, have as much as they may. One that has nothing
   * unsent itself may be given one event all the same: a call must not fail for what others have
   * left unread.
   */
  get isCrowded(): boolean {
    if (this.#messages === 0) return false
    return this.#groups.some(
      ({ tally, limit }) => tally.messages >= limit.messages || tally.bytes >= limit.bytes
    )
  }

  /** The stream is kept no longer. */
  leave(): void {
    if (this.#hasLeft) return
    this.note(0, 0)
    this.#hasLeft = true
    this.#tallies.leave(this.#groups)
  }
}
