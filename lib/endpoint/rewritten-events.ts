// Rewrites the events of an answer: each is held until it is whole, and every other byte stays as
// it is.
import { blocksIn, WholeBlocks } from '../protocol/whole-blocks.js'
import { rewrittenEvent } from './rewritten.js'

const NOTHING = Buffer.alloc(0)
const CR = 13
const LF = 10

export class RewrittenEvents {
  readonly #limit: number
  readonly #changed: (json: Buffer) => Buffer | undefined
  readonly #blocks = new WholeBlocks()
  /** A block that was rewritten has ended with the CR of a CRLF, whose LF is to come. */
  #isLineFeedDue = false

  /**
   * @param limit bytes of an event that is looked at.
   * @param changed the data of an event as it is to be; `undefined`: it stays.
   */
  constructor(limit: number, changed: (json: Buffer) => Buffer | undefined) {
    this.#limit = limit
    this.#changed = changed
  }

  /** The event that has not come whole is too large to be looked at. */
  get isTooLong(): boolean {
    return this.#blocks.pending > this.#limit
  }

  /** Returns the events that are whole. */
  push(bytes: Buffer): Buffer {
    // A copy: the memory of short writes is reused.
    const whole = this.#blocks.push(Buffer.from(bytes)) ?? NOTHING
    return Buffer.concat(Array.from(blocksIn(whole), block => this.#rewritten(block)))
  }

  /** Returns what has not come whole, as it is. */
  takeRest(): Uint8Array {
    return this.#blocks.takePending()
  }

  #rewritten(block: Uint8Array): Uint8Array {
    const own = this.#isLineFeedDue && block[0] === LF ? block.subarray(1) : block
    this.#isLineFeedDue = false
    if (own.length > this.#limit) return own
    const rewritten = rewrittenEvent(own, this.#changed)
    if (rewritten === undefined) return own
    this.#isLineFeedDue = own.at(-1) === CR && own.at(-2) === LF
    return rewritten
  }
}
