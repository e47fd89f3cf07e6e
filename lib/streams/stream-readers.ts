// The readers of a stream: the newest one, and older ones that make way for it.
import type { ByteBudget } from './event-log.js'
import { Retained } from './retained.js'
import type { Reader } from './stream-types.js'
import { TakeOvers } from './take-overs.js'

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

  constructor(isConnecting: boolean) {
    this.isConnecting = isConnecting
  }

  /** A new reader follows. Returns the one before it, which is to make way. */
  follow(reader: Reader, cursor: number): Reader | undefined {
    const older = this.current
    this.current = reader
    this.isConnecting = false
    this.count++
    this.start = cursor
    return older
  }

  makeWay(older: Reader): void {
    this.#takeOvers ??= new TakeOvers()
    this.#takeOvers.makeWay(older)
  }

  /**
   * Passes a block without an event on to the current reader, if there is one. It counts in the
   * budget until it has been passed on.
   */
  comment(bytes: Uint8Array, budget: ByteBudget, owner: string): void {
    const size = bytes.length
    if (this.current === undefined || size === 0 || !budget.reserve(size, false, owner)) return
    const retained = new RetainedComment(budget, size, owner)
    // Making room may have cost the stream its events, and its reader.
    const reader = this.current as Reader | undefined
    if (reader === undefined) retained.release()
    else reader.comment(bytes, retained)
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
