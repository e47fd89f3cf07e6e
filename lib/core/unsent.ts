// What no connection has been given yet, counted for each session and owner: whoever disconnects must not fill the memory with it.

/** How much may be unsent. */
export interface UnsentLimit {
  readonly messages: number
  readonly bytes: number
}

/** The limits of one stream, of one session's streams together, and of one owner's (Streams draft, "Security Considerations"). */
export interface UnsentLimits {
  readonly stream: UnsentLimit
  readonly session: UnsentLimit
  readonly owner: UnsentLimit
}

interface Tally {
  messages: number
  bytes: number
  /** Streams that count towards it; with the last one it goes. */
  streams: number
}

/** Whose streams they are. */
export interface UnsentOwner {
  /** '' is nobody in particular: strangers do not share a limit. */
  readonly owner: string
  readonly sessionId: string | undefined
}

/** The tallies of all sessions and owners that have streams. */
export class UnsentTallies {
  readonly #limits: UnsentLimits
  readonly #tallies = new Map<string, Tally>()

  constructor(limits: UnsentLimits) {
    this.#limits = limits
  }

  /** How many tallies there are. */
  get size(): number {
    return this.#tallies.size
  }

  /** The part that a new stream has in them. */
  share({ owner, sessionId }: UnsentOwner): UnsentShare {
    const groups: [key: string, limit: UnsentLimit][] = []
    // With the owner, who proves who he is: a session id may be of the client's choosing.
    if (sessionId !== undefined) groups.push([JSON.stringify([owner, sessionId]), this.#limits.session])
    if (owner !== '') groups.push([JSON.stringify([owner]), this.#limits.owner])
    const joined = groups.map(([key, limit]) => ({ tally: this.#join(key), limit }))
    return new UnsentShare(this.#limits.stream, joined, () => groups.forEach(([key]) => this.#leave(key)))
  }

  #join(key: string): Tally {
    let tally = this.#tallies.get(key)
    if (tally === undefined) this.#tallies.set(key, (tally = { messages: 0, bytes: 0, streams: 0 }))
    tally.streams++
    return tally
  }

  #leave(key: string): void {
    const tally = this.#tallies.get(key)
    if (tally !== undefined && --tally.streams === 0) this.#tallies.delete(key)
  }
}

/** One stream's part. */
export class UnsentShare {
  #messages = 0
  #bytes = 0
  #hasLeft = false
  readonly #limit: UnsentLimit
  readonly #groups: readonly { readonly tally: Tally; readonly limit: UnsentLimit }[]
  readonly #leave: () => void

  constructor(
    limit: UnsentLimit,
    groups: readonly { readonly tally: Tally; readonly limit: UnsentLimit }[],
    leave: () => void
  ) {
    this.#limit = limit
    this.#groups = groups
    this.#leave = leave
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

  /** All streams of its session, or of its owner, have as much as they may. */
  get isCrowded(): boolean {
    return this.#groups.some(({ tally, limit }) => tally.messages >= limit.messages || tally.bytes >= limit.bytes)
  }

  /** The stream is kept no longer. */
  leave(): void {
    if (this.#hasLeft) return
    this.note(0, 0)
    this.#hasLeft = true
    this.#leave()
  }
}
