// What is asked of a Redis client, whichever it is: its shape tells.

/** The connections of one backplane: one for commands, one to listen. */
export interface RedisConnection {
  readonly isUp: boolean
  /** Its client has given one of them up, and does not try again. */
  readonly isGivenUp: boolean
  publish(channel: string, message: Buffer): Promise<unknown>
  get(key: string): Promise<Uint8Array | null>
  del(key: string): Promise<unknown>
  set(key: string, value: Buffer, time: number, isNew: boolean): Promise<unknown>
  subscribe(channel: string, listener: (message: Uint8Array) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  /** What the server says of its memory (`INFO memory`); of a cluster, one of its nodes. */
  memoryInfo(): Promise<unknown>
  destroy(): void
}

/** Opens connections; `changed` is called when they come up or go down. */
export type Connect = (changed: () => void) => RedisConnection

/** Anything with events: what is not listened to as `error` would end the process. */
export interface Emitter {
  on(event: string, listener: (...args: never[]) => void): unknown
}

/** The events after which a client may be up or down. */
const CHANGES = ['ready', 'end', 'error', 'close', 'reconnecting', 'connect']

export function watch(client: Emitter, changed: () => void): void {
  for (const event of CHANGES) client.on(event, changed)
}
