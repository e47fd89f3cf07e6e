// Whether the shared keys are whole. Redis may come back empty or older, or evict some; so a key
// names an epoch. Where it is another one, each instance writes all its names again.
import { nanoid } from 'nanoid'
import { now } from '../protocol/clock.js'
import type { Life } from './life.js'
import type { SharedNames } from './shared-names.js'
import type { Backplane } from './types.js'

const KEY = 'epoch'
/** Milliseconds for which it is there. If it expires, names are written again once. */
const LASTS = 365 * 24 * 60 * 60 * 1000
/** Flags in a message. The sender wants an answer; it has left; it is about to. */
const ASKS = 1
const LEFT = 2
const LEAVES = 4
/** Part of a lease, and milliseconds at the most, in which the others answer a new connection. */
const OPENING = 1 / 6
const LONGEST_OPENING = 1000
const SLICES = 5
/** Instances that are remembered. Each start of a process makes a new one. */
const MOST_PEERS = 10_000

interface EpochHost {
  /** To an instance, or to all others. */
  readonly send: (frame: Uint8Array, to?: string) => void
  /** Called when another instance has left. */
  readonly left: (tag: string) => void
}

export class Epoch {
  readonly #backplane: Backplane
  readonly #names: SharedNames
  readonly #life: Life
  readonly #host: EpochHost
  /** The other instances, and the epoch in which each has written all its names. */
  readonly #peers = new Map<string, string>()
  readonly #leaving = new Set<string>()
  /** The epoch in which this instance has written all its names; empty: none yet. */
  #current = ''
  /** When that was found to be the epoch. */
  #joinedAt = -Infinity
  #openedAt = Infinity
  /** Resolves when the others have had their time to answer over the connection. */
  #answered = Promise.resolve()
  /** The connection is new: it may lead to another server, and the others have to be asked. */
  #isNew = false
  /** A key of this instance was missing before its time. */
  #isBroken = false
  #isChecking = false
  #isDue = false
  #isLeaving = false
  /** Called when another instance says that it lives and does not leave. */
  #onStaying = (): void => undefined

  constructor(backplane: Backplane, names: SharedNames, life: Life, host: EpochHost) {
    this.#backplane = backplane
    this.#names = names
    this.#life = life
    this.#host = host
  }

  /** The tags of the other instances, the one that was heard of last at the end. */
  get peers(): Iterable<string> {
    return this.#peers.keys()
  }

  /** Those that have not said that they are about to leave. */
  get staying(): readonly string[] {
    return [...this.#peers.keys()].filter(tag => !this.#leaving.has(tag))
  }

  /** Whether an instance was never heard of, though the keys are whole. Rejects if unknown. */
  async isStranger(tag: string): Promise<boolean> {
    if (this.#peers.has(tag)) return false
    const epoch = await this.whole()
    return epoch !== undefined && (await this.isStill(epoch)) && !this.#peers.has(tag)
  }

  /** The epoch, if every instance has written its names in it. Not to be claimed before. */
  async whole(): Promise<string | undefined> {
    await this.#answered
    const epoch = this.#current
    if (epoch === '' || this.#life.state === 'down') return undefined
    const late = [...this.#peers].filter(([, its]) => its !== epoch)
    const gone = await Promise.all(late.map(([tag]) => this.#isGone(tag)))
    return gone.every(Boolean) ? epoch : undefined
  }

  /** Whether no key has been lost since `whole()` was called. Rejects if that cannot be known. */
  async isStill(epoch: string): Promise<boolean> {
    const found = await this.#read()
    if (found !== this.#current) void this.check()
    // Over a connection that has been replaced meanwhile, the answer may be that of another server.
    return found === epoch && epoch === this.#current && this.#life.state !== 'down'
  }

  async #isGone(tag: string): Promise<boolean> {
    if ((await this.#life.look(tag)) !== 'gone') return false
    this.#forget(tag)
    return true
  }

  #forget(tag: string): void {
    this.#peers.delete(tag)
    this.#leaving.delete(tag)
  }

  /** There is a new connection. */
  opened(): void {
    this.#openedAt = now()
    this.#current = ''
    this.#isNew = true
    void this.check()
  }

  /** A key of this instance that was written at `time` is gone before its time. */
  missing(time: number): void {
    this.#isBroken ||= time > this.#joinedAt
    void this.check()
  }

  /** Looks which epoch it is, and writes all names in a new one. Never rejects. */
  async check(): Promise<void> {
    this.#isDue = true
    if (this.#isChecking) return
    this.#isChecking = true
    while (this.#isDue) {
      this.#isDue = false
      await this.#check().catch(() => undefined)
    }
    this.#isChecking = false
  }

  async #check(): Promise<void> {
    const openedAt = this.#openedAt
    const epoch = await this.#find()
    if (epoch === this.#current) return
    this.#joinedAt = now()
    const isWritten = await this.#names.writeAgain()
    await this.#life.sign()
    // Meanwhile, the connection may have become another one.
    if (!isWritten || openedAt !== this.#openedAt) return
    this.#current = epoch
    this.#tell(this.#isNew ? ASKS : 0)
    if (this.#isNew) this.#answered = this.#listen()
    this.#isNew = false
  }

  /** In slices: when a process has stood still, timers are up before what came is read. */
  async #listen(): Promise<void> {
    const time = Math.min(this.#backplane.lease * OPENING, LONGEST_OPENING)
    for (let i = 0; i < SLICES; i++) await pause(time / SLICES)
  }

  /** The epoch that it is. One begins now if there is none, or keys may be lost in spite of it. */
  async #find(): Promise<string> {
    const found = await this.#read()
    const isBroken = this.#isBroken && found === this.#current
    this.#isBroken = false
    const server = this.#isNew || found === undefined || isBroken ? await this.#serverId() : ''
    const isOther = this.#isNew && server !== '' && found?.startsWith(`${server}.`) === false
    if (found !== undefined && !isBroken && !isOther) return found
    if (found !== undefined) await this.#backplane.command(['DEL', KEY])
    const epoch = Buffer.from(`${server}.${nanoid()}`)
    await this.#backplane.command(['SET', KEY, epoch, 'PX', LASTS, 'NX'])
    return (await this.#read()) ?? ''
  }

  async #read(): Promise<string | undefined> {
    const value = await this.#backplane.command(['GET', KEY])
    return value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : undefined
  }

  async #serverId(): Promise<string> {
    const id = await this.#backplane.command(['ID'])
    return typeof id === 'string' ? id : ''
  }

  /** A message of another instance has arrived. `false`: it is malformed. */
  heard(from: string, frame: Buffer): boolean {
    const [flags] = frame
    if (flags === undefined) return false
    this.#forget(from)
    if ((flags & LEFT) !== 0) {
      this.#host.left(from)
      return true
    }
    const epoch = frame.toString('latin1', 1)
    this.#peers.set(from, epoch)
    if ((flags & LEAVES) !== 0) this.#leaving.add(from)
    const [oldest] = this.#peers.keys()
    if (this.#peers.size > MOST_PEERS) this.#forget(oldest as string)
    if (epoch !== this.#current) void this.check()
    if ((flags & ASKS) !== 0 && this.#current !== '') this.#tell(0, from)
    if ((flags & LEAVES) === 0) this.#onStaying()
    return true
  }

  /** This instance leaves. Resolves with whether another one lives that does not. */
  async hasSuccessor(): Promise<boolean> {
    this.#isLeaving = true
    if (this.#peers.size === 0 || this.#life.state === 'down') return false
    const stays = new Promise<boolean>(resolve => {
      const staying = (): void => resolve(true)
      this.#onStaying = staying
    })
    this.#tell(ASKS)
    return Promise.race([stays, this.#listen().then(() => false)])
  }

  /** This instance has left: its names are not waited for any more. */
  leave(): void {
    this.#tell(LEFT)
  }

  #tell(flags: number, to?: string): void {
    const all = flags | (this.#isLeaving ? LEAVES : 0)
    this.#host.send(Buffer.concat([Uint8Array.of(all), Buffer.from(this.#current, 'latin1')]), to)
  }
}

/** Keeps no process alive. */
export const pause = (milliseconds: number): Promise<void> =>
  new Promise(resolve => void setTimeout(resolve, milliseconds).unref())
