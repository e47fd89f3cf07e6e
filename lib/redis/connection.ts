// The interface between the backplane and a client of Redis. There is one adapter for each client.

/** One connection for commands and one that listens; a cluster client does both. */
export interface RedisConnection {
  /** Whether all of them are ready. */
  readonly isUp: boolean
  readonly isGivenUp: boolean
  publish(channel: string, message: Buffer): Promise<unknown>
  get(key: string): Promise<Uint8Array | null>
  del(key: string): Promise<unknown>
  /** @param isNew resolves with `null` if the key exists. `time`: milliseconds. */
  set(key: string, value: Buffer, time: number, isNew: boolean): Promise<unknown>
  subscribe(channel: string, listener: (message: Uint8Array) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  readonly isCluster: boolean
  /** The reply to `INFO`; of a cluster, that of one of its nodes. */
  info(section: 'memory' | 'server'): Promise<unknown>
  destroy(): void
}

/** Opens connections. `changed` is called whenever they may have come up or gone down. */
export type Connect = (changed: () => void) => RedisConnection

/** The part of Node's `EventEmitter` that is used here. */
interface Emitter {
  on(event: string, listener: (...args: never[]) => void): unknown
}

/** The events after which a client may be up or down. An `error` without a listener is thrown. */
const CHANGES = ['ready', 'end', 'error', 'close', 'reconnecting', 'connect']

function watch(client: Emitter, changed: () => void): void {
  for (const event of CHANGES) client.on(event, changed)
}

/** The part of a client that is used here. */
export interface IoRedis extends Emitter {
  readonly status: string
  readonly isCluster?: boolean
  readonly options?: { readonly keyPrefix?: string | Buffer | undefined }
  duplicate(...overrides: readonly object[]): IoRedis
  disconnect(): void
  getBuffer(key: string): Promise<Buffer | null>
  del(key: string): Promise<unknown>
  set(key: string, value: Buffer, ...options: readonly (string | number)[]): Promise<unknown>
  publish(channel: string, message: Buffer): Promise<unknown>
  subscribe(channel: string): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  spublish(channel: string, message: Buffer): Promise<unknown>
  ssubscribe(channel: string): Promise<unknown>
  sunsubscribe(channel: string): Promise<unknown>
  info(section: string): Promise<unknown>
}

/** Commands fail after one try, as instances try again; a closed connection is cut after 100 ms. */
const IOREDIS_OPTIONS = { maxRetriesPerRequest: 1, lazyConnect: false, disconnectTimeout: 100 }

/** The adapter for ioredis 5 and later, and for its cluster. */
export function connectIoRedis(client: IoRedis): Connect {
  const isCluster = client.isCluster === true
  // ioredis puts its key prefix in front of sharded channels: messages have it.
  const { length } = isCluster ? (client.options?.keyPrefix ?? '').toString() : ''
  return changed => {
    const open = (): IoRedis => {
      const own = isCluster
        ? client.duplicate([], { shardedSubscribers: true, lazyConnect: false })
        : client.duplicate(IOREDIS_OPTIONS)
      watch(own, changed)
      return own
    }
    const commands = open()
    const listening = isCluster ? commands : open()
    const listeners = new Map<string, (message: Uint8Array) => void>()
    const heard = (channel: Buffer, message: Buffer): void =>
      listeners.get(channel.toString().slice(length))?.(message)
    listening.on(isCluster ? 'smessageBuffer' : 'messageBuffer', heard)
    return {
      get isUp() {
        return commands.status === 'ready' && listening.status === 'ready'
      },
      get isGivenUp() {
        return commands.status === 'end' || listening.status === 'end'
      },
      publish: (channel, message) =>
        isCluster ? commands.spublish(channel, message) : commands.publish(channel, message),
      get: key => commands.getBuffer(key),
      del: key => commands.del(key),
      set: (key, value, time, isNew) =>
        commands.set(key, value, 'PX', time, ...(isNew ? ['NX'] : [])),
      subscribe(channel, listener) {
        listeners.set(channel, listener)
        return isCluster ? listening.ssubscribe(channel) : listening.subscribe(channel)
      },
      unsubscribe(channel) {
        listeners.delete(channel)
        return isCluster ? listening.sunsubscribe(channel) : listening.unsubscribe(channel)
      },
      isCluster,
      info: section => commands.info(section),
      destroy() {
        for (const one of new Set([commands, listening])) one.disconnect()
      }
    }
  }
}

/** The type of a bulk string in RESP (`$`): values are to be returned as bytes. */
const BLOB_STRING = 36

/**
 * No timeout: node-redis 6 makes an `AbortSignal` for each, and `renew` replaces dead connections.
 */
const NODE_REDIS_OPTIONS = { disableOfflineQueue: true, commandOptions: { timeout: undefined } }

interface SetOptions {
  readonly expiration: { readonly type: 'PX'; readonly value: number }
  readonly condition?: 'NX'
}
type Listener = (message: Buffer) => void

/** The part of a client that is used here. */
export interface NodeRedis extends Emitter {
  readonly isOpen: boolean
  readonly isReady: boolean
  duplicate(overrides?: object): NodeRedis
  connect(): Promise<unknown>
  destroy(): void
  withTypeMapping(mapping: object): { get(key: string): Promise<Buffer | null> }
  set(key: string, value: Buffer, options: SetOptions): Promise<unknown>
  del(key: string): Promise<unknown>
  publish(channel: string, message: Buffer): Promise<unknown>
  subscribe(channel: string, listener: Listener, isBuffer: true): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  sPublish(channel: string, message: Buffer): Promise<unknown>
  sSubscribe(channel: string, listener: Listener, isBuffer: true): Promise<unknown>
  sUnsubscribe(channel: string): Promise<unknown>
  /** A cluster has two more arguments in front: the command's key, and whether it only reads. */
  sendCommand(...args: readonly unknown[]): Promise<unknown>
}

/** The adapter for node-redis 5 and later, and for its cluster. */
export function connectNodeRedis(client: NodeRedis): Connect {
  const isCluster = 'masters' in client
  return changed => {
    const open = (): NodeRedis => {
      const own = client.duplicate(isCluster ? undefined : NODE_REDIS_OPTIONS)
      watch(own, changed)
      // The client tries again by itself, and reports the reason by an `error` event.
      own.connect().then(changed, changed)
      return own
    }
    const commands = open()
    const listening = isCluster ? commands : open()
    const bytes = commands.withTypeMapping({ [BLOB_STRING]: Buffer })
    return {
      get isUp() {
        return commands.isReady && listening.isReady
      },
      get isGivenUp() {
        return !commands.isOpen || !listening.isOpen
      },
      publish: (channel, message) =>
        isCluster ? commands.sPublish(channel, message) : commands.publish(channel, message),
      get: key => bytes.get(key),
      del: key => commands.del(key),
      set: (key, value, time, isNew) =>
        commands.set(key, value, {
          expiration: { type: 'PX', value: time },
          ...(isNew && { condition: 'NX' as const })
        }),
      subscribe: (channel, listener) =>
        isCluster
          ? listening.sSubscribe(channel, listener, true)
          : listening.subscribe(channel, listener, true),
      unsubscribe: channel =>
        isCluster ? listening.sUnsubscribe(channel) : listening.unsubscribe(channel),
      isCluster,
      info: section =>
        isCluster
          ? commands.sendCommand(undefined, true, ['INFO', section])
          : commands.sendCommand(['INFO', section]),
      destroy() {
        for (const one of new Set([commands, listening])) if (one.isOpen) one.destroy()
      }
    }
  }
}
