// The adapter for ioredis 5 and later, and for its cluster.
import { type Connect, type Emitter, watch } from './connection.js'

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

/**
 * Commands fail after one try to connect again, as the instances have retries of their own. And a
 * connection that is closed is cut after 100 ms, whatever is still to come over it.
 */
const OPTIONS = { maxRetriesPerRequest: 1, lazyConnect: false, disconnectTimeout: 100 }

export function connectIoRedis(client: IoRedis): Connect {
  const isCluster = client.isCluster === true
  // Sharded channels belong to slots, as keys do: ioredis puts its key prefix in front of both. The
  // names in messages have it, and the names that are subscribed to do not.
  const { length } = isCluster ? (client.options?.keyPrefix ?? '').toString() : ''
  return changed => {
    const open = (): IoRedis => {
      const own = isCluster
        ? client.duplicate([], { shardedSubscribers: true, lazyConnect: false })
        : client.duplicate(OPTIONS)
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
