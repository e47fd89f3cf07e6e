// A hand-written endpoint that asks its client: the spec's tool decides what, and each answer that
// reaches it is noted.

import { Awaitable } from '../../helpers/gate.js'
import { rawEndpoint, type RawCall, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { headersFor, request, result, type RequestId } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'

/**
 * Sends a request to the client on the call's stream; resolves with the answer that the endpoint
 * has taken.
 */
export type Ask = (id: RequestId, text?: string) => Promise<Json>
export type Tool = (call: RawCall, ask: Ask) => unknown

export interface AskingOptions {
  session?: string
  /**
   * May answer the POST of an answer: only what is 202 in the end is taken. 'broken': nothing more
   * is written.
   */
  onAnswer?: (call: RawCall) => unknown
}

export interface AskingEndpoint extends RawEndpoint {
  /** Every answer that has reached the endpoint, in order. */
  answers: Awaitable<RawCall>
  /** Of the tool's runs. */
  runs: Awaitable<RawCall>
}

export const elicitation = (id: RequestId, text = 'Who are you?') =>
  request(id, 'elicitation/create', {
    message: text,
    requestedSchema: { type: 'object', properties: {} }
  })

export function askingEndpoint(
  tool: Tool,
  { session, onAnswer }: AskingOptions = {}
): AskingEndpoint {
  const answers = new Awaitable<RawCall>()
  const runs = new Awaitable<RawCall>()
  const asked = new Map<RequestId, (answer: Json) => void>()
  const endpoint = rawEndpoint(async call => {
    const { message, res } = call
    if (message?.method === 'tools/call') {
      runs.push(call)
      const ask: Ask = (id, text) =>
        new Promise(resolve => {
          asked.set(id, resolve)
          call.emit(elicitation(id, text))
        })
      await tool(call, ask)
      return
    }
    if (message?.method === 'initialize') return void initialized(call, session)
    if (message === undefined) return void res.writeHead(405).end()
    if (message.method !== undefined) return void res.writeHead(202).end()
    answers.push(call)
    if ((await onAnswer?.(call)) === 'broken') return
    if (!res.headersSent && !res.destroyed) res.writeHead(202).end()
    if (res.statusCode === 202) asked.get(message.id)?.(message)
  })
  return Object.assign(endpoint, { answers, runs })
}

function initialized({ message, res }: RawCall, session: string | undefined): void {
  if (session !== undefined) res.setHeader('Mcp-Session-Id', session)
  const { protocolVersion } = message.params
  const value = {
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'asking', version: '1.0.0' }
  }
  res
    .writeHead(200, { 'Content-Type': 'application/json' })
    .end(JSON.stringify(result(message.id, value)))
}

/** What a client that follows links sends with everything. */
export const ANNOUNCED = headersFor({ version: '2025-11-25', prefer: 'rel=stream' })
/** One that says nothing of itself. */
export const UNANNOUNCED = headersFor({ version: '2025-11-25' })

/** Handed off at once, and no long wait before a client comes back. */
export const QUICK = { retry: 1, resumeInterval: { min: 0 } } as const

/** An answer of a human's. */
export const yes = (id: RequestId, name = 'Ada') =>
  result(id, { action: 'accept', content: { name } })
