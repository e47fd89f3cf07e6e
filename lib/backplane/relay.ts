// All exchanges of one instance. Without sockets and timers: called with messages and ticks.
import { Exchange, type ExchangeHost, type ExchangeUser } from './exchange.js'
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
import type { Chunk } from './half-stream.js'

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

export class Relay implements ExchangeHost {
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

  // ExchangeHost

  now(): number {
    return this.#host.now()
  }

  send({ peer, id, isMine }: Exchange, chunk: Chunk): void {
    this.#host.send(peer, KIND.data, encodeData({ id, isMine, ...chunk }))
  }

  tell(exchange: Exchange): void {
    this.#host.send(exchange.peer, KIND.positions, encodePositions([positionOf(exchange)]))
  }

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

function positionOf(exchange: Exchange): PositionFrame {
  const { id, isMine, isKnown } = exchange
  return { id, isMine, isKnown, ...exchange.position() }
}

function keyOf(peer: string, id: number): string {
  return `${peer}${id}`
}
