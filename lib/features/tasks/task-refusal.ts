// Errors that requests about tasks get. None says anything about other clients' tasks.
import { faultError, STREAM_ERROR, type StreamFault } from '../../protocol/errors.js'
import { INVALID_PARAMS, METHOD_NOT_FOUND } from '../../protocol/json-rpc.js'
import { HEADER_MISMATCH } from '../../protocol/standard-headers.js'
import { MISSING_CLIENT_CAPABILITY, TASKS_EXTENSION } from '../../protocol/tasks.js'

export interface TaskRefusal {
  readonly kind: 'refusal'
  readonly status: number
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

/** The same for an id that is made up, or forgotten, or of another owner, session or path. */
export const UNKNOWN_TASK = invalidParams('Invalid params: Task not found', 'task-unknown')

export const UNDECLARED: TaskRefusal = {
  kind: 'refusal',
  status: 400,
  code: MISSING_CLIENT_CAPABILITY,
  message: 'The request does not declare the extension io.modelcontextprotocol/tasks',
  data: { requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } }
}

export const NO_ROOM: TaskRefusal = {
  kind: 'refusal',
  status: 200,
  code: STREAM_ERROR,
  message: 'Too many tasks: no more can be kept for this client now',
  data: { reason: 'too-many-tasks' }
}

export const OVER = invalidParams('Invalid params: The task has ended already', 'task-ended')

export const CANCELLED = invalidParams('The task was cancelled', 'task-cancelled')

export const NO_SUCH_METHOD: TaskRefusal = {
  kind: 'refusal',
  status: 404,
  code: METHOD_NOT_FOUND,
  message: 'Method not found'
}

export function badParams(what: string): TaskRefusal {
  return invalidParams(`Invalid params: ${what}`, 'invalid-params')
}

export function badHeader(what: string): TaskRefusal {
  return {
    kind: 'refusal',
    status: 400,
    code: HEADER_MISMATCH,
    message: `The request's head and body disagree: ${what}`,
    data: { reason: 'header-mismatch' }
  }
}

function invalidParams(message: string, reason: string): TaskRefusal {
  return { kind: 'refusal', status: 200, code: INVALID_PARAMS, message, data: { reason } }
}

export function faultText(fault: StreamFault): string {
  return JSON.stringify(faultError(fault))
}
