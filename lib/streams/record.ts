// What is kept of a stream that has ended: its bytes, as they are sent to a client that comes back.
// Without its bytes, it is the tombstone.
import type { RequestId } from '../protocol/json-rpc.js'
import type { ClientProfile } from '../protocol/revisions.js'
import { now } from '../protocol/clock.js'
import { Member } from './linked-list.js'
import type { ServerRequests } from './server-requests.js'
import type { StreamIdentity, StreamKind, StreamState } from './stream-types.js'

export interface RecordInit extends StreamIdentity {
  readonly sessionId: string | undefined
  readonly profile: ClientProfile
}

/** What became of a stream. Most calls are alike in it, and share one object. */
export interface RecordDetails {
  readonly kind: StreamKind
  readonly state: StreamState
  /** The sequences of the first and the last event that are kept. */
  readonly first: number
  readonly last: number
  /** The sequence of the last event that a connection was given. */
  readonly written: number
  /** Where a client without a cursor goes on: what was sent last need not have arrived. */
  readonly unsentFrom: number
  /** The sequences of the last request to the client and of the last error; 0: there was none. */
  readonly lastRequest: number
  readonly lastError: number
  /** For each event but the last, the offset behind its last byte. */
  readonly ends: readonly number[]
  /** How many connections it has had. */
  readonly connections: number
  /** When its last connection broke, in milliseconds of `now()`; 0: it did not. */
  readonly lostAt: number
  /** Its beginning and its end are among its events (Streams draft). */
  readonly isAnnounced: boolean
  /** It answers `initialize`. */
  readonly isHandshake: boolean
  readonly callKey: string | undefined
  /** The endpoint's own id of the last event, by which it goes on with a listen channel. */
  readonly endpointId: string | undefined
  /** The ping that its client was sent. */
  readonly pingId: string | undefined
  /** What it has asked its client. */
  readonly asked: ServerRequests | undefined
}

/** A call that was answered by one event, which its client was given. */
const ANSWERED: RecordDetails = {
  kind: 'request',
  state: 'completed',
  first: 1,
  last: 1,
  written: 1,
  unsentFrom: 0,
  lastRequest: 0,
  lastError: 0,
  ends: [],
  connections: 1,
  lostAt: 0,
  isAnnounced: false,
  isHandshake: false,
  callKey: undefined,
  endpointId: undefined,
  pingId: undefined,
  asked: undefined
}

/** Bytes that are joined when they are asked for: most large records never are. */
export interface Pieces {
  /** Of all together. */
  readonly length: number
  readonly pieces: readonly Uint8Array[]
  /** They are not used any more. */
  takeBack(): void
}

/** Bytes up to which they are a string, which takes less memory than a buffer. */
const MOST_AS_TEXT = 16 * 1024

export class Record extends Member implements StreamIdentity {
  readonly id: string
  readonly profile: ClientProfile
  owner: string
  sessionId: string | undefined
  /** Its neighbours among those of its session or its owner. */
  before: Record | undefined
  after: Record | undefined
  /** When it ended, or was last given to a client, or lost its bytes. */
  #at: number
  /** Milliseconds from when it was opened until then. */
  #took: number
  /** A string has a byte in each character. `undefined`: its bytes are not kept any more. */
  #bytes: string | Uint8Array | Pieces | undefined
  details: RecordDetails
  readonly #requestIds: RequestId | readonly RequestId[]

  constructor(
    init: RecordInit,
    bytes: string | Uint8Array | Pieces | undefined,
    details: Partial<RecordDetails>,
    begunAt?: number
  ) {
    super()
    const { requestIds, kind } = init
    this.id = init.id
    this.owner = init.owner
    this.sessionId = init.sessionId
    this.profile = init.profile
    this.#requestIds = requestIds.length === 1 ? (requestIds[0] as RequestId) : requestIds
    this.#bytes =
      bytes instanceof Uint8Array && bytes.length <= MOST_AS_TEXT ? latin1Of(bytes) : bytes
    const isAnswered = details === ANSWERED && kind === ANSWERED.kind
    this.details = isAnswered ? ANSWERED : sharedOf({ ...ANSWERED, ...details, kind })
    this.before = undefined
    this.after = undefined
    const at = now()
    this.#at = Math.ceil(at - START)
    this.#took = begunAt === undefined ? 0 : Math.round(at - begunAt)
  }

  /** When it ended, or was last given to a client, or lost its bytes, in ms of `now()`. */
  get at(): number {
    return START + this.#at
  }

  /** From now on, it is kept for as long as one that has just ended. */
  touch(): void {
    const at = Math.ceil(now() - START)
    this.#took += at - this.#at
    this.#at = at
  }

  /**
   * Of a call that was over when its response was first sent.
   *
   * @param text its events, as they are sent, a byte in each character.
   * @param ends for each event but the last, the offset behind it.
   * @param lastError the sequence of the last one that says an error; 0: there is none.
   */
  static of(
    init: RecordInit,
    text: string,
    ends: readonly number[],
    lastError = 0,
    begunAt?: number
  ): Record {
    // Until it is read, V8 keeps a string that was put together as its pieces: 240 bytes a call.
    text.charCodeAt(0)
    const last = ends.length + 1
    const details = { last, written: last, lastError, ends }
    return new Record(init, text, last === 1 && lastError === 0 ? ANSWERED : details, begunAt)
  }

  get requestIds(): readonly RequestId[] {
    const ids = this.#requestIds
    return typeof ids === 'object' ? ids : [ids]
  }

  get kind(): StreamKind {
    return this.details.kind
  }

  /** Tells it from a stream, also for another copy of this module. */
  get isRecord(): true {
    return true
  }

  get isEnded(): true {
    return true
  }

  get state(): StreamState {
    return this.details.state
  }

  get first(): number {
    return this.details.first
  }

  get last(): number {
    return this.details.last
  }

  get written(): number {
    return this.details.written
  }

  get lastRequest(): number {
    return this.details.lastRequest
  }

  get lastError(): number {
    return this.details.lastError
  }

  /** One that lasts no longer than its connection leaves none. */
  get isEphemeral(): false {
    return false
  }

  get lostAt(): number {
    return this.details.lostAt
  }

  set lostAt(at: number) {
    this.details = { ...this.details, lostAt: at }
  }

  get isAnnounced(): boolean {
    return this.details.isAnnounced
  }

  /** Where a client without a cursor goes on. */
  get unsentFrom(): number {
    return this.details.unsentFrom
  }

  get endpointId(): string | undefined {
    return this.details.endpointId
  }

  get pingId(): string | undefined {
    return this.details.pingId
  }

  get asked(): ServerRequests | undefined {
    return this.details.asked
  }

  get isHandshake(): boolean {
    return this.details.isHandshake
  }

  /** When its client left. */
  get leftAt(): number {
    return this.at
  }

  get connections(): number {
    return this.details.connections
  }

  /** Whether its bytes are kept. */
  get isKept(): boolean {
    return this.#bytes !== undefined
  }

  /** A client has been given all of it. */
  get isDelivered(): boolean {
    return this.details.written >= this.details.last
  }

  /** Bytes of its events. */
  get size(): number {
    return this.#bytes?.length ?? 0
  }

  /** When it was opened, in milliseconds of `now()`. */
  get begunAt(): number {
    return this.at - this.#took
  }

  /** All that is kept, as it is sent, a byte in each character; `undefined`: that is too large. */
  get text(): string | undefined {
    return typeof this.#bytes === 'string' ? this.#bytes : undefined
  }

  /** Whether events after a cursor are not kept any more. */
  hasEvicted(cursor: number): boolean {
    const { first, last } = this.details
    return this.#bytes === undefined || (cursor < last && cursor + 1 < first)
  }

  /** The events after a cursor, as they are sent; `undefined`: some of them are not kept. */
  eventsAfter(cursor: number): Uint8Array | undefined {
    if (this.#bytes === undefined || cursor + 1 < this.details.first) return undefined
    return this.#between(this.#endOf(cursor), this.size)
  }

  /** One event, as it is sent; `undefined`: it is not kept. */
  event(sequence: number): Buffer | undefined {
    const { first, last } = this.details
    if (this.#bytes === undefined || sequence < first || sequence > last) return undefined
    return this.#between(this.#endOf(sequence - 1), this.#endOf(sequence))
  }

  /** For each event, the offset behind its last byte. */
  get ends(): readonly number[] {
    return [...this.details.ends, this.size]
  }

  #endOf(sequence: number): number {
    const { first, last, ends } = this.details
    if (sequence < first) return 0
    return sequence >= last ? this.size : (ends[sequence - first] as number)
  }

  #between(from: number, to: number): Buffer {
    let bytes = this.#bytes as string | Uint8Array | Pieces
    if (typeof bytes === 'string') return Buffer.from(bytes.slice(from, to), 'latin1')
    if ('pieces' in bytes) bytes = this.#join(bytes)
    return Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from)
  }

  #join(bytes: Pieces): Uint8Array {
    const { pieces, length } = bytes
    this.#bytes = Buffer.concat(pieces, length)
    bytes.takeBack()
    return this.#bytes
  }

  /** A client is given its events after a cursor, up to one. */
  give(cursor: number, upTo: number): void {
    const { connections, written } = this.details
    this.touch()
    this.details = {
      ...this.details,
      written: Math.max(written, upTo),
      unsentFrom: cursor,
      connections: connections + 1
    }
  }

  /** What a client was given the last time need not have arrived. */
  takeBack(): void {
    this.details = { ...this.details, written: this.details.unsentFrom }
  }

  /** From now on, it is its own tombstone. */
  forgetBytes(): void {
    const { ends, asked } = this.details
    const bytes = this.#bytes
    this.#bytes = undefined
    if (typeof bytes === 'object' && 'pieces' in bytes) bytes.takeBack()
    if (ends.length > 0 || asked !== undefined)
      this.details = { ...this.details, ends: [], asked: undefined }
  }
}

/** Whole milliseconds from here on: V8 keeps a small integer in its place, and no other number. */
const START = now()

const BEYOND_ASCII = /[^\0-\x7f]/

/** A block as it is sent, a byte in each character. */
export function withId(prefix: string, sequence: number, block: string): string {
  const bytes = BEYOND_ASCII.test(block) ? latin1Of(Buffer.from(block)) : block
  return `id: ${prefix}${sequence}\n${bytes}`
}

function latin1Of(bytes: Uint8Array): string {
  const { buffer, byteOffset, length } = bytes
  return Buffer.from(buffer, byteOffset, length).toString('latin1')
}

/** The shared object, where it says the same. */
function sharedOf(details: RecordDetails): RecordDetails {
  if (details.last !== 1) return details
  for (const name in ANSWERED) {
    const key = name as keyof RecordDetails
    if (key !== 'ends' && details[key] !== ANSWERED[key]) return details
  }
  return ANSWERED
}
