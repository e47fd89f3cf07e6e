// What connects the instances of one service: messages between them, and a few keys that they
// share.

/** A command on the shared keys, as Redis spells it. Times are milliseconds. */
export type BackplaneCommand =
  | readonly ['GET', key: string]
  | readonly ['DEL', key: string]
  | readonly ['SET', key: string, value: Uint8Array, 'PX', time: number]
  /** Only where the key does not exist yet. */
  | readonly ['SET', key: string, value: Uint8Array, 'PX', time: number, 'NX']

/**
 * Connects the instances of a service. Its messages only need to arrive as a rule: those that are
 * lost, doubled or reordered are noticed and dealt with by its user.
 */
export interface Backplane {
  /**
   * Secrets that all instances share, and nobody else knows: the first one signs, all are accepted.
   * At least one, of 16 characters or more.
   */
  readonly secrets: readonly string[]
  /** Milliseconds without a sign of life after which an instance counts as gone. */
  readonly lease: number
  /** Total of messages that could not be handed over. */
  readonly dropped: number
  /**
   * Sends a message to those who listen to a channel: at most once, without waiting. Never throws.
   */
  send(channel: string, message: Uint8Array): void
  /**
   * Listens to a channel, across lost connections, and also while there is no connection yet. It
   * resolves with a function that ends this.
   */
  listen(channel: string, listener: (message: Uint8Array) => void): Promise<() => void>
  /**
   * Resolves with a `Uint8Array` or `null` for `GET`, with `null` for a `SET` that found its key
   * taken, and with anything else otherwise. Rejects where it cannot be carried out.
   */
  command(command: BackplaneCommand): Promise<unknown>
  /**
   * Calls the listener at once, and then at each change, with whether there is a connection. What
   * it returns ends this.
   */
  onUp(listener: (isUp: boolean) => void): () => void
  /**
   * Nothing has come back for so long that the connection must be taken for dead: makes another.
   */
  renew(): void
}

/** What the backplane says of itself, in numbers. */
export interface BackplaneStats {
  /** 1 while there is a connection, and what is sent over it comes back; else 0. */
  readonly up: number
  /** 1 while it is slow, or keys cannot be written; else 0. */
  readonly degraded: number
  /** Requests of clients that other instances answer now. */
  readonly forwarded: number
  /** Requests that other instances have sent here, and that are answered now. */
  readonly accepted: number
  /** Bytes that are kept until another instance has used them. */
  readonly bytes: number
  /** Total of messages sent, and received. */
  readonly sent: number
  readonly received: number
  /** Total of messages that could not be sent: there is no connection, or too much waits for it. */
  readonly unsent: number
  /**
   * Totals of messages that were dropped: in no valid form, of another release, not signed with one
   * of the secrets, or seen before.
   */
  readonly malformed: number
  readonly version: number
  readonly forged: number
  readonly replayed: number
}
