// The events of a call that has no stream: what is gathered of them, and what its client was given.
import { now } from '../protocol/clock.js'
import { eventIdPrefix } from '../protocol/event-id.js'
import { isResponse, type RequestId } from '../protocol/json-rpc.js'
import type { ClientProfile } from '../protocol/revisions.js'
import { dataInText, isNotificationText, messagesInText } from '../protocol/sse-lines.js'
import { firstBlock } from '../protocol/sse-writer.js'
import type { Budget } from '../streams/budget.js'
import { Record, type RecordInit, withId } from '../streams/record.js'
import type { Announced } from '../streams/stream-types.js'
import { textIn } from '../http/chunk.js'

const NO_IDS: readonly RequestId[] = []

export class GatheredEvents implements RecordInit, Announced {
  readonly id: string
  readonly kind = 'request'
  readonly owner: string
  readonly requestIds: readonly RequestId[]
  readonly sessionId: string | undefined
  readonly profile: ClientProfile
  /** When it became direct, in milliseconds of `now()`; 0: it did not. */
  begunAt = 0
  /** Bytes of the events. */
  size = 0
  /** All that has been asked is answered. */
  isAnswered = false
  /** It has one connection: the one that its request has come over. */
  readonly connections = 1
  /** Its client was given the first block. */
  hasFirst = false
  readonly #prefix: string
  /** As they are sent, a byte in each character; for each but the last, the offset behind it. */
  #text = ''
  readonly #ends: number[] = []
  #count = 0
  /** Characters, and events, that its client was given. */
  #given = 0
  #givenEvents = 0
  /** When its client was given the last of them. */
  givenAt = 0
  #owed: readonly RequestId[]
  /** The sequence of the last error. */
  #lastError = 0

  constructor(
    id: string,
    owner: string,
    requestIds: readonly RequestId[],
    sessionId: string | undefined,
    profile: ClientProfile
  ) {
    this.id = id
    this.owner = owner
    this.requestIds = this.#owed = requestIds
    this.sessionId = sessionId
    this.profile = profile
    this.#prefix = eventIdPrefix(this)
  }

  // As operators are told of it

  get state(): 'live' {
    return 'live'
  }

  get isEnded(): false {
    return false
  }

  /**
   * `false`: it is no event that can be gathered; or there is no room for it.
   *
   * @param most bytes of all events.
   * @param budget where they are counted; `undefined`: nowhere, as all leave in the same tick.
   */
  add([chunk, encoding]: readonly unknown[], most: number, budget?: Pick<Budget, 'hold'>): boolean {
    const isText = typeof chunk === 'string' && encoding === undefined
    const text = isText ? chunk : textIn(chunk, encoding)
    const dataFrom = text === undefined ? 0 : dataInText(text)
    if (text === undefined || dataFrom === 0) return false
    const bytes = Buffer.byteLength(text)
    if (this.size + bytes > most || budget?.hold(this.owner, bytes) === false) return false
    this.size += bytes
    if (!isNotificationText(text, dataFrom) && !this.#noteResponses(text, dataFrom)) return false
    if (this.#count > 0) this.#ends.push(this.#text.length)
    this.#text += withId(this.#prefix, ++this.#count, text)
    return true
  }

  /** `false`: it asks the client, or answers what nobody has asked. */
  #noteResponses(text: string, from: number): boolean {
    for (const message of messagesInText(text.slice(from))) {
      if (!isResponse(message)) return false
      const at = this.#owed.indexOf(message.id)
      if (at < 0) return false
      this.#owed = this.#owed.length === 1 ? NO_IDS : this.#owed.filter((_id, i) => i !== at)
      const { result } = message as { readonly result?: { readonly isError?: unknown } | null }
      if ('error' in message || result?.isError === true) this.#lastError = this.#count + 1
    }
    this.isAnswered = this.#owed.length === 0
    return true
  }

  /** What its client has not been given yet, as it is sent. `retry` in milliseconds. */
  take(retry: number | null): string {
    let first: string | undefined = ''
    if (!this.hasFirst) {
      first = firstBlock(this, 0, this.profile, retry, this.#count > 0)
      this.hasFirst = first !== undefined
    }
    const text = this.#text.slice(this.#given)
    this.#given = this.#text.length
    this.#givenEvents = this.#count
    if (this.begunAt !== 0) this.givenAt = now()
    return first === undefined ? text : first + text
  }

  /** Its client is given all of it. */
  record(): Record {
    const begunAt = this.begunAt === 0 ? undefined : this.begunAt
    return Record.of(this, this.#text, this.#ends, this.#lastError, begunAt)
  }

  /** Those that its client was given, without ids; `isRest`: the others. */
  blocks(isRest: boolean): Buffer[] {
    const ends = [...this.#ends, this.#text.length].slice(0, this.#count)
    const all = ends.map((end, i) => withoutId(this.#text.slice(ends[i - 1] ?? 0, end)))
    return isRest ? all.slice(this.#givenEvents) : all.slice(0, this.#givenEvents)
  }
}

function withoutId(event: string): Buffer {
  return Buffer.from(event.slice(event.indexOf('\n') + 1), 'latin1')
}
