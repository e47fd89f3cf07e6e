// The official SDK's stateful endpoint with tools that ask their client, as its documentation
// writes them.

import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { sdkV1Stateful, type SdkV1Endpoint } from '../../helpers/endpoints/sdk-v1.js'
import { callTool, result } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'

export const CAPABILITIES = { elicitation: {}, sampling: {}, roots: {} }

const FORM = { type: 'object' as const, properties: { name: { type: 'string' as const } } }

type Server = McpServer['server']
type Options = { relatedRequestId: string | number }
type Run = (server: Server, options: Options) => Promise<unknown>

const elicit = async (server: Server, message: string, options: Options): Promise<unknown> => {
  const { action, content } = await server.elicitInput({ message, requestedSchema: FORM }, options)
  return content?.['name'] ?? action
}

const sample = async (server: Server, options: Options): Promise<unknown> => {
  const messages = [{ role: 'user' as const, content: { type: 'text' as const, text: 'A haiku' } }]
  return (await server.createMessage({ messages, maxTokens: 10 }, options)).model
}

const roots = async (server: Server, options: Options): Promise<unknown> =>
  (await server.listRoots(undefined, options)).roots.length

const RUNS = {
  once: (server, options) => elicit(server, 'first', options),
  'three turns': async (server, options) => [
    await elicit(server, 'first', options),
    await sample(server, options),
    await roots(server, options)
  ],
  'all at once': (server, options) =>
    Promise.all([
      elicit(server, 'first', options),
      sample(server, options),
      roots(server, options)
    ]),
  'at once, twice': async (server, options) => [
    await Promise.all([elicit(server, 'first', options), elicit(server, 'second', options)]),
    await Promise.all([elicit(server, 'third', options), roots(server, options)])
  ]
} satisfies Record<string, Run>

export type RunName = keyof typeof RUNS

/** What each run comes to, with the answers below. */
export const OUTCOMES: Record<RunName, unknown> = {
  once: 'first',
  'three turns': ['first', 'a-model', 2],
  'all at once': ['first', 'a-model', 2],
  'at once, twice': [
    ['first', 'second'],
    ['third', 2]
  ]
}

/** How often a client that follows SEP-1335 hands answers over in each. */
export const TURNS: Record<RunName, number> = {
  once: 1,
  'three turns': 3,
  'all at once': 1,
  'at once, twice': 2
}

/** How many requests each sends. */
export const QUESTIONS: Record<RunName, number> = {
  once: 1,
  'three turns': 3,
  'all at once': 3,
  'at once, twice': 4
}

/** The `context` tool runs one of the above. */
export function sdkThatAsks(): SdkV1Endpoint {
  const endpoint: SdkV1Endpoint = sdkV1Stateful({
    onContext: ({ run }, context) => {
      const { sessionId, requestId } = context as { sessionId: string; requestId: string | number }
      const { server } = endpoint.sessions.get(sessionId)!.server
      return RUNS[run as RunName](server, { relatedRequestId: requestId })
    }
  })
  return endpoint
}

export const callRun = (id: string | number, run: RunName): Json =>
  callTool(id, 'context', { args: { run } })

/** What a tool has returned, from its result or its response. */
export const outcomeOf = ({ content }: Json): unknown => JSON.parse(content[0].text)

/** What a client says to each kind of request, by its method and its parameters. */
export const REPLIES: Record<string, (params: Json) => Json> = {
  ping: () => ({}),
  'elicitation/create': ({ message }) => ({ action: 'accept', content: { name: message } }),
  'sampling/createMessage': () => ({
    model: 'a-model',
    role: 'assistant',
    content: { type: 'text', text: 'haiku' }
  }),
  'roots/list': () => ({ roots: [{ uri: 'file:///a' }, { uri: 'file:///b' }] })
}

export const reply = ({ id, method, params }: Json): Json => result(id, REPLIES[method]!(params))
