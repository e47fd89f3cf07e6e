import { afterAll, describe, it } from '@jest/globals'
import type { Backplane } from '../../../lib/backplane/types.js'
import { redisBackplane, type RedisClient } from '../../../lib/redis/index.js'
import { describeBackplane } from '../../helpers/backplane/contract.js'
import {
  isWithoutRedis,
  startRedis,
  type RedisServer
} from '../../helpers/backplane/redis-server.js'
import { closeAll } from '../../helpers/close-all.js'
import { ioRedis, nodeRedis } from './clients.js'

const secret = 'a secret of the specs'

if (isWithoutRedis)
  describe.skip('without redis-server: its contract', () => it('is not checked', () => {}))
else {
  let server: Promise<RedisServer> | undefined
  afterAll(closeAll)

  const joining = (clientOf: (url: string) => RedisClient) => async () => {
    server ??= startRedis()
    const { url } = await server
    const end = (): Backplane => redisBackplane({ client: clientOf(url), secret })
    return [end(), end()] as const
  }
  describeBackplane('Redis by node-redis', { join: joining(nodeRedis) })
  describeBackplane('Redis by ioredis', { join: joining(ioRedis) })
}
