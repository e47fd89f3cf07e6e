// Drops messages that have been seen: each sender counts its own, and so a second one under a count
// is a copy.

/** Counts below the highest that are still told apart: a connection hardly reorders at all. */
const WINDOW = 4096
/** Senders that are remembered. Each is one start of one process. */
const MOST_SENDERS = 10_000

interface Sender {
  highest: number
  readonly seen: Set<number>
}

/**
 * For as long as this instance lives: what was sent to the one before it opens nowhere else, as its
 * name is part of what is signed.
 */
export class ReplayWindow {
  readonly #senders = new Map<string, Sender>()

  /** `false`: it is a copy, or too old to tell. */
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
    // A set keeps the order in which they came, which is nearly that of the counts.
    if (known.seen.size > 2 * WINDOW)
      for (const old of known.seen) if (old <= known.highest - WINDOW) known.seen.delete(old)
    return true
  }

  #forgetOldest(): void {
    const [oldest] = this.#senders.keys()
    this.#senders.delete(oldest as string)
  }
}
