// The seven tools that the suite's tasks scenarios name, on SDK v2 and without a line about tasks:
// node tasks.js [--bare]
import { createMcpExpressApp } from '@modelcontextprotocol/express'
import { toNodeHandler } from '@modelcontextprotocol/node'
import {
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  acceptedContent,
  createMcpHandler,
  createRequestStateCodec,
  inputRequired
} from '@modelcontextprotocol/server'
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import * as z from 'zod'
import { serverInfo, text } from './everything.js'
import { serve, tasksOf } from './serve.js'

const states = createRequestStateCodec({ key: randomBytes(32) })

const ask = (message, field, type = 'string') =>
  inputRequired.elicit({
    message,
    requestedSchema: { type: 'object', properties: { [field]: { type } }, required: [field] }
  })
const says = words => ({ content: [text(words)] })

const tools = {
  greet: ({ name }) => says(`Hello, ${name}!`),
  async slow_compute({ seconds }, { mcpReq }) {
    await delay(seconds * 1000, undefined, { signal: mcpReq.signal })
    return says(`Computed for ${seconds} s`)
  },
  async failing_job() {
    await delay(1000)
    return { ...says('The job has failed'), isError: true }
  },
  protocol_error_job() {
    throw new ProtocolError(ProtocolErrorCode.InternalError, 'The job has broken the protocol')
  },
  confirm_delete({ filename }, { mcpReq }) {
    const answer = acceptedContent(mcpReq.inputResponses, 'it', z.object({ confirm: z.boolean() }))
    if (answer) return says(answer.confirm ? `Deleted ${filename}` : `Kept ${filename}`)
    return inputRequired({
      inputRequests: { it: ask(`Delete ${filename}?`, 'confirm', 'boolean') }
    })
  },
  multi_input(_, { mcpReq }) {
    const inputs = mcpReq.inputResponses ?? {}
    if ('first' in inputs && 'second' in inputs) return says('Both are there')
    return inputRequired({
      inputRequests: { first: ask('The first?', 'confirm'), second: ask('The second?', 'confirm') }
    })
  },
  async test_tool_with_task(_, { mcpReq }) {
    const { inputResponses } = mcpReq
    const answer = acceptedContent(inputResponses, 'user_name', z.object({ name: z.string() }))
    if (answer) {
      await delay(3000)
      return says(`Hello, ${answer.name}!`)
    }
    return inputRequired({
      inputRequests: { user_name: ask('What is your name?', 'name') },
      requestState: await states.mint({ for: 'test_tool_with_task' })
    })
  }
}

function createServer() {
  const capabilities = { tools: {} }
  const { server } = new McpServer(serverInfo, {
    capabilities,
    requestState: { verify: states.verify }
  })
  server.setRequestHandler('tools/list', () => ({
    tools: Object.keys(tools).map(name => ({ name, inputSchema: { type: 'object' } }))
  }))
  // A tool that is registered cannot end in an error of the protocol: whatever it throws is a result.
  server.setRequestHandler('tools/call', ({ params }, context) =>
    tools[params.name](params.arguments ?? {}, context)
  )
  return server
}

const endpoint = toNodeHandler(createMcpHandler(createServer, { legacy: 'reject' }))
serve(createMcpExpressApp(), (req, res) => endpoint(req, res, req.body), {
  tasks: await tasksOf({
    // A busy machine may take a second and more for what is answered at once.
    after: 2500,
    tools: {
      slow_compute: 'always',
      greet: 'never',
      failing_job: 'required',
      protocol_error_job: 'always',
      confirm_delete: 'always',
      multi_input: 'always'
    }
  })
})
