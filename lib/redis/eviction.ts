// A warning about a Redis that deletes keys of the instances when it runs short of memory.
import type { RedisConnection } from './connection.js'

/** The only policy that is safe: Redis refuses writes instead, and the instances notice that. */
const SAFE = 'noeviction'

/**
 * Each other policy evicts keys of the instances: `allkeys-*` any key, `volatile-*` those that
 * expire, as all of them do.
 */
export class EvictionWatch {
  #isDone = false

  /** Warns once. Does not warn if `INFO` is refused, or if no `maxmemory` is set. */
  async look(connection: Pick<RedisConnection, 'info'>): Promise<void> {
    if (this.#isDone) return
    const info = await connection.info('memory').catch(() => undefined)
    if (typeof info !== 'string' || this.#isDone) return
    this.#isDone = true
    const policy = valueIn(info, 'maxmemory_policy')
    if (policy === undefined || policy === SAFE || valueIn(info, 'maxmemory') === '0') return
    process.emitWarning(
      `Redis evicts keys when its memory is full (maxmemory-policy ${policy}), also those by ` +
        `which instances find each other: set ${SAFE}`,
      { code: 'MCP_STREAMS_EVICTION' }
    )
  }
}

export function valueIn(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\s*$`, 'm').exec(info)?.[1]
}
