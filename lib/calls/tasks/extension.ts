// The extension's own words (2026-07-28): what a task looks like, and what `tasks/get`,
// `tasks/update` and `tasks/cancel` answer.
import { faultMessage, STREAM_ERROR, type StreamFault } from '../../protocol/errors.js'
import { isObject } from '../../protocol/json-rpc.js'
import { memberTexts, writtenMessages } from '../../protocol/json-splice.js'
import type { CallAnswer } from '../call-reply.js'
import type { TaskView } from './task.js'

const INTERNAL_ERROR = -32603

/** What answers a call that has become a task. */
export function createdText(task: TaskView): string {
  return JSON.stringify({ resultType: 'task', ...stateOf(task) })
}

/** What answers `tasks/get`: its state, and all that there is to know in that state. */
export function taskText(task: TaskView): string {
  const state = JSON.stringify({ resultType: 'complete', ...stateOf(task) })
  const more = detailOf(task)
  return more === '' ? state : `${state.slice(0, -1)},${more}}`
}

/** What `tasks/update` and `tasks/cancel` answer, whatever comes of it. */
export const ACKNOWLEDGED = '{"resultType":"complete"}'

function stateOf(task: TaskView): object {
  const { id, status, statusMessage, createdAt, lastUpdatedAt, times } = task
  return {
    taskId: id,
    status,
    statusMessage,
    createdAt,
    lastUpdatedAt,
    ttlMs: times.ttl,
    pollIntervalMs: times.pollInterval
  }
}

function detailOf(task: TaskView): string {
  const { status, input, call } = task
  switch (status) {
    case 'input_required':
      return `"inputRequests":${input.text}`
    case 'completed':
      return `"result":${resultText(call.final)}`
    case 'failed':
      return `"error":${errorText(call.final)}`
    case 'working':
    case 'cancelled':
      return ''
  }
}

function resultText(final: CallAnswer | undefined): string {
  const text = final?.kind === 'response' ? memberTexts(final.text).get('result') : undefined
  return text ?? '{}'
}

/** The error that the request would have been answered with, as JSON. */
export function errorText(final: CallAnswer | undefined): string {
  if (final?.kind === 'response') return memberTexts(final.text).get('error') ?? faultText()
  if (final?.kind !== 'relay') return faultText(final?.kind === 'fault' ? final.fault : undefined)
  const [own] = writtenMessages(final.body.toString('utf8'))
  if (isObject(own?.message.error)) return JSON.stringify(own.message.error)
  const message = `The endpoint answered with HTTP status ${final.status}`
  const data = { reason: 'endpoint-refused', status: final.status }
  return JSON.stringify({ code: INTERNAL_ERROR, message, data })
}

function faultText(fault: StreamFault = 'endpoint-failed'): string {
  return JSON.stringify({
    code: STREAM_ERROR,
    message: faultMessage(fault),
    data: { reason: fault }
  })
}
