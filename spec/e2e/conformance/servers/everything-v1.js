// The suite's server on SDK v1, stateful: node everything-v1.js [--bare] [--event-store]
import { InMemoryEventStore } from '@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js'
import { completable } from '@modelcontextprotocol/sdk/server/completable.js'
import { createMcpExpressApp } from '@modelcontextprotocol/sdk/server/express.js'
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import {
  ResultSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema
} from '@modelcontextprotocol/sdk/types.js'
import { capabilities, everything, serverInfo } from './everything.js'
import { currentStream, flags, serve } from './serve.js'
import { sessions } from './sessions.js'

const sdk = {
  ResourceTemplate,
  completable,
  arguments: shape => shape,
  log: ({ sendNotification }, data) =>
    sendNotification({ method: 'notifications/message', params: { level: 'info', data } }),
  notify: ({ sendNotification }, method, params) => sendNotification({ method, params }),
  request: ({ sendRequest }, method, params) => sendRequest({ method, params }, ResultSchema),
  progressToken: ({ _meta }) => _meta?.progressToken,
  // The SDK's own way is there only with an event store.
  disconnect({ closeSSEStream }) {
    currentStream()?.disconnect({ retry: 500 })
    closeSSEStream?.()
  }
}

const eventStore = flags['event-store']
  ? { eventStore: new InMemoryEventStore(), retryInterval: 500 }
  : {}

serve(
  createMcpExpressApp(),
  sessions(async options => {
    const server = everything(new McpServer(serverInfo, { capabilities }), sdk)
    server.server.setRequestHandler(SubscribeRequestSchema, () => ({}))
    server.server.setRequestHandler(UnsubscribeRequestSchema, () => ({}))
    const transport = new StreamableHTTPServerTransport({ ...options, ...eventStore })
    await server.connect(transport)
    return transport
  })
)
