// Tasks over raw HTTP, at 2026-07-28: an endpoint without any, whose script the spec holds, and
// what its client sends.

import { tasks, type TasksOptions } from '../../../lib/features/tasks/index.js'
import { Awaitable } from '../../helpers/gate.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { request, result as resultOf, withEnvelope, type RequestId } from '../../helpers/mcp.js'
import { openStream, type Json, type OpenStream } from '../../helpers/open-stream.js'
import { serve, type Served } from '../../helpers/serve.js'

export const EXTENSION = 'io.modelcontextprotocol/tasks'
const DECLARED = { extensions: { [EXTENSION]: {} } }
export const RESULT = {
  content: [{ type: 'text', text: 'the report' }],
  resultType: 'complete'
}
const REVISION = '2026-07-28'

export interface Setup extends Served {
  /** Calls of tools that have reached the endpoint. */
  calls: Awaitable<RawCall>
}

/** Tasks at once, for whatever tool, unless the spec says otherwise. */
export async function serveTasks(options: TasksOptions = {}): Promise<Setup> {
  const calls = new Awaitable<RawCall>()
  const endpoint = rawEndpoint(call => {
    if (call.message?.method !== 'server/discover') return calls.push(call)
    return answer(call, { supportedVersions: [REVISION], capabilities: { tools: {} } })
  })
  return { ...(await serve(endpoint, { tasks: tasks({ after: 0, ...options }) })), calls }
}

/** What the endpoint answers in JSON. */
export function answer({ res, message }: RawCall, value: object = RESULT): void {
  res.writeHead(200, { 'Content-Type': 'application/json' })
  res.end(JSON.stringify(resultOf(message.id, value)))
}

export const inputRequired = (inputRequests?: object, requestState?: string): object => ({
  resultType: 'input_required',
  inputRequests,
  requestState
})

export const elicitation = (message: string): object => ({
  method: 'elicitation/create',
  params: { message, requestedSchema: { type: 'object', properties: {} } }
})

/** A request as a client sends it that declares the extension, or whatever `capabilities` say. */
export function requestOf(
  method: string,
  params: Record<string, unknown> = {},
  { id = 1, headers, capabilities = DECLARED }: SendOptions = {}
) {
  const name = params['taskId'] ?? params['name']
  const named = { 'mcp-method': method, 'mcp-name': typeof name === 'string' ? name : undefined }
  return {
    headers: { 'mcp-protocol-version': REVISION, ...named, ...headers },
    body: withEnvelope(request(id, method, params), capabilities)
  }
}

export const send = (url: string, ...asked: Parameters<typeof requestOf>): Promise<OpenStream> =>
  openStream(url, requestOf(...asked))

export interface SendOptions {
  id?: RequestId
  /** `undefined`: it is not sent. */
  headers?: Record<string, string | undefined>
  capabilities?: object
}

/** The same, and its whole answer: the last message, where it is an event stream. */
export async function ask(...args: Parameters<typeof send>): Promise<Json> {
  return answerOf(await send(...args))
}

export async function answerOf(response: OpenStream): Promise<Json> {
  await response.ended
  const isStream = String(response.headers['content-type']).startsWith('text/event-stream')
  return isStream ? response.messages().at(-1) : JSON.parse(response.text)
}

/** The id of the task that a call has become. */
export async function begin(url: string, name = 'report', options?: SendOptions): Promise<string> {
  const { result } = await ask(url, 'tools/call', { name, arguments: {} }, options)
  if (result?.resultType !== 'task') throw new Error(`no task: ${JSON.stringify(result)}`)
  return result.taskId
}

export const getTask = (url: string, taskId: unknown, options?: SendOptions): Promise<Json> =>
  ask(url, 'tasks/get', { taskId }, options)

/** Looks until the task is as it should be. */
export async function until(url: string, taskId: string, status: string): Promise<Json> {
  for (;;) {
    const { result } = await getTask(url, taskId)
    if (result?.status === status) return result
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}
