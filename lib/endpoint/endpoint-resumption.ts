// The event ids of an endpoint: one that closes a stream before the response expects its client
// again with the last (SEP-1699). We come back in its place.
import type { IncomingMessage } from 'node:http'
import { now } from '../protocol/clock.js'
import { isEventStreamType } from '../protocol/media-types.js'
import { type BlockFields, fieldOf } from '../protocol/sse-fields.js'
import type { ByteBudget } from '../streams/event-log.js'
import { outsideOfCalls, Timer } from '../streams/timer.js'
import { resumeAtEndpoint } from './endpoint-client.js'
import type { RequestContext } from './request-context.js'
import { isPlainEncoding } from '../http/response-headers.js'

/** Takes what the endpoint goes on with. */
export interface ResumedStream {
  /** `false`: it is full, until `drain`. */
  resumed(bytes: Buffer): boolean
  /** The endpoint has closed the stream again; `isAtWill`: by an end, and not by breaking off. */
  closed(isAtWill: boolean): void
  /** The endpoint will not go on with it. */
  refused(): void
}

/** The ids that can stand in a header as they are, up to a length that leaves room for others. */
const USABLE = /^[\x21-\x7e](?:[\x20-\x7e]{0,1022}[\x21-\x7e])?$/

/** Milliseconds between two requests at least, and where the endpoint says nothing else. */
const INTERVAL = 1000
/** How often in a row an endpoint may have no answer, or one for the moment. */
const MOST_TRIES = 5

const MOST_IDS = 1000
/** Bytes that an id takes in memory besides its characters. */
const ID_SIZE = 64

export class EndpointResumption {
  /** The reconnection time that the endpoint has asked for, in milliseconds; `undefined`: none. */
  retry: number | undefined
  lastId: string | undefined
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
  readonly #stream: ResumedStream
  readonly #request: RequestContext
  readonly #sessionId: string | undefined

  constructor(stream: ResumedStream, request: RequestContext, sessionId: string | undefined) {
    this.#stream = stream
    this.#request = request
    this.#sessionId = sessionId
    this.#seen = new SeenIds(request.instance.table.budget)
  }

  /** Milliseconds for which an endpoint may close its stream again and again without an event. */
  get #maxSilence(): number {
    return this.#request.instance.resumeInterval.max * 1000
  }

  /** Notes what a block says besides its data. `false`: it has come before. */
  note(bytes: Uint8Array, from: number, to: number, fields: BlockFields): boolean {
    if (this.#isStopped) return true
    const retry = fieldOf(bytes, from, to, 'retry')
    if (retry !== undefined && /^\d+$/.test(retry))
      this.retry = Math.min(Number(retry), this.#maxSilence)
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
    this.lastId = this.#areUseless || id === '' ? undefined : id
    if (isEvent && this.lastId !== undefined) this.#seen.add(id)
    return true
  }

  /** Asks the endpoint to go on. `false`: it cannot, or was silent for too long. */
  comeBack(): boolean {
    this.#response = undefined
    const at = now()
    this.#silentSince ??= at
    if (this.lastId === undefined || this.#isStopped) return false
    if (at - this.#silentSince > this.#maxSilence) return false
    this.#isResuming = true
    this.#askAfter(this.retry ?? INTERVAL)
    return true
  }

  /** There is room again in the stream. */
  drain(): void {
    this.#response?.resume()
  }

  /** Nothing more is wanted. */
  stop(): void {
    this.#isStopped = true
    this.#timer.stop()
    this.#abort.abort()
    this.#response?.destroy()
    this.#seen.clear()
  }

  #askAfter(wait: number): void {
    const earliest = this.#askedAt + INTERVAL - now()
    const delay = Math.max(0, earliest, wait)
    outsideOfCalls(() => this.#timer.start(delay))
  }

  async #ask(): Promise<void> {
    const { lastId } = this
    if (lastId === undefined) return
    this.#askedAt = now()
    try {
      const { req, revision } = this.#request
      const { signal } = this.#abort
      const options = { lastEventId: lastId, signal, sessionId: this.#sessionId, revision }
      this.#answered(await resumeAtEndpoint(req, options))
    } catch (error) {
      this.#request.instance.debug(
        'the endpoint has closed its stream, and does not go on: %o',
        error
      )
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
    this.#request.instance.debug(
      'the endpoint has closed its stream, and goes on with %d',
      statusCode
    )
    if (isPassing(statusCode)) this.#tryAgain()
    else this.#stream.refused()
  }

  #read(response: IncomingMessage): void {
    this.#failures = 0
    this.#response = response
    response.on('data', (chunk: Buffer) => {
      if (!this.#isStopped && !this.#stream.resumed(chunk)) response.pause()
    })
    response.on('error', () => undefined)
    response.once('close', () => {
      if (!this.#isStopped) this.#stream.closed(response.readableEnded)
    })
  }

  #tryAgain(): void {
    if (this.#isStopped) return
    if (++this.#failures > MOST_TRIES) return this.#stream.refused()
    this.#askAfter(Math.max(this.retry ?? 0, INTERVAL * 2 ** (this.#failures - 1)))
  }
}

/** The endpoint has not noticed its own end, or is overloaded. */
function isPassing(status: number): boolean {
  return status === 409 || status === 429 || status >= 500
}

class SeenIds {
  readonly #ids = new Set<string>()
  readonly #budget: ByteBudget
  #size = 0

  constructor(budget: ByteBudget) {
    this.#budget = budget
  }

  has(id: string): boolean {
    return this.#ids.has(id)
  }

  add(id: string): void {
    const size = ID_SIZE + id.length
    if (!this.#budget.reserve(size)) return
    this.#size += size
    this.#ids.add(id)
    const [oldest = ''] = this.#ids
    if (this.#ids.size > MOST_IDS) this.#forget(oldest)
  }

  clear(): void {
    this.#budget.unreserve(this.#size)
    this.#size = 0
    this.#ids.clear()
  }

  #forget(id: string): void {
    this.#ids.delete(id)
    this.#size -= ID_SIZE + id.length
    this.#budget.unreserve(ID_SIZE + id.length)
  }
}
