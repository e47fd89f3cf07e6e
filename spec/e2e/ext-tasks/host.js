// A host with the official client of tasks, and an endpoint behind the middleware that knows none:
// node host.js <folder with the packages> <revision>. Prints what has come of each case, as JSON.
import { createMcpExpressApp } from '@modelcontextprotocol/express'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import {
  McpServer,
  acceptedContent,
  createMcpHandler,
  inputRequired
} from '@modelcontextprotocol/server'
import { mcpStreams } from 'express-mcp-streams'
import { tasks } from 'express-mcp-streams/tasks'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import * as z from 'zod'
import { sessions } from '../conformance/servers/sessions.js'

const [folder, revision] = process.argv.slice(2)
const isModern = revision === '2026-07-28'
const load = name => import(pathToFileURL(createRequire(join(folder, 'x.js')).resolve(name)).href)
const { Client, StreamableHTTPClientTransport } = await load('@modelcontextprotocol/client')
const extTasks = await import(
  pathToFileURL(join(folder, 'node_modules/@modelcontextprotocol/ext-tasks/dist/client/index.js'))
)

const says = words => ({ content: [{ type: 'text', text: words }] })
const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } }
const question = { message: 'Who are you?', requestedSchema }
let hasStopped
const stopped = new Promise(resolve => (hasStopped = resolve))

/** By name. `ask` asks as most tools do: without a word on the request that they work on. */
const tools = ask => ({
  slow: async ({ ms = 1000 }) => (await delay(ms), says('slow but sure')),
  fail: () => Promise.resolve({ ...says('it has failed'), isError: true }),
  async hang(_, signal) {
    await once(signal, 'abort')
    hasStopped()
    return says('stopped')
  },
  ...ask
})
const schema = z.object({ ms: z.number().optional() })

function serverV1() {
  const server = new McpServerV1({ name: 'v1', version: '1' })
  const asking =
    related =>
    async (_, _signal, { requestId }) => {
      // So that the client knows the task, whose question may come over another connection.
      await delay(200)
      const options = related ? { relatedRequestId: requestId } : {}
      const { content } = await server.server.elicitInput(question, options)
      return says(`Hello, ${content.name}!`)
    }
  const all = tools({ ask: asking(false), askOnRequest: asking(true) })
  for (const [name, run] of Object.entries(all))
    server.registerTool(name, { inputSchema: schema }, (args, extra) =>
      run(args, extra.signal, extra)
    )
  return server
}

function serverV2() {
  const server = new McpServer({ name: 'v2', version: '1' })
  const ask = (_, _signal, { inputResponses }) => {
    const answer = acceptedContent(inputResponses, 'it', z.object({ name: z.string() }))
    if (answer) return says(`Hello, ${answer.name}!`)
    return inputRequired({ inputRequests: { it: inputRequired.elicit(question) } })
  }
  for (const [name, run] of Object.entries(tools({ ask })))
    server.registerTool(name, { inputSchema: schema }, (args, { mcpReq }) =>
      run(args, mcpReq.signal, mcpReq)
    )
  return server
}

const endpoint = isModern
  ? toNodeHandler(createMcpHandler(serverV2, { legacy: 'reject' }))
  : sessions(async options => {
      const transport = new StreamableHTTPServerTransport(options)
      await serverV1().connect(transport)
      return transport
    })
const named = ['slow', 'fail', 'hang', 'ask', 'askOnRequest']
const app = createMcpExpressApp()
app.use(
  '/mcp',
  mcpStreams({
    tasks: tasks({
      after: 300,
      pollInterval: 50,
      tools: Object.fromEntries(named.map(name => [name, name === 'slow' ? 'after' : 'always']))
    })
  })
)
app.all('/mcp', (req, res) => endpoint(req, res, req.body))
const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
const url = new URL(`http://127.0.0.1:${server.address().port}/mcp`)

const clientInfo = { name: 'host', version: '1' }
const capabilities = { elicitation: {} }

async function connect() {
  const which = isModern
    ? { versionNegotiation: { mode: { pin: revision } } }
    : { supportedProtocolVersions: [revision] }
  const client = new Client(clientInfo, { capabilities, ...which })
  await client.connect(new StreamableHTTPClientTransport(url))
  return client
}

let n = 0
/** What the host has to bring at 2026-07-28, as the client's own codecs know no tasks. */
async function rawDispatch({ method, params }, { signal, context } = {}) {
  const headers = new Headers({
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    'mcp-protocol-version': revision,
    'mcp-method': method,
    'mcp-name': params.taskId ?? params.name
  })
  for (const [name, value] of Object.entries(context?.headers ?? {})) headers.set(name, value)
  const body = JSON.stringify({ jsonrpc: '2.0', id: ++n, method, params })
  const response = await fetch(url, { method: 'POST', headers, body, ...(signal && { signal }) })
  const text = await response.text()
  const isStream = response.headers.get('content-type').startsWith('text/event-stream')
  const { result, error } = JSON.parse(
    isStream
      ? text
          .match(/^data: ?(.+)$/gm)
          .at(-1)
          .slice(5)
      : text
  )
  return error === undefined ? { kind: 'result', result } : { kind: 'error', error }
}

/** A session of tasks over a client of its own; `asked` has what it was asked. */
async function open(given) {
  const client = given ?? (await connect())
  const { tools } = await client.listTools()
  const asked = []
  const session = extTasks.createTaskSessionFromClient(client, {
    endpointId: 'the endpoint',
    ...(isModern && {
      rawDispatch,
      v2RequestFraming: { protocolVersion: revision, clientInfo, clientCapabilities: capabilities }
    }),
    tools: {
      currentTool: name =>
        extTasks.toolDeclarationFromMcpTool(tools.find(tool => tool.name === name))
    },
    onInputRequest({ params }, { scope }) {
      asked.push({ message: params.message, scope })
      return { action: 'accept', content: { name: 'Ann' } }
    }
  })
  const call = (name, args = {}) => session.callTool(name, args, { task: { preference: 'prefer' } })
  return { client, session, call, asked }
}

async function outcomeOf(execution) {
  const { outcome } = await execution.settle()
  const { status, result, error } = outcome
  const { isError } = result ?? {}
  return { kind: execution.kind, status, isError, text: result?.content[0].text ?? error?.message }
}

const asks = async tool => {
  const { call, asked } = await open()
  return { ...(await outcomeOf(await call(tool))), asked }
}

const cases = {
  async fast() {
    const { session } = await open()
    return outcomeOf(await session.callTool('slow', { ms: 1 }))
  },
  async slow() {
    const { call } = await open()
    return outcomeOf(await call('slow'))
  },
  async failed() {
    const { call } = await open()
    return outcomeOf(await call('fail'))
  },
  asked: () => asks('ask'),
  async cancelled() {
    const { call } = await open()
    const execution = await call('hang')
    await execution.cancel()
    const outcome = await outcomeOf(execution)
    await stopped
    return outcome
  },
  async handedOff() {
    const { client, session, call } = await open()
    const execution = await call('slow')
    let saved
    await execution.handoff(reference => void (saved = JSON.stringify(reference)))
    // A session that closes at once would cancel even what it has handed off.
    await delay(10)
    await session.close()
    // At 2025-11-25 a task belongs to its session of MCP.
    const other = await open(isModern ? undefined : client)
    return outcomeOf(await other.session.resumeTask(JSON.parse(saved)))
  },
  ...(!isModern && {
    askedOnRequest: () => asks('askOnRequest'),
    async askedBesideAnother() {
      const { session, call, asked } = await open()
      const other = session.callTool('slow')
      const outcome = await outcomeOf(await call('ask'))
      await other
      return { ...outcome, asked }
    }
  })
}

const outcomes = await Promise.all(
  Object.entries(cases).map(async ([name, run]) => [
    name,
    await run().catch(error => ({ error: error.stack }))
  ])
)
process.stdout.write(JSON.stringify(Object.fromEntries(outcomes)), () => process.exit())
