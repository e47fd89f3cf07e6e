// `callTask()`: calls a tool and follows its task, in both revisions of tasks.
import { LONGEST_TIMEOUT } from '../../protocol/clock.js'
import { objectIn } from '../../protocol/json-rpc.js'
import {
  anything,
  type CallOptions,
  checkCall,
  type RequestingClient,
  requestOnce,
  type ResultSchema,
  type ResumableResult
} from '../requesting-client.js'
import { abortWith, onAbort, pause } from '../waiting.js'
import { FINITE, FUNCTION } from '../options.js'
import { FIRST_STATELESS_REVISION } from '../../protocol/revisions.js'
import { pollDelay, taskIn, type TaskState, watchTask } from './follow-task.js'
import { WATCH } from './task-calls.js'

/** A call of a tool: its name and its arguments. */
export interface TaskRequest {
  readonly name: string
  readonly arguments?: Readonly<Record<string, unknown>> | undefined
  readonly _meta?: Readonly<Record<string, unknown>> | undefined
}

/** Options of {@link callTask}. */
export interface CallTaskOptions<Result extends object = ResumableResult> extends CallOptions {
  /**
   * Called with the task each time that it is polled, once a minute at least, and when it is
   * created; never if the server makes no task. The call asks for progress, of which servers make
   * the task's `statusMessage`. If it throws or rejects, the call ends with that error, and the
   * task is cancelled. Default: none.
   */
  readonly onStatus?: ((task: TaskState) => unknown) | undefined
  /**
   * Milliseconds for which the server is asked to keep the task, at 2025-11-25 only. Default: none.
   */
  readonly ttl?: number | undefined
  /** Ends the call: its task is cancelled. */
  readonly signal?: AbortSignal | undefined
  /** Milliseconds for which each request is waited for. Default: as long as it takes. */
  readonly timeout?: number | undefined
  /** A schema for the result, as `client.request` takes it. Default: none, everything passes. */
  readonly resultSchema?: ResultSchema<Result> | undefined
}

interface TaskSender extends RequestingClient {
  getServerCapabilities?(): unknown
  getNegotiatedProtocolVersion?(): string | undefined
  readonly transport?: { readonly protocolVersion?: string | undefined } | undefined
}

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
 * The type of the result is that of `resultSchema`, or the one that the caller names; without a
 * schema, nothing checks it.
 *
 * @throws what `client.request` throws; the signal's reason; {@link TypeError} for a bad option.
 */
export async function callTask<Result extends object = ResumableResult>(
  client: RequestingClient,
  request: TaskRequest,
  options: CallTaskOptions<Result> = {}
): Promise<Result> {
  checkCall('callTask', [client, request, options], 'name', {
    onStatus: FUNCTION,
    ttl: FINITE,
    timeout: FINITE
  })
  const { onStatus, ttl, signal, onprogress, resultSchema = anything(), ...others } = options
  const sender = client as TaskSender
  const { controller, stop } = abortWith(signal)
  const over = controller.signal
  const told: OnStatus = state =>
    notify(
      () => onStatus?.(state),
      error => controller.abort(error)
    )
  const heard = onprogress ?? (onStatus && (() => undefined))
  const patient = { timeout: LONGEST_TIMEOUT, ...others }
  const calling: Calling<Result> = {
    ask: (method, params, schema) => {
      const progress = method === CALL && heard !== undefined ? { onprogress: heard } : {}
      return requestOnce(client, { method, params }, schema, { ...patient, ...progress }, over)
    },
    schema: resultSchema,
    onStatus: told,
    signal: over
  }
  try {
    if (isModern(sender)) return await callModern(calling, request)
    if (!hasTasks(sender)) return await calling.ask(CALL, request, resultSchema)
    const cancel = (taskId: string): void => {
      const cancellation = { method: 'tasks/cancel', params: { taskId } }
      requestOnce(client, cancellation, anything<object>(), {}, undefined).catch(() => undefined)
    }
    return await callCore(calling, request, ttl, cancel)
  } catch (error) {
    // The client may have rejected with an error of its own: the caller gets the reason itself.
    over.throwIfAborted()
    throw error
  } finally {
    stop()
  }
}

const CALL = 'tools/call'

type OnStatus = (task: TaskState) => void

interface Calling<Result> {
  readonly ask: <Answer extends object>(
    method: string,
    params: object,
    schema: ResultSchema<Answer>
  ) => Promise<Answer>
  readonly schema: ResultSchema<Result>
  readonly onStatus: OnStatus
  readonly signal: AbortSignal
}

/** From 2026-07-28 on: `resumableFetch` follows the task, and reports each state. */
async function callModern<Result extends object>(
  { ask, schema, onStatus }: Calling<Result>,
  request: TaskRequest
): Promise<Result> {
  const watch = watchTask(onStatus)
  try {
    const _meta = { ...request._meta, [WATCH]: watch.name }
    return await ask(CALL, { ...request, _meta }, schema)
  } finally {
    watch.stop()
  }
}

/** [2025-11-25] The client asks for the task, and polls it here. */
async function callCore<Result extends object>(
  calling: Calling<Result>,
  request: TaskRequest,
  ttl: number | undefined,
  cancel: (taskId: string) => void
): Promise<Result> {
  const { ask, schema, signal } = calling
  const task = ttl === undefined ? {} : { ttl }
  let created: Result
  try {
    created = await ask(CALL, { ...request, task }, anything<Result>())
  } catch (error) {
    // [2025-11-25, Tasks] The answer for a tool that cannot become a task.
    if ((error as { code?: unknown } | null)?.code !== METHOD_NOT_FOUND) throw error
    return ask(CALL, request, schema)
  }
  const given = objectIn(created)['task']
  if (typeof objectIn(given)['taskId'] !== 'string') return created
  const first = taskIn(given)
  const unlisten = onAbort(signal, () => cancel(first.taskId))
  try {
    return await follow(first, calling)
  } finally {
    unlisten()
  }
}

async function follow<Result extends object>(
  first: TaskState,
  { ask, schema, onStatus, signal }: Calling<Result>
): Promise<Result> {
  const params = { taskId: first.taskId }
  const resultOf = (): Promise<Result> => ask('tasks/result', params, schema)
  /** The server may send its questions on this request only. It ends with the result. */
  let result: Promise<Result> | undefined
  for (let state = first; ;) {
    onStatus(state)
    if (isOver(state)) return result ?? resultOf()
    if (state.status === 'input_required' && result === undefined) {
      result = resultOf()
      result.catch(() => undefined)
    }
    await pause(pollDelay(state.pollInterval), signal)
    state = taskIn(await ask('tasks/get', params, anything<object>()), first.taskId)
  }
}

function isModern(sender: TaskSender): boolean {
  const revision = sender.getNegotiatedProtocolVersion?.() ?? sender.transport?.protocolVersion
  return revision !== undefined && revision >= FIRST_STATELESS_REVISION
}

function hasTasks(sender: TaskSender): boolean {
  const { tasks } = Object(sender.getServerCapabilities?.()) as {
    tasks?: { requests?: { tools?: { call?: unknown } } }
  }
  return tasks?.requests?.tools?.call !== undefined
}

function isOver({ status }: TaskState): boolean {
  return status === 'completed' || status === 'failed' || status === 'cancelled'
}

/** Calls a callback without waiting; `failed` gets what it throws or rejects with. */
function notify(callback: () => unknown, failed: (error: Error) => void): void {
  new Promise(resolve => resolve(callback())).catch(failed)
}
