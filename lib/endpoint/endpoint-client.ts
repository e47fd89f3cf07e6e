// Re-enters the endpoint with a message, as the client would have sent it: through the
// application's guards, with its credentials.
import { type IncomingMessage, request, Server, type ServerResponse } from 'node:http'
import { Server as TlsServer } from 'node:tls'
import { Timer } from '../streams/timer.js'
import { withoutStream } from '../protocol/link-header.js'
import { isObject, type Message } from '../protocol/json-rpc.js'
import { FIRST_STATELESS_REVISION, parseRevision } from '../protocol/revisions.js'
import { memoryConnection } from './loopback.js'
import { nameIn } from '../protocol/standard-headers.js'
import { claim } from './reply.js'
import { passedOn } from './response-headers.js'

/** Headers that speak of the request that came, or of its connection, and not of who sent it. */
const OF_THIS_REQUEST =
  /^(?:accept|accept-encoding|connection|content-.*|expect|idempotency-key|if-.*|keep-alive|last-event-id|mcp-(?:method|name)|prefer|range|te|trailer|transfer-encoding|upgrade)$/i

export interface InjectOptions {
  /**
   * The message in JSON, where its bytes are to stay what they were. Default: what JavaScript makes
   * of it.
   */
  readonly text?: string | undefined
  /** The session that the message belongs to, where the request may come without it. */
  readonly sessionId?: string | undefined
  /**
   * Headers that the endpoint is to have besides, names and values in turn, in place of those of
   * the request by the same names.
   */
  readonly headers?: readonly string[] | undefined
  /** What the URL calls a stream by, besides names of ours: the endpoint does not get it. */
  readonly name?: string | undefined
  /** Gives up on the endpoint's answer. */
  readonly signal?: AbortSignal | undefined
  /** Milliseconds for which the head of the endpoint's answer is awaited. Default: for ever. */
  readonly patience?: number | undefined
}

/**
 * Sends a message to the endpoint with the headers of `req`, and resolves with the head of what it
 * answers; the body is the caller's to read or to destroy. It comes to the server that `req` came
 * to like any other request, over a connection in memory, so everything in front of the endpoint
 * has its say. Rejects where there is no answer.
 */
export async function sendToEndpoint(
  req: IncomingMessage,
  message: unknown,
  { text, sessionId, headers = [], name, signal, patience }: InjectOptions = {}
): Promise<IncomingMessage> {
  const body = Buffer.from(text ?? JSON.stringify(message))
  const owner = serverOf(req)
  return new Promise((resolve, reject) => {
    const { client, server } = memoryConnection(req.socket, message)
    const injected = request({
      createConnection: () => client,
      method: 'POST',
      path: withoutStream((req as { originalUrl?: string }).originalUrl ?? req.url ?? '/', name),
      headers: [...headersFor(req, message, body, sessionId, headers), ...headers],
      signal
    })
    const timer = new Timer(() => injected.destroy(new Error('The endpoint does not answer')))
    if (patience !== undefined) timer.start(patience)
    for (const event of ['response', 'close']) injected.once(event, () => timer.stop())
    injected.once('response', resolve)
    injected.once('error', reject)
    // Also where it answers in another protocol: 101 is no response to Node.
    injected.once('close', () => reject(new Error('The endpoint has closed the connection')))
    injected.end(body)
    owner.emit(owner instanceof TlsServer ? 'secureConnection' : 'connection', server)
  })
}

/** Passes an answer of the endpoint on to a client, as it is. */
export function relayAnswer(answer: IncomingMessage, res: ServerResponse): void {
  if (!claim(res)) return void answer.destroy()
  // It may have broken off while it waited to be relayed.
  if (answer.destroyed) return void res.destroy()
  res.statusCode = answer.statusCode ?? 502
  for (const [name, value] of passedOn(answer.headersDistinct)) res.setHeader(name, value)
  answer.once('error', () => res.destroy())
  // Also where somebody in front ends it: what is piped on then fails.
  for (const event of ['close', 'error']) res.once(event, () => answer.destroy())
  answer.pipe(res)
}

/**
 * The server that a request came to. What is tested without one, or runs in somebody else's, still
 * has its application.
 */
function serverOf(req: IncomingMessage): Server {
  const { server } = req.socket as { server?: Server }
  const { app } = req as { app?: (req: IncomingMessage, res: ServerResponse) => void }
  if (server !== undefined && server !== null) return server
  if (typeof app === 'function') return new Server(app)
  throw new Error(
    'The endpoint cannot be reached: the request did not come through a server of Node'
  )
}

/** A flat list, as they were sent: what is repeated stays so. */
function headersFor(
  req: IncomingMessage,
  message: unknown,
  body: Buffer,
  sessionId: string | undefined,
  others: readonly string[]
): readonly string[] {
  const headers: string[] = []
  const given = new Set(others.filter((_, i) => i % 2 === 0).map(name => name.toLowerCase()))
  for (let i = 0; i + 1 < req.rawHeaders.length; i += 2) {
    const name = req.rawHeaders[i] as string
    if (!OF_THIS_REQUEST.test(name) && !given.has(name.toLowerCase()))
      headers.push(name, req.rawHeaders[i + 1] as string)
  }
  headers.push('Accept', 'application/json, text/event-stream', 'Content-Type', 'application/json')
  headers.push('Content-Length', String(body.length), 'Connection', 'close')
  // HTTP/1.0 knows requests without.
  if (req.headers.host === undefined) headers.push('Host', '')
  if (sessionId !== undefined && req.headers['mcp-session-id'] === undefined)
    headers.push('Mcp-Session-Id', sessionId)
  // From 2026-07-28 on a request says in its head what stands in its body.
  if (isObject(message) && typeof message['method'] === 'string' && namesMethods(req))
    headers.push('Mcp-Method', message['method'], ...nameHeader(message))
  return headers
}

function namesMethods({ method, headers }: IncomingMessage): boolean {
  if (method === 'POST') return headers['mcp-method'] !== undefined
  const revision = parseRevision(headers['mcp-protocol-version']?.toString())
  return revision !== undefined && revision >= FIRST_STATELESS_REVISION
}

/** [2026-07-28, Streamable HTTP] `Mcp-Name`; in base64 where it could not stand in a head. */
function nameHeader(message: Message): string[] {
  const name = nameIn(message)
  if (name === undefined) return []
  const isPlain =
    /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(name) && !name.startsWith('=?base64?')
  return ['Mcp-Name', isPlain ? name : `=?base64?${Buffer.from(name).toString('base64')}?=`]
}
