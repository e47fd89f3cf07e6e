// Streams without sockets: a table to open them in, producers and readers that only take notes.

import { HandOffTimes, QUIET } from '../../../lib/features/hand-off/hand-off.js'
import { now as clock } from '../../../lib/protocol/clock.js'
import { newFields, readFields } from '../../../lib/protocol/sse-fields.js'
import type { StreamError } from '../../../lib/protocol/errors.js'
import type { Message, RequestId } from '../../../lib/protocol/json-rpc.js'
import type { ClientProfile } from '../../../lib/protocol/revisions.js'
import type { Retained } from '../../../lib/streams/retained.js'
import type { Stream } from '../../../lib/streams/stream.js'
import type {
  Announced,
  Producer,
  Reader,
  RegistryLimits,
  StreamInit
} from '../../../lib/streams/stream-types.js'
import { StreamRegistry } from '../../../lib/streams/stream-registry.js'

export const MANNERS: ClientProfile = {
  isDurable: true,
  primer: 'empty',
  reconnects: 'always',
  handoff: 'when-links-followed'
}

export { QUIET }
export const AFTER = 10_000

export const LIMITS: RegistryLimits = {
  window: 120_000,
  maxStreamBytes: 1024 * 1024,
  maxEventBytes: 4 * 1024 * 1024,
  maxBytes: 4 * 1024 * 1024,
  maxStreams: 100,
  handOff: new HandOffTimes(AFTER),
  abandonAfter: 600_000
}

export interface Notice {
  name: string
  id: string
  code: string | undefined
}

export interface FakeTable {
  table: StreamRegistry
  /** What the table has told its listener, in order. */
  notices: Notice[]
}

export function newTable(limits: Partial<RegistryLimits> = {}): FakeTable {
  const notices: Notice[] = []
  const note = (name: string, stream: Announced, error: StreamError | undefined) =>
    notices.push({ name, id: stream.id, code: error?.code })
  return { table: new StreamRegistry({ ...LIMITS, ...limits }, note), notices }
}

export class FakeProducer implements Producer {
  drains = 0
  releases = 0
  /** Requests that nobody will answer any more. */
  readonly lost: RequestId[] = []

  drain(): void {
    this.drains++
  }

  unanswered(requestIds: readonly RequestId[]): void {
    this.lost.push(...requestIds)
  }

  streamEnded(): void {
    this.releases++
  }
}

/** Takes nothing by itself: `read` says what a connection would write now. */
export class FakeReader implements Reader {
  wakes = 0
  /** What it was woken with: the messages of the last event, as far as they had been read. */
  said: readonly Message[] = []
  takeOvers = 0
  waysGiven = 0
  readonly comments: string[] = []
  readonly disconnects: (number | undefined)[] = []

  wake(said: readonly Message[] = []): void {
    this.wakes++
    this.said = said
  }

  finish(): void {
    this.wake()
  }

  takeOver(): void {
    this.takeOvers++
  }

  giveWay(): void {
    this.waysGiven++
  }

  comment(bytes: Uint8Array, retained: Retained): void {
    retained.release()
    this.comments.push(Buffer.from(bytes).toString())
  }

  disconnect(retry?: number): boolean {
    this.disconnects.push(retry)
    return true
  }
}

let streams = 0

/** A stream id that says which of the spec's streams it is. */
export const streamId = (n: number | string): string => `stream-${n}`.padEnd(21, '-')

export interface Opened {
  stream: Stream
  producer: FakeProducer
}

export function tryOpen(table: StreamRegistry, init: Partial<StreamInit> = {}): Opened | undefined {
  const producer = new FakeProducer()
  const full: StreamInit = {
    id: streamId(++streams),
    kind: 'request',
    owner: '',
    requestIds: [1],
    sessionId: undefined,
    profile: MANNERS,
    ...init
  }
  const stream = table.open(full, producer)
  return stream && { stream, producer }
}

export function open(table: StreamRegistry, init: Partial<StreamInit> = {}): Opened {
  const opened = tryOpen(table, init)
  if (opened === undefined) throw new Error('the table has refused the stream')
  return opened
}

export const block = (data: unknown): Buffer =>
  Buffer.from(`data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`)

/** Appends one whole block. */
export function appendBytes(stream: Stream, bytes: Uint8Array, isSameWrite = false): boolean {
  const fields = newFields()
  const end = readFields(bytes, 0, fields)
  if (end !== bytes.length) throw new Error('not one whole block')
  return stream.append(bytes, 0, end, fields, isSameWrite)
}

export const append = (stream: Stream, data: unknown): boolean => appendBytes(stream, block(data))

export const progress = (text: string) => ({
  jsonrpc: '2.0',
  method: 'notifications/progress',
  params: { progressToken: 1, progress: 1, message: text }
})

export const response = (id: number | string = 1, result: unknown = {}) => ({
  jsonrpc: '2.0',
  id,
  result
})

/** Appends the response and ends the producer. */
export function complete(stream: Stream, id: number | string = 1): void {
  append(stream, response(id))
  stream.producerEnded()
}

/** Reads all after a cursor and marks it as written. Returns the text. */
export function deliver(stream: Stream, cursor = 0, now = clock()): string {
  const { record } = stream
  if (record !== undefined) return Buffer.from(record.eventsAfter(cursor) ?? []).toString()
  let text = ''
  while (cursor < stream.log.last) {
    const batch = stream.log.read(cursor)
    text += Buffer.from(batch.bytes).toString()
    stream.markWritten(batch, now)
    cursor = batch.last
  }
  return text
}
