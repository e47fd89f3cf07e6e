// Which POSTs of a client are calls that may become tasks, and what is said in them on the client's
// behalf.
import { isObject, isRequest, objectIn, paramsOf, type RequestId } from '../../protocol/json-rpc.js'
import { FIRST_STATELESS_REVISION } from '../../protocol/revisions.js'
import {
  CLIENT_CAPABILITIES,
  envelopeIn,
  metaOf,
  PROTOCOL_VERSION
} from '../../protocol/envelope.js'
import { TASKS_EXTENSION } from '../../protocol/tasks.js'
import { memberTexts, withMembers } from '../../protocol/json-splice.js'

/** A call of a tool, at a revision that has the extension. */
export interface ToolCall {
  readonly id: RequestId
  /** As JSON, with the extension declared. */
  readonly text: string
  /** What each request of the revision says of itself, for those about the task. */
  readonly envelope: Readonly<Record<string, unknown>>
  /** Set where its client comes again for its task. */
  readonly again: ComingAgain | undefined
  /** What its client wants progress reported with. */
  readonly progressToken: unknown
  /** How often it has come already. */
  readonly rounds: number
  /** The progress that it was told last: the next must be more. */
  progress: number
  /** Names who looks on, if anybody does. */
  readonly watch: unknown
}

export interface ComingAgain {
  readonly taskId: string
  /** How often it has come already. */
  readonly rounds: number
  /** What it was told last. */
  readonly progress: number
  /** Its answers to the task's questions, as JSON. */
  readonly inputResponses: string | undefined
}

/** Names who looks on at a call: in `_meta`, as far as the fetch that knows what it means. */
export const WATCH = 'express-mcp-streams/task'

/** The call in the body of a POST; `undefined`: it is something else. */
export function toolCallIn(body: unknown): ToolCall | undefined {
  if (typeof body !== 'string' || !body.includes('"tools/call"')) return undefined
  let message: unknown
  try {
    message = JSON.parse(body)
  } catch {
    return undefined
  }
  if (!isObject(message) || !isRequest(message) || message.method !== 'tools/call') return undefined
  const params = paramsOf(message)
  const { progressToken, [WATCH]: watch, ...meta } = metaOf(params)
  const revision = meta[PROTOCOL_VERSION]
  if (typeof revision !== 'string' || revision < FIRST_STATELESS_REVISION) return undefined
  const envelope = envelopeIn({ ...meta, [CLIENT_CAPABILITIES]: declaring(meta) })
  const again = comingAgain(body, params)
  return {
    rounds: 0,
    progress: 0,
    ...again,
    id: message.id,
    text: declared(body, JSON.stringify(envelope[CLIENT_CAPABILITIES])),
    envelope,
    again,
    progressToken,
    watch
  }
}

/** The state that makes a client come again for its task. */
export function stateFor({ rounds, progress }: ToolCall, taskId: string): string {
  return STATE + JSON.stringify({ taskId, rounds: rounds + 1, progress })
}

const STATE = 'express-mcp-streams:task:'

function comingAgain(body: string, params: Record<string, unknown>): ComingAgain | undefined {
  const state = String(params['requestState'])
  if (!state.startsWith(STATE)) return undefined
  const inputResponses = memberTexts(paramsIn(body)).get('inputResponses')
  return { ...(JSON.parse(state.slice(STATE.length)) as ComingAgain), inputResponses }
}

/** As JSON. A call whose revision is known has them, and `_meta` in them. */
function paramsIn(body: string): string {
  return memberTexts(body).get('params') as string
}

function declaring(meta: Record<string, unknown>): Record<string, unknown> {
  const given = objectIn(meta[CLIENT_CAPABILITIES])
  return { ...given, extensions: { [TASKS_EXTENSION]: {}, ...objectIn(given['extensions']) } }
}

/** Nothing else changes: numbers that JavaScript cannot hold stay what they were. */
function declared(body: string, capabilities: string): string {
  const params = paramsIn(body)
  const meta = withMembers(memberTexts(params).get('_meta') as string, {
    [WATCH]: undefined,
    [CLIENT_CAPABILITIES]: capabilities
  })
  return withMembers(body, { params: withMembers(params, { _meta: meta }) })
}
