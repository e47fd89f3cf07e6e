// What a reader writes to.

/**
 * The response that a connection writes to: the endpoint's own, underneath its capture, or ours.
 */
export interface Sink {
  /** Its client has come by another instance. */
  readonly isRelayed?: boolean
  /** What passes it on to its client writes comments where it is silent. */
  readonly isKeptAlive?: boolean
  /** It takes nothing any more: somebody in front of us has ended it, or its client has gone. */
  readonly isOver: boolean
  /** Writes, and flushes what compresses on the way. `false`: wait for `onDrain`. */
  write(bytes: Uint8Array, onWritten?: () => void): boolean
  /**
   * It says when the bytes of a write are not needed any more. Otherwise they may be kept, and
   * nobody hears of it.
   */
  readonly tellsWritten: boolean
  /** Bytes up to which it copies what it is given: those are nobody's to retain. Default: none. */
  readonly copies?: number
  /** Bytes that its socket has not taken yet. */
  readonly pending: number
  /** What is written until `uncork` leaves together. */
  cork(): void
  uncork(): void
  end(): void
  /** Ends it without waiting for a client that takes nothing. */
  destroy(): void
  /** Its client has gone: nothing that is written to it goes anywhere. */
  readonly isGone: boolean
  onDrain(listener: () => void): void
  onClose(listener: () => void): void
  /**
   * Closes the socket once the response has ended, which changes nothing before: it would wait for
   * a next request otherwise.
   */
  closeSocket(onClosed: () => void): void
}
