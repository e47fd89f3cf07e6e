// `callTask()`: calls a tool and follows its task, in both revisions of tasks, and also works with
// servers without tasks.
import { LONGEST_TIMEOUT } from '../../protocol/clock.js'
import { ANYTHING, type RequestingClient, type ResumableResult } from '../requesting-client.js'
import { abortWith, onAbort, pause } from '../waiting.js'
import { checkCall, checkOption, isTime, NUMBER } from '../check-arguments.js'
import { notify } from '../notify.js'
import { FIRST_STATELESS_REVISION } from '../../protocol/revisions.js'
import { pollDelay, taskIn } from './follow-task.js'
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
   * Called with the task each time that it is polled, once a minute at least, and when it is
   * created; never if the server makes no task. If it throws or rejects, the call ends with that
   * error, and the task is cancelled. Default: none.
   */
  readonly onStatus?: ((task: TaskState) => unknown) | undefined
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
  const { onStatus = () => undefined, ttl, signal, resultSchema = ANYTHING, ...others } = options
  checkOption(CALLER, 'onStatus', typeof onStatus === 'function', 'a function')
  checkOption(CALLER, 'ttl', isTime(ttl), NUMBER)
  const sender = client as Sender
  const { controller, release } = abortWith(signal)
  const over = controller.signal
  const told: OnStatus = state =>
    notify(
      () => onStatus(state),
      error => controller.abort(error)
    )
  const patient = { timeout: LONGEST_TIMEOUT, ...others, signal: over }
  const ask: Ask = (method, params, schema = resultSchema) =>
    sender.request({ method, params }, schema, patient)
  try {
    if (isModern(sender)) return await callModern(ask, request, told)
    if (!hasTasks(sender)) return await ask(CALL, request)
    return await callCore(sender, ask, request, { onStatus: told, ttl, signal: over })
  } catch (error) {
    // The client may have rejected with an error of its own: the caller gets the reason itself.
    over.throwIfAborted()
    throw error
  } finally {
    release()
  }
}

const CALL = 'tools/call'

/** Makes a request. If no schema is given, it is the caller's, for the result. */
type Ask = (method: string, params: object, schema?: unknown) => Promise<ResumableResult>
type OnStatus = (task: TaskState) => void

/** From 2026-07-28 on: `resumableFetch` follows the task, and reports each state. */
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
  readonly signal: AbortSignal
}

/** [2025-11-25] The client asks for the task, and polls it here. */
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
    // [2025-11-25, Tasks] The answer for a tool that cannot become a task.
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
  signal: AbortSignal
): Promise<ResumableResult> {
  const params = { taskId: first.taskId }
  /** The server may send its questions on this request only. It ends with the result. */
  let result: Promise<ResumableResult> | undefined
  for (let state = first; ;) {
    onStatus(state)
    if (isOver(state)) return result ?? ask('tasks/result', params)
    if (state.status === 'input_required' && result === undefined) {
      result = ask('tasks/result', params)
      result.catch(() => undefined)
    }
    await pause(pollDelay(state['pollInterval']), signal)
    state = taskIn(await ask('tasks/get', params, ANYTHING), first.taskId)
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
