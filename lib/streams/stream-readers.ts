// The readers of a stream: the newest one, older ones that make way for it, and how long the stream
// may be without any.
import { type DueQueue, Waiting } from './due-queue.js'
import type { ByteBudget } from './event-log.js'
import { Retained } from './retained.js'
import type { Reader } from './stream-types.js'
import { TakeOvers } from './take-overs.js'

/** The stream that is followed. */
export interface StreamReadersHost {
  readonly owner: string
  readonly isEnded: boolean
  /** Where comments count until they have been passed on. */
  readonly budget: ByteBudget
  /** Where it waits for a reader or a sign of life before it is abandoned. */
  readonly abandonments: DueQueue
  /** No client came back in time. */
  abandon(): void
}

export class StreamReaders {
  /** The reader that follows the stream now. */
  current: Reader | undefined
  /** How many readers there have been: makes the ids of primers advance. */
  count = 0
  /** The cursor of the newest one: a client without a cursor may have missed all that follows. */
  start = 0
  /** The connection of the request that has opened the stream is yet to follow it. */
  isConnecting: boolean
  #takeOvers: TakeOvers | undefined
  /** Waits while there is no reader. Made on demand: most streams have a reader to their end. */
  #abandonment: Waiting | undefined
  readonly #host: StreamReadersHost

  constructor(isConnecting: boolean, host: StreamReadersHost) {
    this.isConnecting = isConnecting
    this.#host = host
  }

  /** A new reader follows. Returns the one before it, which is to make way. */
  follow(reader: Reader, cursor: number): Reader | undefined {
    const older = this.current
    this.current = reader
    this.isConnecting = false
    this.count++
    this.start = cursor
    this.#abandonment?.stop()
    return older
  }

  makeWay(older: Reader): void {
    this.#takeOvers ??= new TakeOvers()
    this.#takeOvers.makeWay(older)
  }

  /** Passes a block without an event on to the current reader, if there is one. */
  comment(bytes: Uint8Array): void {
    const { budget, owner } = this.#host
    const size = bytes.length
    if (this.current === undefined || size === 0 || !budget.reserve(size, false, owner)) return
    const retained = new RetainedComment(budget, size, owner)
    // Making room may have cost the stream its events, and its reader.
    const reader = this.current as Reader | undefined
    if (reader === undefined) retained.release()
    else reader.comment(bytes, retained)
  }

  /**
   * A client has named the stream: without a reader, the time to abandonment starts again.
   */
  signOfLife(): void {
    const host = this.#host
    this.#abandonment?.stop()
    if (host.isEnded || this.current !== undefined) return
    host.abandonments.add((this.#abandonment ??= new Waiting(() => host.abandon())))
  }

  /** Stops waiting for a reader. */
  stop(): void {
    this.#abandonment?.stop()
    this.#abandonment = undefined
  }

  /** The stream has ended: readers that make way need not wait any longer. */
  endOlder(): void {
    this.#takeOvers?.endAll()
  }
}

class RetainedComment extends Retained {
  readonly #budget: ByteBudget
  readonly #size: number
  readonly #owner: string

  constructor(budget: ByteBudget, size: number, owner: string) {
    super()
    this.#budget = budget
    this.#size = size
    this.#owner = owner
  }

  protected override released(): void {
    this.#budget.unreserve(this.#size, this.#owner)
  }
}
