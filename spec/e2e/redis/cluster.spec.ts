// A Redis cluster: messages by sharded publish and subscribe, keys wherever they belong.

import { describe, expect, it } from '@jest/globals'
import { Cluster } from 'ioredis'
import { createCluster } from 'redis'
import type { Backplane } from '../../../lib/backplane/types.js'
import { redisBackplane, type RedisClient } from '../../../lib/redis/index.js'
import { backplaneOver } from '../../../lib/redis/redis-options.js'
import { describeBackplane } from '../../helpers/backplane/contract.js'
import { startRedisCluster } from '../../helpers/backplane/redis-cluster.js'
import { isWithoutRedis, type RedisServer } from '../../helpers/backplane/redis-server.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { until } from '../../helpers/happenings.js'
import { callTool, get, initializeSession, post } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { gist, lastId, note, VERSION } from '../../features/backplane/setup.js'

const secret = 'a secret of the specs'

if (isWithoutRedis)
  describe.skip('without redis-server: a cluster', () => it('is not checked', () => undefined))
else {
  const byNodeRedis = (servers: readonly RedisServer[]): RedisClient =>
    createCluster({ rootNodes: servers.map(({ url }) => ({ url })) })
  const byIoRedis = (servers: readonly RedisServer[], keyPrefix?: string): RedisClient =>
    new Cluster(
      servers.map(({ port }) => ({ host: '127.0.0.1', port })),
      { lazyConnect: true, ...(keyPrefix && { keyPrefix }) }
    )
  const joining = (clientOf: typeof byNodeRedis) => async () => {
    const servers = await startRedisCluster()
    const end = (): Backplane => backplaneOver({ client: clientOf(servers), secret })
    return [end(), end()] as const
  }
  describeBackplane('a cluster by node-redis', { join: joining(byNodeRedis) })
  describeBackplane('a cluster by ioredis', { join: joining(byIoRedis) })
  describeBackplane('a cluster by ioredis, under a prefix of its own', {
    join: joining(servers => byIoRedis(servers, 'äpp:'))
  })

  it('two instances on a cluster relay calls and sessions to each other, by either client', async () => {
    const servers = await startRedisCluster()
    const members = await Promise.all(
      [byNodeRedis, byIoRedis].map(async (clientOf, i) => {
        const endpoint = rawEndpoint(({ open }) => open(), {
          session: `s${i}`,
          initializeAs: 'json'
        })
        const backplane = redisBackplane({ client: clientOf(servers), secret })
        const served = await serve(endpoint, { backplane })
        await until(() => served.streams.stats().backplane!.up === 1)
        return { ...served, endpoint }
      })
    )
    for (const [home, away] of [members, [...members].reverse()]) {
      const { headers } = await initializeSession(home!.url, VERSION)
      const opened = post(away!.url, callTool(1, 'any'), headers)
      const call = await home!.endpoint.calls.nth(1)
      const first = await opened
      call.emit(note('one'))
      await first.nextMessage()
      first.destroy()
      const link = new URL(streamUrl(first, away!.url))
      const second = await get(link, { ...headers, 'last-event-id': lastId(first) })
      call.emit(note('two'.repeat(100_000)))
      call.result()
      await second.ended
      expect(gist(second)).toEqual(['two'.repeat(100_000), 1])
    }
  })
}
