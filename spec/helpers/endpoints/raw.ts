// A hand-written SSE endpoint: the spec's script decides what is written, and when.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { Awaitable } from '../gate.js'
import { errorResponse, result as resultOf } from '../mcp.js'
import type { Json } from '../open-stream.js'

export { gate } from '../gate.js'

/** One request, as a script sees it. */
export interface RawCall {
  req: IncomingMessage
  res: ServerResponse
  /** The JSON of the body; undefined for GET and for a body that is no JSON. */
  message: Json
  /** The body as it came, when nobody in front has parsed it. */
  body: string | undefined
  /** Writes the head, 200 and text/event-stream, and flushes it. Implied by all that follow. */
  open(headers?: Record<string, string>): void
  /** Writes one event with this JSON as its data. Returns what `res.write` does. */
  emit(message: unknown): boolean
  /** Writes text as it is. */
  write(text: string | Buffer): boolean
  /** Answers the request with a result and ends the response. */
  result(value?: unknown): void
  /** Answers the request with an error and ends the response. */
  error(code: number, message: string): void
  /**
   * Resolves when `res` emits 'close': when the endpoint learns that nobody reads any more, or has
   * ended.
   */
  closed: Promise<void>
  /** Whether `closed` has resolved. */
  isClosed: boolean
}

export type RawScript = (call: RawCall) => unknown

export interface RawEndpointOptions {
  /**
   * Answers `initialize` (revision as asked for) with this session id, and notifications and
   * responses with 202.
   */
  session?: string
  /** Answers `initialize` without a session id, and notifications and responses with 202. */
  stateless?: boolean
  /** `initialize` is answered by SSE (default) or JSON. */
  initializeAs?: 'sse' | 'json'
}

export interface RawEndpoint {
  (req: IncomingMessage, res: ServerResponse): Promise<void>
  /** All requests that reached the script, in order. */
  calls: Awaitable<RawCall>
  /** All requests that reached the endpoint, with those it has answered itself. */
  requests: Awaitable<RawCall>
}

/**
 * Runs `script` for every request. An error it throws is thrown to the framework, as in any
 * handler.
 */
export function rawEndpoint(script: RawScript, options: RawEndpointOptions = {}): RawEndpoint {
  const calls = new Awaitable<RawCall>()
  const requests = new Awaitable<RawCall>()
  const handler = async (req: IncomingMessage, res: ServerResponse) => {
    const call = await readCall(req, res)
    requests.push(call)
    if (answersItself(call, options)) return
    calls.push(call)
    await script(call)
  }
  return Object.assign(handler, { calls, requests })
}

async function readCall(req: IncomingMessage, res: ServerResponse): Promise<RawCall> {
  let close!: () => void
  const closed = new Promise<void>(resolve => (close = resolve))
  let isClosed = false
  res.on('close', () => {
    isClosed = true
    close()
  })
  const parsed = (req as { body?: unknown }).body
  const body = parsed === undefined ? await readBody(req) : undefined
  const message: Json = body === undefined ? parsed : parse(body)
  const call: RawCall = {
    req,
    res,
    message: req.method === 'GET' ? undefined : message,
    body,
    closed,
    get isClosed() {
      return isClosed
    },
    open(headers = {}) {
      if (res.headersSent) return
      res.writeHead(200, {
        'Content-Type': 'text/event-stream',
        'Cache-Control': 'no-cache',
        ...headers
      })
      res.flushHeaders()
    },
    emit: value => call.write(`event: message\ndata: ${JSON.stringify(value)}\n\n`),
    write(text) {
      call.open()
      return res.write(text)
    },
    result(value = {}) {
      call.emit(resultOf(message.id, value))
      res.end()
    },
    error(code, text) {
      call.emit(errorResponse(message.id, code, text))
      res.end()
    }
  }
  return call
}

async function readBody(req: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of req) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

function parse(text: string): Json {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function answersItself(
  call: RawCall,
  { session, stateless, initializeAs }: RawEndpointOptions
): boolean {
  const { message, res } = call
  if ((session === undefined && !stateless) || message === undefined) return false
  if (message.id !== undefined && message.method !== 'initialize')
    return message.method === undefined && accept(res)
  if (message.method !== 'initialize') return accept(res)
  const value = {
    protocolVersion: message.params.protocolVersion,
    capabilities: { tools: {}, logging: {} },
    serverInfo: { name: 'raw', version: '1.0.0' }
  }
  if (session !== undefined) res.setHeader('Mcp-Session-Id', session)
  if (initializeAs === 'json') {
    res.setHeader('Content-Type', 'application/json')
    res.end(JSON.stringify(resultOf(message.id, value)))
  } else call.result(value)
  return true
}

function accept(res: ServerResponse): true {
  res.writeHead(202).end()
  return true
}
