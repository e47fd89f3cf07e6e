// What a call has come to so far: parts of its result, and its end; and what of it is counted in
// bytes.
import { asWritten, type EndpointAnswer, sizeOf } from '../endpoint/endpoint-answer.js'
import type { CallAnswer } from './call-reply.js'

/** Counts bytes that are kept, or kept no more; `false`: there is no room for them. */
export type Grow = (bytes: number) => boolean

export class CallResults {
  readonly #grow: Grow
  #partials: string[] = []
  /** Bytes of the part that has been taken, and can be asked for again. */
  #takenBytes = 0
  #final: CallAnswer | undefined

  constructor(grow: Grow) {
    this.#grow = grow
  }

  /** There is something that is worth an answer. */
  get isReady(): boolean {
    return this.#partials.length > 0 || this.#final !== undefined
  }

  /** What the call has come to; `undefined` before its end. */
  get final(): CallAnswer | undefined {
    return this.#final
  }

  /** Nothing but the end is left to be given. */
  get isLast(): boolean {
    return this.#partials.length === 0 && this.#final !== undefined
  }

  isFinal(answer: CallAnswer | undefined): boolean {
    return answer !== undefined && answer === this.#final
  }

  /** `false`: there is no room for it. */
  addPartial(result: string): boolean {
    if (!this.#grow(Buffer.byteLength(result))) return false
    this.#partials.push(result)
    return true
  }

  /** Nothing comes after it. `false`: there is no room for it. */
  finish(answer: EndpointAnswer): boolean {
    if (!this.#grow(sizeOf(answer))) return false
    this.#final = asWritten(answer)
    return true
  }

  /**
   * What is due next, made by `interim` from a part of the result, or from none, where it is not
   * the end.
   */
  take(interim: (partial: string | undefined) => CallAnswer): CallAnswer {
    const partial = this.#partials.shift()
    if (partial === undefined && this.#final !== undefined) return this.#final
    this.#takenBytes = partial === undefined ? 0 : Buffer.byteLength(partial)
    return interim(partial)
  }

  /** The part that was taken last will not be asked for again. */
  letGo(): void {
    this.#grow(-this.#takenBytes)
    this.#takenBytes = 0
  }

  /** All of it; the bytes are counted by who keeps it. */
  clear(): void {
    this.#partials = []
    this.#final = undefined
  }
}
