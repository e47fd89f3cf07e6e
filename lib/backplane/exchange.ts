// One request of one instance to another, and its answer: a stream of bytes each way.
import { type Chunk, type Consumer, Incoming, Outgoing, type Position } from './half-stream.js'

/** Who uses an exchange. */
export interface ExchangeUser extends Consumer {
  /** There is room again after `write` has returned `false`. */
  readonly drained: () => void
  /**
   * Nothing comes any more. `reset`: the other end has broken it off; `gone`: the other instance
   * does not live any more.
   */
  readonly broken: (why: 'reset' | 'gone') => void
  /** The other end has all of it, or it was broken off by either end. */
  readonly over?: () => void
}

/** What an exchange asks of the relay that it belongs to. */
export interface ExchangeHost {
  now(): number
  send(exchange: Exchange, chunk: Chunk): void
  /** Its position should be told at once. */
  tell(exchange: Exchange): void
  /** It is over. `isReset`: the other end does not know yet. */
  over(exchange: Exchange, isReset: boolean): void
}

export class Exchange {
  readonly peer: string
  readonly id: number
  /** It was begun here. */
  readonly isMine: boolean
  readonly #host: ExchangeHost
  readonly #outgoing: Outgoing
  readonly #incoming: Incoming
  #user: ExchangeUser | undefined
  #isOver = false
  /** When a gap was last asked for, and where. */
  #askedAt = -Infinity
  #askedFor = -1

  constructor(peer: string, id: number, isMine: boolean, host: ExchangeHost) {
    this.peer = peer
    this.id = id
    this.isMine = isMine
    this.#host = host
    this.#outgoing = new Outgoing(
      chunk => host.send(this, chunk),
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

  /** Bytes that are kept until the other end has used them. */
  get bytes(): number {
    return this.#outgoing.bytes
  }

  /** The other end knows of it. */
  get isKnown(): boolean {
    return this.#outgoing.isKnown
  }

  /** Something has changed that the other end does not know. */
  get isNews(): boolean {
    return this.#incoming.isNews
  }

  /** `false`: wait for `drained`. The bytes must not change any more. */
  write(bytes: Uint8Array): boolean {
    return this.#isOver || this.#outgoing.write(bytes, this.#host.now())
  }

  end(): void {
    if (!this.#isOver) this.#outgoing.end(this.#host.now())
  }

  /** Takes more again after `bytes` has returned `false`. */
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

  // What the relay tells it.

  take(chunk: Chunk, patience: number): void {
    const isWhole = this.#incoming.take(chunk)
    this.#after()
    if (isWhole || this.#isOver) return
    // One question for each gap, until there was time to answer it.
    const { seen } = this.#incoming
    const now = this.#host.now()
    if (seen === this.#askedFor && now - this.#askedAt < patience) return
    this.#askedFor = seen
    this.#askedAt = now
    this.#host.tell(this)
  }

  moved(position: Position): void {
    this.#outgoing.moved(position, this.#host.now())
    if (!this.isMine && this.#outgoing.isUsed) this.#finish(false)
  }

  repeat(after: number): void {
    this.#outgoing.repeat(this.#host.now(), after)
  }

  broken(why: 'reset' | 'gone'): void {
    if (this.#isOver) return
    this.#finish(false)
    this.#user?.broken(why)
  }

  #after(): void {
    if (this.#isOver) return
    if (this.#incoming.isUrgent) this.#host.tell(this)
    // Who has asked and has the whole answer wants nothing more.
    if (this.isMine && this.#incoming.hasEnded) this.#finish(false)
  }

  #finish(isReset: boolean): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#host.over(this, isReset)
    this.#user?.over?.()
  }
}
