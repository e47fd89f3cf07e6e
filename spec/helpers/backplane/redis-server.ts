// A Redis server of one's own, on a free port of 127.0.0.1, with nothing kept on disk.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from 'redis'
import { closeLater } from '../close-all.js'
import { freePort } from '../free-port.js'

const isThere = (name: string): boolean =>
  spawnSync('sh', ['-c', `command -v ${name}`]).status === 0

const PROGRAM = process.env['REDIS_SERVER'] ?? ['redis-server', 'valkey-server'].find(isThere)

const VALKEY = process.env['VALKEY_SERVER'] ?? ['valkey-server'].find(isThere)

/** Specs that need one are skipped, by name: Debian 12 has none. */
export const isWithoutValkey = VALKEY === undefined

/** There is none, and this is not CI: specs that need one are skipped, by name. */
export const isWithoutRedis = PROGRAM === undefined && process.env['CI'] === undefined

export interface RedisServer {
  readonly port: number
  readonly url: string
  /** Ends it, with all that it has. */
  kill(): Promise<void>
  /** Starts it again, empty, on the same port. */
  start(): Promise<void>
  /** Holds it (SIGSTOP), or lets it go on. */
  pause(isPaused: boolean): void
  /** Sends it a command, over a connection of its own. */
  command(...args: readonly string[]): Promise<unknown>
}

/** Closed by `closeAll`. */
export function startRedis(...options: readonly string[]): Promise<RedisServer> {
  return startServer(PROGRAM ?? 'redis-server', options)
}

/** The same of Valkey, where there is one. */
export function startValkey(...options: readonly string[]): Promise<RedisServer> {
  return startServer(VALKEY ?? 'valkey-server', options)
}

async function startServer(program: string, options: readonly string[]): Promise<RedisServer> {
  const port = await freePort()
  const dir = mkdtempSync(join(tmpdir(), 'redis-'))
  let child: ChildProcess | undefined
  const kill = async (): Promise<void> => {
    const ending = child
    child = undefined
    if (ending === undefined || ending.exitCode !== null) return
    const ended = new Promise(resolve => ending.once('exit', resolve))
    ending.kill('SIGKILL')
    await ended
  }
  const start = async (): Promise<void> => {
    const started = spawn(
      program,
      ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', ...options],
      { cwd: dir, stdio: ['ignore', 'pipe', 'inherit'] }
    )
    child = started
    let output = ''
    await new Promise<void>((resolve, reject) => {
      started.once('error', reject)
      started.once('close', code => reject(new Error(`${program} ended with ${code}: ${output}`)))
      started.stdout?.on('data', (text: Buffer) => {
        output += text.toString()
        if (output.includes('Ready to accept connections')) resolve()
      })
    })
    started.removeAllListeners('close')
  }
  closeLater(async () => {
    await kill()
    rmSync(dir, { recursive: true, force: true })
  })
  await start()
  const url = `redis://127.0.0.1:${port}`
  return {
    port,
    url,
    kill,
    start,
    pause: isPaused => void child?.kill(isPaused ? 'SIGSTOP' : 'SIGCONT'),
    command: async (...args) => {
      const client = await createClient({ url }).connect()
      try {
        return await client.sendCommand(args)
      } finally {
        client.destroy()
      }
    }
  }
}
