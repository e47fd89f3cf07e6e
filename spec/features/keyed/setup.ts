// A hand-written endpoint behind the middleware, and clients that send a call under an
// `Idempotency-Key`, and perhaps leave.

import type { Server } from 'node:http'
import type { McpStreams, McpStreamsOptions } from '../../../lib/index.js'
import {
  rawEndpoint,
  type RawCall,
  type RawEndpoint,
  type RawScript
} from '../../helpers/endpoints/raw.js'
import { callTool, headersFor, post } from '../../helpers/mcp.js'
import { open, requestText } from '../hardening/wire.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'

export const KEY = 'a-key-that-nobody-guesses'
export const CALL = callTool(1, 'any')

export const keyed = (more: Record<string, string> = {}): Record<string, string> => ({
  ...headersFor({ version: '2025-11-25', prefer: 'rel=stream' }),
  'idempotency-key': KEY,
  ...more
})

export interface Mounted {
  url: string
  server: Server
  streams: McpStreams
  calls: RawEndpoint['calls']
  /** Sends the call and waits for its whole answer. */
  send(headers?: Record<string, string>, body?: unknown): Promise<OpenStream>
  /**
   * Sends the call, and leaves once the endpoint has it. Resolves with the endpoint's side of it.
   */
  sendAndLeave(headers?: Record<string, string>, body?: unknown): Promise<RawCall>
}

export async function mount(script: RawScript, options: McpStreamsOptions = {}): Promise<Mounted> {
  const endpoint = rawEndpoint(script)
  const { url, streams, server } = await serve(endpoint, {
    retry: 5,
    resumeInterval: { min: 0 },
    ...options
  })
  const { calls } = endpoint
  return {
    url,
    server,
    streams,
    calls,
    async send(headers = {}, body = CALL) {
      const answer = await post(url, body, keyed(headers))
      await answer.ended
      return answer
    },
    async sendAndLeave(headers = {}, body = CALL) {
      const before = calls.length
      const wire = open(Number(new URL(url).port))
      wire.socket.write(
        requestText({ method: 'POST', path: '/mcp', headers: keyed(headers) }, body)
      )
      const call = await calls.nth(before + 1)
      const gone = new Promise<void>(resolve =>
        call.req.socket.once('close', () => setImmediate(resolve))
      )
      await wire.leave()
      await gone
      return call
    }
  }
}

export const answerJson = ({ res }: RawCall, value: unknown, status = 200): void => {
  res.writeHead(status, { 'Content-Type': 'application/json' })
  res.end(JSON.stringify(value))
}
