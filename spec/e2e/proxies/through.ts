// A client, a wire that can be cut, a reverse proxy, another such wire, and the endpoint; and calls
// by the official clients.

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import express, { type RequestHandler } from 'express'
import { mcpStreams, type McpStreams, type McpStreamsOptions } from '../../../lib/index.js'
import type { Setup } from '../../features/client/setups.js'
import type { ConnectedV1, ConnectedV2 } from '../../helpers/clients.js'
import { createCutProxy, type CutProxy, type Passage } from '../../helpers/cut-proxy.js'
import { Awaitable } from '../../helpers/gate.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { PREFIX, type Change, type StartProxy } from './configurations.js'
import type { Daemon } from './daemon.js'

export type Endpoint = ReturnType<Setup['endpoint']>

export interface Through {
  /** Of the endpoint, as clients see it. */
  url: string
  /** The wire between client and proxy. */
  front: CutProxy
  /** The wire between proxy and endpoint. */
  back: CutProxy
  daemon: Daemon
  streams: McpStreams
  endpoint: Endpoint
}

/** Closed by `closeAll`. */
export async function through(
  startProxy: StartProxy,
  endpoint: Endpoint,
  options: McpStreamsOptions | ((url: string) => McpStreamsOptions) = {},
  changes: readonly Change[] = []
): Promise<Through> {
  const app = express()
  const { port } = await listen(app)
  const back = await createCutProxy({ target: port })
  const daemon = await startProxy(back.port, changes)
  const front = await createCutProxy({ target: daemon.port })
  const url = `${front.url}${PREFIX}/mcp`
  const own = typeof options === 'function' ? options(url) : options
  const streams = mcpStreams({ retry: 20, resumeInterval: { min: 0 }, ...own })
  closeLater(() => streams.close({ drain: 0 }))
  app.use('/mcp', streams).all('/mcp', endpoint as RequestHandler)
  return { url, front, back, daemon, streams, endpoint }
}

export interface Call {
  /** What it has reported so far. */
  steps: Awaitable<number>
  /** The text of its result. */
  result: Promise<string>
}

/** Calls a tool, and listens to its progress. */
export function call(
  { client }: ConnectedV1 | ConnectedV2,
  key: string,
  args: object,
  tool = 'count'
): Call {
  const steps = new Awaitable<number>()
  const options = {
    onprogress: ({ progress }: { progress: number }) => void steps.push(progress),
    timeout: 500_000
  }
  const params = { name: tool, arguments: { key, ...args } }
  const answered =
    client instanceof Client
      ? client.callTool(params, undefined, options)
      : client.callTool(params, options)
  const result = answered.then(({ content }) => (content as { text: string }[])[0]!.text)
  // A spec that fails before it waits for the result is enough of a failure.
  result.catch(() => {})
  return { steps, result }
}

/** The requests that have come back for a stream, on its URL or as stock clients do. */
export const resumptions = ({ passages }: CutProxy): Passage[] =>
  passages.filter(
    ({ method, url, headers }) =>
      method === 'GET' && (url.includes('stream=') || 'last-event-id' in headers)
  )
