// Polls a task, and makes of it the messages that the call would have got without a task.
import { errorResponse, isObject, type Message, objectIn } from '../../protocol/json-rpc.js'
import { memberTexts, writtenMessages } from '../../protocol/json-splice.js'
import { STREAM_ERROR } from '../../protocol/errors.js'
import { abortWith, onConnection, pause } from '../waiting.js'
import { now } from '../../protocol/clock.js'
import { isTemporary, Refused, retrying } from '../retrying.js'
import type { ClientSettings } from '../options.js'
import { readAhead } from '../send-again.js'
import { byteString, discard, isEventStream, postInit } from '../stream-request.js'
import { dataOf } from '../../protocol/sse-fields.js'
import { readWholeBlocks } from '../../protocol/whole-blocks.js'
import { stateFor, type ToolCall } from './task-calls.js'

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

/** Milliseconds until the client sends its call again: official ones give up at a minute. */
const COME_AGAIN_AFTER = 45_000
/** How often a client is told so: official clients send a call ten times at most. */
const MOST_ROUNDS = 9

interface Follow {
  readonly server: TaskServer
  readonly call: ToolCall
  readonly signal: AbortSignal
  readonly say: (json: string) => void
}

/** A task, and its members as the server has written them. */
export interface Seen {
  readonly state: TaskState
  readonly members: ReadonlyMap<string, string>
}

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

/** @throws if it is not a task, or not `taskId`. */
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
  const watcher = watchers.get(call.watch as string)
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

/** Official clients send the call again, with answers to the task's questions, by themselves. */
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

/** The server's own error if it is a valid one: a client would ignore another, and wait on. */
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

/** An error response of the server; the message is its error, as JSON. */
class TaskError extends Error {}

/** A JSON-RPC response, as JSON; or the status of an HTTP response without one. */
type Answer = string | number

export class TaskServer {
  readonly #url: string
  readonly #init: RequestInit
  readonly #call: ToolCall
  readonly #settings: ClientSettings
  #requests = 0

  constructor(url: string, init: RequestInit, call: ToolCall, settings: ClientSettings) {
    this.#url = url
    this.#init = init
    this.#call = call
    this.#settings = settings
  }

  /** @throws {TaskError} for an error response; any other error if there was no response. */
  get(taskId: string, signal: AbortSignal): Promise<string> {
    return this.#ask('tasks/get', taskId, '', signal)
  }

  async update(taskId: string, inputResponses: string, signal: AbortSignal): Promise<void> {
    await this.#ask('tasks/update', taskId, `,"inputResponses":${inputResponses}`, signal)
  }

  /** The result is not waited for. */
  cancel(taskId: string): void {
    const { fetch } = this.#settings
    this.#request('tasks/cancel', taskId, '')
      .then(init => fetch(this.#url, { ...init, keepalive: true }))
      .then(discard, () => undefined)
  }

  async #ask(method: string, taskId: string, more: string, signal: AbortSignal): Promise<string> {
    const attempt = async (): Promise<Answer> => {
      // A controller of its own, so that silence ends only this attempt.
      const { controller, stop } = abortWith(signal)
      try {
        const sent = this.#request(method, taskId, more).then(init =>
          this.#send({ ...init, signal: controller.signal })
        )
        return await onConnection(controller, this.#settings.idleTimeout, sent)
      } finally {
        stop()
      }
    }
    const answer = await retrying(attempt, this.#settings, signal)
    if (typeof answer === 'number')
      throw new Error(`HTTP ${answer} without a JSON-RPC response within \`maxEventSize\``)
    return resultOf(answer)
  }

  async #send(init: RequestInit): Promise<Answer> {
    const { fetch, maxEventSize } = this.#settings
    const response = await fetch(this.#url, init)
    const { status } = response
    if (isTemporary(status)) {
      discard(response)
      throw new Refused(response)
    }
    const body = response.body && (await readAhead(response.body, maxEventSize, chunk => chunk))
    if (body instanceof Blob) return (await replyIn(response, body, init)) ?? status
    discard({ body })
    return status
  }

  async #request(method: string, taskId: string, more: string): Promise<RequestInit> {
    const { id, envelope } = this.#call
    const own = JSON.stringify(`${String(id)}:${++this.#requests}`)
    const params = `{"taskId":${JSON.stringify(taskId)}${more},"_meta":${JSON.stringify(envelope)}}`
    const body = `{"jsonrpc":"2.0","id":${own},"method":"${method}","params":${params}}`
    const init = await postInit(this.#init, this.#settings, body)
    init.headers.set('Mcp-Method', method)
    init.headers.set('Mcp-Name', inHeader(taskId))
    return init
  }
}

function resultOf(response: string): string {
  const members = memberTexts(response)
  const error = members.get('error')
  if (error !== undefined) throw new TaskError(error)
  return members.get('result') as string
}

/** A name that a header cannot carry as it is, is sent in base64. */
function inHeader(name: string): string {
  if (/^[\x21-\x7e]+$/.test(name) && !name.startsWith('=?base64?')) return name
  return `=?base64?${btoa(byteString(name))}?=`
}

/** The JSON-RPC response to a request, in a body that is JSON or an event stream. */
async function replyIn(
  response: Response,
  body: Blob,
  request: RequestInit
): Promise<string | undefined> {
  const { id } = JSON.parse(request.body as string) as Message
  const texts = isEventStream(response)
    ? eventsIn(new Uint8Array(await body.arrayBuffer())).map(({ text }) => text)
    : [await body.text()]
  const messages = texts.flatMap(writtenMessages)
  // If the server could not read the request, its response has the id `null`.
  return messages.find(
    ({ message }) =>
      (message.id ?? id) === id && (isObject(message.result) || isObject(message.error))
  )?.text
}

interface EventText {
  readonly text: string
  readonly before: Uint8Array
}

export function eventsIn(whole: Uint8Array): readonly EventText[] {
  const events: EventText[] = []
  readWholeBlocks(whole, (bytes, from, to, fields) => {
    if (fields.dataLines > 0)
      events.push({ text: dataOf(bytes, from, to, fields), before: bytes.subarray(0, from) })
  })
  return events
}

export type TaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'

/** A task as its server describes it. Of the two names of a time, each revision has one. */
export interface TaskState {
  readonly taskId: string
  /** A status that tasks do not have counts as `working`. */
  readonly status: TaskStatus
  /** What the task is doing, in words. */
  readonly statusMessage?: string | undefined
  /** ISO 8601. */
  readonly createdAt?: string | undefined
  /** ISO 8601. */
  readonly lastUpdatedAt?: string | undefined
  /** Milliseconds for which the server keeps the task; `null`: no limit. At 2025-11-25. */
  readonly ttl?: number | null | undefined
  /** The same, from 2026-07-28 on. */
  readonly ttlMs?: number | null | undefined
  /** Milliseconds between polls that the server asks for. At 2025-11-25. */
  readonly pollInterval?: number | undefined
  /** The same, from 2026-07-28 on. */
  readonly pollIntervalMs?: number | undefined
  /** The result of a completed call, from 2026-07-28 on. */
  readonly result?: unknown
  /** The JSON-RPC error of a failed call, from 2026-07-28 on. */
  readonly error?: unknown
  /** The questions of a task that waits for its client, from 2026-07-28 on. */
  readonly inputRequests?: unknown
}

type TaskWatcher = (state: TaskState) => void

// One registry for all copies of this module: an application may load one as CJS, the other as ESM.
const REGISTRY = Symbol.for('express-mcp-streams.task-watchers')
const watchers = ((globalThis as { [REGISTRY]?: Map<string, TaskWatcher> })[REGISTRY] ??= new Map())

export function watchTask(watcher: TaskWatcher): { readonly name: string; stop(): void } {
  const name = crypto.randomUUID()
  watchers.set(name, watcher)
  return { name, stop: () => void watchers.delete(name) }
}
