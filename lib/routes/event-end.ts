// Where an event stream that is passed on unread can go on with an event or a comment of ours.
import { type DueQueue, Waiting } from '../streams/due-queue.js'

/** Characters of the end of what was written that are looked at. */
const TAIL = 1024

/**
 * Whether an event stream can go on with a new event: behind a blank line, and what needs none.
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
   * @param silences where their silence is waited for
   * @param silent called at the end of an event, or before the first one
   */
  constructor(silences: DueQueue | undefined, silent: () => void) {
    this.#silences = silences
    this.#silence = new Waiting(() => {
      this.#wait()
      if (this.#isAtEnd) silent()
    })
    this.#wait()
  }

  get isAtEnd(): boolean {
    return this.#isAtEnd
  }

  /** There was something of it. */
  get hasPassed(): boolean {
    return this.#hasPassed
  }

  /** Its client may come back for the rest, as far as can be seen. */
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

  /** None come any more. */
  stop(): void {
    this.#silence.stop()
  }

  #wait(): void {
    this.#silences?.add(this.#silence)
  }
}
