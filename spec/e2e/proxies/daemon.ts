// A reverse proxy as a child process: in the foreground, on a free port of loopback, unprivileged,
// in a folder of its own.

import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chownSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { closeLater } from '../../helpers/close-all.js'
import { freePort } from '../../helpers/free-port.js'

/** Debian's `nobody`, when we are root. */
const NOBODY = 65_534
const isRoot = process.getuid?.() === 0

/** Where a daemon is: named by a variable, or found on the path, where only root's has `sbin`. */
export function find(name: string): string | undefined {
  const named = process.env[name.toUpperCase()]
  if (named) return named
  const env = { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin:/usr/local/sbin` }
  try {
    return execFileSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8', env }).trim()
  } catch {
    return undefined
  }
}

export interface Plan {
  /** From `find`. */
  program: string
  /** What the configuration says, for this port and this folder. */
  config(port: number, folder: string): string
  /** The arguments, for a configuration in this file. */
  args(file: string, folder: string): string[]
}

export interface Daemon {
  port: number
  url: string
  folder: string
  /** What it has written to its standard streams. */
  output(): string
}

/** Started, and listening. Stopped, and its folder removed, by `closeAll`. */
export async function start(plan: Plan): Promise<Daemon> {
  // Somebody else may take the free port before the daemon does.
  for (let attempt = 1; ; attempt++) {
    try {
      return await startOn(await freePort(), plan)
    } catch (error) {
      if (attempt === 3 || !/address already in use|cannot bind/i.test(String(error))) throw error
    }
  }
}

async function startOn(port: number, { program, config, args }: Plan): Promise<Daemon> {
  const folder = await mkdtemp(join(tmpdir(), 'proxy-'))
  const removeFolder = closeLater(() => rm(folder, { recursive: true }))
  const file = join(folder, 'config')
  await writeFile(file, config(port, folder))
  if (isRoot) for (const path of [folder, file]) chownSync(path, NOBODY, NOBODY)

  const child = spawn(program, args(file, folder), {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(isRoot && { uid: NOBODY, gid: NOBODY })
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', chunk => void (output += String(chunk)))
  const gone = once(child, 'close').then(
    () => `ended with ${child.exitCode ?? child.signalCode}`,
    error => String(error)
  )
  const stop = closeLater(async () => {
    if (isRunning(child)) child.kill('SIGTERM')
    await gone
  })

  const ended = await Promise.race([gone, untilListening(port, child)])
  if (ended !== undefined) {
    await stop()
    await removeFolder()
    throw new Error(`${program} ${ended}: ${output}`)
  }
  return { port, url: `http://127.0.0.1:${port}`, folder, output: () => output }
}

const isRunning = (child: ChildProcess): boolean =>
  child.pid !== undefined && child.exitCode === null && child.signalCode === null

async function untilListening(port: number, child: ChildProcess): Promise<undefined> {
  while (isRunning(child)) {
    const socket = connect(port, '127.0.0.1')
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false
    )
    socket.destroy()
    if (isOpen) return undefined
    await sleep(5)
  }
  // Its end is told by 'close', when all of its output is there.
  return new Promise(() => {})
}

/** Replaces what stands in a configuration; a text that is not there is a mistake. */
export function adapt(
  config: string,
  changes: readonly (readonly [from: string, to: string])[]
): string {
  return changes.reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`not in the configuration: ${from}`)
    return text.replaceAll(from, to)
  }, config)
}
