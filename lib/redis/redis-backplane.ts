// The backplane over Redis or Valkey: publish and subscribe for messages, plain keys for what is
// shared.
import { setTimeout as pause } from 'node:timers/promises'
import type { Backplane, BackplaneCommand } from '../backplane/types.js'
import type { Connect, RedisConnection } from './connection.js'
import { EvictionWatch } from './eviction.js'

/** Bytes of messages that may wait for Redis. More are dropped: their readers ask again. */
const MOST_WAITING = 16 * 1024 * 1024
/** Milliseconds between two tries to listen to a channel. */
const LISTEN_AGAIN = 500
/** Milliseconds after which others take the place of connections that were given up. */
const OPEN_AGAIN = 1000

export interface RedisBackplaneSettings {
  readonly secrets: readonly string[]
  readonly lease: number
  readonly prefix: string
}

export class RedisBackplane implements Backplane {
  readonly secrets: readonly string[]
  readonly lease: number
  dropped = 0
  readonly #prefix: string
  readonly #connect: Connect
  #connection: RedisConnection | undefined
  readonly #listeners = new Map<string, (message: Uint8Array) => void>()
  readonly #onUp = new Set<(isUp: boolean) => void>()
  readonly #eviction = new EvictionWatch()
  #wasUp = false
  #waiting = 0

  constructor({ secrets, lease, prefix }: RedisBackplaneSettings, connect: Connect) {
    this.secrets = secrets
    this.lease = lease
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
    // What an older connection has not sent does not count any more.
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
    // Redis may be out of reach for long, and its listener may want to leave meanwhile.
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

  /** The connections say nothing any more: new ones take their place. */
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
    if (isUp && !this.#wasUp) void this.#eviction.look(connection)
    if (isUp !== this.#wasUp) this.#tell(isUp)
    if (connection.isGivenUp) void this.#openAgain(connection)
  }

  /** A client may be set to try a few times only; an instance tries for as long as it lives. */
  async #openAgain(connection: RedisConnection): Promise<void> {
    await pause(OPEN_AGAIN, undefined, { ref: false })
    if (this.#connection === connection && connection.isGivenUp) this.renew()
  }

  #tell(isUp: boolean): void {
    this.#wasUp = isUp
    for (const listener of [...this.#onUp]) listener(isUp)
  }

  /**
   * Until it listens: clients subscribe again by themselves only to what they have subscribed to.
   */
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

  /** Resolves once there is a connection, or after a while: what there is now does not do. */
  async #connectedOrLater(): Promise<void> {
    const connected = new AbortController()
    const listener = (isUp: boolean): void => (isUp ? connected.abort() : undefined)
    this.#onUp.add(listener)
    const { signal } = connected
    await pause(LISTEN_AGAIN, undefined, { ref: false, signal }).catch(() => undefined)
    this.#onUp.delete(listener)
  }
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
