// Clients that are set to try only so often: an instance comes back all the same.
import { describe, expect, it } from '@jest/globals'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { mcpStreams } from '../../../lib/index.js'
import { redisBackplane, type RedisClient } from '../../../lib/redis/index.js'
import { isWithoutRedis, startRedis } from '../../helpers/backplane/redis-server.js'
import { until } from '../../helpers/happenings.js'

const clients: Record<string, (url: string) => RedisClient> = {
  'node-redis': url => createClient({ url, socket: { reconnectStrategy: false } }),
  ioredis: url => new Redis(url, { lazyConnect: true, retryStrategy: () => null })
}
const describeHere = isWithoutRedis ? describe.skip : describe

describeHere.each(Object.entries(clients))(
  'a client of %s that never tries again',
  (_, clientOf) => {
    it('does not keep an instance from its Redis, whenever that is there', async () => {
      const redis = await startRedis()
      await redis.kill()
      const client = clientOf(redis.url)
      const streams = mcpStreams({
        backplane: redisBackplane({ client, secret: 'a secret of the specs', lease: 600 })
      })
      const isUp = (): boolean => streams.stats().backplane.up === 1
      try {
        await redis.start()
        await until(isUp)
        await redis.kill()
        await until(() => !isUp())
        await redis.start()
        await until(isUp)
      } finally {
        await streams.close()
      }
      expect(isUp()).toBe(false)
    })
  }
)
