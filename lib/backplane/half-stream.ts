// One direction of an exchange between two instances: bytes in numbered chunks, each kept by its
// sender until its receiver has used it.

/** Bytes of a chunk at the most. */
export const CHUNK = 64 * 1024
/** Bytes that may be on their way before the sender waits for the receiver. */
export const CREDIT = 1024 * 1024
/** Bytes used after which the sender is told at once. */
const TELL_AFTER = CREDIT / 4

export interface Chunk {
  readonly sequence: number
  readonly bytes: Uint8Array
  readonly isLast: boolean
}

/** What a receiver says of itself: all chunks below these have been used, and have arrived. */
export interface Position {
  readonly used: number
  readonly seen: number
  /** It has a later one, with this number, and asks for those between; 0: it asks for none. */
  readonly gapEnd: number
}

/** Chunks behind a gap that are kept. */
const MOST_EARLY = 4096

const NOTHING = new Uint8Array(0)

export class Outgoing {
  readonly #send: (chunk: Chunk) => void
  readonly #drained: () => void
  readonly #chunks: Chunk[] = []
  #next = 0
  #seen = 0
  #bytes = 0
  /** When something was last done about what is kept. */
  #touched = 0
  #isFull = false
  #hasLast = false

  /** @param drained called when there is room again after `write` has returned `false`. */
  constructor(send: (chunk: Chunk) => void, drained: () => void) {
    this.#send = send
    this.#drained = drained
  }

  /** Bytes that are kept. */
  get bytes(): number {
    return this.#bytes
  }

  /** All of it has been used at the other end. */
  get isUsed(): boolean {
    return this.#hasLast && this.#chunks.length === 0
  }

  /** The other end has shown that it knows of the exchange. */
  get isKnown(): boolean {
    return this.#seen > 0
  }

  /** `false`: wait for `drained`. The bytes are kept, and must not change. */
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

  /** The other end says where it is. */
  moved({ used, seen, gapEnd }: Position, now: number): void {
    const first = this.#next - this.#chunks.length
    // Out of order, or made up.
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

  /**
   * Nothing has been heard for so long that what was sent last may be lost: it is sent again, so
   * that the other end sees a gap, and asks for all that it has not.
   */
  repeat(now: number, after: number): void {
    const last = this.#chunks.at(-1)
    if (last === undefined || last.sequence < this.#seen || now - this.#touched < after) return
    this.#touched = now
    this.#send(last)
  }
}

/** Where what has arrived goes. */
export interface Consumer {
  /** `false`: no more until `resume` is called. */
  readonly bytes: (bytes: Uint8Array) => boolean
  readonly end: () => void
}

export class Incoming {
  readonly #consumer: Consumer
  readonly #waiting: Chunk[] = []
  /** What has come behind a gap. */
  readonly #early = new Map<number, Chunk>()
  #earlyBytes = 0
  #isPaused = false
  #seen = 0
  #used = 0
  #unannounced = 0
  #hasEnded = false
  /** Something has changed that the sender does not know. */
  isNews = false

  constructor(consumer: Consumer) {
    this.#consumer = consumer
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Chunks that have arrived without a gap. */
  get seen(): number {
    return this.#seen
  }

  /** Its sender should hear of it at once. */
  get isUrgent(): boolean {
    return this.#unannounced >= TELL_AFTER || (this.isNews && this.#hasEnded)
  }

  position(): Position {
    this.isNews = false
    this.#unannounced = 0
    const gapEnd = this.#early.size === 0 ? 0 : Math.min(...this.#early.keys())
    return { used: this.#used, seen: this.#seen, gapEnd }
  }

  /** `false`: there is a gap, before this one or behind it. */
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

  /** Where it is more than a sender may have on its way, it comes again. */
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
