// The entry point `express-mcp-streams/redis`: connects several instances of one service by Redis.
import { type BackplanePart, backplane } from '../backplane/index.js'
import { backplaneOver, type RedisBackplaneOptions } from './redis-options.js'

export type { BackplanePart } from '../backplane/index.js'
export type { RedisBackplaneOptions, RedisClient } from './redis-options.js'

/**
 * Connects the instances of a service by Redis 7 or later, or Valkey: for option `backplane` of
 * `mcpStreams`. The connections are opened by the middleware, and closed by its `close()`.
 *
 * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
 */
export function redisBackplane(options: RedisBackplaneOptions): BackplanePart {
  return backplane(backplaneOver(options))
}
