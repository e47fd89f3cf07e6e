// One request of an instance to another, and the answer: a stream of bytes in each direction.
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

export interface ExchangeHost {
  now(): number
  send(exchange: Exchange, chunk: Chunk): void
  tell(exchange: Exchange): void
  /** The exchange is over. `isReset`: the other end does not know yet, and is to be told. */
  over(exchange: Exchange, isReset: boolean): void
}

export class Exchange {
  readonly peer: string
  readonly id: number
  /** Whether this instance has begun it, and so has sent the request. */
  readonly isMine: boolean
  readonly #host: ExchangeHost
  readonly #outgoing: Outgoing
  readonly #incoming: Incoming
  #user: ExchangeUser | undefined
  #isOver = false
  /** When the other end was last asked for missing chunks, and for those from which number on. */
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
    return this.#isOver || this.#outgoing.write(bytes, this.#host.now())
  }

  end(): void {
    if (!this.#isOver) this.#outgoing.end(this.#host.now())
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

  broken(why: Break): void {
    if (this.#isOver) return
    this.#finish(false)
    this.#user?.broken(why)
  }

  #after(): void {
    if (this.#isOver) return
    if (this.#incoming.isUrgent) this.#host.tell(this)
    // The end that has sent the request is done when it has the whole answer.
    if (this.isMine && this.#incoming.hasEnded) this.#finish(false)
  }

  #finish(isReset: boolean): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#host.over(this, isReset)
    this.#user?.over?.()
  }
}
