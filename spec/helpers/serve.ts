// An endpoint behind the middleware on an Express app, as the README mounts it; and the stream URL
// of a response.

import express, { type RequestHandler } from 'express'
import type { Server } from 'node:http'
import { mcpStreams, type McpStreams, type McpStreamsOptions } from '../../lib/index.js'
import { closeLater, listen, type Handler } from './listen.js'
import type { OpenStream } from './open-stream.js'
import type { RawEndpoint } from './endpoints/raw.js'

export interface Served {
  /** Of the endpoint: `http://127.0.0.1:<port>/mcp`. */
  url: string
  streams: McpStreams
  server: Server
}

/** Closed by `closeAll`; what a hand-written endpoint has left open is destroyed then. */
export async function serve(
  endpoint: Handler | RawEndpoint,
  options: McpStreamsOptions = {},
  inFront: RequestHandler[] = []
): Promise<Served> {
  const streams = mcpStreams(options)
  closeLater(async () => {
    await streams.close({ drain: 0 })
    if ('requests' in endpoint) for (const { res } of endpoint.requests) res.destroy()
  })
  const app = express()
    .use('/mcp', ...inFront, streams)
    .all('/mcp{/*path}', endpoint as RequestHandler)
  const { url, server } = await listen(app)
  return { url: `${url}/mcp`, streams, server }
}

const LINK = /<(?<target>\?[^>]*stream=(?<id>[\w-]{21})[^>]*)>; rel="stream"/

/**
 * Where a client goes on with a stream: the target of its link, resolved against the URL that it
 * has asked.
 */
export function streamUrl(response: OpenStream, url: string | URL): string {
  return new URL(linkOf(response).target, url).href
}

export function streamId(response: OpenStream): string {
  return linkOf(response).id
}

interface StreamLink {
  target: string
  id: string
}

export function linkIn({ headers }: OpenStream): StreamLink | undefined {
  return LINK.exec(String(headers.link))?.groups as StreamLink | undefined
}

function linkOf(response: OpenStream): StreamLink {
  const link = linkIn(response)
  if (!link) throw new Error(`no stream link in ${JSON.stringify(response.rawHeaders)}`)
  return link
}
