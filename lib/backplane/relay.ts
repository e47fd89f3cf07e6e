// All exchanges of one instance. Without sockets and timers: called with messages and ticks.
import {
  decodeData,
  decodePositions,
  decodeResets,
  encodeData,
  encodePositions,
  encodeResets,
  type ExchangeName,
  KIND,
  type PositionFrame
} from './frames.js'
import { type Chunk, type Consumer, Incoming, Outgoing, type Position } from './half-stream.js'

/**
 * Why an exchange ends too early: the other instance broke it off, or may be dead, or has left and
 * knows nothing of it.
 */
export type Break = 'reset' | 'gone' | 'left'

export interface ExchangeUser extends Consumer {
  /** There is room again after `write` has returned `false`. */
  readonly drained: () => void
  /** Called once if it ends too early. */
  readonly broken: (why: Break) => void
  /** Called once in any case, after the last bytes were used or after either end broke it off. */
  readonly over?: () => void
}

/** For an exchange whose other end says nothing that matters. */
export const UNUSED: ExchangeUser = {
  bytes: () => true,
  end: () => undefined,
  drained: () => undefined,
  broken: () => undefined
}

interface RelayHost {
  readonly now: () => number
  readonly send: (peer: string, kind: number, frame: Uint8Array) => void
  /** Called when another instance begins an exchange. `undefined`: it is refused. */
  readonly accept: (exchange: Exchange) => ExchangeUser | undefined
}

/** The default lease. All times below are milliseconds at this lease, and scale with it. */
const LEASE = 6000
/** The time between two rounds in which all positions are told, as the last message may be lost. */
const POSITIONS = 5000
/** The time after which the last chunk is sent again if it was not confirmed. */
const REPEAT = 3000
/** The time between two questions about the same gap. */
const GAP = 500
const REMEMBERED = 60_000
const MOST_REMEMBERED = 100_000
/** The most exchanges of other instances that are open here. More are refused. */
const MOST_ACCEPTED = 100_000
const MOST_IDS = 2 ** 32
const MOST_IN_FRAME = 4096

export class Relay {
  readonly #host: RelayHost
  readonly #scale: number
  readonly #peers = new Map<string, Set<Exchange>>()
  readonly #mine = new Map<number, Exchange>()
  /** Those that others have begun, by instance and number. */
  readonly #theirs = new Map<string, Exchange>()
  /** Exchanges that are over, until when: a late copy of a message must not begin one again. */
  readonly #past = new Map<string, number>()
  #lastId = 0
  #toldAt: number

  constructor(host: RelayHost, lease = LEASE) {
    this.#host = host
    this.#scale = lease / LEASE
    this.#toldAt = host.now()
  }

  /** How many exchanges were begun here and elsewhere, and the bytes that they keep. */
  get counts(): { readonly mine: number; readonly theirs: number; readonly bytes: number } {
    let bytes = 0
    for (const exchanges of this.#peers.values())
      for (const exchange of exchanges) bytes += exchange.bytes
    return { mine: this.#mine.size, theirs: this.#theirs.size, bytes }
  }

  /** The instances that there are exchanges with. */
  get peers(): Iterable<string> {
    return this.#peers.keys()
  }

  open(peer: string, user: ExchangeUser): Exchange {
    do this.#lastId = (this.#lastId + 1) % MOST_IDS
    while (this.#mine.has(this.#lastId))
    const exchange = new Exchange(peer, this.#lastId, true, this)
    exchange.user = user
    this.#mine.set(exchange.id, exchange)
    this.#add(exchange)
    return exchange
  }

  /** A message of another instance has arrived. `false`: it is malformed. */
  receive(peer: string, kind: number, frame: Buffer): boolean {
    if (kind === KIND.data) return this.#data(peer, frame)
    if (kind === KIND.positions) return this.#positions(peer, frame)
    const resets = kind === KIND.resets ? decodeResets(frame) : undefined
    for (const name of resets ?? []) this.#find(peer, name)?.broken('reset')
    return resets !== undefined
  }

  /** To be called several times per lease. */
  tick(): void {
    const now = this.#host.now()
    const isForAll = now - this.#toldAt >= POSITIONS * this.#scale
    if (isForAll) this.#toldAt = now
    for (const [peer, exchanges] of this.#peers) {
      const news: PositionFrame[] = []
      for (const exchange of exchanges) {
        if (isForAll || exchange.isNews) news.push(positionOf(exchange))
        exchange.repeat(REPEAT * this.#scale)
      }
      for (let at = 0; at < news.length; at += MOST_IN_FRAME)
        this.#host.send(peer, KIND.positions, encodePositions(news.slice(at, at + MOST_IN_FRAME)))
    }
    for (const [name, until] of this.#past) {
      if (until > now && this.#past.size <= MOST_REMEMBERED) break
      this.#past.delete(name)
    }
  }

  peerGone(peer: string, why: 'gone' | 'left'): void {
    for (const exchange of [...(this.#peers.get(peer) ?? [])]) exchange.broken(why)
  }

  /** Breaks all exchanges off. */
  close(): void {
    for (const exchanges of [...this.#peers.values()])
      for (const exchange of [...exchanges]) exchange.reset()
  }

  // Exchange

  now(): number {
    return this.#host.now()
  }

  send({ peer, id, isMine }: Exchange, chunk: Chunk): void {
    this.#host.send(peer, KIND.data, encodeData({ id, isMine, ...chunk }))
  }

  tell(exchange: Exchange): void {
    this.#host.send(exchange.peer, KIND.positions, encodePositions([positionOf(exchange)]))
  }

  /** It is over. `isReset`: the other end does not know yet, and is to be told. */
  over(exchange: Exchange, isReset: boolean): void {
    const { peer, id, isMine } = exchange
    const exchanges = this.#peers.get(peer)
    exchanges?.delete(exchange)
    if (exchanges?.size === 0) this.#peers.delete(peer)
    if (isMine) this.#mine.delete(id)
    else {
      this.#theirs.delete(keyOf(peer, id))
      this.#past.set(keyOf(peer, id), this.#host.now() + REMEMBERED * this.#scale)
    }
    if (isReset) this.#reset(peer, { isMine, id })
  }

  #reset(peer: string, name: ExchangeName): void {
    this.#host.send(peer, KIND.resets, encodeResets([name]))
  }

  #find(peer: string, { isMine, id }: ExchangeName): Exchange | undefined {
    const exchange = isMine ? this.#theirs.get(keyOf(peer, id)) : this.#mine.get(id)
    return exchange?.peer === peer ? exchange : undefined
  }

  #data(peer: string, frame: Buffer): boolean {
    const data = decodeData(frame)
    if (data === undefined) return false
    const exchange = this.#find(peer, data) ?? this.#begin(peer, data)
    exchange?.take(data, GAP * this.#scale)
    return true
  }

  /** A chunk has arrived of an exchange that is not known here: it may be a new one. */
  #begin(peer: string, data: ExchangeName & Chunk): Exchange | undefined {
    const { id, isMine, sequence } = data
    const isFull = this.#theirs.size >= MOST_ACCEPTED
    if (!isMine || this.#past.has(keyOf(peer, id)) || isFull) {
      this.#reset(peer, { isMine: !isMine, id })
      return undefined
    }
    if (sequence > 0) {
      // The first chunk is lost, or late. All chunks up to this one are asked for.
      const gap = { used: 0, seen: 0, gapEnd: sequence + 1 }
      const beginning = { isMine: false, id, ...gap, isKnown: false }
      this.#host.send(peer, KIND.positions, encodePositions([beginning]))
      return undefined
    }
    const exchange = new Exchange(peer, id, false, this)
    this.#theirs.set(keyOf(peer, id), exchange)
    this.#add(exchange)
    const user = this.#host.accept(exchange)
    if (user === undefined) exchange.reset()
    else exchange.user = user
    return exchange.isOver ? undefined : exchange
  }

  #positions(peer: string, frame: Buffer): boolean {
    const positions = decodePositions(frame)
    for (const position of positions ?? []) {
      const { isMine, id } = position
      const exchange = this.#find(peer, position)
      if (exchange !== undefined) exchange.moved(position)
      // The first chunk of one that was begun there may still be on its way.
      else if (!isMine || position.isKnown) this.#reset(peer, { isMine: !isMine, id })
    }
    return positions !== undefined
  }

  #add(exchange: Exchange): void {
    const exchanges = this.#peers.get(exchange.peer)
    if (exchanges === undefined) this.#peers.set(exchange.peer, new Set([exchange]))
    else exchanges.add(exchange)
  }
}

/** One request of an instance to another, and the answer: a stream of bytes in each direction. */
export class Exchange {
  readonly peer: string
  readonly id: number
  /** Whether this instance has begun it, and so has sent the request. */
  readonly isMine: boolean
  readonly #relay: Relay
  readonly #outgoing: Outgoing
  readonly #incoming: Incoming
  #user: ExchangeUser | undefined
  #isOver = false
  /** When the other end was last asked for missing chunks, and for those from which number on. */
  #askedAt = -Infinity
  #askedFor = -1

  constructor(peer: string, id: number, isMine: boolean, relay: Relay) {
    this.peer = peer
    this.id = id
    this.isMine = isMine
    this.#relay = relay
    this.#outgoing = new Outgoing(
      chunk => relay.send(this, chunk),
      () => this.#user?.drained()
    )
    this.#incoming = new Incoming({
      bytes: bytes => this.#user?.bytes(bytes) ?? true,
      end: () => this.#user?.end()
    })
  }

  set user(user: ExchangeUser) {
    this.#user = user
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** Bytes that were sent and are kept until the other end has used them. */
  get bytes(): number {
    return this.#outgoing.bytes
  }

  /** Whether the other end has confirmed that it knows of the exchange. */
  get isKnown(): boolean {
    return this.#outgoing.isKnown
  }

  /** Whether the position has changed since it was last sent. */
  get isNews(): boolean {
    return this.#incoming.isNews
  }

  /** `false`: wait for `drained`. The bytes may have to be sent again, so do not change them. */
  write(bytes: Uint8Array): boolean {
    return this.#isOver || this.#outgoing.write(bytes, this.#relay.now())
  }

  end(): void {
    if (!this.#isOver) this.#outgoing.end(this.#relay.now())
  }

  /** Goes on with what has arrived, after `bytes` has returned `false`. */
  resume(): void {
    if (this.#isOver) return
    this.#incoming.resume()
    this.#after()
  }

  /** Breaks it off. */
  reset(): void {
    this.#finish(true)
  }

  position(): Position {
    return this.#incoming.position()
  }

  // Called by the relay.

  take(chunk: Chunk, patience: number): void {
    const isWhole = this.#incoming.take(chunk)
    this.#after()
    if (isWhole || this.#isOver) return
    // A gap is asked for once, and again only after the time in which the answer could have come.
    const { seen } = this.#incoming
    const now = this.#relay.now()
    if (seen === this.#askedFor && now - this.#askedAt < patience) return
    this.#askedFor = seen
    this.#askedAt = now
    this.#relay.tell(this)
  }

  moved(position: Position): void {
    this.#outgoing.moved(position, this.#relay.now())
    if (!this.isMine && this.#outgoing.isUsed) this.#finish(false)
  }

  repeat(after: number): void {
    this.#outgoing.repeat(this.#relay.now(), after)
  }

  broken(why: Break): void {
    if (this.#isOver) return
    this.#finish(false)
    this.#user?.broken(why)
  }

  #after(): void {
    if (this.#isOver) return
    if (this.#incoming.isUrgent) this.#relay.tell(this)
    // The end that has sent the request is done when it has the whole answer.
    if (this.isMine && this.#incoming.hasEnded) this.#finish(false)
  }

  #finish(isReset: boolean): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#relay.over(this, isReset)
    this.#user?.over?.()
  }
}

function positionOf(exchange: Exchange): PositionFrame {
  const { id, isMine, isKnown } = exchange
  return { id, isMine, isKnown, ...exchange.position() }
}

function keyOf(peer: string, id: number): string {
  return `${peer}${id}`
}
