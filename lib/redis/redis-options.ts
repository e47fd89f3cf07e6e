// The options of `redisBackplane()`.
import type { Backplane } from '../backplane/types.js'
import {
  type Connect,
  connectIoRedis,
  connectNodeRedis,
  type IoRedis,
  type NodeRedis
} from './connection.js'
import { RedisBackplane } from './redis-backplane.js'

/**
 * A client of `redis` (node-redis 5 or later) or `ioredis` (5 or later), or a cluster of either, or
 * a client of `ioredis` that uses Sentinel. It is not used itself: it is duplicated, once for
 * commands and once to listen; a cluster is duplicated once.
 */
export interface RedisClient {
  readonly duplicate: (...options: never[]) => unknown
}

/** Options of {@link redisBackplane}. */
export interface RedisBackplaneOptions {
  /** A client of Redis: the backplane opens connections of its own with the settings of it. */
  readonly client: RedisClient
  /**
   * A secret that all instances share and nobody else knows, 16 characters or more; or a list of
   * them, of which the first one signs while all are accepted. To change the secret, add the new
   * one behind the old one at all instances, then put it first, then remove the old one.
   */
  readonly secret: string | readonly string[]
  /**
   * Milliseconds without a sign of life after which an instance counts as gone and its calls as
   * lost: a whole number, 200 to 3,600,000, the same in all instances. Default: 6,000.
   */
  readonly lease?: number | undefined
  /** The prefix of its keys and channels. Default: `mcps:`. */
  readonly prefix?: string | undefined
  /**
   * What happens to a request in a session that another instance has opened. `forward`: it is sent
   * there whole, and its response comes back. `local`: the endpoint of this instance gets it, for
   * endpoints that share their sessions. Default: `forward`.
   */
  readonly sessions?: 'forward' | 'local' | undefined
}

const SHORTEST_SECRET = 16
const SHORTEST_LEASE = 200
/** An hour. A client waits for so long for an instance that has died. */
const LONGEST_LEASE = 60 * 60 * 1000

/** @throws {TypeError} naming the option. */
export function backplaneOver(options: RedisBackplaneOptions): Backplane {
  if (typeof options !== 'object' || options === null)
    throw new TypeError('redisBackplane: options must be an object')
  const { client, secret, lease = 6000, prefix = 'mcps:', sessions, ...others } = options
  const [other] = Object.keys(others)
  if (other !== undefined) throw new TypeError(`redisBackplane: unknown option \`${other}\``)
  if (isSentinel(client))
    throw new TypeError(
      'redisBackplane: option `client` must not be a Sentinel of redis, which does not connect ' +
        'here; that of ioredis does'
    )
  const connect = connectorFor(client)
  if (connect === undefined)
    throw new TypeError(
      'redisBackplane: option `client` must be a client of redis (5 or later) ' +
        'or ioredis (5 or later)'
    )
  const secrets: readonly unknown[] = Array.isArray(secret) ? secret : [secret]
  if (secrets.length === 0 || !secrets.every(isSecret))
    throw new TypeError(
      'redisBackplane: option `secret` must be a string of 16 characters or more, or a list of them'
    )
  if (!Number.isSafeInteger(lease) || lease < SHORTEST_LEASE || lease > LONGEST_LEASE)
    throw new TypeError(
      `redisBackplane: option \`lease\` must be a whole number of milliseconds, ` +
        `${SHORTEST_LEASE} to ${LONGEST_LEASE}`
    )
  if (typeof prefix !== 'string')
    throw new TypeError('redisBackplane: option `prefix` must be a string')
  if (sessions !== undefined && sessions !== 'forward' && sessions !== 'local')
    throw new TypeError("redisBackplane: option `sessions` must be 'forward' or 'local'")
  return new RedisBackplane({ secrets, lease, prefix, sessions }, connect)
}

function isSecret(value: unknown): value is string {
  return typeof value === 'string' && value.length >= SHORTEST_SECRET
}

/** Whether it is a Sentinel of node-redis. Those of ioredis are ordinary clients. */
function isSentinel(client: unknown): boolean {
  return typeof client === 'object' && client !== null && 'getSentinelNode' in client
}

/** The method for sharded subscriptions is spelled differently in the two libraries. */
function connectorFor(client: unknown): Connect | undefined {
  if (typeof client !== 'object' || client === null || !('duplicate' in client)) return undefined
  if ('sSubscribe' in client) return connectNodeRedis(client as unknown as NodeRedis)
  if ('ssubscribe' in client) return connectIoRedis(client as unknown as IoRedis)
  return undefined
}
