// The facts of a stream, which are known when it is opened.
import { Member } from './linked-list.js'
import type { RequestId } from '../protocol/json-rpc.js'
import type { ClientProfile } from '../protocol/revisions.js'
import type { StreamIdentity, StreamInit, StreamKind } from './stream-types.js'

/** `Self`: the stream itself, as a member of a list of what may be evicted. */
export class StreamFacts<Self extends Member<Self>> extends Member<Self> implements StreamIdentity {
  readonly id: string
  readonly kind: StreamKind
  readonly owner: string
  requestIds: readonly RequestId[]
  readonly sessionId: string | undefined
  readonly profile: ClientProfile
  /** Its beginning and its end are messages of its log (Streams draft). */
  readonly isAnnounced: boolean
  /** It answers `initialize`. */
  readonly isHandshake: boolean
  /** It lasts no longer than its one connection. */
  readonly isEphemeral: boolean
  /** What its call is kept under, if that has an `Idempotency-Key`. */
  readonly callKey: string | undefined

  constructor(init: StreamInit) {
    super()
    this.id = init.id
    this.kind = init.kind
    this.owner = init.owner
    this.requestIds = init.requestIds
    this.sessionId = init.sessionId
    this.profile = init.profile
    this.isAnnounced = init.resumeInterval !== undefined
    this.isHandshake = init.isHandshake === true
    this.isEphemeral = init.isEphemeral === true
    this.callKey = init.callKey
  }
}
