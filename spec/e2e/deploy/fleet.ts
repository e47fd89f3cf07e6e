// Three instances on Redis behind nginx, with the configuration of the page on several instances;
// and clients that call all the time.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { isWithoutRedis, startRedis } from '../../helpers/backplane/redis-server.js'
import { closeLater } from '../../helpers/close-all.js'
import { freePort } from '../../helpers/free-port.js'
import { until } from '../../helpers/happenings.js'
import { sleep } from '../../helpers/sleep.js'
import { programs, startBeforeThree } from '../proxies/configurations.js'
import type { ClientKind, Load } from './load.js'

const PROGRAM = fileURLToPath(new URL('instance.cjs', import.meta.url))

/** Else these specs are SKIPPED, by name. */
export const isHere =
  (programs.nginx !== undefined && !isWithoutRedis) || process.env['CI'] !== undefined

export interface Kind {
  readonly module: 'esm' | 'cjs'
  readonly eventStore: boolean
}

/** By `import` and by `require`, and with an `eventStore` of the endpoint. */
export const KINDS: readonly Kind[] = [
  { module: 'esm', eventStore: false },
  { module: 'cjs', eventStore: false },
  { module: 'esm', eventStore: true }
]
export const CLIENTS: readonly ClientKind[] = [
  'SDK 1',
  'SDK 1',
  'SDK 1',
  'SDK 2',
  'SDK 2',
  'resumableFetch',
  'resumableFetch'
]
/** Milliseconds of the calls of each client, in turn. The second one asks, and works on after. */
export const TIMES = [0, 4000, 15_000]
/** Milliseconds beyond its last call for which a stop may take, and more on a busy machine. */
const BEYOND = 3000
const TIMES_DELAY = 10
/** Milliseconds that what was sent to an instance has to arrive there. */
const ARRIVAL = 1000

export interface Replica {
  readonly child: ChildProcess
  readonly port: number
  /** The keys of the calls that have come to it, from clients or from other instances. */
  readonly taken: ReadonlySet<string>
  /** Of those, which it has begun. */
  readonly begun: ReadonlySet<string>
  /** Sends a signal. Resolves with the milliseconds until it has exited. */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<number>
}

export interface Fleet {
  /** Of nginx. */
  readonly url: string
  /** Those that run, and that did. */
  readonly replicas: Replica[]
  /** Of each kind, the one that was started first. */
  readonly first: readonly Replica[]
  /** How often each call was begun, by its key. */
  begun(key: string): number
  /** Starts one at one of the ports that nginx knows. */
  start(port: number, kind: Kind): Promise<Replica>
  /** Two for each place, for an old and a new process side by side. */
  readonly ports: readonly (readonly [number, number])[]
  /** Stops an instance as the page says: it is taken out of nginx before. */
  stop(replica: Replica, load: Load): Promise<Stop>
}

export interface Stop {
  /** The calls that it had begun before the signal. */
  readonly begun: ReadonlySet<string>
  /** Milliseconds. */
  readonly took: number
  /** How long it may take: until the last call had ended that had come to it before, and longer. */
  readonly most: number
}

const TICK = 50

/** The longest delay, in milliseconds, of what was due in this process until it is asked. */
function delaysFromNow(): () => number {
  let longest = 0
  let due = performance.now() + TICK
  const timer = setInterval(() => {
    longest = Math.max(longest, performance.now() - due)
    due = performance.now() + TICK
  }, TICK)
  return () => {
    clearInterval(timer)
    return longest
  }
}

/**
 * Closed by `closeAll`. `lease`: milliseconds after which an instance without a sign of life is
 * gone; one that has to wait for a processor for so long would count as that.
 */
export async function fleet(door: boolean, lease: number): Promise<Fleet> {
  const redis = await startRedis()
  const ports: [number, number][] = []
  for (let i = 0; i < KINDS.length; i++) ports.push([await freePort(), await freePort()])
  const replicas: Replica[] = []
  const nginx = await startBeforeThree(ports.flat())
  const start = async (port: number, kind: Kind): Promise<Replica> => {
    const settings = JSON.stringify({ redis: redis.url, port, door, lease, ...kind })
    const child = spawn(process.execPath, [PROGRAM, settings], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, NODE_OPTIONS: '' }
    })
    closeLater(() => child.kill('SIGKILL'))
    const exited = once(child, 'exit')
    const begun = new Set<string>()
    const taken = new Set<string>()
    createInterface(child.stdout).on('line', line => {
      const [, what, key = ''] = /^(\w+) (.*)$/.exec(line) ?? []
      ;(what === 'begun' ? begun : taken).add(key)
    })
    const end = async (signal: 'SIGTERM' | 'SIGKILL'): Promise<number> => {
      const at = performance.now()
      child.kill(signal)
      await exited
      return performance.now() - at
    }
    await until(async () => {
      const ready = await fetch(`http://127.0.0.1:${port}/ready`).catch(() => undefined)
      return ready?.status === 200
    })
    const replica = { child, port, taken, begun, end }
    replicas.push(replica)
    return replica
  }
  const stop = async (replica: Replica, { outcomes }: Load): Promise<Stop> => {
    await nginx.takeOut([replica.port])
    await sleep(ARRIVAL)
    const [begun, taken] = [new Set(replica.begun), new Set(replica.taken)]
    const at = performance.now()
    const delays = delaysFromNow()
    const took = await replica.end('SIGTERM')
    const delay = delays()
    await nginx.takeOut([])
    const last = outcomes.filter(({ key }) => taken.has(key)).map(({ endedAt }) => endedAt - at)
    return { begun, took, most: Math.max(0, ...last) + BEYOND + TIMES_DELAY * delay }
  }
  const first = await Promise.all(KINDS.map((kind, i) => start(ports[i]![0], kind)))
  return {
    url: `${nginx.url}/mcp`,
    replicas,
    first,
    begun: key => replicas.filter(({ begun }) => begun.has(key)).length,
    start,
    ports,
    stop
  }
}
