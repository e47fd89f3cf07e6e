// Recognises the POSTs of calls that may become tasks, and declares the extension in them.
import { isObject, isRequest, objectIn, paramsOf, type RequestId } from '../../protocol/json-rpc.js'
import { FIRST_STATELESS_REVISION } from '../../protocol/revisions.js'
import {
  CLIENT_CAPABILITIES,
  envelopeIn,
  metaOf,
  PROTOCOL_VERSION
} from '../../protocol/envelope.js'
import { TASKS_EXTENSION } from '../../protocol/tasks.js'
import { memberTexts, withMembers, writtenMessages } from '../../protocol/json-splice.js'

export interface ToolCall {
  readonly id: RequestId
  /** As JSON, with the extension declared. */
  readonly text: string
  /** What `_meta` of every request must have at this revision, for the requests about the task. */
  readonly envelope: Readonly<Record<string, unknown>>
  /** Set if the client sends the call again for its task. */
  readonly again: ComingAgain | undefined
  readonly progressToken: unknown
  /** How often the client has sent it again. */
  readonly rounds: number
  /** The progress that was last reported: the next must be more. */
  progress: number
  readonly watch: unknown
}

interface ComingAgain {
  readonly taskId: string
  /** How often the client has sent it again. */
  readonly rounds: number
  readonly progress: number
  readonly inputResponses: string | undefined
}

/** The name of the call's watcher, in `_meta`. The fetch removes it before the call is sent. */
export const WATCH = 'express-mcp-streams/task'

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

export function stateFor({ rounds, progress }: ToolCall, taskId: string): string {
  return STATE + JSON.stringify({ taskId, rounds: rounds + 1, progress })
}

const STATE = 'express-mcp-streams:task:'

/** @throws {TypeError} for a state of ours that was changed on its way. */
function comingAgain(body: string, params: Record<string, unknown>): ComingAgain | undefined {
  const state = String(params['requestState'])
  if (!state.startsWith(STATE)) return undefined
  const { taskId, rounds, progress } = objectIn(
    writtenMessages(state.slice(STATE.length))[0]?.message
  )
  if (typeof taskId !== 'string')
    throw new TypeError(
      `resumableFetch: \`requestState\` names no task, so it was changed: ${state.slice(0, 200)}`
    )
  return {
    taskId,
    rounds: Number(rounds) || 0,
    progress: Number(progress) || 0,
    inputResponses: memberTexts(paramsIn(body)).get('inputResponses')
  }
}

/** The `params` as JSON. They exist, with `_meta`: the revision was read from there. */
function paramsIn(body: string): string {
  return memberTexts(body).get('params') as string
}

function declaring(meta: Record<string, unknown>): Record<string, unknown> {
  const given = objectIn(meta[CLIENT_CAPABILITIES])
  return { ...given, extensions: { [TASKS_EXTENSION]: {}, ...objectIn(given['extensions']) } }
}

/** Changes nothing else in the text: numbers that JavaScript cannot hold keep their digits. */
function declared(body: string, capabilities: string): string {
  const params = paramsIn(body)
  const meta = withMembers(memberTexts(params).get('_meta') as string, {
    [WATCH]: undefined,
    [CLIENT_CAPABILITIES]: capabilities
  })
  return withMembers(body, { params: withMembers(params, { _meta: meta }) })
}
