// A server whose answers a spec writes down, request by request; and calls to it by
// `resumableFetch` alone, without an SDK.

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { resumableFetch, type ResumableFetchOptions } from '../../../lib/client/index.js'
import { Awaitable } from '../../helpers/gate.js'
import { listen } from '../../helpers/listen.js'
import { callTool, result } from '../../helpers/mcp.js'

export interface Received {
  method: string
  /** Path and query. */
  url: string
  headers: IncomingHttpHeaders
  body: string
  /** Resolves when the connection of its response is gone, or the response complete. */
  closed: Promise<void>
}

export type ServerAnswer = (res: ServerResponse, req: IncomingMessage) => unknown

export interface Scripted {
  url: string
  requests: Awaitable<Received>
}

/** Each request is given the next answer; one too many is answered 500. Closed by `closeAll`. */
export async function scripted(...answers: ServerAnswer[]): Promise<Scripted> {
  const requests = new Awaitable<Received>()
  const { url } = await listen(async (req, res) => {
    const answer = answers.shift()
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk as Buffer)
    const closed = new Promise<void>(resolve => res.once('close', resolve))
    const { method = '', url = '', headers } = req
    requests.push({ method, url, headers, body: Buffer.concat(chunks).toString(), closed })
    if (answer === undefined) res.writeHead(500).end('one request too many')
    else await answer(res, req)
  })
  return { url: `${url}/mcp`, requests }
}

export const LINK = '<?stream=S>; rel="stream"'

/** An event stream with a link, left open. */
export const open =
  (text = '', headers: Record<string, string> = {}): ServerAnswer =>
  res => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream', Link: LINK, ...headers })
    res.write(text === '' ? ': open\n' : text)
  }

/** The same, ended. */
export const whole =
  (text: string, headers?: Record<string, string>): ServerAnswer =>
  (res, req) => {
    open(text, headers)(res, req)
    res.end()
  }

/** The same, and cut by an RST once the text has gone out. */
export const cut =
  (text: string, headers?: Record<string, string>): ServerAnswer =>
  async (res, req) => {
    open(text, headers)(res, req)
    await new Promise(resolve => setTimeout(resolve, 10))
    res.socket?.resetAndDestroy()
  }

export const status =
  (code: number, headers: Record<string, string> = {}, body = ''): ServerAnswer =>
  res =>
    res.writeHead(code, headers).end(body)

export const json =
  (value: unknown, headers: Record<string, string> = {}): ServerAnswer =>
  res => {
    res.writeHead(200, { 'Content-Type': 'application/json', ...headers })
    res.end(JSON.stringify(value))
  }

/** No answer at all: the connection is reset. */
export const reset: ServerAnswer = (_res, req) => void req.socket.resetAndDestroy()

/** What a server of ours says of itself. */
export const KNOWN = { 'Preference-Applied': 'rel=stream' }

export const block = (id: string, data: string): string => `id: ${id}\ndata: ${data}\n\n`
export const note = (id: string, n: number): string =>
  block(id, JSON.stringify({ jsonrpc: '2.0', method: 'n', params: n }))
export const response = (id: string): string => block(id, JSON.stringify(result(1, 'done')))

/** Without pauses worth mentioning. */
export const FAST: ResumableFetchOptions = { minTimeout: 1, maxTimeout: 20 }

export const POST = {
  method: 'POST',
  headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
  body: JSON.stringify(callTool(1, 'any'))
}
export const LISTEN = {
  method: 'GET',
  headers: { accept: 'text/event-stream', 'mcp-protocol-version': '2025-11-25' }
}

/** A call by `resumableFetch`. */
export const fetchOnce = (
  url: string,
  options: ResumableFetchOptions = {},
  init: RequestInit = POST
): Promise<Response> => resumableFetch({ ...FAST, ...options })(url, init)

/** A fetch to a server that has shown that it is one of ours. Takes one answer: `greeting`. */
export async function acquainted(
  url: string,
  options: ResumableFetchOptions = {}
): Promise<typeof fetch> {
  const fetch = resumableFetch({ ...FAST, ...options })
  await (await fetch(url, POST)).text()
  return fetch as typeof globalThis.fetch
}
export const greeting: ServerAnswer = json(result(1, 'hello'), KNOWN)

/** Everything that a body gave, and what it broke with. */
export async function readAll({ body }: Response): Promise<{ text: string; error: unknown }> {
  let text = ''
  const decoder = new TextDecoder()
  try {
    for await (const chunk of body as unknown as AsyncIterable<Uint8Array>)
      text += decoder.decode(chunk, { stream: true })
    return { text, error: undefined }
  } catch (error) {
    return { text, error }
  }
}
