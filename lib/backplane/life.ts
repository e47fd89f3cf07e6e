// Which instances live. Each writes its sign of life only while its own messages come back:
//
//          connected             own message
//   down ------------> silent ----------------> sound
//    ^                  |  ^                    |  |
//    |     lost         |  | silence, or        |  |
//    +------------------+  | connected anew     |  |
//    |                     +--------------------+  |
//    +---------------------------------------------+
//
// After silence the connection is renewed. `close()` leads from anywhere to `over`.
import type { InstanceStats } from '../endpoint/other-instances.js'
import type { Backplane } from './types.js'

/** `down`: nothing comes back. `degraded`: round trips are slow, or keys cannot be written. */
export type LinkState = 'up' | 'degraded' | 'down'

/** The connection. `quietSince`: when something was last heard on it, or could have been. */
type Link =
  | { readonly is: 'down' | 'over' }
  | { readonly is: 'silent'; quietSince: number }
  | { readonly is: 'sound'; quietSince: number; readonly since: number }

interface LifeHost {
  readonly tag: string
  /** Milliseconds of a clock that never goes back. */
  readonly now: () => number
  /** Asks an instance for an answer, or this one for its own message. */
  readonly ping: (tag: string) => void
  readonly keyOf: (tag: string) => string
  /** Called when others may have taken this instance for dead, and may have told its clients. */
  readonly leaseExpired: () => void
  /** Called when messages come back over a new connection. */
  readonly opened: () => void
  /** Called when the own sign, which was given at `time`, is gone before its time. */
  readonly missing: (time: number) => void
  /** Whether it is certain that an instance without a sign of life never was. */
  readonly isStranger: (tag: string) => Promise<boolean>
}

// All as parts of a lease, which is 6 seconds by default.
/** The time between two signs of life. */
const BEAT = 1 / 3
/** After such a time without an own message coming back, the connection is taken for dead. */
const SILENCE = 2 / 3
/** The time that an instance without a sign of life has to answer, and Redis for a command. */
const ANSWER = 5 / 12
/** If there is more time than this between two ticks, the process was paused, or busy. */
const AWAKE = 1 / 3
/** For how long it is believed without a new look that an instance lives, or is gone. */
const ALIVE_FOR = 1 / 6
const GONE_FOR = 1
/** A round trip that takes so long, or longer, makes the connection `degraded`. */
const SLOW = 1 / 6
/** The most looks at one time: the ids in requests may name instances that never were. */
const MOST_LOOKS = 1000

export class Life {
  readonly #backplane: Backplane
  readonly #host: LifeHost
  readonly #lease: number
  /** What is remembered of others: when a message came, and whether they live. */
  readonly #peers = new Map<string, Peer>()
  readonly #waits = new Set<{ until: number; readonly done: () => void }>()
  readonly #unwatch: () => void
  #looks = 0
  #link: Link = { is: 'down' }
  #tickedAt: number
  #beatAt = -Infinity
  #pingedAt = -Infinity
  #roundTrip = 0
  #isWritable = true
  #signedAt = -Infinity

  constructor(backplane: Backplane, host: LifeHost) {
    this.#backplane = backplane
    this.#host = host
    this.#lease = backplane.lease
    this.#tickedAt = host.now()
    this.#unwatch = backplane.onUp(isUp => this.#changed(isUp))
  }

  get state(): LinkState {
    if (this.#link.is !== 'sound') return 'down'
    const isSlow = this.#roundTrip >= this.#lease * SLOW
    return isSlow || !this.#isWritable ? 'degraded' : 'up'
  }

  /** What is known of an instance now; it is looked at, so that the next call knows more. */
  known(tag: string): InstanceStats {
    const { heardAt, liveness = 'unknown' } = this.#peer(tag)
    const heard = this.#host.now() - heardAt
    void this.look(tag)
    const isHeard = heard < this.#lease * BEAT
    return {
      tag,
      state: isHeard ? 'alive' : liveness,
      heard: Number.isFinite(heard) ? heard : undefined
    }
  }

  /** A message of an instance, or of this one, has arrived. */
  heard(tag: string): void {
    const now = this.#host.now()
    if (tag === this.#host.tag) {
      return this.#heardOwn(now)
    }
    const peer = this.#peer(tag)
    peer.heardAt = now
    peer.liveness = undefined
  }

  #heardOwn(now: number): void {
    this.#roundTrip = now - this.#pingedAt
    const link = this.#link
    if ('quietSince' in link) link.quietSince = now
    if (link.is !== 'silent') return
    this.#link = { is: 'sound', quietSince: now, since: now }
    this.#host.opened()
    void this.sign()
  }

  /** An instance has said that it has left. */
  left(tag: string): void {
    const peer = this.#peer(tag)
    peer.heardAt = -Infinity
    peer.liveness = 'gone'
    peer.judgedAt = this.#host.now()
  }

  /** To be called several times per lease. */
  tick(): void {
    const now = this.#host.now()
    this.#noteSleep(now)
    for (const wait of [...this.#waits])
      if (wait.until <= now) {
        this.#waits.delete(wait)
        wait.done()
      }
    const link = this.#link
    if (!('quietSince' in link) || now - this.#beatAt < this.#lease * BEAT) return
    this.#beatAt = now
    const isSilent = now - link.quietSince > this.#lease * SILENCE
    if (isSilent) {
      this.#link = { is: 'silent', quietSince: now }
      this.#backplane.renew()
    }
    this.#ping()
    if (this.#link.is === 'sound') void this.sign()
  }

  /** Messages that came in a pause of this process are read only now: nobody else was silent. */
  #noteSleep(now: number): void {
    const time = now - this.#tickedAt
    this.#tickedAt = now
    if (time <= this.#lease * AWAKE) return
    if ('quietSince' in this.#link) this.#link.quietSince = now
    for (const wait of this.#waits) wait.until += time
  }

  /** Whether an instance lives. Redis is asked only if that is not known from shortly before. */
  look(tag: string): Promise<Liveness> {
    const now = this.#host.now()
    const peer = this.#peer(tag)
    const age = (now - peer.judgedAt) / this.#lease
    if (now - peer.heardAt < this.#lease * BEAT) return Promise.resolve('alive')
    // Without a connection, nothing could be found of what it has left behind.
    if (peer.liveness === 'gone' && age < GONE_FOR && this.#isConnected)
      return Promise.resolve('gone')
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

  /** Says that the instance leaves, so that the others need not wait until its lease is over. */
  async close(): Promise<void> {
    const isConnected = this.#isConnected
    this.#link = { is: 'over' }
    this.#unwatch()
    for (const { done } of this.#waits) done()
    this.#waits.clear()
    if (isConnected) await this.#write(FAREWELL, FAREWELL_FOR).catch(() => undefined)
  }

  get #isConnected(): boolean {
    return 'quietSince' in this.#link
  }

  #changed(isUp: boolean): void {
    if (!isUp) return void (this.#link = { is: 'down' })
    const now = this.#host.now()
    this.#link = { is: 'silent', quietSince: now }
    this.#beatAt = now
    this.#ping()
  }

  #ping(): void {
    this.#pingedAt = this.#host.now()
    this.#host.ping(this.#host.tag)
  }

  /** Says that this instance lives. */
  async sign(): Promise<void> {
    if (this.#link.is === 'over') return
    const { now, leaseExpired } = this.#host
    const before = this.#signedAt
    if (before !== -Infinity) this.#lookAtOwn().catch(() => undefined)
    try {
      await this.#write(ALIVE, this.#lease)
      this.#isWritable = true
      this.#signedAt = now()
      if (before !== -Infinity && this.#signedAt - before > this.#lease) leaseExpired()
    } catch {
      this.#isWritable = false
    }
  }

  async #write(sign: Uint8Array, time: number): Promise<void> {
    const { tag, keyOf } = this.#host
    await this.#backplane.command(['SET', keyOf(tag), sign, 'PX', time])
  }

  /** Rejects if that cannot be known. */
  async #read(tag: string): Promise<Sign> {
    const sign = await this.#backplane.command(['GET', this.#host.keyOf(tag)])
    if (!(sign instanceof Uint8Array)) return 'none'
    return sign[0] === FAREWELL[0] ? 'left' : 'alive'
  }

  /** If the own sign is missing before its time, other keys may be flushed or evicted, too. */
  async #lookAtOwn(): Promise<void> {
    const { tag, now, missing } = this.#host
    const before = this.#signedAt
    const sign = await this.#read(tag)
    if (sign === 'none' && now() - before < this.#lease) missing(before)
  }

  /** In the first lease after a lost connection, the other one's key may have been lost as well. */
  get #mayJudge(): boolean {
    const link = this.#link
    return link.is === 'sound' && this.#host.now() - link.since >= this.#lease
  }

  async #judge(tag: string, peer: Peer): Promise<Liveness> {
    const begun = this.#host.now()
    try {
      const sign = await this.#signOf(tag)
      if (sign === 'left') return 'gone'
      if (sign === 'alive') return 'alive'
      if (await this.#host.isStranger(tag)) return 'gone'
      if (!this.#mayJudge) return 'unknown'
      // Its key may have been flushed or evicted: if it answers, it lives.
      this.#host.ping(tag)
      await this.#wait(this.#lease * ANSWER)
      if (peer.heardAt >= begun || (await this.hasSigned(tag))) return 'alive'
    } catch {
      return 'unknown'
    }
    return this.#mayJudge ? 'gone' : 'unknown'
  }

  #peer(tag: string): Peer {
    let peer = this.#peers.get(tag)
    if (peer !== undefined) return peer
    peer = { heardAt: -Infinity, liveness: undefined, judgedAt: -Infinity, look: undefined }
    this.#peers.set(tag, peer)
    const [oldest] = this.#peers.keys()
    if (this.#peers.size > MOST) this.#peers.delete(oldest as string)
    return peer
  }

  /** Whether an instance's sign of life is there. Rejects if that cannot be known. */
  async hasSigned(tag: string): Promise<boolean> {
    return (await this.#signOf(tag)) === 'alive'
  }

  #signOf(tag: string): Promise<Sign> {
    const late = this.#wait(this.#lease * ANSWER).then(() => {
      throw new Error('Redis does not answer')
    })
    return Promise.race([this.#read(tag), late])
  }

  #wait(time: number): Promise<void> {
    if (this.#link.is === 'over') return Promise.resolve()
    return new Promise(done => this.#waits.add({ until: this.#host.now() + time, done }))
  }
}

/** Whether an instance lives. `unknown`: that cannot be found out at the moment. */
export type Liveness = 'alive' | 'gone' | 'unknown'

interface Peer {
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

/**
 * Its sign of life: a key that lasts for a lease, and then says for an hour that it has left.
 * `none`: there is no key, so that the instance may be dead.
 */
type Sign = 'alive' | 'left' | 'none'

const ALIVE = Uint8Array.of(1)
/** The value of an instance that has left, and the milliseconds for which its clients may come. */
const FAREWELL = Uint8Array.of(0)
const FAREWELL_FOR = 60 * 60 * 1000
