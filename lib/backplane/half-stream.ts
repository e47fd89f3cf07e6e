// One direction of an exchange: numbered chunks, each kept until the receiver has used it.

export const CHUNK = 64 * 1024
/** Bytes that the sender may keep before whoever writes to it is told to wait. */
const CREDIT = 1024 * 1024
/** After so many used bytes, the receiver tells the sender its position at once. */
const TELL_AFTER = CREDIT / 4

export interface Chunk {
  readonly sequence: number
  readonly bytes: Uint8Array
  readonly isLast: boolean
}

/** What a receiver tells its sender of a direction. */
export interface Position {
  /** All chunks below this number have been used: the sender need not keep them. */
  readonly used: number
  /** All chunks below this number have arrived. */
  readonly seen: number
  /** Chunks from `seen` to below this number are missing, and asked for. 0: none is asked for. */
  readonly gapEnd: number
}

/** The most chunks behind a gap that a receiver keeps. */
const MOST_EARLY = 4096

const NOTHING = new Uint8Array(0)

export class Outgoing {
  readonly #send: (chunk: Chunk) => void
  readonly #drained: () => void
  readonly #chunks: Chunk[] = []
  #next = 0
  #seen = 0
  #bytes = 0
  /** When a chunk was last sent again, or the receiver last showed that it has more of them. */
  #touched = 0
  #isFull = false
  #hasLast = false

  /** @param drained called when there is room again after `write` has returned `false`. */
  constructor(send: (chunk: Chunk) => void, drained: () => void) {
    this.#send = send
    this.#drained = drained
  }

  /** Bytes that are kept, as they may have to be sent again. */
  get bytes(): number {
    return this.#bytes
  }

  get isUsed(): boolean {
    return this.#hasLast && this.#chunks.length === 0
  }

  /** Whether the other end has confirmed a chunk, and so knows of the exchange. */
  get isKnown(): boolean {
    return this.#seen > 0
  }

  /** `false`: write no more until `drained` is called. The bytes are kept, and must not change. */
  write(bytes: Uint8Array, now: number): boolean {
    for (let at = 0; at < bytes.length; at += CHUNK)
      this.#add(bytes.subarray(at, at + CHUNK), false, now)
    this.#isFull ||= this.#bytes >= CREDIT
    return !this.#isFull
  }

  end(now: number): void {
    this.#add(NOTHING, true, now)
  }

  #add(bytes: Uint8Array, isLast: boolean, now: number): void {
    if (this.#hasLast) return
    if (this.#chunks.length === 0) this.#touched = now
    const chunk = { sequence: this.#next++, bytes, isLast }
    this.#hasLast = isLast
    this.#chunks.push(chunk)
    this.#bytes += bytes.length
    this.#send(chunk)
  }

  moved({ used, seen, gapEnd }: Position, now: number): void {
    const first = this.#next - this.#chunks.length
    // An older position that comes late, or one that cannot be true.
    if (used < first || seen < used || seen > this.#next) return
    for (const chunk of this.#chunks.splice(0, used - first)) this.#bytes -= chunk.bytes.length
    if (seen > this.#seen) {
      this.#seen = seen
      this.#touched = now
    }
    if (gapEnd > seen) {
      this.#touched = now
      const at = this.#next - this.#chunks.length
      for (const chunk of this.#chunks.slice(seen - at, gapEnd - at)) this.#send(chunk)
    }
    if (this.#isFull && this.#bytes < CREDIT / 2) {
      this.#isFull = false
      this.#drained()
    }
  }

  /** Repeats the last chunk after `after` ms: the other end sees which chunks it lacks. */
  repeat(now: number, after: number): void {
    const last = this.#chunks.at(-1)
    if (last === undefined || last.sequence < this.#seen || now - this.#touched < after) return
    this.#touched = now
    this.#send(last)
  }
}

/** What gets the bytes that have arrived, in order. */
export interface Consumer {
  /** If it returns `false`, it is called again only after `resume`. */
  readonly bytes: (bytes: Uint8Array) => boolean
  readonly end: () => void
}

export class Incoming {
  readonly #consumer: Consumer
  /** Chunks that have arrived in order while the consumer wants no more. */
  readonly #waiting: Chunk[] = []
  /** Chunks that have arrived behind a gap, by their numbers. */
  readonly #early = new Map<number, Chunk>()
  #earlyBytes = 0
  #isPaused = false
  #seen = 0
  #used = 0
  /** Bytes that were used since the sender was last told the position. */
  #unannounced = 0
  #hasEnded = false
  /** Whether something has come since the position was last told. */
  isNews = false

  constructor(consumer: Consumer) {
    this.#consumer = consumer
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** How many chunks have arrived without a gap. */
  get seen(): number {
    return this.#seen
  }

  /** Whether the sender is to be told the position at once, and not with the next tick. */
  get isUrgent(): boolean {
    return this.#unannounced >= TELL_AFTER || (this.isNews && this.#hasEnded)
  }

  position(): Position {
    this.isNews = false
    this.#unannounced = 0
    const gapEnd = this.#early.size === 0 ? 0 : Math.min(...this.#early.keys())
    return { used: this.#used, seen: this.#seen, gapEnd }
  }

  /** `false`: a chunk is missing before this one, or between this one and a later one. */
  take(chunk: Chunk): boolean {
    if (chunk.sequence > this.#seen) {
      this.#keep(chunk)
      return false
    }
    this.isNews = true
    if (chunk.sequence < this.#seen) return true
    for (let next: Chunk | undefined = chunk; next !== undefined;) {
      this.#seen++
      this.#waiting.push(next)
      next = this.#early.get(this.#seen)
      if (next !== undefined) this.#drop(next)
    }
    this.#use()
    return this.#early.size === 0
  }

  /** Keeps a chunk behind a gap. One that finds no room is dropped: its sender sends it again. */
  #keep(chunk: Chunk): void {
    const isTooMuch = this.#earlyBytes + chunk.bytes.length > 2 * CREDIT
    if (isTooMuch || this.#early.size >= MOST_EARLY || this.#early.has(chunk.sequence)) return
    this.#early.set(chunk.sequence, chunk)
    this.#earlyBytes += chunk.bytes.length
  }

  #drop({ sequence, bytes }: Chunk): void {
    this.#early.delete(sequence)
    this.#earlyBytes -= bytes.length
  }

  resume(): void {
    this.#isPaused = false
    this.#use()
  }

  #use(): void {
    while (!this.#isPaused && !this.#hasEnded) {
      const chunk = this.#waiting.shift()
      if (chunk === undefined) return
      this.#used++
      this.#unannounced += chunk.bytes.length
      this.isNews = true
      if (chunk.isLast) {
        this.#hasEnded = true
        this.#consumer.end()
      } else if (!this.#consumer.bytes(chunk.bytes)) this.#isPaused = true
    }
  }
}
