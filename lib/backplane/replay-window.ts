// Drops messages that were received before. Each sender numbers its messages, so that a second one
// under a number is a copy.

/**
 * A number may be so far below the highest one of its sender: messages hardly change their order.
 */
const WINDOW = 4096
/** Senders that are remembered. Each start of a process makes a new one. */
const MOST_SENDERS = 10_000

interface Sender {
  highest: number
  readonly seen: Set<number>
}

/**
 * Kept in memory only. Messages to an earlier instance of the same process need not be remembered:
 * the receiver's tag is part of what is signed.
 */
export class ReplayWindow {
  readonly #senders = new Map<string, Sender>()

  /** `false`: the message is a copy, or too old to tell. */
  accept(sender: string, counter: number): boolean {
    const known = this.#senders.get(sender)
    if (known === undefined) {
      this.#senders.set(sender, { highest: counter, seen: new Set([counter]) })
      if (this.#senders.size > MOST_SENDERS) this.#forgetOldest()
      return true
    }
    if (counter <= known.highest - WINDOW || known.seen.has(counter)) return false
    known.seen.add(counter)
    if (counter > known.highest) known.highest = counter
    if (known.seen.size > 2 * WINDOW)
      for (const old of known.seen) if (old <= known.highest - WINDOW) known.seen.delete(old)
    return true
  }

  #forgetOldest(): void {
    const [oldest] = this.#senders.keys()
    this.#senders.delete(oldest as string)
  }
}
