// The part of a request's body that has come: limited, and counted once it is waited for.
import type { Quota } from '../streams/quota.js'

export interface BodyLimits {
  /** Bytes up to which a body is read. */
  readonly limit: number
  /** Where the bytes of bodies that are waited for are counted. */
  readonly budget: Quota
  readonly owner: string
}

/** Bytes that a piece counts for at the least: each is an object, here and in the request. */
const SMALLEST_PIECE = 256

export class CountedBody {
  readonly #limits: BodyLimits
  #chunks: Buffer[] = []
  #size = 0
  /** Bytes that the budget knows of; `undefined`: the body is not waited for. */
  #counted: number | undefined

  constructor(limits: BodyLimits) {
    this.#limits = limits
  }

  get isTooLarge(): boolean {
    return this.#size > this.#limits.limit
  }

  /** All of it, in one piece; `undefined`: there was no room for it. */
  get whole(): Buffer | undefined {
    if (this.isTooLarge || (this.#counted !== undefined && this.#counted < this.#held))
      return undefined
    const chunks = this.#chunks
    return chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)
  }

  /** `false`: it is too large, or there is no room for it. */
  add(chunk: Uint8Array): boolean {
    // Deno's parser does not make a Buffer of it.
    this.#chunks.push(bufferOf(chunk))
    this.#size += chunk.length
    return !this.isTooLarge && (this.#counted === undefined || this.#count())
  }

  /** The body takes its time, so it is counted from now on. `false`: there is no room for it. */
  beginCounting(): boolean {
    this.#counted = 0
    return this.#count()
  }

  /** Returns whether it was counted. */
  dispose(): boolean {
    this.#chunks = []
    if (this.#counted === undefined) return false
    this.#limits.budget.release(this.#limits.owner, this.#counted)
    return true
  }

  /** Bytes of memory that it takes: a client may send single bytes. */
  get #held(): number {
    return Math.max(this.#size, (this.#chunks.length - 1) * SMALLEST_PIECE)
  }

  #count(): boolean {
    const { budget, owner } = this.#limits
    const held = this.#held
    if (!budget.take(owner, held - (this.#counted ?? 0))) return false
    this.#counted = held
    return true
  }
}

function bufferOf(chunk: Uint8Array): Buffer {
  return Buffer.isBuffer(chunk)
    ? chunk
    : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
}
