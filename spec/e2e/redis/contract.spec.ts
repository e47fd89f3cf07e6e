import { describe, it } from '@jest/globals'
import type { Backplane } from '../../../lib/backplane/types.js'
import { backplaneOver, type RedisClient } from '../../../lib/redis/redis-options.js'
import { describeBackplane } from '../../helpers/backplane/contract.js'
import {
  isWithoutRedis,
  isWithoutValkey,
  startRedis,
  startValkey,
  type RedisServer
} from '../../helpers/backplane/redis-server.js'
import { ioRedis, nodeRedis } from './clients.js'

const secret = 'a secret of the specs'

function check(name: string, isWithout: boolean, start: () => Promise<RedisServer>): void {
  if (isWithout)
    return describe.skip(`without ${name}: its contract`, () =>
      it('is not checked', () => undefined))
  const joining = (clientOf: (url: string) => RedisClient) => async () => {
    const { url } = await start()
    const end = (): Backplane => backplaneOver({ client: clientOf(url), secret })
    return [end(), end()] as const
  }
  describeBackplane(`${name} by node-redis`, { join: joining(nodeRedis) })
  describeBackplane(`${name} by ioredis`, { join: joining(ioRedis) })
}

check('redis-server', isWithoutRedis, startRedis)
check('valkey-server', isWithoutValkey, startValkey)
