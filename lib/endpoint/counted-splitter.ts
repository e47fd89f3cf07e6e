// Cuts what an endpoint writes into blocks.
import { type BlockFields, type BlockListener, dataOf } from '../protocol/sse-fields.js'
import { LF } from '../protocol/bytes.js'
import { writtenMessages } from '../protocol/json-splice.js'
import { BlockSplitter } from '../protocol/sse-parser.js'
import type { ByteBudget } from '../streams/event-log.js'

/** Counted in steps of so many bytes, so that whole events cost nothing. */
const COUNTED_STEP = 4096

/** Cuts an event stream into blocks, and counts the bytes of the unfinished one. */
export class CountedSplitter {
  readonly #splitter = new BlockSplitter()
  readonly #budget: ByteBudget
  readonly #owner: string
  /** Bytes of the unfinished block that are counted. */
  #counted = 0
  #lastByte: number = LF

  constructor(budget: ByteBudget, owner: string) {
    this.#budget = budget
    this.#owner = owner
  }

  /** Bytes of an unfinished block. */
  get pending(): number {
    return this.#splitter.pending
  }

  push(bytes: Uint8Array, onBlock: BlockListener): void {
    this.#lastByte = bytes[bytes.length - 1] ?? this.#lastByte
    this.#splitter.push(bytes, onBlock)
  }

  /** There is no unfinished block, and none is counted. */
  get isWhole(): boolean {
    return this.#counted === 0 && this.#splitter.pending === 0
  }

  /** No block has begun. */
  get isBetweenBlocks(): boolean {
    return this.#lastByte === LF && this.isWhole
  }

  /** Counts what is unfinished now. `false`: there is no memory for it. */
  count(): boolean {
    const bytes = this.pending - (this.pending % COUNTED_STEP)
    const more = bytes - this.#counted
    if (more > 0 && !this.#budget.reserve(more, false, this.#owner)) return false
    if (more < 0) this.#budget.unreserve(-more, this.#owner)
    this.#counted = bytes
    return true
  }

  /** The endpoint has ended its response: what is pending, and is a whole message, is an event. */
  end(onBlock: BlockListener): void {
    if (this.isWhole) return
    this.#splitter.end((bytes, from, to, fields) => {
      if (isMessage(bytes, from, to, fields)) onBlock(bytes, from, to, fields)
    })
    this.count()
  }

  drop(): void {
    if (this.isWhole) return
    this.#splitter.takePending()
    this.count()
  }
}

function isMessage(bytes: Uint8Array, from: number, to: number, fields: BlockFields): boolean {
  if (fields.dataLines === 0 || !fields.isMessage) return false
  return writtenMessages(dataOf(bytes, from, to, fields)).length > 0
}
