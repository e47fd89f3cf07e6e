// A backplane of one process, for specs: a hub that several instances are on. Each of them can be
// cut off, and what goes over it can be lost, doubled and reordered, by a seed.
import { backplane, type BackplanePart } from '../../../lib/backplane/index.js'
import type { Backplane, BackplaneCommand } from '../../../lib/backplane/types.js'

export interface Flakiness {
  /** Shares of messages, from 0 to 1. */
  readonly drops?: number
  readonly doubles?: number
  readonly reorders?: number
  readonly seed?: number
}

export interface HubOptions extends Flakiness {
  readonly secrets?: readonly string[]
  readonly lease?: number
  readonly sessions?: 'forward' | 'local'
}

type Listener = (message: Uint8Array) => void

export class Hub {
  readonly keys = new Map<string, { value: Uint8Array; until: number }>()
  readonly listeners = new Map<string, Set<Listener>>()
  /** Of all instances, by command; messages as `PUBLISH`. */
  readonly commands: string[] = []
  /** All that has gone over it, as an eavesdropper has it. */
  readonly heard: { channel: string; message: Uint8Array }[] = []
  flakiness: Flakiness
  /** Commands that write are refused, as by a Redis that is out of memory. */
  isFull = false
  readonly #options: HubOptions
  readonly #random: () => number

  constructor(options: HubOptions = {}) {
    this.#options = options
    this.flakiness = options
    this.#random = randomFrom(options.seed ?? 1)
  }

  /** The end of one instance. */
  join(): MemoryBackplane {
    const { secrets = ['a secret of the specs'], lease = 600, sessions } = this.#options
    return Object.assign(new MemoryBackplane(this, secrets, lease), { sessions })
  }

  /** The same as the value of an option. */
  option(): BackplanePart {
    return backplane(this.join())
  }

  /** Of its server. */
  id = 1

  /** All keys go, as by FLUSHALL. */
  flush(): void {
    this.keys.clear()
  }

  publish(channel: string, message: Uint8Array): void {
    this.commands.push('PUBLISH')
    this.heard.push({ channel, message })
    const { drops = 0, doubles = 0, reorders = 0 } = this.flakiness
    if (this.#random() < drops) return
    const times = this.#random() < doubles ? 2 : 1
    for (let i = 0; i < times; i++) {
      const deliver = (): void => {
        for (const listener of [...(this.listeners.get(channel) ?? [])]) listener(message)
      }
      if (this.#random() < reorders) setTimeout(deliver, this.#random() * 5).unref()
      else setImmediate(deliver)
    }
  }
}

export class MemoryBackplane implements Backplane {
  readonly secrets: readonly string[]
  readonly lease: number
  dropped = 0
  readonly #hub: Hub
  readonly #own = new Map<string, Listener>()
  readonly #onUp = new Set<(isUp: boolean) => void>()
  #isUp = true

  constructor(hub: Hub, secrets: readonly string[], lease: number) {
    this.#hub = hub
    this.secrets = secrets
    this.lease = lease
  }

  /** Cuts it off, or connects it again. */
  set isUp(isUp: boolean) {
    if (isUp === this.#isUp) return
    this.#isUp = isUp
    for (const listener of [...this.#onUp]) listener(isUp)
  }

  send(channel: string, message: Uint8Array): void {
    if (this.#isUp) this.#hub.publish(channel, Uint8Array.from(message))
    else this.dropped++
  }

  async listen(channel: string, listener: Listener): Promise<() => void> {
    const own: Listener = message => (this.#isUp ? listener(Uint8Array.from(message)) : undefined)
    const { listeners } = this.#hub
    this.#own.set(channel, own)
    listeners.set(channel, (listeners.get(channel) ?? new Set()).add(own))
    return () => void listeners.get(channel)?.delete(own)
  }

  async command(command: BackplaneCommand): Promise<unknown> {
    if (!this.#isUp) throw new Error('There is no connection')
    const { keys, commands } = this.#hub
    commands.push(command[0])
    if (command[0] === 'ID') return `${this.#hub.id}`
    const [name, key, value, , time, condition] = command
    const found = keys.get(key)
    const isThere = found !== undefined && found.until > Date.now()
    if (name === 'GET') return isThere ? found.value : null
    if (name === 'DEL') return Number(keys.delete(key))
    if (this.#hub.isFull) throw new Error('OOM command not allowed')
    if (condition === 'NX' && isThere) return null
    keys.set(key, { value: Uint8Array.from(value as Uint8Array), until: Date.now() + Number(time) })
    return 'OK'
  }

  onUp(listener: (isUp: boolean) => void): () => void {
    this.#onUp.add(listener)
    listener(this.#isUp)
    return () => void this.#onUp.delete(listener)
  }

  renew(): void {
    // A hub is never silent.
  }
}

/** mulberry32 */
export function randomFrom(seed: number): () => number {
  let a = seed
  return () => {
    a = (a + 0x6d2b79f5) | 0
    let t = Math.imul(a ^ (a >>> 15), 1 | a)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}
