// One misbehaving endpoint behind the middleware, and beside it a well-behaved stream of the same
// instance, which must not notice.

import { expect } from '@jest/globals'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { McpStreams, McpStreamsOptions } from '../../../lib/index.js'
import { type Gate, gate } from '../../helpers/gate.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { callTool, ended, get, headersFor, notification, post, result } from '../../helpers/mcp.js'
import type { Json, OpenStream } from '../../helpers/open-stream.js'
import { streamUrl } from '../../helpers/serve.js'
import {
  createStreams,
  type Middleware,
  type Mount,
  MOUNTS,
  type Next
} from '../mounting/frameworks.js'

export const SSE = 'text/event-stream'
export const SSE_TYPE = { 'Content-Type': SSE }
export const HEADERS = headersFor({ version: '2025-11-25' })

/** What the endpoint does. */
export type Behave = (res: ServerResponse, req: IncomingMessage, next: Next) => unknown

export const note = (data: unknown) =>
  notification('notifications/message', { level: 'info', data })
export const blockOf = (message: unknown) => `event: message\ndata: ${JSON.stringify(message)}\n\n`
export const NOTE = blockOf(note(1))
export const RESULT = blockOf(result(1, {}))

export interface Case {
  url: string
  port: number
  server: Server
  streams: McpStreams
  /** Calls the misbehaving endpoint; request id 1. */
  call(headers?: Record<string, string>): Promise<OpenStream>
  /** The stream of a response once more, from its start, by its URL. */
  again(response: OpenStream): Promise<OpenStream>
  /**
   * Resolves when the instance has this many connections; the well-behaved stream has one of them.
   */
  connections(n: number): Promise<void>
  /** Lets the well-behaved stream come to its end, and expects that it has. */
  expectNeighbourUnharmed(): Promise<void>
}

/** The mount of `node:http`, where nothing but Node is in the way. */
export const NODE: Mount = MOUNTS.find(([name]) => name === 'node:http')![1]

export async function serveCase(
  behave: Behave,
  options: McpStreamsOptions = {},
  mount: Mount = NODE
): Promise<Case> {
  const streams = createStreams(options)
  const go: Gate = gate()
  closeLater(() => go.open())
  const endpoint: Middleware = (req, res, next) => {
    if (req.headers['x-neighbour'] === undefined) return behave(res, req, next)
    res.writeHead(200, SSE_TYPE).write(NOTE)
    return go.opened.then(() => res.end(NOTE + RESULT))
  }
  const { url: origin, port, server } = await listen(mount([streams, endpoint]))
  const url = `${origin}/mcp`
  const neighbour = await post(url, callTool(1, 'any'), { ...HEADERS, 'x-neighbour': '1' })
  await neighbour.nextMessage()
  return {
    url,
    port,
    server,
    streams,
    call: headers => post(url, callTool(1, 'any'), { ...HEADERS, ...headers }),
    async again(response) {
      const again = await ended(get(streamUrl(response, url), HEADERS))
      return again
    },
    async connections(n) {
      while (streams.stats().connections !== n) await new Promise(resolve => setImmediate(resolve))
    },
    async expectNeighbourUnharmed() {
      expect(neighbour.ending).toBeUndefined()
      go.open()
      expect(await neighbour.ended).toBe('end')
      expect(neighbour.messages()).toEqual([note(1), note(1), result(1, {})])
    }
  }
}

/** The same behaviour without the middleware. */
export async function callBare(behave: Behave, mount: Mount = NODE): Promise<OpenStream> {
  const { url } = await listen(mount([(req, res, next) => behave(res, req, next)]))
  const response = await ended(post(`${url}/mcp`, callTool(1, 'any'), HEADERS))
  return response
}

export interface Dispatched {
  type: string
  data: string
}

/**
 * What an EventSource would dispatch, by the letter of the standard [WHATWG 9.2.6], save for our
 * primers.
 */
export function dispatched({ bytes }: { bytes: Buffer }): Dispatched[] {
  const events: Dispatched[] = []
  let fields: [name: string, value: string][] = []
  // The decoder drops a byte order mark; what stands behind the last line end is no line.
  for (const line of new TextDecoder()
    .decode(bytes)
    .split(/\r\n|\n|\r/)
    .slice(0, -1)) {
    if (line !== '') {
      const [, name = line, value = ''] = /^([^:]*): ?(.*)$/s.exec(line) ?? []
      fields.push([name, value])
      continue
    }
    const valuesOf = (name: string) =>
      fields.filter(([own]) => own === name).map(([, value]) => value)
    const data = valuesOf('data')
    const isPrimer = /\.\d+\.\d+$/.test(valuesOf('id').at(-1) ?? '')
    if (data.length > 0 && !isPrimer)
      events.push({ type: valuesOf('event').at(-1) || 'message', data: data.join('\n') })
    fields = []
  }
  return events
}

/** The error that takes the place of a missing response. */
export const errorFor = (id: string | number, reason = 'no-response'): Json => ({
  jsonrpc: '2.0',
  id,
  error: { code: -31000, message: expect.any(String), data: { reason } }
})
