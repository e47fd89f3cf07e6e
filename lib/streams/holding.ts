// What is held beside events, and counts with them: the request of a call that goes on without its
// client, an answer that waits in a socket.
import { Member } from './linked-list.js'

export abstract class Holding extends Member<Holding> {
  /** For whom it counts. */
  readonly owner: string
  /** Bytes of memory. */
  readonly bytes: number

  constructor(owner: string, bytes: number) {
    super()
    this.owner = owner
    this.bytes = bytes
  }

  /** Of one owner's, the lowest is given up first. */
  abstract get rank(): number

  /** There is no room: it is given up, and let go of. `false`: not now. */
  abstract giveUp(): boolean
}

/** Where they are counted. */
export interface HoldingBudget {
  /** `false`: there is no room for it. */
  hold(holding: Holding): boolean
  /** It is held no longer. */
  letGo(holding: Holding): void
}
