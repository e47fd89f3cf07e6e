// Endpoints on the official SDKs that have resources and know nothing of streams.

import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node'
import * as v2 from '@modelcontextprotocol/server'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { closeLater, type Handler } from '../../helpers/listen.js'
import { testBytes } from './setup.js'

export const URI = 'test:///f%C3%BCr/picture.png'
export const BYTES = testBytes(200_000)

const contents = (uri: URL) => ({
  contents: [{ uri: uri.href, mimeType: 'image/png', blob: BYTES.toString('base64') }]
})
const bodyOf = (req: IncomingMessage) => (req as { body?: unknown }).body

interface Transport {
  handleRequest(req: unknown, res: unknown, body: unknown): Promise<void>
}

/** Of both SDKs, one server and transport per session. */
function stateful(
  start: (onSession: (id: string, transport: Transport) => void) => Promise<Transport>
): Handler {
  const sessions = new Map<string, Transport>()
  return async (req, res) => {
    const id = req.headers['mcp-session-id']
    const known = typeof id === 'string' ? sessions.get(id) : undefined
    if (id !== undefined && known === undefined) return void res.writeHead(404).end()
    const transport = known ?? (await start((session, started) => sessions.set(session, started)))
    await transport.handleRequest(req, res, bodyOf(req))
  }
}

/** SDK v1, with sessions; answers in JSON or as event streams. */
export const resourcesV1 = (enableJsonResponse: boolean): Handler =>
  stateful(async onSession => {
    const server = new McpServer({ name: 'v1', version: '1.0.0' })
    server.registerResource('picture', URI, { mimeType: 'image/png' }, async uri => contents(uri))
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      enableJsonResponse,
      sessionIdGenerator: randomUUID,
      onsessioninitialized: id => onSession(id, transport as Transport)
    })
    closeLater(() => server.close())
    await server.connect(transport as Parameters<McpServer['connect']>[0])
    return transport as Transport
  })

function serverV2(): v2.McpServer {
  const server = new v2.McpServer({ name: 'v2', version: '1.0.0' })
  server.registerResource('picture', URI, { mimeType: 'image/png' }, async uri => contents(uri))
  return server
}

/** SDK v2 at the revisions of 2025, with sessions. */
export const resourcesV2 = (enableJsonResponse: boolean): Handler =>
  stateful(async onSession => {
    const server = serverV2()
    const transport: NodeStreamableHTTPServerTransport = new NodeStreamableHTTPServerTransport({
      enableJsonResponse,
      sessionIdGenerator: randomUUID,
      onsessioninitialized: id => onSession(id, transport as Transport)
    })
    closeLater(() => server.close())
    await server.connect(transport)
    return transport as Transport
  })

/** SDK v2 at 2026-07-28, without sessions. */
export function resourcesModern(): Handler {
  const mcp = v2.createMcpHandler(serverV2)
  const node = toNodeHandler(mcp)
  closeLater(() => mcp.close())
  return (req, res) =>
    node(req as Parameters<typeof node>[0], res as Parameters<typeof node>[1], bodyOf(req))
}
