// A long call over raw HTTP, with resume tokens: an endpoint whose script the spec holds, and its
// client's requests.

import type { McpStreamsOptions } from '../../../lib/index.js'
import {
  rawEndpoint,
  type RawCall,
  type RawEndpoint,
  type RawEndpointOptions
} from '../../helpers/endpoints/raw.js'
import {
  callTool,
  headersFor,
  post,
  result as resultOf,
  type HeaderOptions,
  type RequestId
} from '../../helpers/mcp.js'
import type { Json, OpenStream } from '../../helpers/open-stream.js'
import { serve, type Served } from '../../helpers/serve.js'

export interface Setup extends Served {
  endpoint: RawEndpoint
}

/** Soon enough for a spec that waits for it, and late enough for an answer that comes at once. */
export const SOON = 40

export async function serveTokens(
  options: McpStreamsOptions = {},
  endpointOptions: RawEndpointOptions = { stateless: true }
): Promise<Setup> {
  const endpoint = rawEndpoint(() => undefined, endpointOptions)
  const { resumeTokens } = options
  const served = await serve(endpoint, {
    ...options,
    resumeTokens: resumeTokens === false ? false : { after: SOON, ...resumeTokens }
  })
  return { ...served, endpoint }
}

/** What the endpoint answers in JSON. */
export function answerJson({ res, message }: RawCall, value: unknown): void {
  res.writeHead(200, { 'Content-Type': 'application/json' })
  res.end(JSON.stringify(resultOf(message.id, value)))
}

export const TEXT = { content: [{ type: 'text', text: 'the report' }] }

/** `tools/call` of `report`, with something in its `_meta`. */
export function report(
  id: RequestId,
  meta?: object,
  args: object = { year: 2025, parts: { b: 1, a: [2] } }
): Json {
  const message: Json = callTool(id, 'report', args)
  if (meta !== undefined) message.params._meta = meta
  return message
}

/**
 * Sends a request, and reads its whole answer as JSON: the last message, where it is an event
 * stream.
 */
export async function ask(
  url: string,
  message: unknown,
  headers: HeaderOptions = {}
): Promise<Json> {
  return answerOf(await post(url, message, headersFor({ version: '2025-11-25', ...headers })))
}

export async function answerOf(response: OpenStream): Promise<Json> {
  await response.ended
  const isStream = String(response.headers['content-type']).startsWith('text/event-stream')
  return isStream ? response.messages().at(-1) : JSON.parse(response.text)
}

/** The token of an answer in the meantime. */
export function tokenOf(answer: Json): string {
  const token = answer.result?._meta?.nextResumeToken
  if (typeof token !== 'string') throw new Error(`no token in ${JSON.stringify(answer)}`)
  return token
}
