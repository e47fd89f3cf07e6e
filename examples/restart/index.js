// Two deploys under load and a crash, and stock clients that notice none of them.
//
//   npm run restart
//
//   server.js   a stateful MCP server, and the line that makes its sessions outlive it
// index.js tells the story; exit code 1 if a client notices anything

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { exitOnSignals } from '../cluster/children.js'
import { roundRobin } from '../cluster/front.js'

const CLIENTS = 5

const program = fileURLToPath(new URL('server.js', import.meta.url))
const env = { ...process.env, SESSION_SECRET: randomUUID() }
/** What the front passes requests to: the newest alone. */
const servers = []

async function start(name) {
  const child = fork(program, [name], { env })
  process.once('exit', () => child.kill('SIGKILL'))
  const [{ port }] = await once(child, 'message')
  const server = {
    port,
    isOut: false,
    async end(signal) {
      const exited = once(child, 'exit')
      child.kill(signal)
      await exited
    }
  }
  for (const older of servers) older.isOut = true
  servers.push(server)
  console.log(`${name} is up`)
  return server
}

exitOnSignals()
let current = await start('A')
const front = await roundRobin(servers)

/** A stock client with one session. */
async function connect() {
  const client = new Client({ name: 'stock', version: '1.0.0' })
  const transport = new StreamableHTTPClientTransport(front.url)
  await client.connect(transport)
  return { client, transport }
}

async function callOf(client) {
  const { content } = await client.callTool({ name: 'work', arguments: {} })
  return content[0].text
}

/** Clients that call all the time, one call after the other. */
async function load(count) {
  const clients = await Promise.all(Array.from({ length: count }, connect))
  const errors = []
  let calls = 0
  let isOn = true
  const ends = clients.map(async ({ client }) => {
    while (isOn) {
      calls++
      // One that has lost its session would lose all calls.
      const isAnswered = await callOf(client).catch(error => void errors.push(error.message))
      if (!isAnswered) break
    }
    await client.close()
  })
  return {
    async stop() {
      isOn = false
      await Promise.all(ends)
      return { calls, errors }
    }
  }
}

const { client, transport } = await connect()
const { sessionId } = transport
const call = () => callOf(client)

const answers = []
async function deploy(name) {
  const running = call()
  const older = current
  current = await start(name)
  // As a balancer does: what it has sent there just now is to arrive.
  await sleep(200)
  await older.end('SIGTERM')
  answers.push(await running, await call())
  console.log(`  deployed: the call that ran was ${answers.at(-2)}, the next one ${answers.at(-1)}`)
}

const others = await load(CLIENTS)
/** What went wrong under load. */
let lost = ['not known']
try {
  await deploy('B')
  await deploy('C')
  const { calls, errors } = await others.stop()
  lost = errors
  console.log(`  under load: ${calls} calls of ${CLIENTS} other clients, lost: ${lost.length}`)
  const killed = current.end('SIGKILL')
  current = await start('D')
  await killed
  answers.push(await call())
  console.log(`  killed: the next call was ${answers.at(-1)}`)
} catch (error) {
  answers.push(error.message)
}
await others.stop()
const expected = ['A', 'B', 'B', 'C', 'D'].map(name => `done by ${name}`)
const isFine =
  `${answers}` === `${expected}` && lost.length === 0 && transport.sessionId === sessionId
console.log(
  isFine
    ? '✔ one client, one session, four processes: it has noticed nothing'
    : `✘ the client has noticed: ${[...answers, ...lost]}`
)
await client.close()
front.close()
await current.end('SIGTERM')
process.exitCode = isFine ? 0 : 1
