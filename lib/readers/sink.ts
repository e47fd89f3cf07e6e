// What a reader writes to.

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
  /**
   * Whether `onWritten` tells when the bytes of a write are not needed any more. If not, they may
   * be kept for an unknown time.
   */
  readonly tellsWritten: boolean
  /**
   * Writes of up to so many bytes are copied, so their memory need not be retained. Default: none.
   */
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
  /**
   * Makes the socket close after the response, instead of waiting for another request. Nothing
   * changes before that.
   */
  closeSocket(onClosed: () => void): void
}
