// Requests about a task (2026-07-28), with the headers of its call. They are repeated if they are
// lost, because none of them runs anything twice.
import { isObject, type Message } from '../../protocol/json-rpc.js'
import { memberTexts, writtenMessages } from '../../protocol/json-splice.js'
import { isPassing, Refused, retrying } from '../retrying.js'
import { abortWith, onConnection } from '../waiting.js'
import type { ClientSettings } from '../options.js'
import { readAhead } from '../read-ahead.js'
import { byteString, discard, isEventStream, postInit } from '../stream-request.js'
import { eventsIn } from './events-in.js'
import type { ToolCall } from './task-calls.js'

/** An error response of the server; the message is its error, as JSON. */
export class TaskError extends Error {}

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

  /**
   * The task, as JSON.
   *
   * @throws {TaskError} for an error response; any other error if there was no response.
   */
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
      const { controller, release } = abortWith(signal)
      try {
        const sent = this.#request(method, taskId, more).then(init =>
          this.#send({ ...init, signal: controller.signal })
        )
        return await onConnection(controller, this.#settings.idleTimeout, sent)
      } finally {
        release()
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
    if (isPassing(status)) {
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

/** The result of a response, as JSON. */
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
