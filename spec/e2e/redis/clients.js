// The clients that a backplane takes, as their users make them.

import { Redis } from 'ioredis'
import { createClient } from 'redis'

/** @type {(url: string) => import('../../../lib/redis/index.js').RedisClient} */
export const nodeRedis = url => createClient({ url })

/** @type {(url: string) => import('../../../lib/redis/index.js').RedisClient} */
export const ioRedis = url => new Redis(url, { lazyConnect: true })
