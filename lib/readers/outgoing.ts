// Answers that are written whole: all of a kept result share its bytes, counted once.
import { type Counter, Holding, RANKS } from '../streams/budget.js'
import { type Sink, SocketClosing } from './sink.js'
import type { Stallable, StallWatch } from './stall-watch.js'

/** A kept result, or the part of it that stands in each of its answers. */
export interface KeptText {
  /** The same for all answers of one result. */
  readonly key: unknown
  readonly text: string
}

/** An answer as it is written: its longest part is shared with others under the same key. */
export interface OutgoingAnswer {
  readonly key: unknown
  readonly parts: readonly Uint8Array[]
  /** The connection has broken before the socket had taken everything. */
  readonly onLost?: () => void
}

export function sizeOf({ parts }: OutgoingAnswer): number {
  let size = 0
  for (const { length } of parts) size += length
  return size
}

/** Characters from which on it is worth while to share them. */
const LARGE = 16 * 1024

export class OutgoingAnswers {
  readonly #budget: Counter
  readonly #stalls: StallWatch
  /** What sockets have not taken yet, by the keys of the results. */
  readonly #unread = new Map<unknown, Unread>()

  constructor(budget: Counter, stalls: StallWatch) {
    this.#budget = budget
    this.#stalls = stalls
  }

  /** The bytes of an answer, of which those of the kept result in it are shared. */
  answerOf(text: string, kept?: KeptText): OutgoingAnswer {
    const isLarge = kept !== undefined && kept.text.length >= LARGE
    const at = isLarge ? text.lastIndexOf(kept.text) : -1
    if (!isLarge || at < 0) return { key: undefined, parts: [Buffer.from(text)] }
    const { key } = kept
    const shared = this.#unread.get(key)?.shared ?? Buffer.from(kept.text)
    const after = text.slice(at + kept.text.length)
    return { key, parts: [Buffer.from(text.slice(0, at)), shared, Buffer.from(after)] }
  }

  /** Those that their sockets have not taken yet. */
  *[Symbol.iterator](): Generator<Answer> {
    for (const { answers } of this.#unread.values()) yield* answers
  }

  /**
   * Writes an answer and ends it, and counts what its socket has not taken until it has. Returns it
   * if there is some.
   */
  write(sink: Sink, owner: string, { key, parts, onLost }: OutgoingAnswer): Answer | undefined {
    // The socket may take all of it before `write` returns.
    const sent: { isTaken?: boolean; answer?: Answer } = {}
    const taken = (): void => {
      sent.isTaken = true
      sent.answer?.emptied()
    }
    const chunks = parts.filter(({ length }) => length > 0)
    for (const [i, chunk] of chunks.entries())
      sink.write(chunk, sink.tellsWritten && i === chunks.length - 1 ? taken : undefined)
    sink.end()
    if (sent.isTaken === true || sink.isGone || sink.pending === 0) return undefined
    const shared = chunks.reduce((a, b) => (a.length < b.length ? b : a))
    const unread = this.#countFor(key ?? sink, owner, shared)
    // There is no room for it: its client is to ask again.
    if (unread === undefined) return void sink.destroy()
    const answer = (sent.answer = new Answer(sink, unread, this.#stalls))
    if (onLost !== undefined)
      sink.onClose(() => {
        if (answer.emptied()) onLost()
      })
    return answer
  }

  /** `undefined`: there is no room. */
  #countFor(key: unknown, owner: string, shared: Uint8Array): Unread | undefined {
    const known = this.#unread.get(key)
    if (known?.shared === shared) return known
    const budget = this.#budget
    if (!budget.hold(owner, shared.length)) return undefined
    const unread = new Unread(owner, shared, () => {
      budget.withdraw(unread)
      budget.release(owner, shared.length)
      if (this.#unread.get(key) === unread) this.#unread.delete(key)
    })
    budget.offer(unread, RANKS.unread)
    this.#unread.set(key, unread)
    return unread
  }
}

/** Bytes that sockets have not taken. */
class Unread extends Holding {
  readonly owner: string
  readonly shared: Uint8Array
  readonly answers = new Set<Answer>()
  /** The last socket has taken them, or is gone. */
  readonly onRead: () => void

  constructor(owner: string, shared: Uint8Array, onRead: () => void) {
    super()
    this.owner = owner
    this.shared = shared
    this.onRead = onRead
  }

  giveUp(): void {
    for (const answer of [...this.answers]) answer.stalled()
  }
}

/** One answer, which is cut off if its client takes nothing. */
export class Answer implements Stallable {
  readonly isClosed = true
  /** Set once the process is about to end. */
  #socketClosing: SocketClosing | undefined
  readonly #sink: Sink
  readonly #unread: Unread
  readonly #stalls: StallWatch

  constructor(sink: Sink, unread: Unread, stalls: StallWatch) {
    this.#sink = sink
    this.#unread = unread
    this.#stalls = stalls
    unread.answers.add(this)
    stalls.add(this)
  }

  get pending(): number {
    return this.#sink.pending
  }

  /** `false`: it was before. */
  emptied(): boolean {
    const { answers, onRead } = this.#unread
    if (!answers.delete(this)) return false
    this.#stalls.delete(this)
    if (answers.size === 0) onRead()
    return true
  }

  stalled(): void {
    if (this.pending > 0) this.#sink.destroy()
    this.emptied()
  }

  /** The socket closes together with the response. */
  beginClosing(onClosed: () => void): void {
    this.#socketClosing = new SocketClosing(this.#sink, onClosed)
  }

  /** Cuts the connection if the socket has not closed within so many milliseconds. */
  cutAfter(patience: number): void {
    this.#socketClosing?.within(patience, () => this.stalled())
  }
}
