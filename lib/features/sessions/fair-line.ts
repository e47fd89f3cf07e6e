// A line in which owners take turns: many sessions of one owner do not delay those of another.
import { DueQueue, Waiting } from '../../streams/due-queue.js'
import { LinkedList, Member } from '../../streams/linked-list.js'

/**
 * - `full`: more wait than may, and no other owner has more of them.
 * - `late`: its turn has not come in time.
 * - `left`: it is not wanted any more.
 */
export type NoTurn = 'full' | 'late' | 'left'

class Wait extends Member {
  readonly patience = new Waiting(() => this.settle('late'))
  readonly owner: string
  readonly settle: (turn: 'turn' | NoTurn) => void

  constructor(owner: string, settle: (turn: 'turn' | NoTurn) => void) {
    super()
    this.owner = owner
    this.settle = settle
  }
}

/** The waits of one owner, the one that has come first at the head. */
class Waits extends LinkedList<Wait> {
  count = 0
}

interface LineLimits {
  /** How many may run at once. */
  readonly atOnce: number
  /** How many may wait. */
  readonly most: number
  /** Milliseconds that one may wait. */
  readonly patience: number
}

export class FairLine {
  readonly #limits: LineLimits
  /** Owners in the order of their turns. */
  readonly #owners = new Map<string, Waits>()
  readonly #late: DueQueue
  #waiting = 0
  #running = 0

  constructor(limits: LineLimits) {
    this.#limits = limits
    this.#late = new DueQueue(limits.patience)
  }

  /** How many run and wait. */
  get count(): number {
    return this.#running + this.#waiting
  }

  /** Does the work when its turn comes. It leaves the line when `signal` aborts before. */
  async run<T>(owner: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T | NoTurn> {
    const turn = await this.#turn(owner, signal)
    if (turn !== 'turn') return turn
    try {
      return await work()
    } finally {
      this.#running--
      this.#next()
    }
  }

  #turn(
    owner: string,
    signal: AbortSignal | undefined
  ): 'turn' | NoTurn | Promise<'turn' | NoTurn> {
    if (signal?.aborted === true) return 'left'
    if (this.#running < this.#limits.atOnce) {
      this.#running++
      return 'turn'
    }
    if (this.#waiting >= this.#limits.most && !this.#makeRoomFor(owner)) return 'full'
    return new Promise(resolve => {
      const leave = (): void => wait.settle('left')
      const wait = new Wait(owner, turn => {
        signal?.removeEventListener('abort', leave)
        this.#remove(wait)
        resolve(turn)
      })
      signal?.addEventListener('abort', leave)
      this.#add(wait)
    })
  }

  #add(wait: Wait): void {
    const waits = this.#owners.get(wait.owner) ?? new Waits()
    this.#owners.set(wait.owner, waits)
    waits.add(wait)
    waits.count++
    this.#waiting++
    this.#late.add(wait.patience)
  }

  #remove(wait: Wait): void {
    const waits = wait.list as Waits
    waits.delete(wait)
    this.#waiting--
    if (--waits.count === 0) this.#owners.delete(wait.owner)
    wait.patience.stop()
  }

  /** The owner whose turn it is goes behind the others. */
  #next(): void {
    const [first] = this.#owners
    if (first === undefined || this.#running >= this.#limits.atOnce) return
    const [owner, waits] = first
    this.#owners.delete(owner)
    this.#owners.set(owner, waits)
    this.#running++
    waits.first?.settle('turn')
  }

  /** The owner with most waits gives up its last one. `false`: that is this one. */
  #makeRoomFor(owner: string): boolean {
    let most: Waits | undefined
    for (const waits of this.#owners.values())
      if (most === undefined || waits.count > most.count) most = waits
    if (most === undefined || (this.#owners.get(owner)?.count ?? 0) + 1 >= most.count) return false
    most.last?.settle('full')
    return true
  }
}
