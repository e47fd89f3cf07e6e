// Polls a task, and makes of it the messages that the call would have got without a task.
import { errorResponse, isObject, objectIn } from '../../protocol/json-rpc.js'
import { memberTexts } from '../../protocol/json-splice.js'
import { STREAM_ERROR } from '../../protocol/errors.js'
import { pause } from '../waiting.js'
import { now } from '../../protocol/clock.js'
import { stateFor, type ToolCall } from './task-calls.js'
import { TaskError, type TaskServer } from './task-server.js'
import { type TaskState, type TaskStatus, watcherOf } from './task-watchers.js'

/** Milliseconds between polls if the server names none. */
const POLL_INTERVAL = 1000
const SHORTEST_INTERVAL = 20
/** Longer is not waited, whatever the server asks for: a person may wait for the result. */
const LONGEST_INTERVAL = 60_000

/** Milliseconds until the next poll; `asked`: what the server has asked for. */
export function pollDelay(asked: unknown): number {
  const interval = typeof asked === 'number' ? asked : POLL_INTERVAL
  return Math.min(Math.max(SHORTEST_INTERVAL, interval), LONGEST_INTERVAL)
}

/**
 * Milliseconds after which the client is told to send its call again, before its own timeout ends
 * the call: that of the official clients is a minute.
 */
const COME_AGAIN_AFTER = 45_000
/** How often a client is told so: official clients send a call ten times at most. */
const MOST_ROUNDS = 9

export interface Follow {
  readonly server: TaskServer
  readonly call: ToolCall
  readonly signal: AbortSignal
  /** Takes a message for the caller, as JSON. */
  readonly say: (json: string) => void
}

/** A task, and its members as the server has written them. */
export interface Seen {
  readonly state: TaskState
  readonly members: ReadonlyMap<string, string>
}

/** The task in a result, as JSON. */
export function seenIn(result: string, taskId?: string): Seen {
  return { state: taskIn(JSON.parse(result), taskId), members: memberTexts(result) }
}

const STATUSES: readonly unknown[] = [
  'working',
  'input_required',
  'completed',
  'failed',
  'cancelled'
]

/**
 * Checks that a result is a task; `taskId`: which one it must be.
 *
 * @throws if it is not a task, or another one.
 */
export function taskIn(result: unknown, taskId?: string): TaskState {
  const state = objectIn(result)
  const { taskId: id, status } = state
  if (typeof id !== 'string' || id !== (taskId ?? id) || typeof status !== 'string')
    throw new Error('The server answers with no such task')
  return {
    ...state,
    taskId: id,
    status: STATUSES.includes(status) ? (status as TaskStatus) : 'working'
  }
}

/** Polls a task until its call can be answered. The answer is the last message that `say` gets. */
export async function followTask(follow: Follow, first: Seen): Promise<void> {
  const { server, call, signal, say } = follow
  const { taskId } = first.state
  const watcher = watcherOf(call.watch)
  const isPatient = watcher !== undefined || call.rounds >= MOST_ROUNDS
  const mustAnswerAt = isPatient ? Infinity : now() + COME_AGAIN_AFTER
  let reported: string | undefined
  for (let seen = first; ; seen = seenIn(await server.get(taskId, signal), taskId)) {
    const { state } = seen
    watcher?.(state)
    const answer = answerTo(call, seen)
    if (answer !== undefined) return say(answer)
    const { statusMessage, pollIntervalMs } = state
    if (typeof statusMessage === 'string' && statusMessage !== reported) {
      reported = statusMessage
      if (call.progressToken !== undefined) say(progressOf(call, statusMessage))
    }
    const interval = pollDelay(pollIntervalMs)
    const left = mustAnswerAt - now()
    // When the client sends its call again, it polls at once, even before the interval is over.
    await pause(Math.max(0, Math.min(interval, left)), signal)
    if (interval > left) return say(comeAgain(call, taskId))
  }
}

/** The error response for a task that could not be followed, as JSON. */
export function failureOf(call: ToolCall, error: unknown): string {
  const { message: why = String(error) } = Object(error) as Partial<Error>
  const json = error instanceof TaskError ? why : undefined
  return refusal(call, json, `The task cannot be followed: ${why}`, 'task-lost')
}

/** The answer to the call; `undefined` as long as the task has none. */
function answerTo(call: ToolCall, { state, members }: Seen): string | undefined {
  const { status, statusMessage, taskId } = state
  switch (status) {
    case 'completed':
      return answerWith(
        call,
        'result',
        isObject(state.result) ? (members.get('result') as string) : '{}'
      )
    case 'failed':
    case 'cancelled':
      return refusal(
        call,
        members.get('error'),
        typeof statusMessage === 'string' ? statusMessage : `Task ${status}`,
        `task-${status}`
      )
    case 'input_required':
      return comeAgain(call, taskId, members.get('inputRequests'))
    default:
      return undefined
  }
}

/**
 * Tells the client to send its call again, with the answers to the task's questions if there are
 * any. Official clients do both by themselves.
 */
function comeAgain(call: ToolCall, taskId: string, inputRequests?: string): string {
  const state = JSON.stringify(stateFor(call, taskId))
  const asked = inputRequests === undefined ? '' : `,"inputRequests":${inputRequests}`
  return answerWith(
    call,
    'result',
    `{"resultType":"input_required","requestState":${state}${asked}}`
  )
}

function answerWith({ id }: ToolCall, member: 'result' | 'error', json: string): string {
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"${member}":${json}}`
}

/**
 * The error response with the server's own error, or with one made here if that is not a valid
 * JSON-RPC error: the client would ignore such a response, and wait on.
 */
function refusal(
  call: ToolCall,
  json: string | undefined,
  message: string,
  reason: string
): string {
  const given = objectIn(JSON.parse(json ?? '0'))
  return json !== undefined &&
    Number.isInteger(given['code']) &&
    typeof given['message'] === 'string'
    ? answerWith(call, 'error', json)
    : errorResponse(call.id, { code: STREAM_ERROR, message, data: { reason } })
}

function progressOf(call: ToolCall, message: string): string {
  const params = { progressToken: call.progressToken, progress: ++call.progress, message }
  return JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params })
}
