// MCP endpoints on the official SDK, version 1, as its documentation writes them: stateful, and
// stateless.

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import {
  StreamableHTTPServerTransport,
  type EventStore,
  type StreamableHTTPServerTransportOptions
} from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js'
import type { ServerNotification, ServerRequest } from '@modelcontextprotocol/sdk/types.js'
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { closeLater } from '../close-all.js'
import { ToolLog } from './tool-log.js'
import { createTools, type ToolContext, type ToolOptions } from './tools.js'

export { ToolLog } from './tool-log.js'
export { countMessage } from './tools.js'

type Extra = RequestHandlerExtra<ServerRequest, ServerNotification>

export interface SdkV1Options {
  /** Shared with another endpoint, say; default: one of its own. */
  log?: ToolLog
  onContext?: ToolOptions['onContext']
  enableJsonResponse?: boolean
  eventStore?: EventStore
  /** Anything else that the transport takes, such as `retryInterval` or `keepAliveMs`. */
  transport?: Partial<StreamableHTTPServerTransportOptions>
}

export interface SdkV1Session {
  server: McpServer
  transport: StreamableHTTPServerTransport
}

export interface SdkV1Endpoint {
  /**
   * For `app.all('/mcp', …)`, `app.use('/mcp', …)`, Connect and `http.createServer`; takes
   * `req.body` where it is set.
   */
  (req: IncomingMessage, res: ServerResponse): Promise<void>
  log: ToolLog
  /** By session id; stays empty in the stateless endpoint. */
  sessions: Map<string, SdkV1Session>
  /** Closes all sessions. Done by `closeAll` too. */
  close(): Promise<void>
}

/** One server and transport per session, kept in a map; GET and DELETE served. */
export function sdkV1Stateful(options: SdkV1Options = {}): SdkV1Endpoint {
  const log = options.log ?? new ToolLog()
  const sessions = new Map<string, SdkV1Session>()

  const startSession = async () => {
    const server = createServer(log, options)
    const transport = new StreamableHTTPServerTransport({
      ...transportOptions(options),
      sessionIdGenerator: randomUUID,
      onsessioninitialized: id => void sessions.set(id, { server, transport })
    })
    transport.onclose = () => sessions.delete(transport.sessionId ?? '')
    await server.connect(transport as Parameters<McpServer['connect']>[0])
    return transport
  }

  const handler = async (req: IncomingMessage, res: ServerResponse) => {
    const id = req.headers['mcp-session-id']
    const session = typeof id === 'string' ? sessions.get(id) : undefined
    if (id !== undefined && !session) return refuse(res, 404, -32001, 'Session not found')
    const transport = session?.transport ?? (await startSession())
    await transport.handleRequest(req, res, bodyOf(req))
    // Only `initialize` starts a session; what else came without one was answered 400.
    if (transport.sessionId === undefined) await transport.close()
  }

  const close = closeLater(() =>
    Promise.all([...sessions.values()].map(({ server }) => server.close()))
  )
  return Object.assign(handler, { log, sessions, close })
}

/** A fresh server and transport for every request, closed when the response closes. POST only. */
export function sdkV1Stateless(options: SdkV1Options = {}): SdkV1Endpoint {
  const log = options.log ?? new ToolLog()
  const open = new Set<McpServer>()
  const handler = async (req: IncomingMessage, res: ServerResponse) => {
    if (req.method !== 'POST') return refuse(res, 405, -32000, 'Method not allowed.')
    const server = createServer(log, options)
    const transport = new StreamableHTTPServerTransport({ ...transportOptions(options) })
    open.add(server)
    res.on('close', () => {
      open.delete(server)
      void transport.close()
      void server.close()
    })
    await server.connect(transport as Parameters<McpServer['connect']>[0])
    await transport.handleRequest(req, res, bodyOf(req))
  }
  const close = closeLater(() => Promise.all([...open].map(server => server.close())))
  return Object.assign(handler, { log, sessions: new Map<string, SdkV1Session>(), close })
}

/** The server alone, for a transport of the spec's own. */
export function createServer(log: ToolLog, options: SdkV1Options): McpServer {
  const server = new McpServer(
    { name: 'sdk-v1', version: '1.0.0' },
    { capabilities: { logging: {} } }
  )
  for (const { name, schema, run } of createTools({ log, onContext: options.onContext })) {
    server.registerTool(name, { description: name, inputSchema: schema }, async (args, extra) => ({
      content: [{ type: 'text', text: await run(args, toolContext(server, extra)) }]
    }))
  }
  return server
}

function toolContext(server: McpServer, extra: Extra): ToolContext {
  return {
    signal: extra.signal,
    progressToken: extra._meta?.progressToken,
    notify: (method, params) => extra.sendNotification({ method, params } as ServerNotification),
    elicit: message =>
      server.server.elicitInput(
        {
          message,
          requestedSchema: { type: 'object', properties: { answer: { type: 'string' } } }
        },
        { relatedRequestId: extra.requestId }
      ),
    context: extra
  }
}

function transportOptions({ enableJsonResponse, eventStore, transport }: SdkV1Options) {
  return {
    ...transport,
    ...(enableJsonResponse !== undefined && { enableJsonResponse }),
    ...(eventStore && { eventStore })
  }
}

const bodyOf = (req: IncomingMessage) => (req as { body?: unknown }).body

function refuse(res: ServerResponse, status: number, code: number, message: string): void {
  res.writeHead(status, { 'Content-Type': 'application/json' })
  res.end(JSON.stringify({ jsonrpc: '2.0', error: { code, message }, id: null }))
}
