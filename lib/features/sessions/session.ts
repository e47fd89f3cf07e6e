// What is known here of one session.
import type { IncomingMessage } from 'node:http'
import { parseRevision } from '../../protocol/revisions.js'
import type { Waiting } from '../../streams/due-queue.js'
import type { Beginning } from './beginning.js'
import { nameIn, type SessionParts } from './seal.js'

/**
 * - `unproved`: this process does not know whether the endpoint knows it.
 * - `known`: the endpoint has begun it here, or has accepted a request in it.
 * - `idle`: it was ended at the endpoint, and its client has not been back yet.
 * - `ended`: by its client; or its time is over.
 */
type SessionState = 'unproved' | 'known' | 'idle' | 'ended'

const MINUTE = 60_000
const MOST_IN_A_MINUTE = 3

export class Session {
  readonly id: string
  readonly name: string
  readonly owner: string
  /** That it has negotiated. */
  readonly revision: string | undefined
  endpointId: string
  state: SessionState = 'unproved'
  /** Set while it is being begun again. */
  beginning: Beginning | undefined
  /** Set while it is being ended at the endpoint, as it is idle. */
  ending: Promise<void> | undefined
  /** It was begun again by this process. */
  isRevived = false
  /** What the ids of the endpoint's requests name, where they must differ from others'. */
  askerId: string | undefined
  /** Messages in JSON that its client is to have with the next event stream. */
  notices: readonly string[] = []
  /** Requests that are at the endpoint. */
  atEndpoint = 0
  /** Set where idle sessions are ended. */
  idle: Waiting | undefined
  /** What is kept of its last request, to end it in its client's name. */
  last: IncomingMessage | undefined
  #triedAt: readonly number[] = []

  constructor(id: string, owner: string, { endpointId, revision }: SessionParts) {
    this.id = id
    this.name = nameIn(id)
    this.owner = owner
    this.revision = parseRevision(revision)
    this.endpointId = endpointId
  }

  /** What has begun without an owner is of whoever has its id, as it is without us. */
  isOf(owner: string): boolean {
    return this.owner === owner || this.owner === ''
  }

  /** Counts a try to begin it again. `false`: there were three in the last minute. */
  mayTry(at: number): boolean {
    const latest = this.#triedAt.filter(time => at - time < MINUTE)
    const may = latest.length < MOST_IN_A_MINUTE
    this.#triedAt = may ? [...latest, at] : latest
    return may
  }
}

/** What a request of ours about a session itself is sent with. */
export class SessionNote {
  /** The id that the endpoint is shown; `undefined`: none, as the session is about to begin. */
  readonly shown: string | undefined

  constructor(shown: string | undefined) {
    this.shown = shown
  }
}
