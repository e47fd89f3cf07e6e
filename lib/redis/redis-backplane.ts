// The backplane over Redis or Valkey: messages by publish and subscribe, the rest in plain keys.
import type { Backplane, BackplaneCommand } from '../backplane/types.js'
import type { Connect, RedisConnection } from './connection.js'

/** Bytes of messages that may wait for Redis. More are dropped: the instances send them again. */
const MOST_WAITING = 16 * 1024 * 1024
/** Milliseconds between two tries to listen to a channel. */
const LISTEN_AGAIN = 500
/** Milliseconds after which connections that were given up are replaced. */
const OPEN_AGAIN = 1000

interface RedisBackplaneSettings {
  readonly secrets: readonly string[]
  readonly lease: number
  readonly prefix: string
  readonly sessions?: 'forward' | 'local' | undefined
}

export class RedisBackplane implements Backplane {
  readonly secrets: readonly string[]
  readonly lease: number
  readonly sessions: 'forward' | 'local' | undefined
  dropped = 0
  readonly #prefix: string
  readonly #connect: Connect
  #connection: RedisConnection | undefined
  readonly #listeners = new Map<string, (message: Uint8Array) => void>()
  readonly #onUp = new Set<(isUp: boolean) => void>()
  #hasLooked = false
  #wasUp = false
  #waiting = 0

  constructor({ secrets, lease, prefix, sessions }: RedisBackplaneSettings, connect: Connect) {
    this.secrets = secrets
    this.lease = lease
    this.sessions = sessions
    this.#prefix = prefix
    this.#connect = connect
  }

  send(channel: string, message: Uint8Array): void {
    const connection = this.#connection
    const size = message.length
    if (connection?.isUp !== true || this.#waiting + size > MOST_WAITING) {
      this.dropped++
      return
    }
    this.#waiting += size
    // `#waiting` began at 0 with each new connection: those of an older one are not in it.
    const sent = (): void => {
      if (this.#connection === connection) this.#waiting -= size
    }
    connection.publish(this.#prefix + channel, bufferOf(message)).then(sent, () => {
      sent()
      this.dropped++
    })
  }

  listen(channel: string, listener: (message: Uint8Array) => void): Promise<() => void> {
    const name = this.#prefix + channel
    this.#listeners.set(name, listener)
    if (this.#connection === undefined) this.#open()
    // Redis may be out of reach for long, and the caller can stop listening meanwhile.
    else this.#subscribe(this.#connection, name).catch(() => undefined)
    return Promise.resolve(() => {
      if (!this.#listeners.delete(name)) return
      if (this.#listeners.size === 0) this.#close()
      else this.#connection?.unsubscribe(name).catch(() => undefined)
    })
  }

  async command(command: BackplaneCommand): Promise<unknown> {
    const connection = this.#connection
    if (connection?.isUp !== true) throw new Error('There is no connection to Redis')
    if (command[0] === 'ID') return serverId(connection)
    const [name, key, value, , time, condition] = command
    if (name === 'GET') return connection.get(this.#prefix + key)
    if (name === 'DEL') return connection.del(this.#prefix + key)
    return connection.set(this.#prefix + key, bufferOf(value), time, condition === 'NX')
  }

  onUp(listener: (isUp: boolean) => void): () => void {
    this.#onUp.add(listener)
    listener(this.#wasUp)
    return () => void this.#onUp.delete(listener)
  }

  /** Replaces the connections by new ones. */
  renew(): void {
    if (this.#connection === undefined) return
    this.#connection.destroy()
    this.#open()
  }

  #open(): void {
    const changed = (): void => {
      if (this.#connection === connection) this.#changed(connection)
    }
    const connection = this.#connect(changed)
    this.#connection = connection
    this.#waiting = 0
    for (const name of this.#listeners.keys())
      this.#subscribe(connection, name).catch(() => undefined)
    this.#changed(connection)
  }

  #close(): void {
    this.#connection?.destroy()
    this.#connection = undefined
    if (this.#wasUp) this.#tell(false)
  }

  #changed(connection: RedisConnection): void {
    const { isUp } = connection
    if (isUp && !this.#wasUp) void this.#lookForEviction(connection)
    if (isUp !== this.#wasUp) this.#tell(isUp)
    if (connection.isGivenUp) this.#openAgain(connection)
  }

  /** A client may be set to give up after some tries; an instance tries for as long as it lives. */
  #openAgain(connection: RedisConnection): void {
    setTimeout(() => {
      if (this.#connection === connection && connection.isGivenUp) this.renew()
    }, OPEN_AGAIN).unref()
  }

  /** Warns once. Does not warn if `INFO` is refused, or if no `maxmemory` is set. */
  async #lookForEviction(connection: RedisConnection): Promise<void> {
    if (this.#hasLooked) return
    const info = await connection.info('memory').catch(() => undefined)
    if (typeof info !== 'string' || this.#hasLooked) return
    this.#hasLooked = true
    const policy = valueIn(info, 'maxmemory_policy')
    if (policy === undefined || policy === SAFE || valueIn(info, 'maxmemory') === '0') return
    process.emitWarning(
      `Redis evicts keys when its memory is full (maxmemory-policy ${policy}), also those by ` +
        `which instances find each other: set ${SAFE}`,
      { code: 'MCP_STREAMS_EVICTION' }
    )
  }

  #tell(isUp: boolean): void {
    this.#wasUp = isUp
    for (const listener of [...this.#onUp]) listener(isUp)
  }

  /** Clients subscribe again only to channels that they were subscribed to before. */
  async #subscribe(connection: RedisConnection, name: string): Promise<void> {
    const listener = this.#listeners.get(name)
    const isWanted = (): boolean =>
      this.#connection === connection && this.#listeners.get(name) === listener
    while (isWanted()) {
      try {
        return void (await connection.subscribe(name, message =>
          this.#listeners.get(name)?.(message)
        ))
      } catch {
        await this.#connectedOrLater()
      }
    }
  }

  /** Resolves when the next connection is up, or after `LISTEN_AGAIN`. */
  #connectedOrLater(): Promise<void> {
    return new Promise(resolve => {
      const done = (): void => {
        clearTimeout(timer)
        this.#onUp.delete(listener)
        resolve()
      }
      const listener = (isUp: boolean): void => (isUp ? done() : undefined)
      const timer = setTimeout(done, LISTEN_AGAIN).unref()
      this.#onUp.add(listener)
    })
  }
}

/** What a server calls itself until it ends. Some may not be asked, and clusters have many. */
async function serverId(connection: RedisConnection): Promise<string | null> {
  if (connection.isCluster) return null
  const info = await connection.info('server').catch((error: unknown) => {
    if (!connection.isUp) throw error
  })
  return typeof info === 'string' ? (valueIn(info, 'run_id') ?? null) : null
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/**
 * The only policy that is safe: Redis refuses writes instead, and the instances notice that. Any
 * other evicts keys of the instances, all of which expire.
 */
const SAFE = 'noeviction'

function valueIn(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\s*$`, 'm').exec(info)?.[1]
}
