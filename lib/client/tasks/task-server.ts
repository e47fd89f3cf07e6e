// Requests about a task (2026-07-28), made as its call was, and again where the wire has lost them:
// none of them runs anything twice.
import { isObject } from '../../protocol/json-rpc.js'
import { memberTexts, writtenMessages } from '../../protocol/json-splice.js'
import { dataOf } from '../../protocol/sse-fields.js'
import { readWholeBlocks } from '../../protocol/whole-blocks.js'
import { STREAM_ERROR } from '../../protocol/errors.js'
import type { ClientSettings, ReconnectReason } from '../options.js'
import { isPassing, retryAfterOf, retryDelay, untilNextAttempt, within } from '../retry-delay.js'
import { callerHeaders, discard, isEventStream } from '../stream-request.js'
import type { ToolCall } from './task-calls.js'

/** An error of the server's, or of ours, in JSON-RPC's words. */
export class TaskError extends Error {
  readonly error: string

  /** @param error as JSON. */
  constructor(error: string) {
    super('The task cannot be followed')
    this.error = error
  }
}

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

  /**
   * The task, as JSON.
   *
   * @throws {TaskError} where the server, or the network, does not answer.
   */
  get(taskId: string, signal: AbortSignal): Promise<string> {
    return this.#ask('tasks/get', taskId, '', signal)
  }

  async update(taskId: string, inputResponses: string, signal: AbortSignal): Promise<void> {
    await this.#ask('tasks/update', taskId, `,"inputResponses":${inputResponses}`, signal)
  }

  /** Nobody waits for what comes of it. */
  cancel(taskId: string): void {
    const { fetch } = this.#settings
    this.#request('tasks/cancel', taskId, '')
      .then(init => fetch(this.#url, { ...init, keepalive: true }))
      .then(discard, () => undefined)
  }

  async #ask(method: string, taskId: string, more: string, signal: AbortSignal): Promise<string> {
    const { maxRetries, idleTimeout } = this.#settings
    for (let attempt = 1; ; attempt++) {
      let reason: ReconnectReason = 'error'
      let retryAfter: number | undefined
      let failed: string
      // An attempt of its own, so that silence ends it alone.
      const abort = new AbortController()
      const aborted = (): void => abort.abort(signal.reason)
      signal.addEventListener('abort', aborted)
      try {
        signal.throwIfAborted()
        const init = await this.#request(method, taskId, more)
        const sent = this.#send({ ...init, signal: abort.signal })
        const answer = await within(idleTimeout, sent, silence => abort.abort(silence))
        if (typeof answer === 'string') return resultOf(answer)
        reason = 'status'
        retryAfter = retryAfterOf(answer)
        failed = `HTTP status ${answer.status}`
      } catch (error) {
        if (error instanceof TaskError || signal.aborted) throw error
        failed = String(error)
      } finally {
        signal.removeEventListener('abort', aborted)
      }
      if (attempt > maxRetries) throw lost(failed)
      const delay = retryDelay(attempt, undefined, retryAfter, this.#settings)
      const reconnection = { attempt, delay, lastEventId: undefined, reason }
      await untilNextAttempt(reconnection, this.#settings, signal)
    }
  }

  /** The reply, as JSON; or a response that says "not now". */
  async #send(init: RequestInit): Promise<string | Response> {
    const response = await this.#settings.fetch(this.#url, init)
    if (isPassing(response.status)) {
      discard(response)
      return response
    }
    const reply = await replyIn(response)
    if (reply === undefined) throw lost(`HTTP status ${response.status}`)
    return reply
  }

  async #request(method: string, taskId: string, more: string): Promise<RequestInit> {
    const headers = await callerHeaders(this.#init, this.#settings)
    headers.set('Content-Type', 'application/json')
    headers.set('Mcp-Method', method)
    headers.set('Mcp-Name', inHeader(taskId))
    const { id, envelope } = this.#call
    const own = JSON.stringify(`${String(id)}:${++this.#requests}`)
    const params = `{"taskId":${JSON.stringify(taskId)}${more},"_meta":${JSON.stringify(envelope)}}`
    const body = `{"jsonrpc":"2.0","id":${own},"method":"${method}","params":${params}}`
    return { ...this.#init, method: 'POST', headers, body, signal: null }
  }
}

/** A failure of the way to the task, as its call's answer. */
function lost(why: string): TaskError {
  return new TaskError(
    JSON.stringify({
      code: STREAM_ERROR,
      message: `The task cannot be followed: ${why}`,
      data: { reason: 'task-lost' }
    })
  )
}

/** The result of a response, as JSON. */
function resultOf(response: string): string {
  const members = memberTexts(response)
  const error = members.get('error')
  if (error !== undefined) throw new TaskError(error)
  return members.get('result') ?? '{}'
}

/** What could not stand in a head as it is goes there in base64. */
function inHeader(name: string): string {
  if (/^[\x21-\x7e]+$/.test(name) && !name.startsWith('=?base64?')) return name
  return `=?base64?${btoa(String.fromCharCode(...new TextEncoder().encode(name)))}?=`
}

/** The response in an answer, be it JSON or an event stream. */
async function replyIn(response: Response): Promise<string | undefined> {
  const texts = isEventStream(response) ? await eventsIn(response) : [await response.text()]
  const messages = texts.flatMap(writtenMessages)
  return messages.find(({ message }) => isObject(message.result) || isObject(message.error))?.text
}

async function eventsIn(response: Response): Promise<string[]> {
  const texts: string[] = []
  readWholeBlocks(new Uint8Array(await response.arrayBuffer()), (block, from, to, fields) => {
    if (fields.dataLines > 0) texts.push(dataOf(block, from, to, fields))
  })
  return texts
}
