// The interface between the backplane and a client of Redis. There is one adapter for each client.

/**
 * The connections of one backplane: one for commands and one that listens. With a cluster, one
 * client does both.
 */
export interface RedisConnection {
  /** Whether all of them are ready. */
  readonly isUp: boolean
  /** Whether a client has given up, and does not try to connect again. */
  readonly isGivenUp: boolean
  publish(channel: string, message: Buffer): Promise<unknown>
  get(key: string): Promise<Uint8Array | null>
  del(key: string): Promise<unknown>
  /**
   * @param time milliseconds for which the key lasts.
   * @param isNew only if the key does not exist yet; otherwise it resolves with `null`.
   */
  set(key: string, value: Buffer, time: number, isNew: boolean): Promise<unknown>
  subscribe(channel: string, listener: (message: Uint8Array) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  /** Whether it is a cluster, of many servers. */
  readonly isCluster: boolean
  /** The reply to `INFO`; of a cluster, that of one of its nodes. */
  info(section: 'memory' | 'server'): Promise<unknown>
  destroy(): void
}

/** Opens connections. `changed` is called whenever they may have come up or gone down. */
export type Connect = (changed: () => void) => RedisConnection

/** The part of Node's `EventEmitter` that is used here. */
export interface Emitter {
  on(event: string, listener: (...args: never[]) => void): unknown
}

/** The events after which a client may be up or down. An `error` without a listener is thrown. */
const CHANGES = ['ready', 'end', 'error', 'close', 'reconnecting', 'connect']

export function watch(client: Emitter, changed: () => void): void {
  for (const event of CHANGES) client.on(event, changed)
}
