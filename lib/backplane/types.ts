// The interface of a backplane, which connects the instances of one service.

/** A command on the shared keys, as Redis spells it. Times are milliseconds. */
export type BackplaneCommand =
  | readonly ['GET', key: string]
  | readonly ['DEL', key: string]
  | readonly ['SET', key: string, value: Uint8Array, 'PX', time: number]
  /** Only if the key does not exist yet. */
  | readonly ['SET', key: string, value: Uint8Array, 'PX', time: number, 'NX']
  /** Which server it is that has the keys. */
  | readonly ['ID']

/**
 * Connects the instances of a service. Messages may be lost, doubled or reordered at times: the
 * instances notice that, and send again what is missing.
 */
export interface Backplane {
  /**
   * Secrets that all instances share and nobody else knows, at least one, each of 16 characters or
   * more. The first one signs and encrypts; messages under any of them are accepted.
   */
  readonly secrets: readonly string[]
  /** Milliseconds without a sign of life after which an instance counts as gone. */
  readonly lease: number
  /**
   * What happens to a request in a session that another instance has opened. `forward`: it is sent
   * there whole, and its response comes back. `local`: the endpoint of this instance gets it, for
   * endpoints that share their sessions. Default: `forward`.
   */
  readonly sessions?: 'forward' | 'local' | undefined
  /** Total of messages that `send` could not hand over. */
  readonly dropped: number
  /**
   * Sends a message to all that listen to a channel, at most once, without waiting. Never throws.
   */
  send(channel: string, message: Uint8Array): void
  /**
   * Listens to a channel, also across lost connections. It may be called before there is a
   * connection. Resolves with a function that ends the listening.
   */
  listen(channel: string, listener: (message: Uint8Array) => void): Promise<() => void>
  /**
   * Carries out a command. `GET` resolves with a `Uint8Array`, or with `null` if there is no such
   * key; a `SET` with `NX` resolves with `null` if the key exists; `ID` resolves with a string that
   * is another one after the server was started again or replaced, or with `null` if it has none;
   * all else resolves with another value. Rejects if the command cannot be carried out.
   */
  command(command: BackplaneCommand): Promise<unknown>
  /**
   * Calls the listener with whether there is a connection: at once, and then at each change.
   * Returns a function that ends this.
   */
  onUp(listener: (isUp: boolean) => void): () => void
  /**
   * Called when nothing has come back for so long that the connection must be dead: replaces it.
   */
  renew(): void
}
