// Calls a tool and looks on as a task: one function for both generations of tasks, and for servers
// that have none.
import { LONGEST_TIMEOUT } from '../../protocol/clock.js'
import { ANYTHING, type RequestingClient, type ResumableResult } from '../requesting-client.js'
import { onAbort } from '../aborting.js'
import { checkCall, checkOption, isTime, NUMBER } from '../check-arguments.js'
import { pause } from '../pause.js'
import { FIRST_STATELESS_REVISION } from '../../protocol/revisions.js'
import { pollDelay } from './follow-task.js'
import { WATCH } from './task-calls.js'
import { type TaskState, watchTask } from './task-watchers.js'

/** A call of a tool: its name and its arguments. */
export interface TaskRequest {
  readonly name: string
  readonly arguments?: Readonly<Record<string, unknown>> | undefined
  readonly _meta?: Readonly<Record<string, unknown>> | undefined
}

/**
 * Options of {@link callTask}. All others are handed on to `client.request` with its requests, such
 * as `onprogress`.
 */
export interface CallTaskOptions {
  /**
   * Called with the task when it is created and after each poll; never, if the server makes none.
   * It must not throw. Default: none.
   */
  readonly onStatus?: ((task: TaskState) => void) | undefined
  /**
   * Milliseconds for which the server is asked to keep the task, at 2025-11-25 only. Default: none.
   */
  readonly ttl?: number | undefined
  /** Ends the call: its task is cancelled. */
  readonly signal?: AbortSignal | undefined
  /** A schema for the result, as `client.request` takes it. Default: none, everything passes. */
  readonly resultSchema?: unknown
  readonly [option: string]: unknown
}

interface Sender {
  request(request: object, schema: unknown, options: object): Promise<ResumableResult>
  getServerCapabilities?(): unknown
  getNegotiatedProtocolVersion?(): string | undefined
  readonly transport?: { readonly protocolVersion?: string | undefined } | undefined
}

const CALLER = 'callTask'
const METHOD_NOT_FOUND = -32601

/**
 * Calls a tool, and waits for its result however long it takes. From 2026-07-28 on the transport of
 * the client needs `resumableFetch({ tasks: true })`, which declares and follows the task; at
 * 2025-11-25 a task is asked for, if the server has tasks. A server without tasks answers as it
 * always does.
 *
 * ```ts
 * const onStatus = ({ status }) => show(status)
 * const result = await callTask(client, { name: 'report' }, { onStatus })
 * ```
 *
 * @throws what `client.request` throws; the signal's reason; {@link TypeError} for a bad option.
 */
export async function callTask(
  client: RequestingClient,
  request: TaskRequest,
  options: CallTaskOptions = {}
): Promise<ResumableResult> {
  checkCall(CALLER, [client, request, options], 'name')
  const { onStatus = () => undefined, ttl, resultSchema = ANYTHING, ...others } = options
  checkOption(CALLER, 'onStatus', typeof onStatus === 'function', 'a function')
  checkOption(CALLER, 'ttl', isTime(ttl), NUMBER)
  const sender = client as Sender
  const patient = { timeout: LONGEST_TIMEOUT, ...others }
  const ask: Ask = (method, params, schema = resultSchema) =>
    sender.request({ method, params }, schema, patient)
  if (isModern(sender)) return callModern(ask, request, onStatus)
  if (!hasTasks(sender)) return ask(CALL, request)
  const { signal } = others
  return callCore(sender, ask, request, { onStatus, ttl, signal })
}

const CALL = 'tools/call'

/** Makes a request; the schema is that of the caller's result if none is given. */
type Ask = (method: string, params: object, schema?: unknown) => Promise<ResumableResult>
type OnStatus = (task: TaskState) => void

/** The fetch below follows the task, and tells what it sees. */
async function callModern(
  ask: Ask,
  request: TaskRequest,
  onStatus: OnStatus
): Promise<ResumableResult> {
  const watch = watchTask(onStatus)
  try {
    return await ask(CALL, { ...request, _meta: { ...request._meta, [WATCH]: watch.name } })
  } finally {
    watch.stop()
  }
}

interface Looking {
  readonly onStatus: OnStatus
  readonly ttl: number | undefined
  readonly signal: AbortSignal | undefined
}

/** [2025-11-25] A task of the core, which its client asks for. */
async function callCore(
  sender: Sender,
  ask: Ask,
  request: TaskRequest,
  { onStatus, ttl, signal }: Looking
): Promise<ResumableResult> {
  const task = ttl === undefined ? {} : { ttl }
  let created: ResumableResult
  try {
    created = await ask(CALL, { ...request, task }, ANYTHING)
  } catch (error) {
    // [2025-11-25, Tasks] What a tool answers that does not become a task.
    if ((error as { code?: unknown } | null)?.code !== METHOD_NOT_FOUND) throw error
    return ask(CALL, request)
  }
  const state = created['task'] as TaskState | undefined
  if (typeof state?.taskId !== 'string') return created
  const cancellation = { method: 'tasks/cancel', params: { taskId: state.taskId } }
  const release = onAbort(
    signal,
    () => void sender.request(cancellation, ANYTHING, {}).catch(() => undefined)
  )
  try {
    return await follow(state, ask, onStatus, signal)
  } finally {
    release()
  }
}

async function follow(
  first: TaskState,
  ask: Ask,
  onStatus: OnStatus,
  signal: AbortSignal | undefined
): Promise<ResumableResult> {
  const params = { taskId: first.taskId }
  /** Questions may come on it alone; it ends with the result. */
  let result: Promise<ResumableResult> | undefined
  for (let state = first; ;) {
    onStatus(state)
    if (isOver(state)) return result ?? ask('tasks/result', params)
    if (state.status === 'input_required' && result === undefined) {
      result = ask('tasks/result', params)
      result.catch(() => undefined)
    }
    await pause(pollDelay(state['pollInterval']), signal)
    state = (await ask('tasks/get', params, ANYTHING)) as unknown as TaskState
  }
}

function isModern(sender: Sender): boolean {
  const revision = sender.getNegotiatedProtocolVersion?.() ?? sender.transport?.protocolVersion
  return revision !== undefined && revision >= FIRST_STATELESS_REVISION
}

/** Whether a server says that calls of tools may be tasks. */
function hasTasks(sender: Sender): boolean {
  const { tasks } = Object(sender.getServerCapabilities?.()) as {
    tasks?: { requests?: { tools?: { call?: unknown } } }
  }
  return tasks?.requests?.tools?.call !== undefined
}

function isOver({ status }: TaskState): boolean {
  return status === 'completed' || status === 'failed' || status === 'cancelled'
}
