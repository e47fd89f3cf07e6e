// Which instances live. Each says so by a key that lasts for a lease, and only while its own
// messages come back to it: one whose listening connection is dead does not count as living.
import { type Liveness, type Peer, Peers } from './peers.js'
import { type Sign, Signs } from './signs.js'
import type { Backplane } from './types.js'

/** `degraded`: what comes back takes its time, or keys cannot be written. */
export type LinkState = 'up' | 'degraded' | 'down'

export interface LifeHost {
  readonly tag: string
  readonly now: () => number
  /** Asks an instance for a message. */
  readonly ping: (tag: string) => void
  /** The key that says that an instance lives. */
  readonly keyOf: (tag: string) => string
  /** Others may have taken this instance for dead, and may have told its clients so. */
  readonly lapsed: () => void
  /** What is shared may be lost: there is a connection again, or for the first time, or no key. */
  readonly lost: () => void
}

// Parts of a lease, which is 6 seconds by default.
/** Between two signs of life. */
const BEAT = 1 / 3
/** For which nothing of one's own may have come back. */
const SILENCE = 2 / 3
/** For which an instance is given time to answer, whose key is gone. */
const ANSWER = 5 / 12
/** Between two ticks: a process for which it is more was asleep, or busy. */
const AWAKE = 1 / 3
/** For which that is believed. */
const ALIVE_FOR = 1 / 6
const GONE_FOR = 1
/** A round trip to which Redis counts as slow. */
const SLOW = 1 / 6
/** Instances that may be waited for. */
const MOST_LOOKS = 1000

export class Life {
  readonly #backplane: Backplane
  readonly #host: LifeHost
  readonly #signs: Signs
  readonly #lease: number
  readonly #peers = new Peers()
  readonly #waits = new Set<{ until: number; readonly done: () => void }>()
  readonly #unwatch: () => void
  #looks = 0
  #isUp = false
  #isOver = false
  #upAt = -Infinity
  #tickedAt: number
  #wokenAt = -Infinity
  #beatAt = -Infinity
  #pingedAt = -Infinity
  /** When one's own message came back last, and since when they have without a break. */
  #echoAt = -Infinity
  #soundSince = Infinity
  #roundTrip = 0
  #isWritable = true
  #signedAt = -Infinity
  /** When its own sign was found to be gone last. */
  #lostAt = -Infinity

  constructor(backplane: Backplane, host: LifeHost) {
    this.#backplane = backplane
    this.#host = host
    this.#signs = new Signs(backplane, host.keyOf)
    this.#lease = backplane.lease
    this.#tickedAt = host.now()
    this.#unwatch = backplane.onUp(isUp => this.#changed(isUp))
  }

  get state(): LinkState {
    if (!this.#isUp || this.#soundSince === Infinity) return 'down'
    const isSlow = this.#roundTrip >= this.#lease * SLOW
    return isSlow || !this.#isWritable ? 'degraded' : 'up'
  }

  /** A message of an instance has come. */
  heard(tag: string): void {
    const now = this.#host.now()
    if (tag === this.#host.tag) {
      this.#roundTrip = now - this.#pingedAt
      this.#echoAt = now
      if (this.#soundSince !== Infinity) return
      this.#soundSince = now
      this.#host.lost()
      return this.#sign()
    }
    const peer = this.#peers.get(tag)
    peer.heardAt = now
    peer.liveness = undefined
  }

  /** Time has passed. */
  tick(): void {
    const now = this.#host.now()
    this.#noteSleep(now)
    for (const wait of [...this.#waits])
      if (wait.until <= now) {
        this.#waits.delete(wait)
        wait.done()
      }
    if (!this.#isUp || now - this.#beatAt < this.#lease * BEAT) return
    this.#beatAt = now
    const since = Math.max(this.#echoAt, this.#upAt, this.#wokenAt)
    const isSilent = now - since > this.#lease * SILENCE
    if (isSilent) {
      this.#soundSince = Infinity
      this.#upAt = now
      this.#backplane.renew()
    }
    this.#ping()
    if (this.#soundSince !== Infinity) this.#sign()
  }

  /** What has come meanwhile is read only now: nobody else was silent for so long. */
  #noteSleep(now: number): void {
    const time = now - this.#tickedAt
    this.#tickedAt = now
    if (time <= this.#lease * AWAKE) return
    this.#wokenAt = now
    for (const wait of this.#waits) wait.until += time
  }

  /** Whether an instance lives: asked of Redis only where nothing was heard of it just now. */
  look(tag: string): Promise<Liveness> {
    const now = this.#host.now()
    const peer = this.#peers.get(tag)
    const age = (now - peer.judgedAt) / this.#lease
    if (now - peer.heardAt < this.#lease * BEAT) return Promise.resolve('alive')
    // What is left of it can be found only where there is a connection.
    if (peer.liveness === 'gone' && age < GONE_FOR && this.#isUp) return Promise.resolve('gone')
    if (peer.liveness === 'alive' && age < ALIVE_FOR) return Promise.resolve('alive')
    if (peer.look !== undefined) return peer.look
    if (this.#looks >= MOST_LOOKS) return Promise.resolve('unknown')
    this.#looks++
    peer.look = this.#judge(tag, peer).then(liveness => {
      this.#looks--
      peer.look = undefined
      peer.liveness = liveness
      peer.judgedAt = this.#host.now()
      return liveness
    })
    return peer.look
  }

  /** The instance leaves: nobody is to wait for its lease. */
  async close(): Promise<void> {
    const isUp = this.#isUp
    this.#isOver = true
    this.#unwatch()
    this.#changed(false)
    for (const { done } of this.#waits) done()
    this.#waits.clear()
    if (!isUp) return
    await this.#signs.leave(this.#host.tag).catch(() => undefined)
  }

  #changed(isUp: boolean): void {
    this.#isUp = isUp
    this.#soundSince = Infinity
    if (!isUp) return
    this.#upAt = this.#host.now()
    this.#beatAt = this.#upAt
    this.#ping()
  }

  #ping(): void {
    this.#pingedAt = this.#host.now()
    this.#host.ping(this.#host.tag)
  }

  #sign(): void {
    const { tag, now, lapsed, lost } = this.#host
    const before = this.#signedAt
    if (before !== -Infinity) this.#lookAtOwn().catch(() => undefined)
    const signed = (): void => {
      this.#isWritable = true
      this.#signedAt = now()
      if (before === -Infinity || this.#signedAt - before <= this.#lease) return
      lapsed()
      lost()
    }
    this.#signs.give(tag).then(signed, () => void (this.#isWritable = false))
  }

  /** Where its own sign is gone before its time, names may be lost, too: flushed, or evicted. */
  async #lookAtOwn(): Promise<void> {
    const { tag, now, lost } = this.#host
    const before = this.#signedAt
    if ((await this.#signs.of(tag)) !== 'none') return
    if (this.#lostAt < before && now() - before < this.#lease) lost()
    this.#lostAt = now()
  }

  /** Whether names may be lost that others write again within a lease. Rejects if unknown. */
  async mayHaveLost(): Promise<boolean> {
    if (this.#signedAt === -Infinity) return false
    await this.#lookAtOwn()
    return this.#host.now() - this.#lostAt < this.#lease
  }

  /**
   * Nobody is judged by one who has been without a connection himself: the other's key may have
   * gone with what was lost, and its next sign of life may be on its way.
   */
  get #mayJudge(): boolean {
    return this.#isUp && this.#host.now() - this.#soundSince >= this.#lease
  }

  async #judge(tag: string, peer: Peer): Promise<Liveness> {
    const begun = this.#host.now()
    try {
      const sign = await this.#signOf(tag)
      if (sign === 'left') return 'gone'
      if (sign === 'alive') return 'alive'
      if (!this.#mayJudge) return 'unknown'
      // Keys are lost by other ways than death: who answers lives.
      this.#host.ping(tag)
      await this.#wait(this.#lease * ANSWER)
      if (peer.heardAt >= begun || (await this.hasSigned(tag))) return 'alive'
    } catch {
      return 'unknown'
    }
    return this.#mayJudge ? 'gone' : 'unknown'
  }

  /** Whether an instance's sign of life is there. Rejects where that cannot be known. */
  async hasSigned(tag: string): Promise<boolean> {
    return (await this.#signOf(tag)) === 'alive'
  }

  #signOf(tag: string): Promise<Sign> {
    const late = this.#wait(this.#lease * ANSWER).then(() => {
      throw new Error('Redis does not answer')
    })
    return Promise.race([this.#signs.of(tag), late])
  }

  #wait(time: number): Promise<void> {
    if (this.#isOver) return Promise.resolve()
    return new Promise(done => this.#waits.add({ until: this.#host.now() + time, done }))
  }
}
