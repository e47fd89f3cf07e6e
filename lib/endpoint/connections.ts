// All open client connections.
import type { ClientProfile } from '../protocol/revisions.js'
import { DueQueue } from '../streams/due-queue.js'
import type { HoldingBudget } from '../streams/stream-types.js'
import type { Stream } from '../streams/stream.js'
import { WhenIdle } from '../streams/when-idle.js'
import { Connection, type ConnectionHost, type ConnectionOptions } from '../readers/connection.js'
import { OutgoingAnswers } from '../readers/outgoing.js'
import type { Sink } from '../readers/sink.js'
import { StallWatch } from '../readers/stall-watch.js'

interface ConnectionsOptions extends ConnectionOptions {
  /** Silence in milliseconds after which a comment goes out; `null`: never. */
  readonly keepAlive: number | null
  /** Milliseconds after which a connection ends if its client would come back; `null`: never. */
  readonly disconnectAfter: number | null
}

export class Connections implements ConnectionHost {
  readonly silences: DueQueue | undefined
  readonly ages: DueQueue | undefined
  /** Answers that are no connections to streams. */
  readonly outgoing: OutgoingAnswers
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
  readonly #closing = new Set<Connection>()
  readonly #idle = new WhenIdle(() => this.#closing.size === 0)

  /** @param deadline milliseconds for which a connection may make no progress. */
  constructor(options: ConnectionsOptions, deadline: number, budget: HoldingBudget) {
    const { keepAlive, disconnectAfter } = options
    this.#options = options
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

  /** Milliseconds after which the next client that listens is to come back. */
  get retry(): number {
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
    for (const connection of [...this.#open]) this.#send(connection, () => this.retry)
  }

  #send(connection: Connection, retry: () => number): void {
    if (connection.isClosed) return
    if (this.#mayMove && !connection.isRelayed) connection.disconnect(retry())
    if (!this.#closing.has(connection)) this.#release(connection)
    connection.stopListening(retry())
  }

  /** From now on, sockets are waited for `patience` milliseconds at most. */
  cutAfter(patience: number): void {
    this.#patience = patience
    this.#stalls.close()
    for (const connection of this.#closing) connection.cutAfter(patience)
  }

  /** No connection will be opened any more. */
  close(): void {
    this.silences?.close()
    this.ages?.close()
  }

  /** Resolves when all sockets have closed. */
  whenIdle(): Promise<void> {
    return this.#idle.wait()
  }

  #release(connection: Connection): void {
    this.#closing.add(connection)
    connection.beginClosing(() => {
      this.#closing.delete(connection)
      this.#idle.check()
    })
    if (this.#patience !== undefined) connection.cutAfter(this.#patience)
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
