// All open client connections.
import type { ClientProfile } from '../protocol/revisions.js'
import { firstBlock } from '../protocol/sse-writer.js'
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { pendingBytes } from '../http/node-internals.js'
import { DueQueue, type Waiting } from '../streams/due-queue.js'
import type { Counter } from '../streams/budget.js'
import { LinkedList } from '../streams/linked-list.js'
import type { Record } from '../streams/record.js'
import type { Stream } from '../streams/stream.js'
import { WhenIdle } from '../streams/when-idle.js'
import { Connection, type ConnectionHost, type ConnectionOptions } from '../readers/connection.js'
import { type Answer, OutgoingAnswers } from '../readers/outgoing.js'
import type { Sink } from '../readers/sink.js'
import { type Stallable, StallWatch } from '../readers/stall-watch.js'

interface ConnectionsOptions extends ConnectionOptions {
  /** Silence in milliseconds after which a comment goes out; `null`: never. */
  readonly keepAlive: number | null
  /** Milliseconds after which a connection ends if its client would come back; `null`: never. */
  readonly disconnectAfter: number | null
  /** Bytes that a stream may hold. */
  readonly maxStreamBytes: number
}

/** Bytes of events that are gathered of a call: what is larger is a stream like any other. */
const MOST_GATHERED = 16 * 1024
/** Another bound, for specs. */
const BOUND = Symbol.for('express-mcp-streams.most-gathered')

/** A call that has no stream: its head has been made, and its client is there. */
interface Streamless extends Waiting {
  readonly id: string
  /** Gives it a stream and a connection. */
  goLive(): unknown
}

/** A response that has been ended, until its socket has taken all of it. */
class Leaving implements Stallable {
  readonly isClosed = true
  readonly #socket: Socket
  readonly #res: ServerResponse

  constructor(socket: Socket, res: ServerResponse) {
    this.#socket = socket
    this.#res = res
  }

  get pending(): number {
    return pendingBytes(this.#socket, this.#res)
  }

  emptied(): void {
    // Nothing is held for it.
  }

  stalled(): void {
    this.#res.destroy()
  }
}

const NO_EVENTS = new Uint8Array(0)

export class Connections implements ConnectionHost {
  readonly silences: DueQueue | undefined
  readonly ages: DueQueue | undefined
  /** Answers that are no connections to streams. */
  readonly outgoing: OutgoingAnswers
  readonly gathering = new LinkedList<Waiting>()
  /** Calls without a stream whose events go straight to their clients. */
  readonly direct = new Map<string, Streamless>()
  readonly mostGathered: number
  /** Milliseconds, as clients are told; `null`: they are not. */
  readonly retry: number | null
  readonly #options: ConnectionOptions
  readonly #open = new Set<Connection>()
  readonly #stalls: StallWatch
  /** Set when the process is about to end: gives each listening client its reconnection time. */
  #retry: (() => number) | undefined
  /** Whether clients can then come back through other instances. */
  #mayMove = false
  /** Set when the time for closing is up: milliseconds for which sockets are still waited for. */
  #patience: number | undefined
  /** Connections whose sockets close with them, until the sockets have closed. */
  readonly #closing = new Set<Connection | Answer>()
  readonly #idle = new WhenIdle(() => this.#closing.size === 0)

  /** @param deadline milliseconds for which a connection may make no progress. */
  constructor(options: ConnectionsOptions, deadline: number, budget: Counter) {
    const { keepAlive, disconnectAfter, maxStreamBytes } = options
    const { [BOUND]: bound = MOST_GATHERED } = globalThis as { [BOUND]?: number }
    this.#options = options
    this.retry = options.retry
    // Less than that with which a stream asks its endpoint to wait.
    this.mostGathered = Math.min(bound, Math.floor(maxStreamBytes / 4))
    if (keepAlive !== null) this.silences = new DueQueue(keepAlive)
    if (disconnectAfter !== null) this.ages = new DueQueue(disconnectAfter)
    this.#stalls = new StallWatch(deadline)
    this.outgoing = new OutgoingAnswers(budget, this.#stalls)
  }

  get size(): number {
    return this.#open.size
  }

  [Symbol.iterator](): Iterator<Connection> {
    return this.#open.values()
  }

  /** An older connection of the stream makes way. */
  open(stream: Stream, cursor: number, sink: Sink, profile: ClientProfile): Connection {
    const connection = new Connection(stream, cursor, sink, profile, this.#options, this)
    if (connection.isClosed) return connection
    this.#open.add(connection)
    const retry = this.#retry
    if (retry !== undefined) {
      // A tick later, so that the client is first given what there is.
      process.nextTick(() => this.#send(connection, retry))
    }
    return connection
  }

  /** Gives a client what a record has after a cursor, and more behind it. Nobody follows it. */
  give(
    record: Record,
    cursor: number,
    sink: Sink,
    profile: ClientProfile,
    behind: readonly Uint8Array[] = []
  ): void {
    const { lost } = this.#options
    const first = firstBlock(record, cursor, profile, this.retry, cursor < record.last) ?? ''
    const events = record.eventsAfter(cursor) ?? NO_EVENTS
    const isClosing = this.#retry !== undefined
    if (isClosing) sink.closeSocket(() => undefined)
    const parts = [Buffer.from(first, 'latin1'), events, ...behind]
    const isText = record.text !== undefined
    const answer = this.outgoing.write(sink, record.owner, {
      // What is kept as text is made anew for each answer, which is small enough for one write.
      key: isText ? undefined : record,
      parts: isText ? [Buffer.concat(parts)] : parts,
      onLost: () => lost(record)
    })
    if (answer !== undefined && isClosing) this.#beginClosing(answer)
  }

  /** Milliseconds after which the next client that listens is to come back. */
  get nextRetry(): number {
    return this.#retry?.() ?? 0
  }

  /** Clients that listen are disconnected, to come back after `retry()` ms. */
  stopListening(retry: () => number): void {
    this.#retry = retry
    for (const connection of [...this.#open]) {
      connection.closeSocket()
      connection.stopListening(retry())
    }
  }

  /** `mayMove`: clients of calls are disconnected as well, if they have not moved already. */
  beginClosing(mayMove: boolean): void {
    this.#mayMove = mayMove
    for (const connection of [...this.#open]) this.#send(connection, () => this.nextRetry)
    for (const answer of this.outgoing) if (!this.#closing.has(answer)) this.#beginClosing(answer)
  }

  #send(connection: Connection, retry: () => number): void {
    if (connection.isClosed) return
    if (this.#mayMove && !connection.isRelayed) connection.disconnect(retry())
    if (!this.#closing.has(connection)) this.#beginClosing(connection)
    connection.stopListening(retry())
  }

  /** From now on, sockets are waited for `patience` milliseconds at most. */
  cutAfter(patience: number): void {
    this.#patience = patience
    this.#stalls.close()
    for (const open of this.#closing) open.cutAfter(patience)
  }

  /** No connection will be opened any more. */
  close(): void {
    this.silences?.close()
    this.ages?.close()
  }

  /** Calls without a stream get one, as somebody looks for it: all, or the one with this id. */
  giveStreams(id?: string): void {
    if (id !== undefined) return void this.direct.get(id)?.goLive()
    for (let { first } = this.gathering; first !== undefined; { first } = this.gathering)
      (first as Streamless).goLive()
    for (const call of this.direct.values()) call.goLive()
  }

  /** A response has been ended of which its socket has not taken all, and may not. */
  leaving(socket: Socket, res: ServerResponse): void {
    this.#stalls.add(new Leaving(socket, res))
  }

  /** Resolves when all sockets have closed. */
  whenIdle(): Promise<void> | undefined {
    return this.#idle.wait()
  }

  #beginClosing(open: Connection | Answer): void {
    this.#closing.add(open)
    open.beginClosing(() => {
      this.#closing.delete(open)
      this.#idle.check()
    })
    if (this.#patience !== undefined) open.cutAfter(this.#patience)
  }

  // ConnectionHost

  closed(connection: Connection): void {
    this.#open.delete(connection)
  }

  waits(connection: Connection): void {
    this.#stalls.add(connection)
  }

  goesOn(connection: Connection): void {
    this.#stalls.delete(connection)
  }
}
