// What an operator is told where Redis would throw away what instances share.

import { afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals'
import type { Backplane } from '../../../lib/backplane/types.js'
import { backplaneOver, type RedisClient } from '../../../lib/redis/redis-options.js'
import {
  isWithoutRedis,
  startRedis,
  type RedisServer
} from '../../helpers/backplane/redis-server.js'
import { ioRedis, nodeRedis } from './clients.js'

const describeHere = isWithoutRedis ? describe.skip : describe

describeHere('a Redis that evicts keys', () => {
  let server: RedisServer
  let warnings: jest.SpiedFunction<typeof process.emitWarning>
  beforeAll(async () => void (server = await startRedis('--maxmemory', '100mb')))
  beforeEach(() => void (warnings = jest.spyOn(process, 'emitWarning').mockReturnValue()))
  afterEach(() => warnings.mockRestore())

  const clients = [
    ['node-redis', nodeRedis],
    ['ioredis', ioRedis]
  ] as const

  /** Until it is up, and what it has asked has been answered: `again`, over a second connection. */
  async function use(client: RedisClient, again = false): Promise<void> {
    const backplane = backplaneOver({ client, secret: 'a secret of the specs' })
    const leave = await backplane.listen('any', () => undefined)
    await isUp(backplane)
    await backplane.command(['GET', 'any'])
    if (again) {
      const isDown = isUp(backplane, false)
      backplane.renew()
      await isDown
      await isUp(backplane)
      await backplane.command(['GET', 'any'])
    }
    leave()
  }

  it.each(clients)('is named in one warning, by %s', async (_name, clientOf) => {
    await server.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
    await use(clientOf(server.url), true)
    expect(warnings.mock.calls).toEqual([
      [expect.stringContaining('allkeys-lru'), { code: 'MCP_STREAMS_EVICTION' }]
    ])
  })

  it('is named also where it evicts only keys that have a time, as all of ours have', async () => {
    await server.command('CONFIG', 'SET', 'maxmemory-policy', 'volatile-ttl')
    await use(nodeRedis(server.url))
    expect(warnings.mock.calls).toEqual([
      [expect.stringContaining('volatile-ttl'), { code: 'MCP_STREAMS_EVICTION' }]
    ])
  })

  it('is not named where it may not be asked', async () => {
    await server.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
    await server.command('ACL', 'SETUSER', 'mute', 'on', '>mute', '+@all', '-info', '~*', '&*')
    const url = server.url.replace('//', '//mute:mute@')
    await use(nodeRedis(url))
    expect(warnings).not.toHaveBeenCalled()
  })

  it('is not named where there is nothing to warn of', async () => {
    await server.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    for (const [, clientOf] of clients) await use(clientOf(server.url))
    await server.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
    await server.command('CONFIG', 'SET', 'maxmemory', '0')
    for (const [, clientOf] of clients) await use(clientOf(server.url))
    expect(warnings).not.toHaveBeenCalled()
  })
})

function isUp(end: Backplane, wanted = true): Promise<void> {
  return new Promise(resolve => {
    const off = end.onUp(up => {
      if (up !== wanted) return
      resolve()
      queueMicrotask(() => off())
    })
  })
}
