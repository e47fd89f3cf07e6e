// The load process of the tasks bench: clients that create tasks and look at them, and small calls
// that may become tasks, and do not.

import { setTimeout as sleep } from 'node:timers/promises'
import { answer } from './processes.js'
import { Text, Wire } from './wire.js'

const WIRES = 20
const POLLED = 1_000
const EXTENSION = 'io.modelcontextprotocol/tasks'
let requestId = 0
let wires = []
/** Of each task: its id, and the headers of its client. */
let tasks = []

const envelope = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1.0.0' },
  'io.modelcontextprotocol/clientCapabilities': { extensions: { [EXTENSION]: {} } }
}

/** A request as each revision has it: its headers and its body. */
const requests = {
  '2026-07-28': (method, params) => ({
    headers: {
      'MCP-Protocol-Version': '2026-07-28',
      'Mcp-Method': method,
      'Mcp-Name': params.name ?? params.taskId
    },
    params: { ...params, _meta: envelope }
  }),
  '2025-11-25': (method, params) => ({
    headers: { 'MCP-Protocol-Version': '2025-11-25' },
    params: { ...params, ...(method === 'tools/call' && { task: {} }) }
  })
}

/** The answer's result. */
async function ask(wire, revision, method, params, client = {}) {
  const { headers, params: all } = requests[revision](method, params)
  const body = { jsonrpc: '2.0', id: ++requestId, method, params: all }
  const sink = new Text()
  await wire.request('POST', '/mcp', { headers: { ...headers, ...client }, body, sink })
  const { result } = JSON.parse(sink.text)
  if (result === undefined) throw new Error(`Not a result: ${sink.text}`)
  return result
}

const open = async (port, count) => {
  while (wires.length < count) wires.push(await Wire.open(port))
}

answer({
  /** Creates tasks of so many clients. */
  async create({ port, calls, revision, clients = 1 }) {
    await open(port, WIRES)
    const params = { name: 'work', arguments: { count: 0, size: 0, park: true } }
    let left = calls
    await Promise.all(
      wires.map(async wire => {
        while (left-- > 0) {
          const client = { Authorization: `Bearer ${left % clients}` }
          const result = await ask(wire, revision, 'tools/call', params, client)
          const { taskId } = result.task ?? result
          if (taskId === undefined) throw new Error(`No task: ${JSON.stringify(result)}`)
          tasks.push({ taskId, client })
        }
      })
    )
  },

  /** Looks at each task once a second, for so many seconds; or sends as many pings. */
  async poll({ port, revision, seconds, arePings = false }) {
    await open(port, WIRES)
    if (arePings) tasks = Array.from({ length: POLLED }, () => ({ client: {} }))
    let looks = 0
    const total = tasks.length * seconds
    const began = performance.now()
    await Promise.all(
      wires.map(async wire => {
        while (looks < total) {
          const n = looks++
          const { taskId, client } = tasks[n % tasks.length]
          const due = began + (n / tasks.length) * 1000
          if (due > performance.now()) await sleep(due - performance.now())
          const method = arePings ? 'ping' : 'tasks/get'
          const { status } = await ask(wire, revision, method, { taskId }, client)
          if (!arePings && status !== 'working') throw new Error(`A task is ${status}`)
        }
      })
    )
  },

  /** Small calls in a closed loop. Answers calls per second. */
  async calls({ port, concurrent, calls }) {
    await open(port, concurrent)
    const params = { name: 'work', arguments: { count: 0, size: 0 } }
    const began = performance.now()
    await Promise.all(
      wires.map(async wire => {
        for (let i = 0; i < calls; i++) {
          const { content } = await ask(wire, '2026-07-28', 'tools/call', params)
          if (content === undefined) throw new Error('Not the result of a call')
        }
      })
    )
    const rate = (concurrent * calls) / ((performance.now() - began) / 1000)
    for (const wire of wires) wire.leave()
    wires = []
    return { rate }
  },

  /** The clients go; their tasks stay. */
  leave() {
    for (const wire of wires) wire.leave()
    wires = []
    tasks = []
  },

  /** CPU time so far, in microseconds. */
  cpu() {
    const { user, system } = process.cpuUsage()
    return user + system
  }
})
