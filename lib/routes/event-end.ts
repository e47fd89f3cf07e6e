// Finds the places in a relayed event stream at which an event or a comment of ours may follow.
import { type DueQueue, Waiting } from '../streams/due-queue.js'

/** How many bytes at the end of what was written are looked at. */
const TAIL = 1024

/**
 * Whether a new event may follow these bytes: they end with a blank line, or with comments and
 * `retry` fields after one. `wasAtEnd`: whether it could before these bytes.
 */
export function isAtEnd(bytes: Uint8Array, wasAtEnd: boolean): boolean {
  const tail = tailOf(bytes)
  const blank = tail.lastIndexOf('\n\n')
  const rest = blank < 0 ? tail : tail.slice(blank + 2)
  const isWhole = blank >= 0 || (wasAtEnd && bytes.length <= TAIL)
  return isWhole && /^(?:(?::|retry:)[^\r\n]*\n)*$/.test(rest)
}

function tailOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.subarray(-TAIL)).toString('latin1')
}

export class PassedEvents {
  #isAtEnd = true
  #hasPassed = false
  #hasIds = false
  readonly #silences: DueQueue | undefined
  readonly #silence: Waiting

  /**
   * @param silences the queue that ends when nothing has been passed on for a while.
   * @param silent called then, if a comment may follow.
   */
  constructor(silences: DueQueue | undefined, silent: () => void) {
    this.#silences = silences
    this.#silence = new Waiting(() => {
      this.#wait()
      if (this.#isAtEnd) silent()
    })
    this.#wait()
  }

  /** Whether a new event may follow. */
  get isAtEnd(): boolean {
    return this.#isAtEnd
  }

  /** Whether anything has been passed on. */
  get hasPassed(): boolean {
    return this.#hasPassed
  }

  /** Whether an event id was seen, so that the client may be able to come back for the rest. */
  get hasIds(): boolean {
    return this.#hasIds
  }

  /** These bytes have been passed on. */
  passed(bytes: Uint8Array): void {
    this.#hasPassed = true
    this.#isAtEnd = isAtEnd(bytes, this.#isAtEnd)
    this.#hasIds ||= /^id:/m.test(tailOf(bytes))
    this.#wait()
  }

  /** No more bytes come. */
  stop(): void {
    this.#silence.stop()
  }

  #wait(): void {
    this.#silences?.add(this.#silence)
  }
}
