// The official SDKs as endpoints of a case: one server and transport for each request, as their
// documentation has them without sessions.

import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node'
import { Server as ServerV1 } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { CallToolRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { Server as ServerV2 } from '@modelcontextprotocol/server'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Json } from '../helpers/open-stream.js'

/** Plays a script: `say` sends a notification; what it returns is the result. */
export type SdkScript = (say: (message: Json) => Promise<void>) => Promise<Json>

const INFO = { name: 'fuzz', version: '1.0.0' }
const CAN = { capabilities: { tools: {}, logging: {} } }

/** Has a call answered by an SDK. `body`: what was parsed of the request already. */
export async function playOnSdk(
  sdk: 'sdk-v1' | 'sdk-v2',
  req: IncomingMessage,
  res: ServerResponse,
  body: Json,
  script: SdkScript
): Promise<void> {
  if (sdk === 'sdk-v1') {
    const server = new ServerV1(INFO, CAN)
    server.setRequestHandler(CallToolRequestSchema, (_request, { sendNotification }) =>
      script(message => sendNotification(message))
    )
    const transport = new StreamableHTTPServerTransport({})
    res.on('close', () => void server.close())
    await server.connect(transport as Parameters<ServerV1['connect']>[0])
    return transport.handleRequest(req, res, body)
  }
  const server = new ServerV2(INFO, CAN)
  server.setRequestHandler('tools/call', (_request, { mcpReq }) =>
    script(message => mcpReq.notify(message as Parameters<typeof mcpReq.notify>[0]))
  )
  const transport = new NodeStreamableHTTPServerTransport({})
  res.on('close', () => void server.close())
  await server.connect(transport)
  await transport.handleRequest(req, res, body)
}
