// The same endpoints on the official SDK, version 2: stateful for the 2025 revisions, and the
// handler of 2026-07-28.

import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node'
import {
  createMcpHandler,
  inputRequired,
  inputResponse,
  McpServer,
  type CallToolResult,
  type CreateMcpHandlerOptions,
  type EventStore,
  type InputRequiredResult,
  type ServerContext,
  type WebStandardStreamableHTTPServerTransportOptions
} from '@modelcontextprotocol/server'
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { closeLater } from '../close-all.js'
import { ToolLog } from './tool-log.js'
import { createTools, type ToolContext, type ToolOptions } from './tools.js'

export { ToolLog } from './tool-log.js'
export { countMessage } from './tools.js'

interface Shared {
  /** Shared with another endpoint, say; default: one of its own. */
  log?: ToolLog
  onContext?: ToolOptions['onContext']
}

export interface SdkV2StatefulOptions extends Shared {
  enableJsonResponse?: boolean
  eventStore?: EventStore
  /** Anything else that the transport takes, such as `retryInterval` or `keepAliveMs`. */
  transport?: Partial<WebStandardStreamableHTTPServerTransportOptions>
}

export interface SdkV2HandlerOptions extends Shared, CreateMcpHandlerOptions {}

export interface SdkV2Session {
  server: McpServer
  transport: NodeStreamableHTTPServerTransport
}

export interface SdkV2Endpoint {
  /**
   * For `app.all('/mcp', …)`, `app.use('/mcp', …)`, Connect and `http.createServer`; takes
   * `req.body` where it is set.
   */
  (req: IncomingMessage, res: ServerResponse): Promise<void>
  log: ToolLog
  /** By session id; stays empty in the handler of 2026-07-28. */
  sessions: Map<string, SdkV2Session>
  /** Ends all that is open. Done by `closeAll` too. */
  close(): Promise<void>
}

/** `NodeStreamableHTTPServerTransport`, one per session: the 2025 revisions. */
export function sdkV2Stateful(options: SdkV2StatefulOptions = {}): SdkV2Endpoint {
  const log = options.log ?? new ToolLog()
  const sessions = new Map<string, SdkV2Session>()

  const startSession = async () => {
    const server = createServer(log, options.onContext, 'legacy')
    const transport = new NodeStreamableHTTPServerTransport({
      ...options.transport,
      ...(options.enableJsonResponse !== undefined && {
        enableJsonResponse: options.enableJsonResponse
      }),
      ...(options.eventStore && { eventStore: options.eventStore }),
      sessionIdGenerator: randomUUID,
      onsessioninitialized: id => void sessions.set(id, { server, transport })
    })
    transport.onclose = () => sessions.delete(transport.sessionId ?? '')
    await server.connect(transport)
    return transport
  }

  const handler = async (req: IncomingMessage, res: ServerResponse) => {
    const id = req.headers['mcp-session-id']
    const session = typeof id === 'string' ? sessions.get(id) : undefined
    if (id !== undefined && !session) {
      res.writeHead(404, { 'Content-Type': 'application/json' })
      res.end('{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}')
      return
    }
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

/**
 * `createMcpHandler` behind `toNodeHandler`: 2026-07-28, and the 2025 revisions without sessions
 * unless `legacy` is 'reject'. Takes all options of `createMcpHandler`; without `responseMode:
 * 'sse'` a tool that sends no notification before its result is answered in JSON.
 */
export function sdkV2Handler({
  log = new ToolLog(),
  onContext,
  ...options
}: SdkV2HandlerOptions = {}): SdkV2Endpoint {
  const mcp = createMcpHandler(({ era }) => createServer(log, onContext, era), options)
  const node = toNodeHandler(mcp)
  const handler = (req: IncomingMessage, res: ServerResponse) =>
    node(req as Parameters<typeof node>[0], res as Parameters<typeof node>[1], bodyOf(req))
  return Object.assign(handler, {
    log,
    sessions: new Map<string, SdkV2Session>(),
    close: closeLater(() => mcp.close())
  })
}

/** The server alone, for a transport of the spec's own. */
export function createServer(
  log: ToolLog,
  onContext: ToolOptions['onContext'],
  era: 'legacy' | 'modern'
): McpServer {
  const server = new McpServer(
    { name: 'sdk-v2', version: '1.0.0' },
    { capabilities: { logging: {} } }
  )
  for (const { name, schema, run } of createTools({ log, onContext })) {
    server.registerTool(
      name,
      { description: name, inputSchema: schema },
      async (args, ctx): Promise<CallToolResult | InputRequiredResult> => {
        try {
          return { content: [{ type: 'text', text: await run(args, toolContext(ctx, era)) }] }
        } catch (error) {
          if (error instanceof InputNeeded) return error.result
          throw error
        }
      }
    )
  }
  return server
}

const requestedSchema = {
  type: 'object' as const,
  properties: { answer: { type: 'string' as const } }
}

/** 2026-07-28 asks by returning: the tool is left by this, and runs again with the answer. */
class InputNeeded extends Error {
  readonly result: InputRequiredResult

  constructor(message: string) {
    super('input needed')
    this.result = inputRequired({
      inputRequests: { answer: inputRequired.elicit({ message, requestedSchema }) }
    })
  }
}

function toolContext(ctx: ServerContext, era: 'legacy' | 'modern'): ToolContext {
  const { mcpReq } = ctx
  return {
    signal: mcpReq.signal,
    progressToken: mcpReq._meta?.progressToken,
    notify: (method, params) =>
      mcpReq.notify({ method, params: params as Record<string, unknown> }),
    elicit: async message => {
      if (era === 'legacy') return mcpReq.elicitInput({ message, requestedSchema })
      const answer = inputResponse(mcpReq.inputResponses, 'answer')
      if (answer.kind !== 'elicit') throw new InputNeeded(message)
      return answer
    },
    context: ctx
  }
}

const bodyOf = (req: IncomingMessage) => (req as { body?: unknown }).body
