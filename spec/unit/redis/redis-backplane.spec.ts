import { EventEmitter } from 'node:events'
import { expect, it } from '@jest/globals'
import {
  connectIoRedis,
  connectNodeRedis,
  type IoRedis,
  type NodeRedis,
  type RedisConnection
} from '../../../lib/redis/connection.js'
import { RedisBackplane } from '../../../lib/redis/redis-backplane.js'

const MEBIBYTE = 2 ** 20

/** A connection that has taken what it publishes when the spec says so. */
function connection(published: (() => void)[]): RedisConnection {
  return {
    isUp: true,
    isGivenUp: false,
    publish: () => new Promise<void>(resolve => published.push(resolve)),
    subscribe: () => Promise.resolve(),
    unsubscribe: () => Promise.resolve(),
    isCluster: false,
    info: () => Promise.resolve(undefined),
    get: () => Promise.resolve(null),
    set: () => Promise.resolve(),
    del: () => Promise.resolve(),
    destroy: () => undefined
  }
}

it('a backplane whose connections are renewed lets as many bytes wait for Redis as before', async () => {
  const published: (() => void)[] = []
  const settings = { secrets: ['a secret of the specs'], lease: 6000, prefix: '' }
  const backplane = new RedisBackplane(settings, () => connection(published))
  await backplane.listen('a', () => undefined)
  backplane.send('a', new Uint8Array(10 * MEBIBYTE))
  backplane.renew()
  for (const resolve of published.splice(0)) resolve()
  await Promise.resolve()
  backplane.send('a', new Uint8Array(10 * MEBIBYTE))
  expect(backplane.dropped).toBe(0)
  backplane.send('a', new Uint8Array(10 * MEBIBYTE))
  expect(backplane.dropped).toBe(1)
})

it('connections that their clients have given up are opened anew after a second', async () => {
  const opened: RedisConnection[] = []
  const settings = { secrets: ['a secret of the specs'], lease: 6000, prefix: '' }
  const backplane = new RedisBackplane(settings, changed => {
    const isGivenUp = opened.length === 0
    opened.push({ ...connection([]), isUp: !isGivenUp, isGivenUp })
    // Each event of its two clients.
    for (let i = 0; i < 3; i++) queueMicrotask(changed)
    return opened.at(-1) as RedisConnection
  })
  const isUp = new Promise<void>(resolve => backplane.onUp(up => (up ? resolve() : undefined)))
  const leave = await backplane.listen('a', () => undefined)
  await new Promise(resolve => setTimeout(resolve, 500))
  expect(opened).toHaveLength(1)
  await isUp
  await new Promise(resolve => setTimeout(resolve, 200))
  expect(opened).toHaveLength(2)
  leave()
})

it('a channel that is listened to again while Redis is away is subscribed to once', async () => {
  let isAway = true
  const subscribed: string[] = []
  const subscribe = (name: string): Promise<void> => {
    if (isAway) return Promise.reject(new Error('away'))
    subscribed.push(name)
    return Promise.resolve()
  }
  const settings = { secrets: ['a secret of the specs'], lease: 6000, prefix: '' }
  const backplane = new RedisBackplane(settings, () => ({ ...connection([]), subscribe }))
  await backplane.listen('other', () => undefined)
  const leave = await backplane.listen('a', () => undefined)
  leave()
  await backplane.listen('a', () => undefined)
  isAway = false
  // Each tries again after half a second.
  await new Promise(resolve => setTimeout(resolve, 700))
  expect(subscribed.sort()).toEqual(['a', 'other'])
})

it('a channel is listened to as soon as there is a connection, and not a while later', async () => {
  let isUp = false
  let change = (): void => undefined
  const subscribed: string[] = []
  const subscribe = async (name: string): Promise<void> => {
    if (!isUp) throw new Error('away')
    subscribed.push(name)
  }
  const settings = { secrets: ['a secret of the specs'], lease: 6000, prefix: '' }
  const backplane = new RedisBackplane(settings, changed => {
    change = changed
    return Object.defineProperty({ ...connection([]), subscribe }, 'isUp', { get: () => isUp })
  })
  await backplane.listen('a', () => undefined)
  await new Promise(resolve => setImmediate(resolve))
  isUp = true
  change()
  await new Promise(resolve => setImmediate(resolve))
  await new Promise(resolve => setImmediate(resolve))
  expect(subscribed).toEqual(['a'])
})

it('ioredis brings messages of channels whose prefix is no ASCII', async () => {
  const clients: EventEmitter[] = []
  const client = {
    duplicate: () => {
      const own = Object.assign(new EventEmitter(), { subscribe: () => Promise.resolve() })
      clients.push(own)
      return own
    }
  } as unknown as IoRedis
  const heard: string[] = []
  const { subscribe } = connectIoRedis(client)(() => undefined)
  await subscribe('größe:a', message => heard.push(Buffer.from(message).toString()))
  clients[1]!.emit('messageBuffer', Buffer.from('größe:a'), Buffer.from('here'))
  expect(heard).toEqual(['here'])
})

it('commands of node-redis have no timer of their own, whatever its version has by default', () => {
  const overrides: unknown[] = []
  const own = Object.assign(new EventEmitter(), {
    connect: () => Promise.resolve(),
    withTypeMapping: () => own
  })
  const client = {
    duplicate(override: unknown) {
      overrides.push(override)
      return own
    }
  } as unknown as NodeRedis
  connectNodeRedis(client)(() => undefined)
  const wanted = { disableOfflineQueue: true, commandOptions: { timeout: undefined } }
  expect(overrides).toStrictEqual([wanted, wanted])
})
