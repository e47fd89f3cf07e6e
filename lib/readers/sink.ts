// What a reader writes to, and the memory that each write retains until the socket has taken it.
import { now } from '../protocol/clock.js'
import { type Retained, RetainedQueue } from '../streams/retained.js'
import { Timer } from '../streams/timer.js'

/** The response that a reader writes to: the endpoint's own, underneath its capture, or ours. */
export interface Sink {
  /** Whether its client is connected to another instance, which relays. */
  readonly isRelayed?: boolean
  /** Whether the relay writes the comments that break silence. */
  readonly isKeptAlive?: boolean
  /** Whether it takes nothing any more: earlier middleware has ended it, or its client has gone. */
  readonly isOver: boolean
  /** Writes, and flushes any compression on the way. `false`: wait for `onDrain`. */
  write(bytes: Uint8Array, onWritten?: () => void): boolean
  /** Whether `onWritten` tells when the bytes of a write are not needed any more. */
  readonly tellsWritten: boolean
  /** Bytes of a write that is copied, so its memory is not retained. Default: none. */
  readonly copies?: number
  /** Bytes that its socket has not taken yet. */
  readonly pending: number
  /** Holds back what is written until `uncork`, to send it together. */
  cork(): void
  uncork(): void
  end(): void
  /** Ends it without waiting for a client that takes nothing. */
  destroy(): void
  /** Whether its client has gone, so that nothing written to it goes anywhere. */
  readonly isGone: boolean
  onDrain(listener: () => void): void
  onClose(listener: () => void): void
  /** Makes the socket close after the response, instead of waiting for another request. */
  closeSocket(onClosed: () => void): void
}

/** Writes to a sink, and retains the memory of each write until the socket has taken it. */
export class SinkWriter {
  /** When it last wrote, by `now()`; 0: never. */
  lastWriteAt = 0
  /** Set with the first write that retains memory: most calls are over before. */
  #inFlight: RetainedQueue | undefined
  readonly #sink: Sink

  constructor(sink: Sink) {
    this.#sink = sink
  }

  /** Whether memory is still retained: the socket has not taken it, or the sink does not say so. */
  get isRetaining(): boolean {
    return this.#inFlight?.isEmpty === false
  }

  /** `retained` is the memory of the bytes. `false`: the socket is full. */
  write(bytes: Uint8Array, retained?: Retained): boolean {
    const sink = this.#sink
    this.lastWriteAt = now()
    let written: (() => void) | undefined
    if (retained !== undefined) {
      this.#inFlight ??= new RetainedQueue()
      this.#inFlight.push(retained)
      written = this.#inFlight.releaseFirst
    }
    const hasRoom = sink.write(bytes, written)
    if (hasRoom) this.hasRoom()
    return hasRoom
  }

  /** The socket has room: all of it has been taken, if the sink does not report single writes. */
  hasRoom(): void {
    if (!this.#sink.tellsWritten) this.release()
  }

  /** The socket has closed or taken everything. */
  release(): void {
    this.#inFlight?.releaseAll(this.#sink.tellsWritten)
  }
}

/** Closes a socket when the process is about to end: with its response, or at a deadline. */
export class SocketClosing {
  #deadline: Timer | undefined
  #onClosed: (() => void) | undefined

  /** @param onClosed called when the socket has closed, or is left to other code. */
  constructor(sink: Sink, onClosed: () => void) {
    this.#onClosed = onClosed
    sink.closeSocket(() => this.closed())
  }

  /** Whether the socket is still waited for. */
  get isPending(): boolean {
    return this.#onClosed !== undefined
  }

  /** Sets the deadline, in milliseconds; `cut` destroys the response. */
  within(patience: number, cut: () => void): void {
    this.#deadline ??= new Timer(() => {
      cut()
      setImmediate(() => this.closed())
    })
    this.#deadline.start(patience)
  }

  closed(): void {
    const onClosed = this.#onClosed
    this.#onClosed = undefined
    this.#deadline?.stop()
    onClosed?.()
  }
}
