// A client of the Streams draft by raw HTTP, and an endpoint that answers `ping`, as every MCP
// server does.

import type { McpStreamsOptions } from '../../../lib/index.js'
import {
  rawEndpoint,
  type RawCall,
  type RawEndpoint,
  type RawScript
} from '../../helpers/endpoints/raw.js'
import {
  callTool,
  headersFor,
  initializeSession,
  notification,
  post,
  request,
  result,
  type RequestId
} from '../../helpers/mcp.js'
import type { Json, OpenStream } from '../../helpers/open-stream.js'
import { serve, streamId, type Served } from '../../helpers/serve.js'
import type { Resume, Word } from '../../helpers/talk/client.js'

/** The capability of a client, and of a server, that speaks the draft. */
export const STREAMS = { experimental: { streams: {} } }

export const create = (id: string, resumeInterval: object) =>
  notification('notifications/stream/create', { stream: { streamId: id, resumeInterval } })

export const end = (id: string) => notification('notifications/stream/end', { streamId: id })

export const note = (n: number, size = 0) =>
  notification('notifications/message', { level: 'info', data: `${n} `.padEnd(size, 'x') })

/** A client comes back by the method of the draft; `id: null`: by a notification. */
export const resume =
  (after?: Resume['after'], { id = 'resume' }: { id?: RequestId | null } = {}): Word =>
  talk => {
    const params = { streamId: talk.stream, cursor: talk.cursorAt(after) }
    const method = 'stream/resume'
    return talk.send({
      body: id === null ? notification(method, params) : request(id, method, params)
    })
  }

/** What the draft says to whoever asks for a stream that is not there for him. */
export const UNKNOWN = {
  code: -32602,
  message: 'Stream not found',
  data: { reason: 'stream-unknown', detail: 'The stream ID is invalid (e.g., abandoned)' }
}

export interface DraftEndpoint extends RawEndpoint {
  /** Calls that are not `ping`: what `calls` would be without our asking. */
  own: RawCall[]
}

/** Runs `script` for everything but `ping`. */
export function draftEndpoint(
  script: RawScript,
  options: Parameters<typeof rawEndpoint>[1] = {}
): DraftEndpoint {
  const own: RawCall[] = []
  const endpoint = rawEndpoint(call => {
    if (call.message?.method === 'ping') return call.result()
    own.push(call)
    return script(call)
  }, options)
  return Object.assign(endpoint, { own })
}

export interface World extends Served {
  endpoint: DraftEndpoint
  /** What the client sends with each request. */
  headers: Record<string, string>
  /** A tool call. */
  call(id?: string | number): Promise<OpenStream>
  /** Sends a message of the draft. */
  ask(method: string, params?: object, more?: AskOptions): Promise<OpenStream>
  /** The same, and the JSON that it answers. */
  answer(method: string, params?: object, more?: AskOptions): Promise<Json>
}

export interface AskOptions {
  /** `null`: no id. Default: 'ask'. */
  id?: string | number | null
  headers?: Record<string, string | undefined>
}

export const INTERVAL = { min: 0.01, max: 600 }

/**
 * A session in which the client has declared the draft, in front of a script that is told to go on
 * by the spec.
 */
export async function world(
  script: RawScript = ({ emit }) => emit(note(1)),
  options: McpStreamsOptions = {},
  capabilities: object = STREAMS
): Promise<World> {
  const endpoint = draftEndpoint(script, { session: 'mine' })
  const served = await serve(endpoint, { retry: 10, ...options })
  const { headers } = await initializeSession(served.url, '2025-11-25', {}, capabilities)
  return { ...served, endpoint, ...client(served.url, headers) }
}

export function client(
  url: string,
  headers: Record<string, string>
): Pick<World, 'headers' | 'call' | 'ask' | 'answer'> {
  const ask = (method: string, params?: object, { id = 'ask', headers: more }: AskOptions = {}) => {
    const message = id === null ? notification(method, params) : request(id, method, params)
    const all = Object.entries({ ...headers, ...more }).filter(([, value]) => value !== undefined)
    return post(url, message, Object.fromEntries(all) as Record<string, string>)
  }
  return {
    headers,
    ask,
    call: (id = 'call') => post(url, callTool(id, 'any'), headers),
    answer: async (method, params, more) => (await ask(method, params, more)).json()
  }
}

/** Reads up to the nth message, and goes away; waits until the server has noticed. */
export async function cutAfter(
  n: number,
  response: OpenStream,
  { streams }: Pick<Served, 'streams'>
): Promise<string> {
  for (let i = 0; i < n; i++) await response.nextMessage()
  const { connections } = streams.stats()
  response.destroy()
  while (streams.stats().connections >= connections)
    await new Promise(resolve => setImmediate(resolve))
  return streamId(response)
}

export const finish = (endpoint: DraftEndpoint, n = 0): void =>
  endpoint.own[n]!.result({ content: [] })

export const toolResult = (id: string | number = 'call') => result(id, { content: [] })

export { headersFor, streamId }
