// All open client connections, and how a response becomes one.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { ClientProfile } from '../protocol/revisions.js'
import { DueQueue } from '../streams/due-queue.js'
import type { ByteBudget } from '../streams/event-log.js'
import type { Stream } from '../streams/stream.js'
import { WhenIdle } from '../streams/when-idle.js'
import { watchSocket } from './detached-socket.js'
import { isKeptAlive, isRelayed } from './loopback.js'
import { isWritable } from './reply.js'
import { Connection, type ConnectionHost, type ConnectionOptions } from '../readers/connection.js'
import type { Sink } from '../readers/sink.js'
import {
  hasNativeWrite,
  isBroken,
  MOST_COPIED,
  pendingBytes,
  writeChunk
} from './node-internals.js'
import { StallWatch, type Waiting } from '../readers/stall-watch.js'
import { closeWhenIdle, whenClosed } from './socket-closed.js'

export interface ConnectionsOptions extends ConnectionOptions {
  /** Silence in milliseconds after which a comment goes out; `null`: never. */
  readonly keepAlive: number | null
  /** Greatest age in milliseconds, towards clients that come back; `null`: none. */
  readonly disconnectAfter: number | null
}

export class Connections implements ConnectionHost {
  readonly silences: DueQueue | undefined
  readonly ages: DueQueue | undefined
  readonly #options: ConnectionOptions
  readonly #budget: ByteBudget
  readonly #open = new Set<Connection>()
  readonly #stalls: StallWatch
  /** Set when the process is about to end: reconnection times for those who listen. */
  #retry: (() => number) | undefined
  /** Then clients go on by other instances. */
  #mayMove = false
  /** Then nothing is left but who listens. */
  #isLast = false
  /** Set when its time is up: milliseconds for which sockets are waited for. */
  #patience: number | undefined
  /** Connections whose sockets close with them, until these have. */
  readonly #closing = new Set<Connection>()
  readonly #idle = new WhenIdle(() => this.#closing.size === 0)

  /** @param deadline milliseconds for which a connection may make no progress. */
  constructor(options: ConnectionsOptions, deadline: number, budget: ByteBudget) {
    const { keepAlive, disconnectAfter } = options
    this.#options = options
    this.#budget = budget
    if (keepAlive !== null) this.silences = new DueQueue(keepAlive)
    if (disconnectAfter !== null) this.ages = new DueQueue(disconnectAfter)
    this.#stalls = new StallWatch(deadline)
  }

  get size(): number {
    return this.#open.size
  }

  /**
   * Lets a client follow a stream from a cursor on; an older connection of the stream makes way.
   */
  open(stream: Stream, cursor: number, sink: Sink, profile: ClientProfile): Connection {
    const connection = new Connection(stream, cursor, sink, profile, this.#options, this)
    if (connection.isClosed) return connection
    this.#open.add(connection)
    const retry = this.#retry
    if (retry !== undefined) {
      // First it is given what there is.
      process.nextTick(() => this.#send(connection, retry))
    }
    return connection
  }

  /**
   * The process is about to end: sockets close with their responses, now or when a client comes
   * back. Who listens is disconnected; `retry` says when each is to come back, in milliseconds.
   * `mayMove`: so is who waits for a call, and comes back by another instance.
   */
  beginClosing(retry: () => number, mayMove = false): void {
    this.#retry = retry
    this.#mayMove = mayMove
    for (const connection of [...this.#open]) this.#send(connection, retry)
  }

  /** Who has come by another instance already stays for as long as there is something to do. */
  #send(connection: Connection, retry: () => number): void {
    if (connection.isClosed) return
    const hasMoved = this.#mayMove && connection.isRelayed
    if (this.#mayMove && !hasMoved) connection.disconnect(retry())
    this.#release(connection)
    if (!hasMoved || this.#isLast) connection.stopListening(retry())
  }

  /** All calls are over: who still listens is disconnected, too. */
  callsOver(): void {
    this.#isLast = true
    const retry = this.#retry
    if (retry === undefined) return
    for (const connection of [...this.#open]) connection.stopListening(retry())
  }

  /** Sockets are waited for no longer than so many milliseconds from now on. */
  cutAfter(patience: number): void {
    this.#patience = patience
    this.#stalls.close()
    for (const connection of this.#closing) connection.cutAfter(patience)
  }

  /** There will be none any more. */
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

  /** An answer has been given to the end, and its socket has not taken all of it. */
  watchEnd(sink: Sink, owner: string): void {
    this.#stalls.add(new EndedAnswer(sink, owner, this.#budget))
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

/** What is left of an answer is counted, and cut off where its client takes nothing. */
class EndedAnswer implements Waiting {
  readonly isClosed = true
  readonly #sink: Sink
  readonly #owner: string
  readonly #budget: ByteBudget
  readonly #size: number

  constructor(sink: Sink, owner: string, budget: ByteBudget) {
    this.#sink = sink
    this.#owner = owner
    this.#budget = budget
    this.#size = sink.pending
    // It has been written already: others make room for it.
    budget.reserve(this.#size, true, owner)
  }

  get pending(): number {
    return this.#sink.pending
  }

  settled(): void {
    this.#budget.unreserve(this.#size, this.#owner)
  }

  stalled(): void {
    this.#sink.destroy()
    this.settled()
  }
}

/** A response of ours as a sink; `beforeEnd` may write the last of it. */
export function responseSink(
  req: IncomingMessage,
  res: ServerResponse,
  beforeEnd?: () => void
): Sink {
  const isReusable = hasNativeWrite(res)
  return {
    isRelayed: isRelayed(req),
    get isKeptAlive() {
      return isKeptAlive(req)
    },
    tellsWritten: isReusable,
    copies: isReusable ? MOST_COPIED : 0,
    get pending() {
      return pendingBytes(req, res)
    },
    cork: () => cork(req),
    uncork: () => uncork(req),
    write(bytes, onWritten) {
      const hasRoom = isReusable
        ? writeChunk(res, onWritten === undefined ? [bytes] : [bytes, onWritten])
        : res.write(bytes)
      ;(res as { flush?: () => void }).flush?.()
      return hasRoom
    },
    get isOver() {
      return !isWritable(res) || isBroken(req)
    },
    end() {
      beforeEnd?.()
      res.end()
    },
    destroy: () => void res.destroy(),
    get isGone() {
      return res.destroyed
    },
    onDrain: listener => void res.on('drain', listener),
    onClose(listener) {
      if (res.destroyed) return listener()
      const gone = (): void => {
        watch.delete(watcher)
        listener()
      }
      const watcher = { isInsideHandler: () => false, destroyed: () => false, gone }
      const watch = watchSocket(req, watcher)
      res.once('close', gone)
    },
    closeSocket(onClosed) {
      if (req.socket.destroyed) return onClosed()
      res.once('finish', () => closeWhenIdle(req.socket))
      whenClosed(req.socket, onClosed)
    }
  }
}

/** Gathers writes in the socket, where it is a real one: what injects requests has others. */
export function cork({ socket }: { readonly socket: Partial<Socket> }): void {
  socket.cork?.()
}

export function uncork({ socket }: { readonly socket: Partial<Socket> }): void {
  socket.uncork?.()
}
