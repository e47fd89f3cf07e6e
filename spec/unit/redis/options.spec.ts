import { describe, expect, it } from '@jest/globals'
import { createSentinel } from 'redis'
import { redisBackplane, type RedisBackplaneOptions } from '../../../lib/redis/index.js'
import { backplaneOver } from '../../../lib/redis/redis-options.js'
import { ioRedis, nodeRedis } from '../../e2e/redis/clients.js'

// Neither is connected before it is used.
const client = nodeRedis('redis://127.0.0.1:1')
const secret = 'a secret of the specs'

describe('an option of redisBackplane()', () => {
  it.each<[name: string, options: object]>([
    ['client', { client: undefined }],
    ['client', { client: 'redis://127.0.0.1:1' }],
    ['client', { client: { duplicate: () => client } }],
    ['secret', { secret: undefined }],
    ['secret', { secret: 'too short' }],
    ['secret', { secret: [] }],
    ['secret', { secret: [secret, ''] }],
    ['lease', { lease: 0 }],
    ['lease', { lease: 199 }],
    ['lease', { lease: 600.5 }],
    ['lease', { lease: '6000' }],
    ['lease', { lease: NaN }],
    ['lease', { lease: 3_600_001 }], // Timers would run over, and Redis would be asked all the time.
    ['lease', { lease: Infinity }],
    ['prefix', { prefix: 1 }],
    ['leases', { leases: 6000 }]
  ])('that is bad is a TypeError that names it: `%s`, %j', (name, options) => {
    const make = () => redisBackplane({ client, secret, ...options } as RedisBackplaneOptions)
    expect(make).toThrow(TypeError)
    expect(make).toThrow(`\`${name}\``)
  })

  it.each<Partial<RedisBackplaneOptions>>([
    {},
    { client: ioRedis('redis://127.0.0.1:1') },
    { secret: [secret, 'another secret of the specs'] },
    { lease: 200 },
    { lease: 3_600_000 },
    { lease: undefined, prefix: undefined },
    { prefix: '' }
  ])('may be %j', options => {
    expect(backplaneOver({ client, secret, ...options })).toMatchObject({
      lease: options.lease ?? 6000
    })
  })
})

it('redisBackplane() refuses a Sentinel of node-redis, which would not connect', () => {
  // It connects when it is told to.
  const sentinel = createSentinel({
    name: 'primary',
    sentinelRootNodes: [{ host: '127.0.0.1', port: 1 }]
  })
  expect(() => redisBackplane({ client: sentinel, secret })).toThrow('Sentinel of redis')
})

it('redisBackplane() wants options', () => {
  expect(() => redisBackplane(undefined as never)).toThrow('redisBackplane: options')
})
