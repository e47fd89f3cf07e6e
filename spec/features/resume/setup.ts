// An endpoint behind the middleware on Express, as the specs of this room mount it, and the words
// they share.

import express from 'express'
import type { OutgoingHttpHeaders } from 'node:http'
import { mcpStreams, type McpStreams, type McpStreamsOptions } from '../../../lib/index.js'
import { closeLater } from '../../helpers/close-all.js'
import type { RawCall, RawEndpoint } from '../../helpers/endpoints/raw.js'
import { rawEndpoint, type RawScript } from '../../helpers/endpoints/raw.js'
import { listen, type Handler } from '../../helpers/listen.js'
import { callTool, get, headersFor, notification, post } from '../../helpers/mcp.js'
import type { Block, Json, OpenStream } from '../../helpers/open-stream.js'

export interface Mounted {
  /** Of the endpoint. */
  url: string
  port: number
  streams: McpStreams
}

/**
 * The endpoint at `/mcp`, behind the middleware. All is closed by `closeAll`; what a raw endpoint
 * left open, is ended.
 */
export async function mount(
  endpoint: Handler | RawEndpoint,
  options: McpStreamsOptions = {}
): Promise<Mounted> {
  const streams = mcpStreams({ retry: 10, ...options })
  const app = express().use('/mcp', streams).all('/mcp', endpoint)
  const { url, port } = await listen(app)
  closeLater(() => {
    if ('calls' in endpoint) for (const { res } of endpoint.calls) res.end()
    return streams.close({ drain: 0 })
  })
  return { url: `${url}/mcp`, port, streams }
}

/** A raw endpoint without sessions, behind the middleware. */
export async function mountScript(
  script: RawScript,
  options?: McpStreamsOptions
): Promise<Mounted & { calls: CallStore }> {
  const endpoint = rawEndpoint(script, { stateless: true })
  return { ...(await mount(endpoint, options)), calls: endpoint.calls }
}

type CallStore = RawEndpoint['calls']

/** What a client at 2025-11-25 sends with everything. */
export const MODERN = headersFor({ version: '2025-11-25' })

/** The nth message of the calls in this room. */
export const note = (n: number, text = ''): object =>
  notification('notifications/message', { level: 'info', data: text === '' ? n : `${n} ${text}` })

/** Their numbers; a response counts as 'result' or 'error'. */
export const numbers = (messages: Json[]): (number | string)[] =>
  messages.map(({ params, error }) => {
    if (params === undefined) return error === undefined ? 'result' : 'error'
    return typeof params.data === 'number' ? params.data : Number.parseInt(params.data, 10)
  })

/** Writes messages `from` to `to`. */
export function emitNotes(call: RawCall, from: number, to: number): void {
  for (let n = from; n <= to; n++) call.emit(note(n))
}

/** 1 to n. */
export const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i + 1)

/** The POST of a call. */
export const call = (
  url: string,
  headers: Record<string, string> = {},
  id: string | number = 1
): Promise<OpenStream> => post(url, callTool(id, 'any'), { ...MODERN, ...headers })

/** The stream id in a `Link` header. */
export function streamIdOf({ headers }: { headers: OutgoingHttpHeaders }): string {
  const id = /<\?(?:[^>]*&)?stream=([A-Za-z0-9_-]{21})>; rel="stream"/.exec(
    String(headers['link'])
  )?.[1]
  if (id === undefined) throw new Error(`no stream link: ${String(headers['link'])}`)
  return id
}

/** The stream URL of a response, as its client resolves it. */
export const streamUrlOf = (url: string, response: OpenStream): string =>
  `${url}?stream=${streamIdOf(response)}`

/** Resumes by the stream URL. */
export const resume = (
  streamUrl: string,
  lastEventId?: string,
  headers: Record<string, string> = {}
): Promise<OpenStream> => get(streamUrl, { ...MODERN, ...headersFor({ lastEventId }), ...headers })

export const isMessageBlock = ({ data }: Block): boolean => data !== undefined && data !== ''
