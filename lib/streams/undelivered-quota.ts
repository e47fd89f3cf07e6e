// What is unsent, by session and owner: clients that disconnect must not fill the memory.

/** How much may be unsent. */
export interface UndeliveredLimit {
  readonly messages: number
  readonly bytes: number
}

/** Of a stream, of a session, of an owner (Streams draft, "Security Considerations"). */
export interface UndeliveredLimits {
  readonly stream: UndeliveredLimit
  readonly session: UndeliveredLimit
  readonly owner: UndeliveredLimit
}

/** What the streams of one session, or of one owner, have unread together. */
class Tally {
  messages = 0
  bytes = 0
  /** How many streams count towards it; the tally is deleted with the last one. */
  streams = 0
  readonly name: string
  readonly #limit: UndeliveredLimit
  readonly #tallies: Map<string, Tally>

  constructor(name: string, limit: UndeliveredLimit, tallies: Map<string, Tally>) {
    this.name = name
    this.#limit = limit
    this.#tallies = tallies
    tallies.set(name, this)
  }

  get isFull(): boolean {
    return this.messages >= this.#limit.messages || this.bytes >= this.#limit.bytes
  }

  leave(): void {
    if (--this.streams === 0) this.#tallies.delete(this.name)
  }
}

/** Whose streams they are. */
export interface UndeliveredOwner {
  /** '' if it is unknown: strangers do not share a limit. */
  readonly owner: string
  readonly sessionId: string | undefined
}

/** The tallies of all sessions and owners that have streams. */
export class UndeliveredQuota {
  readonly #limits: UndeliveredLimits
  readonly #sessions = new Map<string, Tally>()
  readonly #owners = new Map<string, Tally>()

  constructor(limits: UndeliveredLimits) {
    this.#limits = limits
  }

  /** How many tallies there are. */
  get size(): number {
    return this.#sessions.size + this.#owners.size
  }

  /** Adds a new stream to its tallies, and returns its share of them. */
  share({ owner, sessionId }: UndeliveredOwner): UndeliveredShare {
    const { stream, session, owner: ofOwner } = this.#limits
    return new UndeliveredShare(
      stream,
      // By owner and id: a client may choose its session id, but has to prove its owner.
      sessionId === undefined
        ? undefined
        : join(this.#sessions, `${owner.length}:${owner}${sessionId}`, session),
      owner === '' ? undefined : join(this.#owners, owner, ofOwner)
    )
  }
}

function join(tallies: Map<string, Tally>, name: string, limit: UndeliveredLimit): Tally {
  const tally = tallies.get(name) ?? new Tally(name, limit, tallies)
  tally.streams++
  return tally
}

/** What one stream has unread, as part of its tallies. */
export class UndeliveredShare {
  #messages = 0
  #bytes = 0
  #hasLeft = false
  readonly #limit: UndeliveredLimit
  readonly #session: Tally | undefined
  readonly #owner: Tally | undefined

  constructor(limit: UndeliveredLimit, session: Tally | undefined, owner: Tally | undefined) {
    this.#limit = limit
    this.#session = session
    this.#owner = owner
  }

  note(messages: number, bytes: number): void {
    if (this.#hasLeft || (messages === this.#messages && bytes === this.#bytes)) return
    if (this.#session !== undefined) this.#count(this.#session, messages, bytes)
    if (this.#owner !== undefined) this.#count(this.#owner, messages, bytes)
    this.#messages = messages
    this.#bytes = bytes
  }

  #count(tally: Tally, messages: number, bytes: number): void {
    tally.messages += messages - this.#messages
    tally.bytes += bytes - this.#bytes
  }

  /** The stream itself has as much as it may. */
  get isFull(): boolean {
    return this.#messages >= this.#limit.messages || this.#bytes >= this.#limit.bytes
  }

  /** Less than half of that is used: a producer that waits may go on. */
  get hasRoom(): boolean {
    return this.#messages < this.#limit.messages / 2 && this.#bytes < this.#limit.bytes / 2
  }

  /**
   * Its session or owner has as much as it may; a stream with nothing unsent may take one event.
   */
  get isCrowded(): boolean {
    if (this.#messages === 0) return false
    return this.#session?.isFull === true || this.#owner?.isFull === true
  }

  /** The stream is kept no longer. */
  leave(): void {
    if (this.#hasLeft) return
    this.note(0, 0)
    this.#hasLeft = true
    this.#session?.leave()
    this.#owner?.leave()
  }
}
