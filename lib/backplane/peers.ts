// What is remembered of other instances: when a message of theirs came, and whether they live.

/** Whether an instance lives. `unknown`: that cannot be found out at the moment. */
export type Liveness = 'alive' | 'gone' | 'unknown'

export interface Peer {
  /** When a message of it came last. */
  heardAt: number
  /** What was last found out, and when; `undefined`: nothing since its last message. */
  liveness: Liveness | undefined
  judgedAt: number
  /** The look that is under way, which others may wait for, too. */
  look: Promise<Liveness> | undefined
}

/** Instances that are remembered. Each start of a process makes a new one. */
const MOST = 10_000

export class Peers {
  readonly #peers = new Map<string, Peer>()

  get(tag: string): Peer {
    let peer = this.#peers.get(tag)
    if (peer !== undefined) return peer
    peer = { heardAt: -Infinity, liveness: undefined, judgedAt: -Infinity, look: undefined }
    this.#peers.set(tag, peer)
    const [oldest] = this.#peers.keys()
    if (this.#peers.size > MOST) this.#peers.delete(oldest as string)
    return peer
  }
}
