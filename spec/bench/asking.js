// The endpoints that ask their client in the middle of a call: on the official SDK, and written by
// hand.

import { randomUUID } from 'node:crypto'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { CallToolRequestSchema, isInitializeRequest } from '@modelcontextprotocol/sdk/types.js'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv'

const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } }
const question = { message: 'Who are you?', requestedSchema }
const resultOf = names => ({ content: [{ type: 'text', text: names.join(' ') }] })

const validator = new AjvJsonSchemaValidator()
// Longer than any bench runs.
const timeout = 3_600_000

/** SDK v1, a transport per session. */
export function sdkAsking() {
  const sessions = new Map()
  const openSession = async () => {
    const server = new Server(
      { name: 'bench', version: '1.0.0' },
      { capabilities: { tools: {} }, jsonSchemaValidator: validator }
    )
    server.setRequestHandler(CallToolRequestSchema, async ({ params }, { requestId }) => {
      const names = []
      while (names.length < params.arguments.questions) {
        const { content } = await server.elicitInput(question, {
          relatedRequestId: requestId,
          timeout
        })
        names.push(content.name)
      }
      return resultOf(names)
    })
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: id => sessions.set(id, transport)
    })
    await server.connect(transport)
    return transport
  }
  return async (req, res) => {
    const known = sessions.get(req.headers['mcp-session-id'])
    const transport = known ?? (isInitializeRequest(req.body) ? await openSession() : undefined)
    await transport.handleRequest(req, res, req.body)
  }
}

/** As little as an endpoint can hold while it waits: its response, by the id of its question. */
export function rawAsking() {
  const waiting = new Map()
  let last = 0
  const event = message =>
    `event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`

  const goOn = call => {
    const { res, id, names, questions } = call
    if (names.length === questions) return void res.end(event({ id, result: resultOf(names) }))
    const ask = `q${++last}`
    waiting.set(ask, call)
    res.write(event({ id: ask, method: 'elicitation/create', params: question }))
  }
  return (req, res) => {
    const { id, params, result } = req.body
    if (result !== undefined) {
      const call = waiting.get(id)
      waiting.delete(id)
      res.writeHead(call === undefined ? 400 : 202).end()
      call?.names.push(result.content.name)
      if (call !== undefined) goOn(call)
      return
    }
    res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' })
    goOn({ res, id, names: [], questions: params.arguments.questions })
  }
}
