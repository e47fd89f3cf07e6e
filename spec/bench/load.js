// The load process of a bench: what clients do, and whether they got all that they should.

import { answer } from './processes.js'
import { EventCheck, Text, Wire } from './wire.js'

const headers = { 'MCP-Protocol-Version': '2025-11-25' }
let requestId = 0

const callOf = (id, args) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name: 'work', arguments: args }
})

/** The headers of each session that was opened at a port; calls use them in turn. */
const sessions = new Map()
const headersFor = (port, index) => {
  const opened = sessions.get(port)
  return opened?.[index % opened.length] ?? headers
}

const seconds = async work => {
  const start = performance.now()
  await work()
  return (performance.now() - start) / 1000
}

/** Runs `work` for each item, `width` at a time. */
async function inParallel(items, width, work) {
  const results = []
  let next = 0
  const run = async () => {
    while (next < items.length) {
      const index = next++
      results[index] = await work(items[index], index)
    }
  }
  await Promise.all(Array.from({ length: width }, run))
  return results
}

const range = count => Array.from({ length: count }, (_, i) => i)

const openWires = (port, count) => inParallel(range(count), 50, () => Wire.open(port))

/**
 * Calls the tool, gets `count` events of it and the response; parked calls are left after their
 * last event.
 */
async function call(port, wire, args, headers) {
  let leaving = false
  const check = new EventCheck(events => {
    if (args.park && events === args.count && !leaving) {
      leaving = true
      setImmediate(() => wire.leave())
    }
  })
  const response = await wire.request('POST', '/mcp', {
    headers,
    body: callOf(++requestId, args),
    sink: check
  })
  check.verify(args.count, !args.park)
  return { check, response }
}

let parked = []

answer({
  /** Opens sessions; without this, calls have none. */
  async openSessions({ port, count }) {
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'bench', version: '1.0.0' }
    }
    const wire = await Wire.open(port)
    const opened = []
    for (let i = 0; i < count; i++) {
      const body = { jsonrpc: '2.0', id: 0, method: 'initialize', params }
      const answer = await wire.request('POST', '/mcp', { body, sink: new Text() })
      const session = { ...headers, 'Mcp-Session-Id': answer.headers['mcp-session-id'] }
      await wire.request('POST', '/mcp', {
        headers: session,
        body: { jsonrpc: '2.0', method: 'notifications/initialized' }
      })
      opened.push(session)
    }
    wire.leave()
    sessions.set(port, opened)
  },

  /**
   * `concurrent` clients, `calls` calls each, one after the other, of `count` events each. Answers
   * the seconds it took.
   */
  async events({ port, concurrent, calls, count, size }) {
    const wires = await openWires(port, concurrent)
    const took = await seconds(() =>
      Promise.all(
        wires.map(async (wire, index) => {
          for (let i = 0; i < calls; i++)
            await call(port, wire, { count, size }, headersFor(port, index))
        })
      )
    )
    for (const wire of wires) wire.leave()
    return took
  },

  /**
   * Small calls in a closed loop, of a tool that takes `time` milliseconds. Answers calls per
   * second and the 99th percentile of their latency.
   */
  async calls({ port, concurrent, calls, time }) {
    const wires = await openWires(port, concurrent)
    const latencies = []
    const took = await seconds(() =>
      Promise.all(
        wires.map(async (wire, index) => {
          const headers = headersFor(port, index)
          for (let i = 0; i < calls; i++) {
            const id = ++requestId
            const sink = new Text()
            const start = performance.now()
            await wire.request('POST', '/mcp', {
              headers,
              body: callOf(id, { count: 0, size: 0, time }),
              sink
            })
            latencies.push(performance.now() - start)
            if (!sink.text.includes(`"id":${id}`) || !sink.text.includes('"result"'))
              throw new Error(`Not a response: ${sink.text}`)
          }
        })
      )
    )
    for (const wire of wires) wire.leave()
    latencies.sort((a, b) => a - b)
    return { rate: latencies.length / took, p99: latencies[Math.floor(latencies.length * 0.99)] }
  },

  /**
   * Makes streams whose clients are gone: every other one is finished, the rest live. Answers how
   * each is resumed.
   */
  async fill({ port, calls, count, size }) {
    return inParallel(range(calls), 20, async index => {
      const park = index % 2 === 1
      const wire = await Wire.open(port)
      const { check, response } = await call(port, wire, { count, size, park }, headers)
      if (!park) wire.leave()
      const target = `/mcp${/<(\?stream=[^>]+)>; rel="stream"/.exec(response.headers.link)[1]}`
      const firstId = `${check.firstId.split('.')[0]}.0`
      return { target, firstId, count, live: park }
    })
  },

  /**
   * Resumes streams from their start, `width` at a time. Answers the seconds until the last of
   * their events has come.
   */
  async resume({ port, streams, width }) {
    return seconds(() =>
      inParallel(streams, width, async ({ target, firstId, count, live }) => {
        const wire = new Wire(port)
        const check = new EventCheck(events => {
          if (live && events === count) setImmediate(() => wire.leave())
        })
        const { status } = await wire.request('GET', target, {
          headers: { ...headers, 'Last-Event-ID': firstId },
          sink: check
        })
        if (status !== 200) throw new Error(`A resume was answered ${status}`)
        check.verify(count, !live)
        if (!live) wire.leave()
      })
    )
  },

  /** Opens calls that stay in flight; answers when each has had its first event. */
  async park({ port, calls, size }) {
    parked = await inParallel(range(calls), 50, async () => {
      const wire = await Wire.open(port)
      await new Promise((resolve, reject) => {
        const check = new EventCheck(events => events === 1 && resolve())
        const body = callOf(++requestId, { count: 1, size, park: true })
        wire.request('POST', '/mcp', { headers, body, sink: check }).catch(reject)
      })
      return wire
    })
  },

  /**
   * Opens calls of an endpoint that says nothing; answers when each has had its first byte, or has
   * been sent.
   */
  async wait({ port, calls, onlyJson = false, isSilent = false }) {
    const headers = { 'MCP-Protocol-Version': '2025-11-25', Prefer: 'rel=stream' }
    const accept = onlyJson ? 'application/json' : undefined
    const body = () => callOf(++requestId, { count: 0, size: 0, park: true })
    const begun = []
    const waiting = await inParallel(range(calls), 50, async () => {
      const wire = await Wire.open(port)
      const first = new Promise((resolve, reject) => {
        wire
          .request('POST', '/mcp', { headers, accept, body: body(), sink: { push: resolve } })
          .catch(reject)
        if (isSilent) resolve()
      })
      begun.push(first)
      return wire
    })
    // All together: a first byte may be a second away.
    await Promise.all(begun)
    parked.push(...waiting)
  },

  /** All of the parked clients go. */
  leave() {
    for (const wire of parked) wire.leave()
    parked = []
  },

  /** CPU time so far, in microseconds. */
  cpu() {
    const { user, system } = process.cpuUsage()
    return user + system
  }
})
