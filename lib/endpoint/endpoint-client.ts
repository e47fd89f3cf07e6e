// Sends messages to the endpoint as its client would: with its credentials, through all guards.
import { type ClientRequest, type IncomingMessage, request, type Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { nanoid } from 'nanoid'
import { faultMessage } from '../protocol/errors.js'
import { isObject, type Message } from '../protocol/json-rpc.js'
import { withoutStream } from '../protocol/link-header.js'
import { EVENT_STREAM, JSON_TYPE } from '../protocol/media-types.js'
import { Timer } from '../streams/timer.js'
import { type EndpointAnswer, readAnswer } from './endpoint-answer.js'
import { memoryConnection } from '../http/loopback.js'
import { headerOf, headersWhere } from '../access/guards.js'
import { replaceHeader } from '../http/request-body.js'
import { isStateless, parseRevision } from '../protocol/revisions.js'
import { nameIn } from '../protocol/standard-headers.js'

/** What the endpoint says: an answer, or a refusing status, which the caller is to pass on. */
export type Reply =
  | { readonly kind: 'answer'; readonly message: Message | undefined }
  | { readonly kind: 'refusal'; readonly response: IncomingMessage }

export interface Question extends Pick<
  InjectOptions,
  'sessionId' | 'revision' | 'path' | 'headers' | 'note'
> {
  readonly method: string
  readonly params?: Record<string, unknown> | undefined
  readonly signal: AbortSignal
  /** Bytes that the answer may have. */
  readonly limit: number
}

export function isAccepted({ statusCode = 0 }: Pick<IncomingMessage, 'statusCode'>): boolean {
  return statusCode >= 200 && statusCode < 300
}

interface InjectOptions {
  /** The session that the message belongs to, where the request may come without it. */
  readonly sessionId?: string | undefined
  /** The revision that its client speaks, where the request may come without it. */
  readonly revision?: string | undefined
  /** Names and values in turn, which replace those of the request by the same names. */
  readonly headers?: readonly string[] | undefined
  /** The message in JSON, if its bytes are to stay as they were. Default: by `JSON.stringify`. */
  readonly text?: string | undefined
  /** The URL to send it to. Default: that of the request, without its stream names. */
  readonly path?: string | undefined
  /** A further name of a stream in the URL, such as a key, that the endpoint does not get. */
  readonly name?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** Default: GET without a message, else POST. */
  readonly method?: string | undefined
  /** Milliseconds for which the head of the endpoint's answer is awaited. Default: for ever. */
  readonly patience?: number | undefined
  /** What the middleware is to know of it: `noteOf` tells it. */
  readonly note?: object | undefined
  /** It is the request of `req` once more: its head stays, but for what frames its body. */
  readonly isSentAgain?: boolean
}

/**
 * Sends a message with the headers of `req` to its server, over a connection in memory; if it is
 * `undefined`, a request without a body. The caller must read or destroy the body of the answer.
 * Rejects if there is none.
 */
export async function sendToEndpoint(
  req: IncomingMessage,
  message: unknown,
  options: InjectOptions
): Promise<IncomingMessage> {
  const { name, path = urlOf(req, name), signal, patience, text } = options
  const body = message === undefined ? undefined : Buffer.from(text ?? JSON.stringify(message))
  const owner = serverOf(req)
  const { client, server } = memoryConnection(req.socket, message, options.note)
  const injected = request({
    createConnection: () => client,
    method: options.method ?? (body === undefined ? 'GET' : 'POST'),
    path,
    headers: headersFor(req, message, body?.length, options),
    signal
  })
  const answered = answerTo(injected, patience)
  injected.end(body)
  connect(owner, server)
  return answered
}

/** Its listeners live as long as the exchange, so they are made where no message is in scope. */
function answerTo(injected: ClientRequest, patience: number | undefined): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const timer = new Timer(() => injected.destroy(new Error('The endpoint does not answer')))
    if (patience !== undefined) timer.start(patience)
    for (const event of ['response', 'close']) injected.once(event, () => timer.stop())
    injected.once('response', resolve)
    injected.once('error', reject)
    // Also after 101, which Node does not report as a response.
    injected.once('close', () => reject(new Error('The endpoint has closed the connection')))
  })
}

/** Reads the answer, JSON or an event stream. Rejects if there is none, or the signal aborts. */
export async function askEndpoint(
  req: IncomingMessage,
  { method, params, limit, ...options }: Question
): Promise<Reply> {
  const { signal } = options
  signal.throwIfAborted()
  // An id of ours: no request of the client has it, and none of the server's.
  const id = `mcp-streams-${nanoid()}`
  const message = { jsonrpc: '2.0', id, method, ...(params !== undefined && { params }) }
  const response = await sendToEndpoint(req, message, options)
  if (!isAccepted(response)) return { kind: 'refusal', response }
  return { kind: 'answer', message: await messageIn(response, id, limit) }
}

/** `undefined`: the endpoint has accepted our request, and says nothing more. */
function messageIn(
  response: IncomingMessage,
  id: string,
  limit: number
): Promise<Message | undefined> {
  return new Promise((resolve, reject) => {
    const answered = (answer: EndpointAnswer): void => {
      // The rest is read to its end, as the endpoint expects, but not for long.
      if (answer.kind !== 'fault') return resolve(answer.message)
      response.destroy()
      reject(new Error(faultMessage(answer.fault)))
    }
    readAnswer(response, id, { event: limit, body: limit }, { heard: () => undefined, answered })
  })
}

/** Milliseconds after which an endpoint is given up: the request holds what guards keep for it. */
const PATIENCE = 30_000

/** Writes a line for operators. */
export type DebugLog = (format: string, ...args: unknown[]) => void

/** Sends a message on the client's behalf and discards the response. `false`: not answered. */
export async function tellEndpoint(
  debug: DebugLog,
  req: IncomingMessage,
  message: object,
  options: InjectOptions
): Promise<boolean> {
  try {
    const answer = await sendToEndpoint(req, message, { patience: PATIENCE, ...options })
    answer.destroy()
    return true
  } catch (error) {
    debug('the endpoint did not take it: %o', error)
    return false
  }
}

/** Gives a server a connection, as if it had come over the network. */
export function connect(server: Server, socket: Duplex): void {
  // Other servers set this themselves; one of HTTP/2 that allows HTTP/1.1 expects it to be set.
  Object.assign(socket, { server })
  // Only servers of TLS listen for the first. To ask for their class by `import` would copy all of
  // Node's root certificates, 0.3 MB.
  if (!server.emit('secureConnection', socket)) server.emit('connection', socket)
}

function urlOf(req: IncomingMessage & { originalUrl?: string }, name: string | undefined): string {
  return withoutStream(req.originalUrl ?? req.url ?? '/', name)
}

export function serverOf(req: IncomingMessage): Server {
  const { server } = req.socket as { server?: Server | null }
  if (server !== undefined && server !== null) return server
  throw new Error(
    'The endpoint cannot be reached: the request did not come through a server of Node'
  )
}

/** Headers about the connection that the request has come over, and the form of its body. */
const OF_THIS_CONNECTION = new RegExp(
  '^(?:accept-encoding|connection|content-.*|expect|keep-alive|te|trailer|transfer-encoding|' +
    'upgrade)$',
  'i'
)

/** About the request itself, and not about its client. */
const OF_THIS_REQUEST = new RegExp(
  '^(?:accept|idempotency-key|if-.*|last-event-id|mcp-(?:method|name)|prefer|range|' +
    // What stands for another method than POST: a cancelled stream would end its session.
    'x-http-method(?:-override)?|x-method-override)$',
  'i'
)

const SENT = Symbol('express-mcp-streams.sent-session')

interface Shown extends IncomingMessage {
  /** The id of the session that its client has sent, if the endpoint has been shown another. */
  [SENT]?: string | undefined
}

/** Shows the endpoint another session id; what we send in the client's name has the client's. */
export function showSession(req: IncomingMessage, id: string | undefined): void {
  ;(req as Shown)[SENT] ??= headerOf(req, 'mcp-session-id')
  replaceHeader(req, 'mcp-session-id', id)
}

/** Repeated headers stay repeated. `length`: of the message; `undefined`: a GET. */
function headersFor(
  req: IncomingMessage,
  message: unknown,
  length: number | undefined,
  { sessionId, revision, headers: added = [], isSentAgain = false }: InjectOptions
): readonly string[] {
  const { [SENT]: sent } = req as Shown
  const others = sent === undefined ? added : ['Mcp-Session-Id', sent, ...added]
  const given = new Set(others.filter((_, i) => i % 2 === 0).map(name => name.toLowerCase()))
  const headers = headersWhere(
    req.rawHeaders,
    name =>
      !OF_THIS_CONNECTION.test(name) &&
      (isSentAgain || !OF_THIS_REQUEST.test(name)) &&
      !given.has(name.toLowerCase())
  )
  if (!isSentAgain)
    headers.push('Accept', length === undefined ? EVENT_STREAM : `${JSON_TYPE}, ${EVENT_STREAM}`)
  if (length !== undefined)
    headers.push('Content-Type', JSON_TYPE, 'Content-Length', String(length))
  headers.push('Connection', 'close')
  // HTTP/1.0 allows requests without `Host`.
  if (req.headers.host === undefined) headers.push('Host', '')
  if (sessionId !== undefined && req.headers['mcp-session-id'] === undefined)
    headers.push('Mcp-Session-Id', sessionId)
  if (revision !== undefined && req.headers['mcp-protocol-version'] === undefined)
    headers.push('MCP-Protocol-Version', revision)
  // From 2026-07-28 on a request says in its head what stands in its body.
  const isNew = !isSentAgain && isObject(message) && typeof message['method'] === 'string'
  if (isNew && namesMethods(req, revision))
    headers.push('Mcp-Method', message['method'] as string, ...nameHeader(message))
  return [...headers, ...others]
}

function namesMethods({ method, headers }: IncomingMessage, known: string | undefined): boolean {
  if (method === 'POST') return headers['mcp-method'] !== undefined
  return isStateless(parseRevision(headers['mcp-protocol-version']?.toString() ?? known))
}

/** [2026-07-28, Streamable HTTP] `Mcp-Name`; in base64 where it could not stand in a head. */
function nameHeader(message: Message): string[] {
  const name = nameIn(message)
  if (name === undefined) return []
  const isPlain =
    /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(name) && !name.startsWith('=?base64?')
  return ['Mcp-Name', isPlain ? name : `=?base64?${Buffer.from(name).toString('base64')}?=`]
}
