// Three processes of one service on one Redis, behind a round robin.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { pass } from '../../helpers/backplane/cluster.js'
import { startRedis, type RedisServer } from '../../helpers/backplane/redis-server.js'
import { until } from '../../helpers/happenings.js'
import { closeLater, listen } from '../../helpers/listen.js'
import type { Json } from '../../helpers/open-stream.js'

const pathOf = (script: string): string => fileURLToPath(new URL(script, import.meta.url))

export interface Process {
  readonly child: ChildProcess
  readonly pid: number
  readonly url: string
  readonly isOut: boolean
  /** The round robin leaves it out. Resolves when what was sent to it before has come there. */
  takeOut(): Promise<void>
  /** What it has printed after its port. */
  readonly printed: string[]
  stats(): Promise<Json>
}

export interface Three {
  readonly redis: RedisServer
  readonly processes: Process[]
  /** Of the round robin, which leaves out those that are `isOut`. */
  readonly url: string
  /** Starts another one. */
  start(): Promise<Process>
  /** Cuts every connection to the round robin. */
  cut(): void
}

/** Closed by `closeAll`. */
export async function three(lease: number, script = 'instance.js'): Promise<Three> {
  const redis = await startRedis()
  const processes: Process[] = []
  const start = async (): Promise<Process> => {
    const kind = processes.length % 3 === 2 ? 'ioredis' : 'redis'
    const child = spawn(process.execPath, [pathOf(script), redis.url, kind, `${lease}`], {
      stdio: ['ignore', 'pipe', 'inherit']
    })
    closeLater(() => child.kill('SIGKILL'))
    const [port] = (await once(child.stdout!, 'data')) as [Buffer]
    const printed: string[] = []
    createInterface(child.stdout!).on('line', line => printed.push(line))
    const origin = `http://127.0.0.1:${Number(port)}`
    let isOut = false
    const one: Process = {
      child,
      pid: child.pid!,
      url: `${origin}/mcp`,
      get isOut() {
        return isOut
      },
      printed,
      stats: async () => (await fetch(`${origin}/stats`)).json(),
      takeOut: async () => {
        isOut = true
        // By then it has taken the connections that were made before, and read from them.
        for (let round = 0; round < 2; round++) await one.stats()
      }
    }
    processes.push(one)
    await until(async () => (await one.stats()).backplane.up === 1)
    return one
  }
  await Promise.all([start(), start(), start()])
  let count = 0
  const { url, server } = await listen((req, res) => {
    const able = processes.filter(({ isOut }) => !isOut)
    pass(req, res, able[count++ % able.length]!)
  })
  return { redis, processes, url: `${url}/mcp`, start, cut: () => server.closeAllConnections() }
}
