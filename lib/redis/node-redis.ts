// The adapter for node-redis 5 and later, and for its cluster.
import { type Connect, type Emitter, watch } from './connection.js'

/** The type of a bulk string in RESP (`$`): values are to be returned as bytes. */
const BLOB_STRING = 36

/**
 * Without a connection, commands fail at once. They have no timeout: node-redis 6 makes an
 * `AbortSignal` for each by default, which costs more than all else of a command. It is not needed,
 * as `renew` replaces a connection over which nothing comes back, and its commands fail.
 */
const OPTIONS = { disableOfflineQueue: true, commandOptions: { timeout: undefined } }

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

export function connectNodeRedis(client: NodeRedis): Connect {
  const isCluster = 'masters' in client
  return changed => {
    const open = (): NodeRedis => {
      const own = client.duplicate(isCluster ? undefined : OPTIONS)
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
