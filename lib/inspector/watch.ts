// The last requests, with what was decided on them and why; from `diagnostics_channel`.
import { AsyncLocalStorage } from 'node:async_hooks'
import { type Channel, channel, subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { DecisionMessage, RequestMessage } from '../index.js'

/** One request, or what was decided without one. */
export interface RequestEntry {
  readonly id: number
  /** The time of day, in milliseconds. */
  readonly at: number
  /** Of HTTP; '' where a line belongs to no request, such as the abandonment of a stream. */
  readonly method: string
  status: number | undefined
  /** Milliseconds until its response was over; `undefined`: it is not yet. */
  took: number | undefined
  /** The connection broke before the response was over. */
  isBroken: boolean
  readonly lines: string[]
  /** Digests of the streams that the lines are about. */
  readonly streams: string[]
}

const MOST_ENTRIES = 100
const MOST_LINES = 30
const MOST_STREAMS = 10

export class Watch {
  readonly #streams: object
  readonly #onChange: () => void
  /** `null`: the request is of another instance. */
  #current: AsyncLocalStorage<RequestEntry | null> | undefined
  readonly #entries = new Map<number, RequestEntry>()
  readonly #changed = new Set<RequestEntry>()
  /** By the digest of a stream, the request that it was last mentioned with. */
  readonly #byStream = new Map<string, RequestEntry>()
  #nextId = 1

  constructor(streams: object, onChange: () => void) {
    this.#streams = streams
    this.#onChange = onChange
  }

  start(): void {
    this.#current = new AsyncLocalStorage()
    requests().bindStore(this.#current, message => this.#entryFor(message))
    subscribe(DECISION, this.#decided)
  }

  stop(): void {
    if (this.#current === undefined) return
    unsubscribe(DECISION, this.#decided)
    requests().unbindStore(this.#current)
    // Until version 24, Node goes through all storages that are enabled for each promise.
    this.#current.disable()
    this.#current = undefined
  }

  get entries(): RequestEntry[] {
    return [...this.#entries.values()]
  }

  /** Those that have changed since the last call. */
  takeChanged(): RequestEntry[] {
    const changed = [...this.#changed]
    this.#changed.clear()
    return changed
  }

  #entryFor({ streams, request, response }: RequestMessage): RequestEntry | null {
    if (streams !== this.#streams) return null
    const entry = this.#add(request.method ?? '')
    const begun = performance.now()
    response.once('close', () => {
      entry.status = response.headersSent ? response.statusCode : undefined
      entry.took = Math.round(performance.now() - begun)
      entry.isBroken = !response.writableFinished
      this.#note(entry)
    })
    return entry
  }

  readonly #decided = (message: unknown): void => {
    const { line, stream } = message as DecisionMessage
    const current = this.#current?.getStore()
    if (current === null) return
    const entry = this.#shown(current) ?? this.#of(stream) ?? this.#add('')
    if (entry.lines.length < MOST_LINES) entry.lines.push(line)
    if (stream !== undefined) this.#mention(stream, entry)
    this.#note(entry)
  }

  #shown(entry: RequestEntry | undefined): RequestEntry | undefined {
    return entry && this.#entries.get(entry.id)
  }

  #of(stream: string | undefined): RequestEntry | undefined {
    return stream === undefined ? undefined : this.#byStream.get(stream)
  }

  #mention(stream: string, entry: RequestEntry): void {
    if (!entry.streams.includes(stream)) {
      if (entry.streams.length === MOST_STREAMS) return
      entry.streams.push(stream)
    }
    this.#byStream.set(stream, entry)
  }

  #add(method: string): RequestEntry {
    const entry: RequestEntry = {
      id: this.#nextId++,
      at: Date.now(),
      method,
      status: undefined,
      took: undefined,
      isBroken: false,
      lines: [],
      streams: []
    }
    this.#entries.set(entry.id, entry)
    const [oldest] = this.#entries.values()
    if (this.#entries.size > MOST_ENTRIES && oldest !== undefined) this.#forget(oldest)
    this.#note(entry)
    return entry
  }

  #forget(entry: RequestEntry): void {
    this.#entries.delete(entry.id)
    this.#changed.delete(entry)
    for (const stream of entry.streams)
      if (this.#byStream.get(stream) === entry) this.#byStream.delete(stream)
  }

  #note(entry: RequestEntry): void {
    if (!this.#entries.has(entry.id)) return
    this.#changed.add(entry)
    this.#onChange()
  }
}

const DECISION = 'mcp-streams:decision'

const requests = (): Channel<RequestEntry | null, RequestMessage> =>
  channel('mcp-streams:request') as Channel<RequestEntry | null, RequestMessage>
