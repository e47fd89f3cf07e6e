// From a task to what its caller waits for: the messages that a call's response would have had
// without a task, made from looking at it again and again.
import { errorResponse, isObject, objectIn } from '../../protocol/json-rpc.js'
import { memberTexts } from '../../protocol/json-splice.js'
import { STREAM_ERROR } from '../../protocol/errors.js'
import { pause } from '../pause.js'
import { now } from '../../protocol/clock.js'
import { stateFor, type ToolCall } from './task-calls.js'
import { TaskError, type TaskServer } from './task-server.js'
import { type TaskState, watcherOf } from './task-watchers.js'

/** Milliseconds between looks, where the server names none. */
const POLL_INTERVAL = 1000
const SHORTEST_INTERVAL = 20
/** A person may be waiting for what comes of it. */
const LONGEST_INTERVAL = 60_000

/** Milliseconds until the next look, of which the server has asked for `asked`. */
export function pollDelay(asked: unknown): number {
  const interval = typeof asked === 'number' ? asked : POLL_INTERVAL
  return Math.min(Math.max(SHORTEST_INTERVAL, interval), LONGEST_INTERVAL)
}

/**
 * Milliseconds after which a client is made to come again, before its own timer ends the call:
 * that of the official clients is a minute.
 */
const COME_AGAIN_AFTER = 45_000
/** Rounds that a client bears: official ones give up after ten. */
const MOST_ROUNDS = 9

export interface Follow {
  readonly server: TaskServer
  readonly call: ToolCall
  readonly signal: AbortSignal
  /** Takes a message for the caller, as JSON. */
  readonly say: (json: string) => void
}

/** A task, and the members of it as they were written. */
export interface Seen {
  readonly state: TaskState
  readonly members: ReadonlyMap<string, string>
}

/** The task in a result, as JSON. */
export function seenIn(result: string, taskId?: string): Seen {
  return { state: taskIn(JSON.parse(result), taskId), members: memberTexts(result) }
}

/**
 * The task that a result is; `taskId`: which one it has to be.
 *
 * @throws where it is none, or another one.
 */
export function taskIn(result: unknown, taskId?: string): TaskState {
  const state = objectIn(result)
  const id = state['taskId']
  if (typeof id !== 'string' || id !== (taskId ?? id) || typeof state['status'] !== 'string')
    throw new Error('The server answers with no such task')
  return state as unknown as TaskState
}

/** Looks at a task until there is something to answer its call with, which `say` takes last. */
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
    // A client that comes again looks at once, however rarely the server wants it to.
    await pause(Math.max(0, Math.min(interval, left)), signal)
    if (interval > left) return say(comeAgain(call, taskId))
  }
}

/** What a failure on the way to a task is to its caller, as JSON. */
export function failureOf(call: ToolCall, error: unknown): string {
  const { message: why = String(error) } = Object(error) as Partial<Error>
  const json = error instanceof TaskError ? why : undefined
  return refusal(call, json, `The task cannot be followed: ${why}`, 'task-lost')
}

/** The answer to the call, where a task has come to one. */
function answerTo(call: ToolCall, { state, members }: Seen): string | undefined {
  const { status, statusMessage, taskId } = state
  switch (status) {
    case 'completed':
      return answerWith(
        call,
        'result',
        isObject(state['result']) ? (members.get('result') as string) : '{}'
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

/** Its client asks people, or does nothing but repeat the call: both by itself. */
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
 * An error as the server has written it, or one of ours in its place: the client above takes
 * nothing that is no error of JSON-RPC for an answer, and would wait on.
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
