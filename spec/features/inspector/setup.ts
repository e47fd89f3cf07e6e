// An endpoint, the middleware and its inspector on one app; and who looks.

import express, { type RequestHandler } from 'express'
import type { Server } from 'node:http'
import { mcpStreams, type McpStreams, type McpStreamsOptions } from '../../../lib/index.js'
import { inspector, type InspectorOptions } from '../../../lib/inspector/index.js'
import { rawEndpoint, type RawEndpoint, type RawScript } from '../../helpers/endpoints/raw.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { get } from '../../helpers/mcp.js'
import { openStream, type Json, type OpenStream } from '../../helpers/open-stream.js'

export interface Setup {
  options?: McpStreamsOptions
  inspecting?: InspectorOptions
  script?: RawScript
  /** In front of everything. */
  inFront?: RequestHandler
}

export interface Opened {
  url: string
  /** Of the page, with its slash. */
  page: string
  streams: McpStreams
  endpoint: RawEndpoint
  server: Server
}

export async function open(setup: Setup = {}): Promise<Opened> {
  const { options, inspecting, script = ({ open }) => open(), inFront } = setup
  const streams = mcpStreams(options)
  closeLater(() => streams.close({ drain: 0 }))
  const endpoint = rawEndpoint(script)
  closeLater(() => endpoint.requests.forEach(({ res }) => res.destroy()))
  const app = express()
  if (inFront !== undefined) app.use(inFront)
  app.use('/mcp-streams', inspector(streams, inspecting))
  app.use('/mcp', streams).all('/mcp', endpoint as RequestHandler)
  const { url, server } = await listen(app)
  return { url: `${url}/mcp`, page: `${url}/mcp-streams/`, streams, endpoint, server }
}

/** Someone who looks at the page, by its event stream. */
export class Viewer {
  readonly response: OpenStream

  private constructor(response: OpenStream) {
    this.response = response
  }

  static async open(page: string, headers: Record<string, string> = {}): Promise<Viewer> {
    return new Viewer(await get(`${page}events`, headers))
  }

  /** The next update. */
  async next(): Promise<Json> {
    return JSON.parse((await this.response.next()).data!)
  }

  /** The first update from now on of which that is so. */
  async until(isSo: (update: Json) => boolean): Promise<Json> {
    for (;;) {
      const update = await this.next()
      if (isSo(update)) return update
    }
  }

  leave(): void {
    this.response.destroy()
  }
}

export const cut = (page: string, name: string, headers: Record<string, string> = {}) =>
  openStream(`${page}cut?stream=${name}`, { method: 'POST', headers })
