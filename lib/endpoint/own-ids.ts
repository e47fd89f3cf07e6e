// Which endpoints number their events themselves: two layers must not both number.
import { FairStore } from '../streams/fair-store.js'

/** Where a response comes from. */
export interface Origin {
  readonly owner: string
  readonly sessionId: string | undefined
  /** The URL of the request, without its query. */
  readonly path: string
}

/** What a response has shown. */
interface Shown {
  readonly isNumbered: boolean
  readonly size: number
}

/** Bytes of all that is remembered. */
const MOST_BYTES = 4 * 1024 * 1024
/** What an entry takes besides its key. */
const ENTRY_SIZE = 256

/**
 * What responses have shown: an event with an id of the endpoint's own, or one without. It holds
 * for the session that has shown it. For sessions that have shown nothing yet, and for requests
 * without a session, what was shown last on their path is assumed. At the limit, the owner with
 * most sessions makes room; a path has no owner, and so counts as one of its own.
 */
export class OwnIds {
  readonly #shown = new FairStore<Shown>({ maxSize: MOST_BYTES, sizeOf: ({ size }) => size })

  isNumbered(origin: Origin): boolean {
    if (this.#shown.count === 0) return false
    const { sessionId } = origin
    const inSession = sessionId === undefined ? undefined : this.#shown.get(keyOfSession(origin))
    return (inSession ?? this.#shown.get(keyOfPath(origin)))?.isNumbered ?? false
  }

  /** A response has shown an id. */
  numbered(origin: Origin): void {
    if (origin.sessionId !== undefined) this.#set(keyOfSession(origin), ownerOf(origin), true)
    this.#set(keyOfPath(origin), keyOfPath(origin), true)
  }

  /** A response has shown an event without an id. Kept only if an id would be assumed otherwise. */
  unnumbered(origin: Origin): void {
    if (!this.isNumbered(origin)) return
    if (origin.sessionId === undefined) this.#set(keyOfPath(origin), keyOfPath(origin), false)
    else this.#set(keyOfSession(origin), ownerOf(origin), false)
  }

  #set(key: string, owner: string, isNumbered: boolean): void {
    this.#shown.set(key, owner, { isNumbered, size: ENTRY_SIZE + key.length })
  }
}

function keyOfSession({ owner, sessionId }: Origin): string {
  return JSON.stringify([owner, sessionId])
}

/** Revisions with sessions and without may be served by different code on one path. */
function keyOfPath({ path, sessionId }: Origin): string {
  return JSON.stringify([path, sessionId === undefined])
}

/** With a prefix, so that no owner has the key of a path. */
function ownerOf({ owner }: Origin): string {
  return `owner:${owner}`
}
