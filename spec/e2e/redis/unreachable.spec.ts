import { describe, expect, it } from '@jest/globals'
import { mcpStreams } from '../../../lib/index.js'
import { redisBackplane } from '../../../lib/redis/index.js'
import { freePort } from '../../helpers/free-port.js'
import { ioRedis, nodeRedis } from './clients.js'

describe.each([
  ['node-redis', nodeRedis],
  ['ioredis', ioRedis]
])('a Redis that cannot be reached, by %s', (_, clientOf) => {
  it('keeps none of several instances on one backplane from closing, nor the process from ending', async () => {
    const client = clientOf(`redis://127.0.0.1:${await freePort()}`)
    const backplane = redisBackplane({ client, secret: 'a secret of the specs' })
    const instances = [1, 2, 3].map(() => mcpStreams({ backplane }))
    await Promise.all(instances.map(streams => streams.close()))
    expect(instances.map(streams => streams.stats().backplane.up)).toEqual([0, 0, 0])
  })
})
