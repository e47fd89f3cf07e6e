// A server that speaks `resources/stream` on the wire, answer by answer as a spec writes them down;
// and readers of what comes of it.

import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import {
  streamResource,
  type ResourceStream,
  type StreamResourceOptions
} from '../../../lib/client/index.js'
import { Awaitable } from '../../helpers/gate.js'
import { listen } from '../../helpers/listen.js'

/** A request, with its body read. */
export interface Asked {
  method: string
  /** Path and query. */
  url: string
  headers: IncomingHttpHeaders
  /** The JSON-RPC message of a POST. */
  message:
    | { id: string; method: string; params: { uri: string; _meta: Record<string, unknown> } }
    | undefined
  req: IncomingMessage
  /** Resolves when its connection is gone, or its response complete. */
  closed: Promise<void>
}

export type Answer = (res: ServerResponse, asked: Asked) => unknown

export interface ResourceServer {
  origin: string
  /** Of the endpoint. */
  url: string
  requests: Awaitable<Asked>
}

/** Each request is given the next answer; one too many is answered 418. Closed by `closeAll`. */
export async function server(...answers: Answer[]): Promise<ResourceServer> {
  const requests = new Awaitable<Asked>()
  const { url: origin } = await listen(async (req, res) => {
    const answer = answers.shift()
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk as Buffer)
    const closed = new Promise<void>(resolve => res.once('close', resolve))
    const { method = '', url = '', headers } = req
    const message = chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()) : undefined
    const asked = { method, url, headers, message, req, closed }
    requests.push(asked)
    if (answer === undefined) res.writeHead(418).end('one request too many')
    else await answer(res, asked)
  })
  return { origin, url: `${origin}/mcp`, requests }
}

export const RESOURCE = 'file:///report.pdf'

/** Bytes that differ at every place where a splice could go wrong. */
export function bytesOf(size: number): Buffer {
  const bytes = Buffer.alloc(size)
  for (let i = 0; i < size; i++) bytes[i] = (i * 31 + (i >> 8) * 7) & 255
  return bytes
}

export const sha256 = (bytes: Uint8Array): string =>
  createHash('sha256').update(bytes).digest('hex')

export const HEAD = { 'Content-Type': 'application/pdf', 'MCP-Resource-Uri': RESOURCE }
export const TAG = { ETag: '"v1"' }

/** The whole of it, in one answer. */
export const direct =
  (bytes: Uint8Array, headers: Record<string, string | number> = {}): Answer =>
  res =>
    res.writeHead(200, { ...HEAD, 'Content-Length': bytes.length, ...headers }).end(bytes)

/**
 * Sends these bytes, and ends the connection behind them, in the middle of the body. An RST could
 * lose them on the way.
 */
export function breakOff(res: ServerResponse, bytes: Uint8Array): void {
  res.flushHeaders()
  if (bytes.length > 0) res.write(bytes, () => res.socket?.end())
  else res.socket?.end()
}

/** So many bytes of what the request asks for. */
export const broken =
  (bytes: Uint8Array, after: number, headers: Record<string, string | number> = {}): Answer =>
  (res, { headers: asked }) => {
    const { start, status, range } = rangeIn(asked, bytes.length)
    res.writeHead(status, {
      ...HEAD,
      ...TAG,
      ...range,
      'Content-Length': bytes.length - start,
      ...headers
    })
    breakOff(res, bytes.subarray(start, start + after))
  }

/** What the request asks for. */
export const ranged =
  (bytes: Uint8Array, headers: Record<string, string | number> = {}): Answer =>
  (res, { headers: asked }) => {
    const { start, status, range } = rangeIn(asked, bytes.length)
    const rest = bytes.subarray(start)
    res
      .writeHead(status, { ...HEAD, ...TAG, ...range, 'Content-Length': rest.length, ...headers })
      .end(rest)
  }

function rangeIn(headers: IncomingHttpHeaders, size: number) {
  const [, first] = /^bytes=(\d+)-$/.exec(headers.range ?? '') ?? []
  if (first === undefined) return { start: 0, status: 200, range: {} }
  const start = Number(first)
  return { start, status: 206, range: { 'Content-Range': `bytes ${start}-${size - 1}/${size}` } }
}

/** A JSON-RPC answer to the request. */
const answering =
  (part: object, status = 200): Answer =>
  (res, { message }) => {
    res.writeHead(status, { 'Content-Type': 'application/json' })
    res.end(JSON.stringify({ jsonrpc: '2.0', id: message?.id, ...part }))
  }

export const rpcError = (code: number, message = 'no', data?: unknown, status = 200): Answer =>
  answering({ error: { code, message, ...(data !== undefined && { data }) } }, status)

export const download = (downloadUrl: unknown, more: object = {}): Answer =>
  answering({ result: { uri: RESOURCE, mimeType: 'application/pdf', downloadUrl, ...more } })

export const redirect =
  (location: string, status = 302): Answer =>
  res =>
    res.writeHead(status, { Location: location, 'MCP-Resource-Uri': RESOURCE }).end()

export const status =
  (code: number, headers: Record<string, string> = {}): Answer =>
  res =>
    res.writeHead(code, headers).end()

/** Without pauses worth mentioning. */
export const FAST: StreamResourceOptions = { minTimeout: 1, maxTimeout: 20, idleTimeout: 20_000 }

export const stream = (url: string, options: StreamResourceOptions = {}): Promise<ResourceStream> =>
  streamResource(url, RESOURCE, { ...FAST, ...options })

/** Everything that a stream gave, and what it broke with. */
export async function drain({
  stream
}: ResourceStream): Promise<{ bytes: Buffer; error: unknown }> {
  const chunks: Uint8Array[] = []
  try {
    for await (const chunk of stream) chunks.push(chunk)
    return { bytes: Buffer.concat(chunks), error: undefined }
  } catch (error) {
    return { bytes: Buffer.concat(chunks), error }
  }
}

/** The same, from the request on: what it came to. */
export async function outcome(url: string, options: StreamResourceOptions = {}): Promise<unknown> {
  try {
    const { error } = await drain(await stream(url, options))
    return error
  } catch (error) {
    return error
  }
}
