// Clients that initialize, call and vanish leave nothing behind. 5,000 of them here; `npm run
// bench` sends 50,000.

import { describe, expect, it } from '@jest/globals'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { mcpStreams } from '../../../lib/index.js'
import { until } from '../../helpers/happenings.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { callTool, initialize } from '../../helpers/mcp.js'

const CLIENTS = 5000
const BATCHES = 5
const AT_ONCE = 25

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

async function heapUsed(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    collectGarbage()
    await new Promise(setImmediate)
  }
  return process.memoryUsage().heapUsed
}

/** What keeps the process alive, but for its ties to whoever runs the specs. */
const resources = () =>
  process.getActiveResourcesInfo().filter(name => /^(?:TCP|Timeout|HTTP)/.test(name))

function added(before: string[]): string[] {
  const known = [...before]
  return resources().filter(name => {
    const index = known.indexOf(name)
    if (index >= 0) known.splice(index, 1)
    return index < 0
  })
}

/**
 * Every other call is answered after its client has gone; the rest hang until they are told that
 * nobody comes back.
 */
function endpoint() {
  const counts = { sessions: 0, open: 0 }
  const event = (message: object) =>
    `event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`
  const handler = async (req: IncomingMessage, res: ServerResponse) => {
    let body = ''
    for await (const chunk of req) body += String(chunk)
    const { id, method } = JSON.parse(body)
    const isInitialize = method === 'initialize'
    const session = isInitialize ? { 'Mcp-Session-Id': `session ${++counts.sessions}` } : {}
    counts.open++
    res.once('close', () => counts.open--)
    res.writeHead(200, { 'Content-Type': 'text/event-stream', ...session })
    if (isInitialize)
      return void res.end(
        event({ id, result: { protocolVersion: '2025-11-25', capabilities: {} } })
      )
    const progress = { progressToken: 1, progress: 1, message: 'x'.repeat(500) }
    res.write(event({ method: 'notifications/progress', params: progress }))
    if (counts.sessions % 2 === 0) setTimeout(() => res.end(event({ id, result: {} })), 20)
  }
  return { handler, counts }
}

/** Initializes, calls, and is gone as soon as the call has shown a sign of life. */
function vanishingClient(port: number, n: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    const post = (message: object, session = '') => {
      const body = JSON.stringify(message)
      socket.write(
        `POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2025-11-25\r\n` +
          `Accept: application/json, text/event-stream\r\n${session}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
      )
    }
    let text = ''
    let hasCalled = false
    socket.on('data', chunk => {
      text += chunk.toString('latin1')
      if (!hasCalled && text.endsWith('0\r\n\r\n')) {
        const session = /^mcp-session-id: .*\r\n/im.exec(text)?.[0]
        hasCalled = true
        text = ''
        post(callTool(n, 'any'), session)
      } else if (hasCalled && text.includes('xxx')) {
        if (n % 3 === 0) socket.resetAndDestroy()
        else socket.destroy()
      }
    })
    socket.on('error', reject)
    socket.on('close', () => resolve())
    post(initialize('2025-11-25'))
  })
}

describe('5,000 clients that initialize, call and vanish', () => {
  it('leave the memory flat, and neither a stream, a connection, a handler nor a timer behind', async () => {
    const streams = mcpStreams({
      window: 100,
      resumeInterval: { min: 0, max: 0.25 },
      retry: 0,
      maxStreams: 500
    })
    closeLater(() => streams.close({ drain: 0 }))
    const { handler, counts } = endpoint()
    const { port, server } = await listen((req, res) =>
      streams(req, res, () => void handler(req, res))
    )
    const before = resources()

    let started = 0
    const run = async (until: number) => {
      const work = async () => {
        while (started < until) await vanishingClient(port, ++started)
      }
      await Promise.all(Array.from({ length: AT_ONCE }, work))
    }
    const allOver = () => {
      const { live, finished, connections } = streams.stats()
      return counts.open + live + finished + connections === 0
    }

    const heaps: number[] = []
    for (let batch = 1; batch <= BATCHES; batch++) {
      await run((CLIENTS / BATCHES) * batch)
      await until(allOver)
      heaps.push(await heapUsed())
    }

    expect(counts.sessions).toBe(CLIENTS)
    // A stream, a response or a socket that stays takes several KB, in every batch. What the engine
    // keeps for itself, or lets go, comes at any time, and is up to half a MB.
    const growth = heaps.slice(1).map((heap, i) => heap - heaps[i]!)
    const usual = growth.sort((a, b) => a - b)[1]
    expect(usual).toBeLessThan((CLIENTS / BATCHES) * 1000)
    expect(streams.stats()).toEqual({
      ...{
        live: 0,
        answering: 0,
        listening: 0,
        transfers: 0,
        waiting: 0,
        finished: 0,
        calls: 0,
        keyed: 0,
        connections: 0,
        tasks: 0,
        bytes: 0,
        undelivered: 0,
        resumes: 0,
        recoveries: 0,
        recoveryTime: 0,
        repeats: 0,
        upgrades: 0,
        refusalsForRoom: 0,
        revivals: 0,
        idled: 0
      },
      ...{
        backplane: {},
        failures: { abandoned: expect.any(Number) },
        lostConnections: expect.any(Number),
        evictions: expect.any(Number),
        refusals: expect.any(Number),
        remembered: expect.any(Number)
      }
    })
    // The sockets of the last clients close; whoever waits for that has a timer, while waiting.
    await until(() => added(before).every(name => name === 'Timeout'))
    expect(added(before)).toEqual([])
    expect(server.listening).toBe(true)
  })
})
