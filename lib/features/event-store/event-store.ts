// An endpoint with an `eventStore` of its own gives its events ids: clients get ours instead. One
// that closes a stream before the response expects its client again with the last of its ids
// (SEP-1699): we come back in its client's place.
import type { IncomingMessage } from 'node:http'
import { now } from '../../protocol/clock.js'
import { isEventStreamType } from '../../protocol/media-types.js'
import { type BlockFields, fieldOf, readFields } from '../../protocol/sse-fields.js'
import { withoutIds } from '../../protocol/sse-lines.js'
import type { Counter } from '../../streams/budget.js'
import { outsideOfCalls, Timer } from '../../streams/timer.js'
import { sendToEndpoint } from '../../endpoint/endpoint-client.js'
import type {
  EndpointEventStore,
  InstanceParts,
  NumberedEvents,
  NumberedRun
} from '../../endpoint/instance-parts.js'
import type { HandlerContext } from '../../http/handler-context.js'
import { isPlainEncoding } from '../../http/response-headers.js'

type ClientsRequest = Parameters<EndpointEventStore['follow']>[1]

export class EventStore implements EndpointEventStore {
  readonly isLeft: boolean
  readonly #parts: InstanceParts

  /** @param ids whose ids the events have that clients get: ours, or the endpoint's. */
  constructor(ids: 'replace' | 'leave', parts: InstanceParts) {
    this.isLeft = ids === 'leave'
    this.#parts = parts
  }

  follow(run: NumberedRun, request: ClientsRequest, handler: HandlerContext): NumberedEvents {
    return new EndpointResumption(this.#parts, run, request, handler)
  }
}

/** The ids that can stand in a header as they are, up to a length that leaves room for others. */
const USABLE = /^[\x21-\x7e](?:[\x20-\x7e]{0,1022}[\x21-\x7e])?$/

/** Milliseconds between two requests at least, and where the endpoint says nothing else. */
const INTERVAL = 1000
/** How often in a row an endpoint may have no answer, or one for the moment. */
const MOST_TRIES = 5

/** Bytes of ids that are kept for one call, with what they take in memory besides. */
const MOST_ID_BYTES = 1024 * 1024
/** Bytes that an id takes in memory besides its characters. */
const ID_SIZE = 64

class EndpointResumption implements NumberedEvents {
  /** The reconnection time that the endpoint has asked for, in milliseconds; `undefined`: none. */
  #retry: number | undefined
  #lastId: string | undefined
  /** The endpoint's ids tell nothing: one of them has come twice, or cannot be sent back. */
  #areUseless = false
  readonly #seen: SeenIds
  #isResuming = false
  /** When the endpoint closed the stream after its last event. */
  #silentSince: number | undefined
  #askedAt = -Infinity
  #failures = 0
  #isStopped = false
  #response: IncomingMessage | undefined
  readonly #abort = new AbortController()
  readonly #timer = new Timer(() => void this.#ask())
  readonly #parts: InstanceParts
  readonly #run: NumberedRun
  readonly #request: ClientsRequest
  readonly #handler: HandlerContext
  readonly #sessionId: string | undefined

  constructor(
    parts: InstanceParts,
    run: NumberedRun,
    request: ClientsRequest,
    handler: HandlerContext
  ) {
    this.#parts = parts
    this.#run = run
    this.#request = request
    this.#handler = handler
    this.#sessionId = handler.stream?.sessionId
    this.#seen = new SeenIds(parts.table.budget, handler.stream?.owner ?? '')
  }

  /** Milliseconds for which an endpoint may close its stream again and again without an event. */
  get #maxSilence(): number {
    return this.#parts.resumeInterval.max * 1000
  }

  // NumberedEvents

  take(bytes: Uint8Array, from: number, to: number, fields: BlockFields): void {
    if (!this.#note(bytes, from, to, fields)) return
    if (!fields.hasId) return this.#run.take(bytes, from, to, fields)
    const block = withoutIds(bytes, from, to)
    readFields(block, 0, fields)
    const isPrimer = fields.dataLines === 1 && fields.dataFrom === fields.dataTo
    if (isPrimer) fields.dataLines = 0
    this.#run.take(block, 0, block.length, fields)
  }

  closed(isAtWill: boolean): void {
    if (!this.#comesBack()) return this.#refused()
    // The endpoint wants no connection to be held: so do we, if its client comes back.
    const retry = this.#retry
    if (isAtWill) this.#handler.disconnect(retry === undefined ? {} : { retry })
  }

  drain(): void {
    this.#response?.resume()
  }

  stop(): void {
    this.#isStopped = true
    this.#timer.stop()
    this.#abort.abort()
    this.#response?.destroy()
    this.#seen.clear()
  }

  /** Notes what a block says besides its data. `false`: it has come before. */
  #note(bytes: Uint8Array, from: number, to: number, fields: BlockFields): boolean {
    if (this.#isStopped) return true
    const retry = fieldOf(bytes, from, to, 'retry')
    if (retry !== undefined && /^\d+$/.test(retry))
      this.#retry = Math.min(Number(retry), this.#maxSilence)
    const isEvent =
      fields.dataLines > 1 || (fields.dataLines > 0 && fields.dataFrom < fields.dataTo)
    const id = fields.hasId ? fieldOf(bytes, from, to, 'id') : undefined
    if (id !== undefined && isEvent && this.#seen.has(id)) {
      if (this.#isResuming) return false
      this.#areUseless = true
    }
    if (isEvent) this.#silentSince = undefined
    if (id === undefined) return true
    // An empty id takes back those before (WHATWG 9.2.6).
    if (id !== '' && !USABLE.test(id)) this.#areUseless = true
    this.#lastId = this.#areUseless || id === '' ? undefined : id
    if (isEvent && this.#lastId !== undefined) this.#seen.add(id)
    return true
  }

  /** Asks the endpoint to go on. `false`: it cannot, or was silent for too long. */
  #comesBack(): boolean {
    const { stream } = this.#handler
    if (stream?.isOwing !== true || stream.isEnded) return false
    this.#response = undefined
    const at = now()
    this.#silentSince ??= at
    if (this.#lastId === undefined || this.#isStopped) return false
    if (at - this.#silentSince > this.#maxSilence) return false
    this.#isResuming = true
    this.#askAfter(this.#retry ?? INTERVAL)
    return true
  }

  /** The endpoint will not go on with it. */
  #refused(): void {
    const { stream } = this.#handler
    // Its client comes back by itself, as it would have to the endpoint.
    if (stream?.kind === 'listen') stream.endpointId = this.#lastId
    stream?.producerEnded()
  }

  #askAfter(wait: number): void {
    const earliest = this.#askedAt + INTERVAL - now()
    const delay = Math.max(0, earliest, wait)
    outsideOfCalls(() => this.#timer.start(delay))
  }

  async #ask(): Promise<void> {
    const lastId = this.#lastId
    if (lastId === undefined) return
    this.#askedAt = now()
    try {
      const { req, revision } = this.#request
      const { signal } = this.#abort
      const headers = ['Last-Event-ID', lastId]
      const options = { headers, signal, sessionId: this.#sessionId, revision }
      this.#answered(await sendToEndpoint(req, undefined, options))
    } catch (error) {
      this.#parts.debug('the endpoint has closed its stream, and does not go on: %o', error)
      this.#tryAgain()
    }
  }

  #answered(response: IncomingMessage): void {
    const { statusCode = 0, headers } = response
    if (this.#isStopped) return void response.destroy()
    const isStream =
      isEventStreamType(headers['content-type']) && isPlainEncoding(headers['content-encoding'])
    if (statusCode === 200 && isStream) return this.#read(response)
    response.destroy()
    this.#parts.debug('the endpoint has closed its stream, and goes on with %d', statusCode)
    if (isTemporary(statusCode)) this.#tryAgain()
    else this.#refused()
  }

  #read(response: IncomingMessage): void {
    this.#failures = 0
    this.#response = response
    this.#seen.goesOn()
    response.on('data', (chunk: Buffer) => {
      if (!this.#isStopped && !this.#resumed(chunk)) response.pause()
    })
    response.on('error', () => undefined)
    response.once('close', () => {
      if (this.#isStopped) return
      if (response.readableEnded) this.#run.end()
      else this.#run.abort()
    })
  }

  /** `false`: the stream is full, until `drain`. */
  #resumed(bytes: Buffer): boolean {
    const hasRoom = this.#run.write(bytes)
    const { stream } = this.#handler
    // The SDKs leave a stream open after they have replayed its response, for more to come.
    if (stream?.isOwing === false) stream.producerEnded()
    return hasRoom
  }

  #tryAgain(): void {
    if (this.#isStopped) return
    if (++this.#failures > MOST_TRIES) return this.#refused()
    this.#askAfter(Math.max(this.#retry ?? 0, INTERVAL * 2 ** (this.#failures - 1)))
  }
}

/** The endpoint has not noticed its own end, or is overloaded. */
function isTemporary(status: number): boolean {
  return status === 409 || status === 429 || status >= 500
}

/**
 * The ids that have come, from the first one on. An endpoint that replays its stream from the
 * start, whatever it was asked for, is recognised by them; where they were too many to be kept, all
 * that it sends then is dropped up to the last one.
 */
class SeenIds {
  readonly #ids = new Set<string>()
  readonly #budget: Counter
  readonly #owner: string
  #size = 0
  /** There were more. */
  #isFull = false
  #last: string | undefined
  /** What comes has come before, as far as the last id. */
  #isReplay = false

  constructor(budget: Counter, owner: string) {
    this.#budget = budget
    this.#owner = owner
  }

  has(id: string): boolean {
    const isKept = this.#ids.has(id)
    if (!this.#isFull) return isKept
    const isSeen = isKept || this.#isReplay
    this.#isReplay = isSeen && id !== this.#last
    return isSeen
  }

  /** The endpoint goes on, in another response. */
  goesOn(): void {
    this.#isReplay = false
  }

  add(id: string): void {
    this.#last = id
    const size = ID_SIZE + id.length
    this.#isFull ||= this.#size + size > MOST_ID_BYTES || !this.#reserve(size)
    if (this.#isFull) return
    this.#size += size
    this.#ids.add(id)
  }

  clear(): void {
    this.#budget.release(this.#owner, this.#size)
    this.#size = 0
    this.#ids.clear()
  }

  #reserve(size: number): boolean {
    return this.#budget.hold(this.#owner, size)
  }
}
