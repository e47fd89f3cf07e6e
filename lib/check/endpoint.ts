// Speaks to a running MCP endpoint, as a client of either kind of revision would.
import { findLink, STREAM_RELATION } from '../protocol/link-header.js'
import { FIRST_POLLING_REVISION, FIRST_STATELESS_REVISION } from '../protocol/revisions.js'
import { isObject } from '../protocol/json-rpc.js'
import { blocksOf } from './event-stream.js'

/** Why an endpoint cannot be checked, in words for who runs the check. */
export class Unusable extends Error {
  override readonly name = 'Unusable'
}

/** How an endpoint has answered the first request. */
export interface Greeting {
  /** The revision that it speaks. */
  readonly revision: string
  readonly sessionId: string | undefined
  /** What its answer's head says. */
  readonly head: Headers
  /** Whether it answers in event streams, and not in JSON. */
  readonly hasStreams: boolean
}

const EVENT_STREAM = 'text/event-stream'

export class Endpoint {
  readonly url: URL
  readonly #headers: Headers
  readonly #patience: number
  #greeting: Greeting | undefined
  #lastId = 0

  /**
   * @param patience milliseconds that a request without a signal of its own may take, body
   * included.
   */
  constructor(url: URL, headers: Headers, patience: number) {
    this.url = url
    this.#headers = headers
    this.#patience = patience
  }

  /** Begins to talk: by `initialize`, else, where that is not known, by `server/discover`. */
  async greet(): Promise<Greeting> {
    const initialize = await this.request('initialize', {
      protocolVersion: FIRST_POLLING_REVISION,
      capabilities: {},
      clientInfo: CLIENT
    })
    const refusal = this.#refusalOf(initialize)
    if (refusal !== undefined) {
      await discard(initialize)
      throw new Unusable(refusal)
    }
    const result = initialize.ok
      ? await resultOf(initialize)
      : (await discard(initialize), undefined)
    const revision = result?.['protocolVersion']
    if (typeof revision === 'string') {
      this.#greeting = greetingOf(revision, initialize)
      if (revision < FIRST_STATELESS_REVISION) await this.#initialized()
      return this.#greeting
    }
    return (this.#greeting = await this.#discover(initialize.status))
  }

  /** Sends a request as a POST. */
  request(
    method: string,
    params: Record<string, unknown> = {},
    headers: Record<string, string> = {}
  ): Promise<Response> {
    return this.#post({ jsonrpc: '2.0', id: ++this.#lastId, method, params }, headers)
  }

  /** Opens an event stream by GET: the listen channel, or a stream that is resumed. */
  get(url: URL, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Response> {
    return this.#fetch(url, { headers: { Accept: EVENT_STREAM, ...headers } }, signal)
  }

  /** The preflight request of a page. */
  preflight(origin: string): Promise<Response> {
    const headers = { Origin: origin, ...PREFLIGHT }
    return this.#fetch(this.url, { method: 'OPTIONS', headers })
  }

  /**
   * The target of a response's stream link; `undefined` where it has none, or one that leads
   * elsewhere.
   */
  linkOf(response: Response): URL | undefined {
    const link = findLink(response.headers.get('link'), STREAM_RELATION, this.url.href)
    return link?.origin === this.url.origin ? link : undefined
  }

  /** Ends the session, if there is one: a check should leave nothing behind. */
  async leave(): Promise<void> {
    if (this.#greeting?.sessionId === undefined) return
    try {
      await discard(
        await this.#fetch(this.url, { method: 'DELETE' }, AbortSignal.timeout(COURTESY))
      )
    } catch {
      // It was a courtesy.
    }
  }

  async #initialized(): Promise<void> {
    await discard(await this.#post({ jsonrpc: '2.0', method: 'notifications/initialized' }))
  }

  async #discover(status: number): Promise<Greeting> {
    this.#greeting = {
      revision: FIRST_STATELESS_REVISION,
      sessionId: undefined,
      head: new Headers(),
      hasStreams: false
    }
    const response = await this.request('server/discover')
    const result = response.ok ? await resultOf(response) : (await discard(response), undefined)
    if (result === undefined)
      throw new Unusable(`it answers ${status} to initialize: this is no MCP endpoint`)
    return greetingOf(FIRST_STATELESS_REVISION, response)
  }

  #post(message: Record<string, unknown>, more: Record<string, string> = {}): Promise<Response> {
    const isStateless =
      this.#greeting?.revision === FIRST_STATELESS_REVISION && typeof message['method'] === 'string'
    const headers: Record<string, string> = {
      Accept: `application/json, ${EVENT_STREAM}`,
      'Content-Type': 'application/json',
      ...more
    }
    if (isStateless) headers['Mcp-Method'] = String(message['method'])
    const body = isStateless ? { ...message, params: withMeta(message['params']) } : message
    return this.#fetch(this.url, { method: 'POST', headers, body: JSON.stringify(body) })
  }

  /** @param signal takes the place of our patience. */
  async #fetch(
    url: URL,
    init: RequestInit,
    signal = AbortSignal.timeout(this.#patience)
  ): Promise<Response> {
    const headers = new Headers(this.#headers)
    const { sessionId, revision } = this.#greeting ?? {}
    if (sessionId !== undefined) headers.set('Mcp-Session-Id', sessionId)
    if (revision !== undefined) headers.set('MCP-Protocol-Version', revision)
    if (revision === FIRST_STATELESS_REVISION) headers.set('Prefer', 'rel=stream')
    new Headers(init.headers).forEach((value, name) => headers.set(name, value))
    try {
      return await fetch(url, { ...init, headers, redirect: 'manual', signal })
    } catch (error) {
      throw new Unusable(reasonOf(error))
    }
  }

  /** Why nothing can be checked, if that is what the answer to the first request says. */
  #refusalOf(response: Response): string | undefined {
    const { status } = response
    if (status >= 300 && status < 400) {
      const location = response.headers.get('location') ?? 'nowhere'
      const { href } = this.url
      const target = URL.canParse(location, href) ? new URL(location, href).href : location
      return `it redirects (${status}) to ${target}: check that URL`
    }
    if (status === 401 || status === 403)
      return `it answers ${status}: it needs credentials (--header 'Authorization: Bearer …')`
    if (status === 404 || status === 405 || status >= 500)
      return `it answers ${status} to a POST: this is no MCP endpoint, or it is down`
    return undefined
  }
}

/** Milliseconds for a goodbye. */
const COURTESY = 2000
const CLIENT = { name: 'express-mcp-streams check', version: '1' }
const PREFLIGHT = {
  'Access-Control-Request-Method': 'POST',
  'Access-Control-Request-Headers':
    'content-type,idempotency-key,mcp-protocol-version,mcp-session-id,prefer'
}

function greetingOf(revision: string, { headers }: Response): Greeting {
  return {
    revision,
    sessionId: headers.get('mcp-session-id') ?? undefined,
    head: headers,
    hasStreams: headers.get('content-type')?.startsWith(EVENT_STREAM) === true
  }
}

/** [2026-07-28, Base Protocol] What every request says of its client. */
function withMeta(params: unknown): Record<string, unknown> {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': FIRST_STATELESS_REVISION,
    'io.modelcontextprotocol/clientInfo': CLIENT,
    'io.modelcontextprotocol/clientCapabilities': {}
  }
  return { ...(isObject(params) ? params : {}), _meta: meta }
}

/** The result in an answer, in whichever form it comes; `undefined` where there is none. */
async function resultOf(response: Response): Promise<Record<string, unknown> | undefined> {
  for await (const text of messagesOf(response)) {
    const message = parsed(text)
    if (isObject(message) && isObject(message['result'])) return message['result']
    if (isObject(message) && 'error' in message) return undefined
  }
  return undefined
}

async function* messagesOf(response: Response): AsyncGenerator<string> {
  if (response.headers.get('content-type')?.startsWith(EVENT_STREAM) !== true) {
    yield await response.text()
    return
  }
  for await (const { data, isMessage } of blocksOf(response))
    if (data !== undefined && isMessage) yield data
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Lets go of a body that nobody reads. */
export async function discard(response: Response): Promise<void> {
  await response.body?.cancel().catch(() => undefined)
}

/** What went wrong below HTTP, in words. */
export function reasonOf(error: unknown): string {
  const { name, cause, message } = error as Error & { cause?: { code?: string; message?: string } }
  if (name === 'TimeoutError' || name === 'AbortError') return 'it did not answer in time'
  const code = cause?.code ?? ''
  if (code === 'ECONNREFUSED') return 'nobody listens there'
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'its host name is not known'
  if (/CERT|SIGNED|ALTNAME|VERIFY/.test(code)) return `its certificate is not valid (${code})`
  return cause?.message ?? message
}
