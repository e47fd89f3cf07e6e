// The server process of a bench: one endpoint, bare or behind the middleware, and a clock for what
// it costs.

import { once } from 'node:events'
import { createServer } from 'node:http'
import { resolve } from 'node:path'
import { performance } from 'node:perf_hooks'
import { setImmediate as nextTick } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import express from 'express'
import { rawAsking, sdkAsking } from './asking.js'
import {
  arrays,
  OrderedEventStore,
  parkedCalls,
  raw,
  rawTools,
  sdkStateful,
  sdkStateless,
  sdkV2
} from './endpoints.js'
import { answer, options } from './processes.js'
import { countTimers } from './timers.js'

const eventStore = options.variant === 'store' ? new OrderedEventStore() : undefined
const endpoints = { sdkStateless, sdkStateful, sdkV2, raw, rawTools, arrays, sdkAsking, rawAsking }
const handle = endpoints[options.endpoint]({ ...options, eventStore })

const app = express()
if (options.isParsed) app.use(express.json())
let streams
let compared
const timers = options.countTimers ? countTimers() : undefined
if (options.variant === 'ours') {
  // Imported here and not above: the other variants are to be measured without a trace of it.
  const { mcpStreams } = await import('express-mcp-streams')
  streams = mcpStreams({
    ...options.streams,
    ...(options.tasks && (await tasks())),
    ...(options.redis && (await backplane()))
  })
  app.use('/mcp', streams)
}
if (options.variant === 'compared') {
  // Any other middleware: the module's only factory.
  const [create] = Object.values(await import(pathToFileURL(resolve(options.compare)).href))
  compared = create()
  app.use('/mcp', compared)
}
app.all('/mcp', express.json(), handle)

async function tasks() {
  const door = await import('express-mcp-streams/tasks')
  return { tasks: door.tasks(options.tasks) }
}

async function backplane() {
  const { redisBackplane } = await import('express-mcp-streams/redis')
  const { createClient } = await import('redis')
  const client = createClient({ url: options.redis })
  return { backplane: redisBackplane({ client, secret: 'a secret of the bench' }) }
}

/** Without Express: the middleware, and a body that is read here. */
function plain(req, res) {
  const respond = async () => {
    let text = ''
    for await (const piece of req) text += piece
    req.body = JSON.parse(text)
    handle(req, res)
  }
  const middleware = streams ?? compared
  if (middleware === undefined) respond()
  else middleware(req, res, respond)
}

const server = createServer(options.isPlain ? plain : app).listen(0, '127.0.0.1')
await once(server, 'listening')

let cpu
let loop

answer({
  port: () => server.address().port,

  begin({ forget = false } = {}) {
    // The SDK's store never forgets by itself. No collection is forced: it would throw compiled
    // code away, too.
    if (forget) eventStore?.events.clear()
    cpu = process.cpuUsage()
    loop = performance.eventLoopUtilization()
  },

  /** CPU and event-loop time since `begin`, in microseconds. */
  end() {
    const { user, system } = process.cpuUsage(cpu)
    return { cpu: user + system, loop: performance.eventLoopUtilization(loop).active * 1000 }
  },

  async memory() {
    for (let i = 0; i < 4; i++) {
      await nextTick()
      globalThis.gc()
    }
    const { heapUsed, external, rss } = process.memoryUsage()
    return { heap: heapUsed + external, rss }
  },

  connections: () => new Promise(resolve => server.getConnections((_, count) => resolve(count))),

  /** Calls that hold their response and say nothing more. */
  parked: () => parkedCalls(),

  /** Timers that have been set, and those of them that are still to fire. */
  timers: () => timers,

  stats: () => streams?.stats(),

  /**
   * Fills the SDK's store as `calls` calls of `count` events would have; answers the first id of
   * each.
   */
  async fillStore({ calls, count, size }) {
    const firstIds = []
    const message = 'x'.repeat(size - 112)
    for (let call = 0; call < calls; call++) {
      const streamId = `${Math.random().toString(36).slice(2)}${call}`
      firstIds.push(await eventStore.storeEvent(streamId, {}))
      for (let progress = 1; progress <= count; progress++) {
        const params = { progressToken: 1, progress, message }
        await eventStore.storeEvent(streamId, {
          method: 'notifications/progress',
          params,
          jsonrpc: '2.0'
        })
      }
    }
    return firstIds
  }
})
