// Three instances on Redis behind nginx, with the configuration of the page on several instances;
// and clients that call all the time.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { startRedis } from '../../helpers/backplane/redis-server.js'
import { closeLater } from '../../helpers/close-all.js'
import { freePort } from '../../helpers/free-port.js'
import { until } from '../../helpers/happenings.js'
import { startBeforeThree } from '../proxies/configurations.js'

const PROGRAM = fileURLToPath(new URL('instance.cjs', import.meta.url))

export interface Kind {
  readonly module: 'esm' | 'cjs'
  readonly eventStore: boolean
}

export interface Replica {
  readonly child: ChildProcess
  readonly port: number
  /** The keys of the calls that it has begun. */
  readonly begun: Set<string>
  /** Sends a signal. Resolves with the milliseconds until it has exited. */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<number>
}

export interface Fleet {
  /** Of nginx. */
  readonly url: string
  /** Those that run, and that did. */
  readonly replicas: Replica[]
  /** How often each call was begun, by its key. */
  begun(key: string): number
  /** Starts one at one of the ports that nginx knows. */
  start(port: number, kind: Kind): Promise<Replica>
  /** Two for each place, for an old and a new process side by side. */
  readonly ports: readonly (readonly [number, number])[]
}

/** Closed by `closeAll`. */
export async function fleet(door: boolean): Promise<Fleet> {
  const redis = await startRedis()
  const ports: [number, number][] = []
  for (let i = 0; i < 3; i++) ports.push([await freePort(), await freePort()])
  const replicas: Replica[] = []
  const start = async (port: number, kind: Kind): Promise<Replica> => {
    const settings = JSON.stringify({ redis: redis.url, port, door, ...kind })
    const child = spawn(process.execPath, [PROGRAM, settings], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, NODE_OPTIONS: '' }
    })
    closeLater(() => child.kill('SIGKILL'))
    const exited = once(child, 'exit')
    const begun = new Set<string>()
    createInterface(child.stdout).on('line', line => {
      if (line.startsWith('begun ')) begun.add(line.slice('begun '.length))
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
    const replica = { child, port, begun, end }
    replicas.push(replica)
    return replica
  }
  const nginx = await startBeforeThree(ports.flat())
  return {
    url: `${nginx.url}/mcp`,
    replicas,
    begun: key => replicas.filter(({ begun }) => begun.has(key)).length,
    start,
    ports
  }
}
