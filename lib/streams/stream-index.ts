// Finds streams where their ids are not given: by session, by owner, by the requests that they
// answer, by a ping.
import { nanoid } from 'nanoid'
import type { RequestId } from '../protocol/json-rpc.js'
import { Groups } from './groups.js'
import type { Stream } from './stream.js'

export class StreamIndex {
  readonly #bySession = new Groups<Stream>()
  /** Streams without a session. Those of an unknown owner are left out: nobody can list them. */
  readonly #byOwner = new Groups<Stream>()
  /** Streams whose clients have been sent a ping of ours, by its id. */
  readonly #pinged = new Map<string, Stream>()

  add(stream: Stream): void {
    const { sessionId, owner } = stream
    if (sessionId !== undefined) this.#bySession.add(sessionId, stream)
    else if (owner !== '') this.#byOwner.add(owner, stream)
  }

  delete(stream: Stream): void {
    const { sessionId, owner, pingId } = stream
    if (pingId !== undefined) this.#pinged.delete(pingId)
    if (sessionId === undefined) this.#byOwner.delete(owner, stream)
    else this.#bySession.delete(sessionId, stream)
  }

  /** Makes the id of a ping that we send on a stream. */
  namePing(stream: Stream): string {
    const id = `mcp-streams-ping-${nanoid()}`
    this.#pinged.set(id, stream)
    return id
  }

  /** The stream on which we have sent a ping with this id. */
  findPinged(id: RequestId): Stream | undefined {
    return typeof id === 'string' ? this.#pinged.get(id) : undefined
  }

  /** One owner's streams of a session. */
  ofSession(sessionId: string, owner: string): Stream[] {
    return this.#bySession.of(sessionId).filter(stream => stream.owner === owner)
  }

  /** A session's live listen channels that are this owner's, the oldest first. */
  findListening(sessionId: string, owner: string): readonly Stream[] {
    const streams = this.ofSession(sessionId, owner)
    return streams.filter(({ kind, isEnded }) => kind === 'listen' && !isEnded)
  }

  /** All streams that a client may list: those of its session, or its owner's without one. */
  listFor(sessionId: string | undefined, owner: string): readonly Stream[] {
    return this.#of(sessionId, owner).filter(stream => !stream.isHandshake && !stream.isEphemeral)
  }

  /**
   * One owner's running streams that answer these requests, by request id. An id that two streams
   * answer is left out.
   */
  findByRequests(
    requestIds: readonly RequestId[],
    sessionId: string | undefined,
    owner: string
  ): ReadonlyMap<RequestId, Stream> {
    const found = new Map<RequestId, Stream>()
    // Without a session and without an owner, a request id says nothing about whose request it is.
    if (requestIds.length === 0 || (sessionId === undefined && owner === '')) return found
    const wanted = new Set(requestIds)
    for (const stream of this.#of(sessionId, owner)) {
      if (stream.isEnded) continue
      for (const id of new Set(stream.requestIds)) {
        if (!wanted.has(id)) continue
        if (found.has(id)) wanted.delete(id)
        else found.set(id, stream)
      }
    }
    for (const id of found.keys()) if (!wanted.has(id)) found.delete(id)
    return found
  }

  #of(sessionId: string | undefined, owner: string): readonly Stream[] {
    return sessionId === undefined ? this.#byOwner.of(owner) : this.ofSession(sessionId, owner)
  }
}
