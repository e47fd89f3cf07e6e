// Whether a server that runs short of memory would throw away what instances share.
import type { RedisConnection } from './connection.js'

/** The policy under which writes are refused instead, which is noticed. */
const SAFE = 'noeviction'

/**
 * All our keys have a time, so that each other policy evicts them, `volatile-*` nothing but them.
 */
export class EvictionWatch {
  #isDone = false

  /** Warns once. Silent where the server may not be asked, and where it has all memory there is. */
  async look(connection: Pick<RedisConnection, 'memoryInfo'>): Promise<void> {
    if (this.#isDone) return
    const info = await connection.memoryInfo().catch(() => undefined)
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

function valueIn(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\s*$`, 'm').exec(info)?.[1]
}
