// The endpoints that the middleware is mounted in front of, each with the same tools, and what a
// client of each must send.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { countMessage, sdkV1Stateful, sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler, sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { ToolLog } from '../../helpers/endpoints/tool-log.js'
import { headersFor, initializeSession, notification, withEnvelope } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'

export interface Endpoint {
  (req: IncomingMessage, res: ServerResponse): Promise<void>
  log: ToolLog
}

export interface EndpointKind {
  create(): Endpoint
  /** What its client sends with every request; a stateful one has a session first. */
  greet(url: string): Promise<Record<string, string>>
  /** What its client puts into the `_meta` of a message. */
  envelope<T extends { params?: object | undefined }>(message: T): T
}

const greet2025 = async (url: string) => (await initializeSession(url, '2025-11-25')).headers
const plain = <T>(message: T) => message

export const ENDPOINTS = {
  'SDK v1 stateful': { create: () => sdkV1Stateful(), greet: greet2025, envelope: plain },
  'SDK v1 stateless': { create: () => sdkV1Stateless(), greet: greet2025, envelope: plain },
  'SDK v2 NodeStreamableHTTPServerTransport': {
    create: () => sdkV2Stateful(),
    greet: greet2025,
    envelope: plain
  },
  'SDK v2 createMcpHandler': { create: () => sdkV2Handler(), greet: greet2025, envelope: plain },
  'SDK v2 createMcpHandler at 2026-07-28': {
    create: () => sdkV2Handler({ legacy: 'reject' }),
    greet: async () =>
      headersFor({
        version: '2026-07-28',
        prefer: 'rel=stream',
        message: { method: 'tools/call', params: { name: 'count' } }
      }),
    envelope: message => withEnvelope(message)
  },
  'a hand-written one': { create: handWritten, greet: greet2025, envelope: plain }
} satisfies Record<string, EndpointKind>

export type EndpointName = keyof typeof ENDPOINTS

/** The tool `count` of the others, without an SDK. */
function handWritten(): Endpoint {
  const log = new ToolLog()
  const endpoint = rawEndpoint(
    async call => {
      const { arguments: args, _meta } = call.message.params
      const { key = '', n, size = 0, paced = false }: Json = args
      const entry = { tool: 'count', key, signal: new AbortController().signal, context: undefined }
      await log.run(entry, async entry => {
        call.open()
        for (let i = 1; i <= n; i++) {
          if (paced) await log.permit(key)
          const params = {
            progressToken: _meta.progressToken,
            progress: i,
            total: n,
            message: countMessage(i, size)
          }
          call.emit(notification('notifications/progress', params))
          entry.sent++
        }
        if (paced) await log.permit(key)
        call.result({ content: [{ type: 'text', text: `counted to ${n}` }] })
      })
    },
    { session: 'hand-written' }
  )
  return Object.assign(endpoint, { log })
}
