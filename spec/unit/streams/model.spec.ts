// Streams, their table and their connections against a model that anybody can check: an array of
// all events, and clients that hold what they received. Each client has each event once and in
// order, or has been told of a hole.

import { afterEach, beforeEach, expect, it, jest } from '@jest/globals'
import { fc, times } from '../../helpers/property.js'
import { parseEventId } from '../../../lib/protocol/event-id.js'
import { isResponse } from '../../../lib/protocol/json-rpc.js'
import type { ClientProfile } from '../../../lib/protocol/revisions.js'
import { DueQueue } from '../../../lib/streams/due-queue.js'
import { Stream } from '../../../lib/streams/stream.js'
import type { StreamRegistry } from '../../../lib/streams/stream-registry.js'
import type { Record } from '../../../lib/streams/record.js'
import { firstBlock } from '../../../lib/protocol/sse-writer.js'
import { OutgoingAnswers } from '../../../lib/readers/outgoing.js'
import { StallWatch } from '../../../lib/readers/stall-watch.js'
import { Connection } from '../../../lib/readers/connection.js'
import type { Sink } from '../../../lib/readers/sink.js'
import { BlockSplitter, type Block } from '../../helpers/blocks.js'
import { append, FakeProducer, newTable, response, streamId, tryOpen } from './fakes.js'

/** Milliseconds after which whoever is taken over again and again is told at the latest. */
const LONGEST_DELAY = 30_000
const TIMES = { window: 1000, abandonAfter: 5000 }
/** Small streams, where every limit is near; and such as fill segments that are used again. */
const SIZES = [
  {
    name: 'small',
    largestEvent: 3000,
    maxStreamBytes: 6000,
    maxBytes: 20_000,
    maxStreams: 4,
    runs: 300
  },
  {
    name: 'large',
    largestEvent: 40_000,
    maxStreamBytes: 200_000,
    maxBytes: 700_000,
    maxStreams: 4,
    runs: 60
  }
]
const STREAMS = 7
const CLIENTS = 2

const none = () => undefined

/** Bytes that are kept of it. */
const sizeOf = ({ record, log }: Stream) => record?.size ?? log.bytes

function ensure(condition: boolean, what: string): void {
  if (!condition) throw new Error(`not so: ${what}`)
}

/** What is on its way: the bytes themselves, as a socket holds them, and what they were. */
interface InFlight {
  bytes: Uint8Array
  copy: Buffer
  onWritten: (() => void) | undefined
}

/**
 * A wire: what the server has written and the client has not been given yet gets lost when it is
 * cut.
 */
class Wire implements Sink {
  ended: 'cleanly' | 'by force' | undefined
  readonly isOver = false
  readonly #inFlight: InFlight[] = []
  #onDrain: (() => void) | undefined
  #onClose: (() => void) | undefined
  #isClosed = false
  #corks = 0
  #lastWrite = ''
  /** The last event that has been written, or that the client had before. */
  #last: number
  readonly #client: Client
  readonly #stream: Stream
  readonly #takes: () => boolean
  /** Which of the stream's readers it carries; set as soon as that follows. */
  number = Infinity

  constructor(client: Client, stream: Stream, cursor: number, takes: () => boolean) {
    this.#client = client
    this.#stream = stream
    this.#last = cursor
    this.#takes = takes
  }

  readonly tellsWritten = true

  get pending(): number {
    return this.#isClosed ? 0 : this.#inFlight.reduce((sum, { bytes }) => sum + bytes.length, 0)
  }

  write(bytes: Uint8Array, onWritten?: () => void): boolean {
    ensure(this.ended === undefined, 'nothing is written after the end')
    this.#lastWrite = Buffer.from(bytes).toString()
    const ids = [...this.#lastWrite.matchAll(/^id: [^.]*(?:\.r\d+)?\.(\d+)$/gm)]
    this.#last = Number(ids.at(-1)?.[1] ?? this.#last)
    this.#inFlight.push({ bytes, copy: Buffer.from(bytes), onWritten })
    return this.#takes()
  }

  get isGone(): boolean {
    return this.#isClosed
  }

  cork(): void {
    this.#corks++
  }

  uncork(): void {
    ensure(this.#corks-- > 0, 'what is uncorked was corked')
  }

  end(): void {
    if (this.ended !== undefined) return
    this.ended = 'cleanly'
    const isAtWill = /^retry: 77$/m.test(this.#lastWrite)
    // The newer one may have gone by the time that this one is told.
    const isTakenOver = this.#stream.readers.count > this.number
    if (isAtWill || isTakenOver) return
    ensure(
      this.#stream.isEnded,
      'only the end of a stream, the server or a newer connection ends a connection'
    )
    ensure(this.#last === this.#stream.log.last, 'a clean end comes after everything')
  }

  destroy(): void {
    this.ended = 'by force'
    process.nextTick(() => this.cut())
  }

  onDrain(listener: () => void): void {
    this.#onDrain = listener
  }

  onClose(listener: () => void): void {
    this.#onClose = listener
  }

  closeSocket(): void {
    throw new Error('nobody goes down here')
  }

  drain(): void {
    if (!this.#isClosed) this.#onDrain?.()
  }

  /** The client is given that many bytes; when a clean end has arrived, it lets go. */
  deliver(bytes: number): void {
    ensure(this.#corks === 0, 'what was corked is uncorked')
    while (bytes > 0 && this.#inFlight.length > 0 && !this.#isClosed) {
      const first = this.#inFlight[0]!
      ensure(first.copy.equals(first.bytes), 'bytes do not change while a socket holds them')
      const piece = Buffer.from(first.bytes.subarray(0, bytes))
      bytes -= piece.length
      first.bytes = first.bytes.subarray(piece.length)
      first.copy = first.copy.subarray(piece.length)
      if (first.bytes.length === 0) this.#inFlight.shift()!.onWritten?.()
      this.#client.receive(piece)
    }
    if (this.ended === 'cleanly' && this.#inFlight.length === 0) this.cut()
  }

  cut(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    for (const { onWritten } of this.#inFlight) onWritten?.()
    this.#client.lose(this)
    this.#onClose?.()
  }
}

/** Comes back until it has everything, or is told that it cannot have it. */
class Client {
  readonly received: string[] = []
  /** `done`: 204. `told`: 404, 410, or an error for its request. */
  outcome: 'done' | 'told' | undefined
  wire: Wire | undefined
  connection: Connection | undefined
  #splitter = new BlockSplitter(() => undefined)
  readonly #model: StreamModel

  constructor(model: StreamModel) {
    this.#model = model
  }

  /** What `resume.ts` does with a GET of the stream URL. */
  async resume(table: StreamRegistry, takes: () => boolean, profile: ClientProfile): Promise<void> {
    if (this.outcome !== undefined) return
    const cursor = this.received.length
    const found = table.find(this.#model.stream.id)
    if (found.kind === 'unknown') this.outcome = 'told'
    else if (found.kind === 'ended') {
      const { state, last } = found.value
      const isDone = state === 'cancelled' || (state !== 'abandoned' && cursor >= last)
      if (isDone) this.outcome = 'done'
      else if (found.value.hasEvicted(cursor)) this.outcome = 'told'
      else this.#give(table, found.value, cursor, takes, profile)
    } else {
      const { isEnded, log } = found.value
      if (cursor + 1 < log.first && cursor < log.last) this.outcome = 'told'
      else if (isEnded && cursor === log.last) this.outcome = 'done'
      else this.#connect(cursor, takes, profile)
    }
  }

  #give(
    table: StreamRegistry,
    record: Record,
    cursor: number,
    takes: () => boolean,
    profile: ClientProfile
  ): void {
    this.wire?.cut()
    const wire = new Wire(this, this.#model.stream, cursor, takes)
    this.wire = wire
    this.#splitter = new BlockSplitter(block => this.#hear(block))
    table.given(record, cursor)
    wire.number = record.connections
    const first = Buffer.from(firstBlock(record, cursor, profile, 10, true) ?? '')
    const parts = [first, record.eventsAfter(cursor) ?? Buffer.alloc(0)]
    const outgoing = new OutgoingAnswers(table.budget, this.#model.stalls)
    outgoing.write(wire, record.owner, { key: record, parts, onLost: none })
  }

  #connect(cursor: number, takes: () => boolean, profile: ClientProfile): void {
    this.wire?.cut()
    const wire = new Wire(this, this.#model.stream, cursor, takes)
    this.wire = wire
    this.#splitter = new BlockSplitter(block => this.#hear(block))
    const options = {
      retry: 10,
      retryAtWill: 77,
      lost: none,
      debug: none
    }
    this.connection = new Connection(this.#model.stream, cursor, wire, profile, options, {
      silences: this.#model.silences,
      ages: this.#model.ages,
      closed: none,
      waits: none,
      goesOn: none
    })
    wire.number = this.#model.stream.readers.count
    this.connection.flush()
  }

  receive(bytes: Buffer): void {
    this.#splitter.feed(bytes)
  }

  lose(wire: Wire): void {
    if (this.wire !== wire) return
    this.wire = undefined
    this.connection = undefined
  }

  #hear({ id, event, data }: Block): void {
    if (id === undefined) return expect(data).toBeUndefined()
    const eventId = parseEventId(id)
    expect(eventId?.streamId).toBe(this.#model.stream.id)
    if (data === '' || event === 'prime') {
      // A primer never claims what the client does not have.
      expect(eventId?.sequence).toBe(this.received.length)
      return
    }
    expect(eventId?.sequence).toBe(this.received.length + 1)
    expect(data).toBe(this.#model.events[this.received.length])
    this.received.push(data!)
  }
}

/** One stream, and all of its events so far. */
class StreamModel {
  readonly silences = new DueQueue(400)
  readonly ages = new DueQueue(2500)
  readonly stalls = new StallWatch(5000)
  readonly events: string[] = []
  readonly clients: Client[] = []
  readonly stream: Stream
  readonly isPolite: boolean
  readonly producer: FakeProducer

  constructor(stream: Stream, producer: FakeProducer, isPolite: boolean) {
    this.stream = stream
    this.producer = producer
    this.isPolite = isPolite
    for (let i = 0; i < CLIENTS; i++) this.clients.push(new Client(this))
  }

  append(size: number): void {
    if (this.isPolite && this.stream.isFull) return
    this.#take(`${this.events.length}:`.padEnd(size, 'x'))
  }

  complete(): void {
    this.#take(JSON.stringify(response(1, this.events.length)))
    this.end()
  }

  end(): void {
    this.stream.producerEnded()
    this.#noteErrors()
  }

  #take(data: string): void {
    const { last } = this.stream.log
    append(this.stream, data)
    if (this.stream.log.last > last && !this.#hasFailedSince(last)) this.events.push(data)
    this.#noteErrors()
  }

  #hasFailedSince(last: number): boolean {
    return (
      this.stream.state === 'failed' &&
      this.events.length === last &&
      this.#lastEvent().includes('"error"')
    )
  }

  /** The only events that nobody has appended: the errors of a stream that failed. */
  #noteErrors(): void {
    if (this.stream.log.last === this.events.length) return
    expect(this.stream.state).toBe('failed')
    expect(this.stream.log.last).toBe(this.events.length + 1)
    this.events.push(this.#lastEvent())
  }

  #lastEvent(): string {
    const { last } = this.stream
    const event = (this.stream.record ?? this.stream).event(last)
    return /^data: (.*)$/m.exec(event?.toString() ?? '')?.[1] ?? ''
  }
}

const isAnswer = (data: string) => data.startsWith('{') && isResponse(JSON.parse(data))

const operation = fc.record({
  name: fc.oneof(
    ...(
      [
        [10, 'append'],
        [1, 'complete'],
        [1, 'end'],
        [0.3, 'cancel'],
        [0.3, 'fail'],
        [0.3, 'drop'],
        [6, 'resume'],
        [3, 'cut'],
        [8, 'deliver'],
        [4, 'drain'],
        [2, 'disconnect'],
        [3, 'open'],
        [6, 'tick'],
        [2, 'comment'],
        [2, 'wait']
      ] as const
    ).map(([weight, name]) => ({ weight: weight * 10, arbitrary: fc.constant(name) }))
  ),
  stream: fc.nat(STREAMS - 1),
  client: fc.nat(CLIENTS - 1),
  /** Of bytes or of milliseconds, in thousandths of the greatest. */
  amount: fc.nat(1000)
})

interface Scenario {
  operations: { name: string; stream: number; client: number; amount: number }[]
  takes: boolean[]
  polite: boolean[]
}

/** Scenarios that have found something once. A word may name a client and an amount: `wait 0 6`. */
const again = (text: string, takes = [false]): [Scenario] => [
  {
    operations: text.split(', ').map(word => {
      const [name = '', client = 0, amount = 0] = word.split(' ')
      return { name, stream: 0, client: Number(client), amount: Number(amount) }
    }),
    takes,
    polite: Array(STREAMS).fill(false)
  }
]
const FOUND = [
  // A connection that waits for its end while the one that has taken its place is done.
  again(
    'resume, resume 1, resume, resume 1, append, deliver, end, append, tick, append, append, ' +
      'resume, resume, open, resume 1, append, tick, append, wait, resume 1, drain, resume 1, ' +
      'deliver, deliver 1 6'
  )
]

const MANNERS: ClientProfile[] = (['empty', 'named', 'none'] as const).flatMap(primer =>
  (['always', 'when-links-followed'] as const).map(reconnects => ({
    isDurable: true,
    primer,
    reconnects,
    handoff: 'never' as const
  }))
)

beforeEach(() => {
  jest.useFakeTimers()
})
afterEach(() => {
  jest.useRealTimers()
})

it.each(SIZES)(
  'every client of $name streams has each event once and in order, or knows of the hole',
  async size => {
    const { largestEvent, runs, name: _name, ...sizes } = size
    const limits = { ...TIMES, ...sizes, maxEventBytes: largestEvent + 100 }
    const outcomes = { done: 0, told: 0, resumes: 0, holes: 0, evicted: 0 }
    const scenario = fc.record({
      operations: fc.array(operation, { minLength: 20, maxLength: 150, size: 'max' }),
      takes: fc.array(fc.boolean(), { minLength: 1, maxLength: 20 }),
      polite: fc.array(fc.boolean(), { minLength: STREAMS, maxLength: STREAMS })
    })
    await fc.assert(
      fc.asyncProperty(scenario, async ({ operations, takes, polite }) => {
        // One run must not hear of another's failure.
        jest.clearAllTimers()
        const { table } = newTable(limits)
        const models: StreamModel[] = []
        let writes = 0
        const takesNext = () => takes[writes++ % takes.length] as boolean
        const open = () => {
          if (models.length === STREAMS) return
          const opened = tryOpen(table, { id: streamId(models.length) })
          if (opened !== undefined)
            models.push(new StreamModel(opened.stream, opened.producer, polite[models.length]!))
        }
        const check = () => {
          const { bytes, live, finished } = table.counts()
          const kept = models.reduce((sum, { stream }) => sum + sizeOf(stream), 0)
          ensure(bytes >= kept, 'bytes are those of all logs, and what is retained')
          ensure(bytes <= limits.maxBytes + largestEvent, 'bytes stay within their limit')
          ensure(live + finished <= limits.maxStreams, 'streams stay within their limit')
          ensure(
            live === models.filter(({ stream }) => !stream.isEnded).length,
            'those count as live that are'
          )
          for (const { stream, producer } of models) {
            ensure(
              producer.releases === (stream.isEnded ? 1 : 0),
              'an ended stream has released its producer, once'
            )
          }
        }

        open()
        for (const { name, stream: n, client: c, amount } of operations) {
          const bytes = Math.ceil((amount / 1000) * largestEvent)
          const model = models[n % models.length]!
          const client = model.clients[c]!
          const { stream } = model
          if (name === 'append') model.append(bytes)
          else if (name === 'complete') model.complete()
          else if (name === 'end') model.end()
          else if (name === 'cancel') stream.cancel()
          else if (name === 'fail') {
            stream.fail('session-ended')
            model.end()
          } else if (name === 'drop') {
            if (stream.isEnded && sizeOf(stream) > 0) table.drop(stream)
          } else if (name === 'resume') {
            outcomes.resumes++
            await client.resume(table, takesNext, MANNERS[amount % MANNERS.length]!)
          } else if (name === 'cut') client.wire?.cut()
          else if (name === 'deliver') client.wire?.deliver(3 * bytes)
          else if (name === 'drain') client.wire?.drain()
          else if (name === 'disconnect') client.connection?.disconnect()
          else if (name === 'open') open()
          else if (name === 'tick') jest.runAllTicks()
          else if (name === 'comment') stream.comment(Buffer.from(': ping\n\n'))
          else jest.advanceTimersByTime(3 * amount)
          check()
        }

        for (const model of models) {
          if (!model.stream.isEnded) model.complete()
          for (const client of model.clients) {
            for (let tries = 0; client.outcome === undefined; tries++) {
              if (client.wire === undefined) await client.resume(table, () => true, MANNERS[0]!)
              client.wire?.drain()
              jest.runAllTicks()
              client.wire?.deliver(Infinity)
              // Who has been taken over too often is told so only after a while.
              if (client.outcome === undefined) jest.advanceTimersByTime(LONGEST_DELAY / 4)
              check()
              expect(tries).toBeLessThan(10)
            }
            outcomes[client.outcome]++
            const isCancelled = model.stream.state === 'cancelled'
            if (client.outcome === 'told')
              outcomes.holes += model.events.length - client.received.length
            else if (!isCancelled) {
              expect(client.received).toEqual(model.events)
              ensure(client.received.some(isAnswer), 'its request has a result or an error')
            }
            client.wire?.cut()
          }
        }
        outcomes.evicted += table.counts().evictions

        jest.advanceTimersByTime(10 * 60_000)
        expect(table.counts()).toMatchObject({ live: 0, waiting: 0, finished: 0, bytes: 0 })
        expect(jest.getTimerCount()).toBe(0)
      }),
      { numRuns: times(runs), examples: FOUND }
    )
    // The scenarios have gone where they should.
    expect(Math.min(...Object.values(outcomes))).toBeGreaterThan(runs / 3)
  }
)
