import { expect, it } from '@jest/globals'
import type { RedisConnection } from '../../../lib/redis/connection.js'
import { RedisBackplane } from '../../../lib/redis/redis-backplane.js'

const MEBIBYTE = 2 ** 20

/** A connection that has taken what it publishes when the spec says so. */
function connection(published: (() => void)[]): RedisConnection {
  return {
    isUp: true,
    publish: () => new Promise<void>(resolve => published.push(resolve)),
    subscribe: () => Promise.resolve(),
    unsubscribe: () => Promise.resolve(),
    memoryInfo: () => Promise.resolve(undefined),
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
