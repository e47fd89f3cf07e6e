// Servers as people run them, with sessions in their memory, that are killed and started again: the
// next call of each client is answered, and a call that was running ends with an error.

import { beforeAll, describe, expect, it } from '@jest/globals'
import { type ChildProcess, execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { resumableFetch } from '../../../lib/client/index.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { closeLater } from '../../helpers/close-all.js'
import { freePort } from '../../helpers/free-port.js'
import { installed } from '../../helpers/installed.js'
import { callTool, ended, get, initializeSession, post } from '../../helpers/mcp.js'
import type { Json, OpenStream } from '../../helpers/open-stream.js'

const fileOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const folder = installed('event-stores')
const programOf = (path: string): string => join(folder ?? '', 'node_modules', path)
const OPTIONS = { sessions: { secret: 'a secret of this spec' } }

interface Program {
  readonly path: string
  readonly args: readonly string[]
  readonly quick?: Json
  readonly hang?: Json
}

const own = (...args: string[]): Program => ({ path: fileOf('server.js'), args })

const PROGRAMS: Record<string, Program> = {
  'SDK v1, which answers 404': own('v1', '404'),
  'SDK v1, which answers 400': own('v1', '400'),
  'SDK v2': own('v2', '404'),
  'server-everything': {
    path: programOf('@modelcontextprotocol/server-everything/dist/index.js'),
    args: ['streamableHttp'],
    quick: { name: 'echo', arguments: { message: 'x' } },
    hang: { name: 'trigger-long-running-operation', arguments: { duration: 3600, steps: 1 } }
  },
  supergateway: {
    path: programOf('supergateway/dist/index.js'),
    args: [
      ...['--stdio', `node ${fileOf('server.js')} stdio`],
      ...['--outputTransport', 'streamableHttp', '--stateful', '--port', 'PORT'],
      ...['--logLevel', 'none']
    ]
  }
}

class Server {
  readonly port: number
  readonly #program: Program
  #child: ChildProcess | undefined

  constructor(port: number, program: Program) {
    this.port = port
    this.#program = program
    closeLater(() => this.#stop())
  }

  async start(): Promise<void> {
    const { path, args } = this.#program
    const PORT = String(this.port)
    this.#child = fork(
      path,
      args.map(arg => arg.replace('PORT', PORT)),
      {
        execArgv: ['--import', fileOf('../event-stores/preload.js')],
        env: { ...process.env, PORT, OPTIONS: JSON.stringify(OPTIONS) },
        stdio: ['ignore', 'ignore', 'inherit', 'ipc']
      }
    )
    await once(this.#child, 'message')
  }

  /** How many POSTs have reached it. */
  async posts(): Promise<number> {
    this.#child?.send('how many?')
    const [{ posts }] = (await once(this.#child as ChildProcess, 'message')) as [Json]
    return posts
  }

  async killed(): Promise<void> {
    await this.#stop()
    await this.start()
  }

  async #stop(): Promise<void> {
    const exited = once(this.#child as ChildProcess, 'exit')
    this.#child?.kill('SIGKILL')
    await exited
  }
}

type Call = (params: Json) => Promise<unknown>

// A server takes a while to start again.
const reconnection = { maxRetries: 1000 }
/** Client 1.x goes on trying after it was closed. */
const untilClosed =
  (send: typeof fetch): typeof fetch =>
  (url, init) =>
    init?.signal?.aborted === true ? new Promise(() => undefined) : send(url, init)

const CLIENTS: Record<string, (url: string) => Promise<Call>> = {
  async 'SDK v1'(url) {
    const { client } = await connectV1(url, { reconnection, fetch: untilClosed(fetch) })
    return params => client.callTool(params)
  },
  async 'SDK v2'(url) {
    const { client } = await connectV2(url, { era: '2025-11-25', reconnection })
    return params => client.callTool(params)
  },
  async resumableFetch(url) {
    const { client } = await connectV1(url, { reconnection, fetch: untilClosed(resumableFetch()) })
    return params => client.callTool(params)
  },
  async 'Last-Event-ID'(url) {
    const { headers } = await initializeSession(url, '2025-11-25')
    return async ({ name, arguments: args }) => {
      let response: OpenStream | undefined = await ended(
        post(url, callTool(1, name, args), headers)
      )
      for (let id = ''; ;) {
        const answer = response?.messages().find(message => message.id === 1)
        if (answer?.error !== undefined) throw new Error(answer.error.message)
        if (answer !== undefined) return answer.result
        id = response?.blocks.findLast(block => block.id !== undefined)?.id ?? id
        await delay(50)
        response = await ended(get(url, { ...headers, 'last-event-id': id })).catch(() => undefined)
      }
    }
  }
}

describe('servers with sessions that are killed', () => {
  beforeAll(() => {
    execFileSync(process.execPath, [fileOf('../../../.config/ensure-dist.js')])
  })

  it.each(Object.entries(PROGRAMS))('%s', async (_name, program) => {
    if (folder === undefined && program.quick !== undefined) return
    const quick = program.quick ?? { name: 'quick', arguments: {} }
    const hang = program.hang ?? { name: 'hang', arguments: {} }
    const server = new Server(await freePort(), program)
    await server.start()
    const url = `http://127.0.0.1:${server.port}/mcp`
    const clients = await Promise.all(
      Object.entries(CLIENTS).map(async ([name, connect]) => [name, await connect(url)] as const)
    )
    const callAll = async (params: Json) => {
      const outcomes = clients.map(async ([name, call]) => {
        const outcome = await call(params).then(
          () => 'answered',
          () => 'an error'
        )
        return [name, outcome] as const
      })
      return Object.fromEntries(await Promise.all(outcomes))
    }
    const all = (outcome: string) => Object.fromEntries(clients.map(([name]) => [name, outcome]))

    expect(await callAll(quick)).toEqual(all('answered'))
    await server.killed()
    expect(await callAll(quick)).toEqual(all('answered'))

    const before = await server.posts()
    const running = callAll(hang)
    while ((await server.posts()) < before + clients.length) await delay(20)
    await server.killed()
    expect(await running).toEqual(all('an error'))
    expect(await callAll(quick)).toEqual(all('answered'))
  })
})
