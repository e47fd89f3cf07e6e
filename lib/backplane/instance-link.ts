// What connects one instance with the others: its tag, its channel, its clock.
import { nanoid } from 'nanoid'
import { now, within } from '../protocol/clock.js'
import { SharedNames, TAG_LENGTH } from './shared-names.js'
import { Envelopes } from './envelope.js'
import { Epoch } from './epoch.js'
import { KIND } from './frames.js'
import { KeptValues } from './kept-values.js'
import { Life, type LinkState, type Liveness } from './life.js'
import { type Exchange, type ExchangeUser, Relay } from './relay.js'
import { Results } from './results.js'
import type { BackplaneStats, InstanceStats } from '../endpoint/other-instances.js'
import type { Backplane } from './types.js'

/** Random characters of an id behind the tag: 96 bits. */
const REST_LENGTH = 16
const TICKS = 12
/** How often per lease it is checked whether the instances with open exchanges still live. */
const LOOKS = 3
const NOTHING = new Uint8Array(0)
/** The receiver of a message to all instances. */
const ALL = '*'
const MARK = Uint8Array.of(1)
/** How long it is remembered that a client was told: its instance may come back. */
const MARKED_FOR = 60 * 60 * 1000

interface InstanceLinkHost {
  /** Called when another instance begins an exchange. `undefined`: it is refused. */
  readonly accept: (exchange: Exchange) => ExchangeUser | undefined
  /** Called when other instances may have told clients of this one that it is dead. */
  readonly leaseExpired: () => void
  readonly changed: (state: LinkState) => void
  /** Called with an error of the background work, which no request waits for. */
  readonly report: (error: Error) => void
  /** The most sessions, and calls under a key, that this instance has in the shared keys. */
  readonly maxEntries: number
  /** Milliseconds for which a result is kept that its client has not fetched. */
  readonly resultTime: number
}

export class InstanceLink {
  readonly tag = nanoid(TAG_LENGTH)
  readonly names: SharedNames
  readonly epoch: Epoch
  readonly kept: KeptValues
  readonly results: Results
  readonly envelopes: Envelopes
  readonly backplane: Backplane
  readonly #host: InstanceLinkHost
  readonly #relay: Relay
  readonly #life: Life
  readonly #replays = new ReplayWindow()
  readonly #timer: ReturnType<typeof setInterval>
  readonly #leave: readonly Promise<() => void>[]
  readonly #dropped = { malformed: 0, version: 0, forged: 0, replayed: 0 }
  #state: LinkState = 'down'
  #sent = 0
  #received = 0
  #ticks = 0
  #closed: Promise<void> | undefined

  constructor(backplane: Backplane, host: InstanceLinkHost) {
    const { lease, secrets } = backplane
    this.backplane = backplane
    this.#host = host
    this.envelopes = new Envelopes(secrets)
    this.names = new SharedNames(backplane, this.envelopes, this.tag, host.maxEntries)
    this.kept = new KeptValues(backplane, this.envelopes)
    this.results = new Results(this.kept, this.envelopes, host.resultTime)
    const send = (peer: string, kind: number, frame: Uint8Array): void =>
      this.#send(peer, kind, frame)
    this.#relay = new Relay({ now, send, accept: host.accept }, lease)
    this.#leave = [this.tag, ALL].map(to =>
      backplane.listen(channelOf(to), message => this.#receive(message, to))
    )
    for (const leave of this.#leave) leave.catch(host.report)
    this.#life = new Life(backplane, {
      tag: this.tag,
      now,
      ping: tag => send(tag, KIND.ping, NOTHING),
      keyOf: tag => `i:${tag}`,
      leaseExpired: host.leaseExpired,
      opened: () => this.epoch.opened(),
      missing: time => this.epoch.missing(time),
      isStranger: tag => this.epoch.isStranger(tag)
    })
    this.epoch = new Epoch(backplane, this.names, this.#life, {
      send: (frame, to = ALL) => send(to, KIND.epoch, frame),
      left: tag => {
        this.#life.left(tag)
        // It has broken off all that it knew of, and has said so before.
        this.#relay.peerGone(tag, 'left')
      }
    })
    this.#timer = setInterval(() => this.#tick(), lease / TICKS)
    this.#timer.unref()
  }

  /** Whether it has left the backplane, or is leaving it. */
  get isClosed(): boolean {
    return this.#closed !== undefined
  }

  /** Whether there is a connection over which its own messages come back. */
  get isUp(): boolean {
    return this.#life.state !== 'down'
  }

  get stats(): BackplaneStats {
    const { mine, theirs, bytes } = this.#relay.counts
    const { state } = this.#life
    return {
      up: Number(this.isUp),
      degraded: Number(state === 'degraded'),
      forwarded: mine,
      accepted: theirs,
      bytes,
      sent: this.#sent,
      received: this.#received,
      unsent: this.backplane.dropped,
      ...this.#dropped
    }
  }

  /** The others, the one that was heard of last at the end. */
  instances(most: number): InstanceStats[] {
    return [...this.epoch.peers].slice(-most).map(tag => this.#life.known(tag))
  }

  readonly newId = (): string => this.tag + nanoid(REST_LENGTH)

  open(tag: string, user: ExchangeUser): Exchange {
    return this.#relay.open(tag, user)
  }

  /** Finds out whether another instance lives. Never rejects. */
  look(tag: string): Promise<Liveness> {
    return this.#life.look(tag)
  }

  /** Whether an instance is known to have left, or to have died. */
  hasLeft(tag: string): boolean {
    return this.#life.known(tag).state === 'gone'
  }

  /** Leaves a mark before a client is told that its stream is lost. `false`: the instance lives. */
  async declareGone(id: string, tag: string): Promise<boolean> {
    const key = markOf(this.envelopes.nameOf(id))
    try {
      await this.backplane.command(['SET', key, MARK, 'PX', MARKED_FOR])
      // It looks for marks after its first sign of life: either it finds this one, or has signed.
      if (!(await this.#life.hasSigned(tag))) return true
      await this.backplane.command(['DEL', key])
      return false
    } catch {
      return true
    }
  }

  /** Whether a client was told that a stream of this instance is lost. Rejects if unknown. */
  async wasDeclaredGone(id: string): Promise<boolean> {
    for (const name of this.envelopes.namesOf(id)) {
      const key = markOf(name)
      if (!((await this.backplane.command(['GET', key])) instanceof Uint8Array)) continue
      await this.backplane.command(['DEL', key])
      return true
    }
    return false
  }

  /** Breaks off all exchanges. Takes a lease at the most, even without the backplane. */
  close(): Promise<void> {
    return (this.#closed ??= this.#close())
  }

  async #close(): Promise<void> {
    const { lease } = this.backplane
    await within(lease / 2, this.kept.whenSaved())
    clearInterval(this.#timer)
    this.#relay.close()
    this.epoch.leave()
    await within(lease / 2, this.#life.close())
    for (const leaving of this.#leave)
      void leaving.then(
        leave => leave(),
        () => undefined
      )
  }

  #tick(): void {
    this.#life.tick()
    this.#relay.tick()
    this.names.tick()
    const { state } = this.#life
    if (state !== this.#state) {
      this.#state = state
      this.#host.changed(state)
    }
    if (++this.#ticks % (TICKS / LOOKS) !== 0) return
    void this.epoch.check()
    for (const peer of this.#relay.peers)
      void this.#life.look(peer).then(liveness => {
        if (liveness === 'gone') this.#relay.peerGone(peer, 'gone')
      })
  }

  #send(peer: string, kind: number, frame: Uint8Array): void {
    const sealed = this.envelopes.seal(kind, ++this.#sent, frame, contextOf(this.tag, peer))
    const message = Buffer.allocUnsafe(TAG_LENGTH + sealed.length)
    message.write(this.tag, 0, 'latin1')
    message.set(sealed, TAG_LENGTH)
    this.backplane.send(channelOf(peer), message)
  }

  #receive(bytes: Uint8Array, to: string): void {
    if (this.isClosed) return
    const message = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const from = message.toString('latin1', 0, TAG_LENGTH)
    if (to === ALL && from === this.tag) return
    const opened = this.envelopes.open(message.subarray(TAG_LENGTH), contextOf(from, to))
    if (typeof opened === 'string') return void this.#dropped[opened]++
    const { kind, counter, text } = opened
    if (!this.#replays.accept(from, counter)) return void this.#dropped.replayed++
    this.#received++
    this.#life.heard(from)
    if (kind === KIND.pong || (kind === KIND.ping && from === this.tag)) return
    if (kind === KIND.ping) return this.#send(from, KIND.pong, NOTHING)
    const isValid =
      kind === KIND.epoch ? this.epoch.heard(from, text) : this.#relay.receive(from, kind, text)
    if (!isValid) this.#dropped.malformed++
  }
}

function markOf(name: string): string {
  return `d:${name}`
}

function channelOf(tag: string): string {
  return `c:${tag}`
}

function contextOf(from: string, to: string): string {
  return `${from}>${to}`
}

/** How far below the highest a number may be: messages hardly change their order. */
const WINDOW = 4096
/** Senders that are remembered. Each start of a process makes a new one. */
const MOST_SENDERS = 10_000

interface Sender {
  highest: number
  readonly seen: Set<number>
}

/** In memory only: the receiver's tag, which is signed, is another one after a restart. */
export class ReplayWindow {
  readonly #senders = new Map<string, Sender>()

  /** `false`: the message is a copy, or too old to tell. */
  accept(sender: string, counter: number): boolean {
    const known = this.#senders.get(sender)
    if (known === undefined) {
      this.#senders.set(sender, { highest: counter, seen: new Set([counter]) })
      const [oldest] = this.#senders.keys()
      if (this.#senders.size > MOST_SENDERS) this.#senders.delete(oldest as string)
      return true
    }
    if (counter <= known.highest - WINDOW || known.seen.has(counter)) return false
    known.seen.add(counter)
    if (counter > known.highest) known.highest = counter
    if (known.seen.size > 2 * WINDOW)
      for (const old of known.seen) if (old <= known.highest - WINDOW) known.seen.delete(old)
    return true
  }
}
