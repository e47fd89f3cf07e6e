// The command `proxy` as an operator runs it, and servers that are nobody's Express app.

import { fork, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { closeLater } from '../../helpers/close-all.js'
import { freePort } from '../../helpers/free-port.js'
import { installed } from '../../helpers/installed.js'

const fileOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

/** Ended by `closeAll`. */
function keep<T extends ChildProcess>(child: T): T {
  closeLater(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  })
  return child
}

export interface Command {
  child: ChildProcess
  /** Of the endpoint. */
  url: string
  port: number
  /** What it has written to stderr. */
  errors(): string
}

export async function startCommand(
  target: string,
  args: string[] = [],
  env: Record<string, string> = {}
): Promise<Command> {
  const program = fileOf('../../../dist/command/index.js')
  const child = spawn(process.execPath, [program, 'proxy', target, '--port', '0', ...args], {
    env: { ...process.env, ...env }
  })
  keep(child)
  let errors = ''
  child.stderr.on('data', chunk => void (errors += String(chunk)))
  const exited = once(child, 'exit').then(() => Promise.reject(new Error(errors)))
  const [line] = await Promise.race([once(child.stdout, 'data'), exited])
  exited.catch(() => undefined)
  const [url = ''] = String(line).split(' ')
  return { child, url, port: Number(new URL(url).port), errors: () => errors }
}

export interface Server {
  port: number
  call: { name: string; arguments: Record<string, unknown> }
  /** Whether it goes on with a stream by an event store of its own. */
  resumes: boolean
}

const folder = installed('event-stores')

/** A program of the folder of packages, which says where it listens. */
async function program(path: string, args: string[]): Promise<number> {
  const port = await freePort()
  const child = fork(
    join(folder!, 'node_modules', path),
    args.map(arg => arg.replace('PORT', String(port))),
    {
      execArgv: ['--import', fileOf('../event-stores/preload.js')],
      env: { ...process.env, PORT: String(port), BARE: '1' },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc']
    }
  )
  await once(keep(child), 'message')
  return port
}

/** `undefined`: it cannot be had here, which is said by name. */
export const SERVERS: Record<string, () => Promise<Server | undefined>> = {
  async 'server-everything'() {
    if (folder === undefined) return undefined
    const path = '@modelcontextprotocol/server-everything/dist/index.js'
    const call = { name: 'trigger-long-running-operation', arguments: { duration: 1, steps: 5 } }
    return { port: await program(path, ['streamableHttp']), call, resumes: true }
  },
  async supergateway() {
    if (folder === undefined) return undefined
    const stdio = `node ${fileOf('../event-stores/stdio-server.js')}`
    const args = ['--stdio', stdio, '--outputTransport', 'streamableHttp', '--stateful']
    const port = await program('supergateway/dist/index.js', [
      ...args,
      ...['--port', 'PORT', '--logLevel', 'none']
    ])
    return { port, call: { name: 'context', arguments: {} }, resumes: false }
  },
  async 'http.server of Python'() {
    if (spawnSync('python3', ['--version']).status !== 0) {
      process.stderr.write('SKIPPED: there is no python3.\n')
      return undefined
    }
    const child = keep(
      spawn('python3', [fileOf('../../../examples/proxy/server.py'), '0'], {
        stdio: ['ignore', 'pipe', 'inherit']
      })
    )
    const [line] = (await once(child.stdout, 'data')) as [Buffer]
    return {
      port: Number(new URL(String(line)).port),
      call: { name: 'count', arguments: {} },
      resumes: false
    }
  }
}
