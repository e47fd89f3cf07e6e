// Talks to a running MCP endpoint, as a legacy or as a modern client.
import { now } from '../protocol/clock.js'
import {
  CLIENT_CAPABILITIES,
  CLIENT_INFO,
  PROTOCOL_VERSION,
  withEnvelope
} from '../protocol/envelope.js'
import { isObject, type Message, paramsOf } from '../protocol/json-rpc.js'
import { findLink, STREAM_PARAMETER, STREAM_RELATION } from '../protocol/link-header.js'
import { FIRST_POLLING_REVISION, FIRST_STATELESS_REVISION } from '../protocol/revisions.js'
import { nameIn } from '../protocol/standard-headers.js'
import { STREAM_ERROR } from '../protocol/errors.js'
import { blocksOf, discard, isEventStream, startOf, textOf } from './body.js'
import { quoted, reasonOf, refusalOf, saidIn, Unusable } from './unusable.js'

/** How an endpoint has answered the first request that it understood. */
export interface Greeting {
  readonly revision: string
  readonly sessionId: string | undefined
  readonly head: Headers
}

const EVENT_STREAM = 'text/event-stream'

export class Endpoint {
  readonly url: URL
  readonly #headers: Headers
  readonly #patience: number
  readonly #deadline: number
  #greeting: Greeting | undefined
  #lastId = 0
  /** The last request, for error messages, and whether its response has begun. */
  #asked = ''
  #hasBegun = false

  /**
   * @param patience milliseconds from now on that all answers together may take, bodies included. A
   *   request with a signal of its own is not limited by it.
   */
  constructor(url: URL, headers: Headers, patience: number) {
    this.url = url
    this.#headers = headers
    this.#patience = patience
    this.#deadline = now() + patience
  }

  /**
   * Sends `initialize`, or `server/discover` if the endpoint does not know that.
   *
   * @throws {Unusable} if it answers neither.
   */
  async greet(): Promise<Greeting> {
    const initialize = await this.request('initialize', {
      protocolVersion: FIRST_POLLING_REVISION,
      capabilities: {},
      clientInfo: CLIENT
    })
    const hasCredentials = [...this.#headers.keys()].length > 0
    const { answer, said } = await heardIn(initialize)
    const refusal = refusalOf(initialize, this.url, hasCredentials)
    if (refusal !== undefined) throw new Unusable(refusal + said)
    const revision = resultIn(answer)?.['protocolVersion']
    if (typeof revision === 'string') {
      this.#greeting = greetingOf(revision, initialize)
      if (revision < FIRST_STATELESS_REVISION) await this.#initialized()
      return this.#greeting
    }
    const modern = await this.#discover(initialize)
    if (modern !== undefined) return modern
    throw new Unusable(
      `it answers ${initialize.status} to initialize${contentOf(initialize, answer)}: ` +
        `this is no MCP endpoint${answer === undefined ? said : ''}`
    )
  }

  /** After `greet()`: the modern revision, if it is spoken beside an older one, from now on. */
  async alsoSpeaks(): Promise<Greeting | undefined> {
    const greeting = this.#greeting
    if (greeting === undefined || greeting.revision >= FIRST_STATELESS_REVISION) return undefined
    const modern = await this.#discover(new Response())
    if (modern === undefined) this.#greeting = greeting
    return modern
  }

  /** From now on, requests are of that revision and session. */
  speaks(greeting: Greeting): void {
    this.#greeting = greeting
  }

  async #discover({ headers }: Response): Promise<Greeting | undefined> {
    const revision = FIRST_STATELESS_REVISION
    this.#greeting = { revision, sessionId: undefined, head: headers }
    const discover = await this.request('server/discover')
    if (resultIn(await answerIn(discover)) === undefined) return undefined
    return (this.#greeting = greetingOf(revision, discover))
  }

  request(
    method: string,
    params: Record<string, unknown> = {},
    headers: Record<string, string> = {},
    signal?: AbortSignal
  ): Promise<Response> {
    this.#asked = method
    const request = { id: ++this.#lastId, method, params }
    return this.#post(this.url, request, headers, signal)
  }

  /** Opens an event stream by GET: the listen channel, or a stream that is resumed. */
  get(url: URL, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Response> {
    this.#asked = 'a GET'
    return this.#fetch(url, { headers: { Accept: EVENT_STREAM, ...headers } }, signal)
  }

  async isBehindMiddleware(): Promise<boolean> {
    return (await this.#statusOfMiddleware()) !== undefined
  }

  async refusesPagesOf(origin: string): Promise<boolean> {
    return (await this.#statusOfMiddleware({ Origin: origin })) === 403
  }

  /**
   * The status of what only the middleware answers; `undefined`: it is not there. First what names
   * no stream, for which no other instance is asked; then what needs no body that is read ahead.
   */
  async #statusOfMiddleware(headers: Record<string, string> = {}): Promise<number | undefined> {
    const poll = await this.request('stream/poll', {}, headers)
    if (isOfMiddleware(await answerIn(poll))) return poll.status
    const response = await this.#postToNoStream(headers)
    return isOfMiddleware(await answerIn(response)) ? response.status : undefined
  }

  preflight(origin: string): Promise<Response> {
    this.#asked = 'OPTIONS'
    const headers = { Origin: origin, ...PREFLIGHT }
    return this.#fetch(this.url, { method: 'OPTIONS', headers })
  }

  /** The target of a response's stream link within its origin. */
  linkOf(response: Response): URL | undefined {
    const link = findLink(response.headers.get('link'), STREAM_RELATION, this.url.href)
    return link?.origin === this.url.origin ? link : undefined
  }

  /** Ends the session, if there is one: a check should leave nothing behind. */
  async endSession(): Promise<void> {
    if (this.#greeting?.sessionId === undefined) return
    try {
      const signal = AbortSignal.timeout(COURTESY)
      await discard(await this.#fetch(this.url, { method: 'DELETE' }, signal))
    } catch {
      // The findings do not depend on it.
    }
  }

  reasonOf(error: unknown): string {
    if (error instanceof Unusable) return error.message
    const { name } = error as Error
    if (name !== 'TimeoutError') return reasonOf(error, this.#asked)
    const within = `within ${this.#patience / 1000} s (--timeout)`
    return this.#hasBegun
      ? `its answer to ${this.#asked} began, and did not end ${within}`
      : `it did not answer ${this.#asked} ${within}`
  }

  async #initialized(): Promise<void> {
    const method = 'notifications/initialized'
    this.#asked = method
    await discard(await this.#post(this.url, { method }))
  }

  #postToNoStream(headers: Record<string, string>): Promise<Response> {
    this.#asked = 'a POST to a stream that there is not'
    const url = new URL(this.url)
    url.searchParams.set(STREAM_PARAMETER, NO_STREAM)
    return this.#post(url, { id: 0, result: {} }, headers)
  }

  #post(
    url: URL,
    message: Message,
    more: Record<string, string> = {},
    signal?: AbortSignal
  ): Promise<Response> {
    const { method } = message
    const isStateless =
      this.#greeting?.revision === FIRST_STATELESS_REVISION && typeof method === 'string'
    const headers: Record<string, string> = {
      Accept: `application/json, ${EVENT_STREAM}`,
      'Content-Type': 'application/json',
      ...more
    }
    if (isStateless) {
      headers['Mcp-Method'] = method
      const name = nameIn(message)
      if (name !== undefined) headers['Mcp-Name'] = name
    }
    const params = isStateless ? { params: withEnvelope(paramsOf(message), ENVELOPE) } : {}
    const body = JSON.stringify({ jsonrpc: '2.0', ...message, ...params })
    return this.#fetch(url, { method: 'POST', headers, body }, signal)
  }

  /** @param signal is used instead of the common deadline. */
  async #fetch(
    url: URL,
    init: RequestInit,
    signal = AbortSignal.timeout(Math.max(1, Math.ceil(this.#deadline - now())))
  ): Promise<Response> {
    const headers = new Headers(this.#headers)
    const { sessionId, revision } = this.#greeting ?? {}
    if (sessionId !== undefined) headers.set('Mcp-Session-Id', sessionId)
    if (revision !== undefined) headers.set('MCP-Protocol-Version', revision)
    if (revision === FIRST_STATELESS_REVISION) headers.set('Prefer', 'rel=stream')
    new Headers(init.headers).forEach((value, name) => headers.set(name, value))
    this.#hasBegun = false
    const response = await fetch(url, { ...init, headers, redirect: 'manual', signal })
    this.#hasBegun = true
    return response
  }
}

/** Milliseconds for the request that ends the session. */
const COURTESY = 1000
const CLIENT = { name: 'express-mcp-streams check', version: '1' }
/** [2026-07-28, Base Protocol] What every request says about its client. */
const ENVELOPE = {
  [PROTOCOL_VERSION]: FIRST_STATELESS_REVISION,
  [CLIENT_INFO]: CLIENT,
  [CLIENT_CAPABILITIES]: {}
}
/** A stream id in the right form that is never given out. */
const NO_STREAM = '-'.repeat(21)
const PREFLIGHT = {
  'Access-Control-Request-Method': 'POST',
  'Access-Control-Request-Headers':
    'content-type,idempotency-key,mcp-protocol-version,mcp-session-id,prefer'
}

function greetingOf(revision: string, { headers }: Response): Greeting {
  return { revision, sessionId: headers.get('mcp-session-id') ?? undefined, head: headers }
}

/** A JSON-RPC response. */
export type Answer = Record<string, unknown>

export async function answerIn(response: Response): Promise<Answer | undefined> {
  for await (const text of messagesOf(response)) {
    const message = parsed(text)
    if (isObject(message) && ('result' in message || 'error' in message)) return message
  }
  return undefined
}

/** A JSON-RPC response, and what else is said by an answer that is an error, to be appended. */
export async function heardIn(
  response: Response
): Promise<{ answer: Answer | undefined; said: string }> {
  if (response.ok) return { answer: await answerIn(response), said: '' }
  const text = await startOf(response)
  const message = parsed(text)
  const isError = response.status >= 400
  return {
    answer: isObject(message) ? message : undefined,
    said: isError ? saidIn(text, response) : ''
  }
}

/** The result of a JSON-RPC response; `undefined` if it has none. */
export function resultIn(answer: Answer | undefined): Record<string, unknown> | undefined {
  const result = answer?.['result']
  return isObject(result) ? result : undefined
}

/** Whether a JSON-RPC response is an error of the middleware's own. */
export function isOfMiddleware(answer: Answer | undefined): boolean {
  const error = answer?.['error']
  if (!isObject(error)) return false
  const { code, data } = error
  return code === STREAM_ERROR || (isObject(data) && data['reason'] === 'invalid-params')
}

function contentOf({ headers }: Response, answer: Answer | undefined): string {
  const error = answer?.['error']
  if (isObject(error)) return `, with the error "${quoted(String(error['message']))}"`
  const type = headers.get('content-type')
  return type === null ? '' : `, with ${quoted(type)}`
}

async function* messagesOf(response: Response): AsyncGenerator<string> {
  if (!isEventStream(response)) {
    yield await textOf(response)
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
