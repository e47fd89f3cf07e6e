// Servers as people run them, most of them with an event store of their own, and clients that are
// cut off from them: each call has its progress once and in order, and runs once.

import { InMemoryEventStore } from '@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js'
import { beforeAll, describe, expect, it } from '@jest/globals'
import { execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { resumableFetch } from '../../../lib/client/index.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { closeLater } from '../../helpers/close-all.js'
import { createCutProxy, type Cut, type ProxiedRequest } from '../../helpers/cut-proxy.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { freePort } from '../../helpers/free-port.js'
import { installed } from '../../helpers/installed.js'
import { callTool, get, initializeSession, post } from '../../helpers/mcp.js'
import type { Json, OpenStream } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { OrderedStore } from '../../features/event-store/setup.js'

const fileOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const folder = installed('event-stores')

/** Milliseconds of a call, whose five steps are as far apart. */
const LENGTH = 1000
const STEPS = [1, 2, 3, 4, 5]

interface Server {
  port: number
  call: { name: string; arguments: Record<string, unknown> }
  /** How many calls have reached the server, of so many clients. */
  runs(clients: number): Promise<number> | number
}

/** A program behind the middleware. */
async function program(path: string, args: string[], call: Server['call']): Promise<Server> {
  const port = await freePort()
  const child = fork(
    join(folder ?? '', 'node_modules', path),
    args.map(arg => arg.replace('PORT', String(port))),
    {
      execArgv: ['--import', fileOf('preload.js')],
      env: { ...process.env, PORT: String(port) },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc']
    }
  )
  closeLater(() => child.kill())
  await once(child, 'message')
  return {
    port,
    call,
    // Besides its calls, a client sends `initialize` and `notifications/initialized`.
    async runs(clients) {
      child.send('how many?')
      const [{ posts }] = (await once(child, 'message')) as [{ posts: number }]
      return posts - 2 * clients
    }
  }
}

interface Context {
  sendNotification?(message: unknown): Promise<void>
  closeSSEStream?(): void
  _meta?: { progressToken?: unknown }
  http?: { closeSSE(): void }
  mcpReq?: { notify(message: unknown): Promise<void>; _meta?: { progressToken?: unknown } }
}

/** An endpoint of an SDK with a store; `closes`: it closes each stream, and expects its client. */
async function endpoint(
  create: typeof sdkV1Stateful | typeof sdkV2Stateful,
  eventStore: InMemoryEventStore | OrderedStore,
  closes = false
): Promise<Server> {
  const sdk = create({
    eventStore,
    transport: closes ? { retryInterval: 50 } : {},
    async onContext(_args, context) {
      const { mcpReq, http, _meta = mcpReq?._meta, ...v1 } = context as Context
      for (const progress of STEPS) {
        await delay(LENGTH / STEPS.length)
        const { progressToken } = _meta ?? {}
        const message = { method: 'notifications/progress', params: { progressToken, progress } }
        await (v1.sendNotification ?? mcpReq?.notify)?.(message)
        if (closes && progress === 2) (v1.closeSSEStream ?? http?.closeSSE)?.()
      }
      return 'done'
    }
  })
  const { server } = await serve(sdk, { retry: 50 })
  const { port } = server.address() as { port: number }
  const call = { name: 'context', arguments: { key: 'the key' } }
  return { port, call, runs: () => sdk.log.executions('the key') }
}

const SERVERS: Record<string, () => Promise<Server>> = {
  'server-everything': () =>
    program('@modelcontextprotocol/server-everything/dist/index.js', ['streamableHttp'], {
      name: 'trigger-long-running-operation',
      arguments: { duration: LENGTH / 1000, steps: STEPS.length }
    }),
  'supergateway, without a store': () =>
    program(
      'supergateway/dist/index.js',
      [
        '--stdio',
        `node ${fileOf('stdio-server.js')}`,
        ...[
          '--outputTransport',
          'streamableHttp',
          '--stateful',
          '--port',
          'PORT',
          '--logLevel',
          'none'
        ]
      ],
      { name: 'context', arguments: {} }
    ),
  'SDK v1, the store of its example': () => endpoint(sdkV1Stateful, new InMemoryEventStore()),
  'SDK v1, closing its streams': () => endpoint(sdkV1Stateful, new InMemoryEventStore(), true),
  'SDK v2, with a store': () => endpoint(sdkV2Stateful, new OrderedStore(), true)
}

type Client = (url: string, call: Server['call']) => Promise<unknown>

const official =
  (connect: typeof connectV1 | typeof connectV2, own = false): Client =>
  async (url, call) => {
    const { client } = await connect(url, {
      ...(connect === connectV2 && { era: '2025-11-25' }),
      ...(own && { fetch: resumableFetch() })
    })
    const progress: number[] = []
    const onprogress = (step: { progress: number }): void => void progress.push(step.progress)
    await (client as Json).callTool(call, ...(connect === connectV1 ? [undefined] : []), {
      onprogress
    })
    return progress
  }

const CLIENTS: Record<string, Client> = {
  'SDK v1': official(connectV1),
  'SDK v2': official(connectV2),
  resumableFetch: official(connectV1, true),
  async 'Last-Event-ID'(url, { name, arguments: args }) {
    const { headers } = await initializeSession(url, '2025-11-25')
    let response: OpenStream | undefined = await post(
      url,
      callTool(1, name, args, 'token'),
      headers
    )
    const messages: Json[] = []
    for (let id = ''; messages.at(-1)?.id !== 1;) {
      await response?.ended
      messages.push(...(response?.messages() ?? []))
      id = response?.blocks.findLast(block => block.id !== undefined)?.id ?? id
      await delay(50)
      // It may be cut off before there is a head.
      response = await get(url, { ...headers, 'last-event-id': id }).catch(() => undefined)
    }
    response?.destroy()
    return messages.slice(0, -1).map(({ params }) => params.progress)
  }
}

/**
 * When all of a client's connections are cut, in milliseconds from the head of the call's response
 * on, and then from that of each that goes on with it; or which cut the response gets.
 */
const CUTS: Record<string, number[] | Cut> = {
  'at once': [100],
  once: [450],
  'three times': [250, 250, 250],
  // The primer, and all but the last of the progress.
  'at the end': { by: 'fin', afterEvents: STEPS.length }
}

const isCall = ({ message }: ProxiedRequest): boolean => message?.method === 'tools/call'
/** The client has an event id of a response to a request other than `initialize`. */
const goesOn = ({ headers }: ProxiedRequest): boolean =>
  /\.r[1-9]/.test(headers['last-event-id'] ?? '')

describe('servers with event stores of their own, and one without', () => {
  beforeAll(() => {
    execFileSync(process.execPath, [fileOf('../../../.config/ensure-dist.js')])
  })

  it.each(Object.entries(SERVERS))('%s', async (name, start) => {
    if (folder === undefined && !name.startsWith('SDK')) return
    const { port, call, runs } = await start()
    const cases = Object.entries(CLIENTS).flatMap(([client, run]) =>
      Object.entries(CUTS).map(([cut, when]) => ({ name: `${client}, cut ${cut}`, run, when }))
    )
    let cuts = 0
    const outcomes = cases.map(async ({ name, run, when }) => {
      const times = Array.isArray(when) ? [...when] : []
      const proxy = await createCutProxy({
        target: port,
        plan: request => (isCall(request) && !Array.isArray(when) ? when : undefined)
      })
      proxy.on('head', request => {
        const ms = isCall(request) || goesOn(request) ? times.shift() : undefined
        if (ms !== undefined) setTimeout(() => proxy.cutNow('rst'), ms)
      })
      const progress = await run(`${proxy.url}/mcp`, call).catch(String)
      cuts += proxy.cuts.length
      return [name, progress] as const
    })
    expect(Object.fromEntries(await Promise.all(outcomes))).toEqual(
      Object.fromEntries(cases.map(({ name }) => [name, STEPS]))
    )
    // Who was disconnected at will before is not cut at the end.
    expect(cuts).toBeGreaterThanOrEqual(cases.length - 1)
    expect(await runs(cases.length)).toBe(cases.length)
  })
})
