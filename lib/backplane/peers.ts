// What is remembered of other instances: when they were heard of, and whether they live.

/** What is known of an instance. `unknown`: nothing can be said at the moment. */
export type Liveness = 'alive' | 'gone' | 'unknown'

export interface Peer {
  heardAt: number
  liveness: Liveness | undefined
  judgedAt: number
  look: Promise<Liveness> | undefined
}

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
