// The suite's server on SDK v2: node everything-v2.js [--bare] [--stateless] [--sse]
import { createMcpExpressApp } from '@modelcontextprotocol/express'
import {
  NodeStreamableHTTPServerTransport,
  toNodeHandler,
  toWebRequest
} from '@modelcontextprotocol/node'
import {
  McpServer,
  ResourceTemplate,
  completable,
  createMcpHandler,
  isLegacyRequest
} from '@modelcontextprotocol/server'
import * as z from 'zod'
import { capabilities, everything, serverInfo } from './everything.js'
import { needsInput, requestState } from './input-required.js'
import { currentStream, flags, serve } from './serve.js'
import { sessions } from './sessions.js'

const sdk = {
  ResourceTemplate,
  completable,
  arguments: shape => z.object(shape),
  log: ({ mcpReq }, data) => mcpReq.log('info', data),
  notify: ({ mcpReq }, method, params) => mcpReq.notify({ method, params }),
  request({ mcpReq, sessionId }, method, params) {
    // Without a session the answer would come to another instance of the server, and the call would
    // wait for ever.
    if (sessionId === undefined) throw new Error('Asking the client needs a session')
    return mcpReq.send({ method, params })
  },
  progressToken: ({ mcpReq }) => mcpReq._meta?.progressToken,
  disconnect: () => currentStream()?.disconnect({ retry: 500 })
}

const createServer = () => {
  const server = everything(new McpServer(serverInfo, { capabilities, requestState }), sdk)
  server.server.setRequestHandler('resources/subscribe', () => ({}))
  server.server.setRequestHandler('resources/unsubscribe', () => ({}))
  return needsInput(server, () => handler.notify)
}

// One factory for every revision. Alone, the handler serves the older ones without sessions;
// otherwise they go to a transport of their own, as `isLegacyRequest` is meant to be used.
const handler = createMcpHandler(createServer, {
  legacy: flags.stateless ? 'stateless' : 'reject',
  responseMode: flags.sse ? 'sse' : 'auto'
})
const stateless = toNodeHandler(handler)

const stateful = sessions(async options => {
  const transport = new NodeStreamableHTTPServerTransport(options)
  await createServer().connect(transport)
  return transport
})

serve(createMcpExpressApp(), async (req, res) => {
  const legacy = !flags.stateless && (await isLegacyRequest(await toWebRequest(req, req.body)))
  await (legacy ? stateful(req, res) : stateless(req, res, req.body))
})
