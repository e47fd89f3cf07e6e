// A fetch that declares tasks and follows them, so that a call gets a plain result.
import { isResponse } from '../../protocol/json-rpc.js'
import { memberTexts, writtenMessages } from '../../protocol/json-splice.js'
import { encodeJson } from '../../protocol/sse-writer.js'
import { WholeBlocks } from '../../protocol/whole-blocks.js'
import { onAbort, type Signal, untilAborted } from '../waiting.js'
import type { ClientSettings, FetchLike } from '../options.js'
import { readAhead, withBody } from '../send-again.js'
import { isEventStream } from '../stream-request.js'
import { eventsIn, failureOf, followTask, type Seen, seenIn, TaskServer } from './follow-task.js'
import { type ToolCall, toolCallIn } from './task-calls.js'

/** @param inner the fetch for everything but requests about tasks */
export function withTasks(inner: FetchLike, settings: ClientSettings): FetchLike {
  return async (input, init = {}) => {
    const call = init.method?.toUpperCase() === 'POST' ? toolCallIn(init.body) : undefined
    if (call === undefined) return inner(input, init)
    const server = new TaskServer(String(input), init, call, settings)
    const following = new Following(server, call, init.signal)
    const { again } = call
    if (again !== undefined) return following.response(following.comeAgain(again))
    const response = await inner(input, { ...init, body: call.text })
    const { body, status } = response
    const { maxEventSize } = settings
    if (status !== 200 || body === null) return response
    if (isEventStream(response)) return withBody(response, following.unlessTask(body, maxEventSize))
    // A JSON body is read whole; clients would do the same.
    const read = await readAhead(body, maxEventSize, chunk => untilAborted(init.signal, chunk))
    const task = read instanceof Blob ? answerIn(await read.text(), call) : undefined
    if (task === undefined) return withBody(response, read)
    return following.response(task)
  }
}

function answerIn(text: string, { id }: ToolCall): Promise<Seen> | undefined {
  if (!text.includes('"task"')) return undefined
  for (const { message, text: written } of writtenMessages(text)) {
    if (!isResponse(message) || message.id !== id) continue
    const { resultType } = Object(message.result) as { resultType?: unknown }
    if (resultType === 'task')
      return Promise.resolve(memberTexts(written).get('result') as string).then(seenIn)
  }
  return undefined
}

function untilTask(
  whole: Uint8Array,
  call: ToolCall
): readonly [before: Uint8Array, task: Promise<Seen> | undefined] {
  for (const { text, before } of eventsIn(whole)) {
    const task = answerIn(text, call)
    if (task !== undefined) return [before, task]
    call.progress = Number(/"progress": ?([-+.\deE]+)/.exec(text)?.[1] ?? call.progress)
  }
  return [whole, undefined]
}

type Controller = ReadableStreamDefaultController<Uint8Array>

class Following {
  readonly #server: TaskServer
  readonly #call: ToolCall
  readonly #caller: Signal
  readonly #gone = new AbortController()

  constructor(server: TaskServer, call: ToolCall, caller: Signal) {
    this.#server = server
    this.#call = call
    this.#caller = caller
  }

  /** The state of the task, after it was sent the answers that the client has brought. */
  async comeAgain({ taskId, inputResponses }: NonNullable<ToolCall['again']>): Promise<Seen> {
    const { signal } = this.#gone
    if (inputResponses !== undefined) await this.#server.update(taskId, inputResponses, signal)
    return seenIn(await this.#server.get(taskId, signal), taskId)
  }

  response(first: Promise<Seen>): Response {
    const body = new ReadableStream<Uint8Array>({
      start: controller => void this.#follow(controller, first),
      cancel: () => this.#gone.abort()
    })
    return new Response(body, { headers: { 'Content-Type': 'text/event-stream' } })
  }

  /** The events of a response. If it ends with a task, the task is followed in its place. */
  unlessTask(body: ReadableStream<Uint8Array>, maxEventSize: number): ReadableStream<Uint8Array> {
    const reader = body.getReader()
    const blocks = new WholeBlocks()
    const pull = async (controller: Controller): Promise<void> => {
      for (;;) {
        const { value } = await reader.read()
        if (value === undefined) {
          const rest = blocks.takePending()
          if (rest.length > 0) controller.enqueue(rest)
          return controller.close()
        }
        const whole = blocks.push(value)
        if (blocks.pending > maxEventSize) {
          void reader.cancel().catch(() => undefined)
          const error = new Error('An event beyond `maxEventSize`')
          return this.#follow(controller, Promise.reject(error))
        }
        if (whole === undefined) continue
        const [before, task] = untilTask(whole, this.#call)
        if (before.length > 0) controller.enqueue(before)
        if (task !== undefined) {
          // The rest is read to its end: to cancel the body would cancel the call on the server.
          reader.releaseLock()
          body.pipeTo(new WritableStream()).catch(() => undefined)
          return this.#follow(controller, task)
        }
        return
      }
    }
    const cancel = (reason: unknown): Promise<void> => {
      this.#gone.abort()
      return reader.cancel(reason)
    }
    return new ReadableStream({ pull, cancel }, { highWaterMark: 0 })
  }

  async #follow(controller: Controller, first: Promise<Seen>): Promise<void> {
    const { signal } = this.#gone
    let taskId = this.#call.again?.taskId
    // [SEP-2663] A task is cancelled by `tasks/cancel`; closing a connection does not cancel it.
    const unlisten = onAbort(this.#caller, () => {
      if (taskId !== undefined) this.#server.cancel(taskId)
      this.#gone.abort(this.#caller?.reason)
    })
    const say = (json: string): void => controller.enqueue(encodeJson(json))
    try {
      const seen = await first
      taskId = seen.state.taskId
      signal.throwIfAborted()
      await followTask(
        {
          server: this.#server,
          call: this.#call,
          signal,
          say
        },
        seen
      )
    } catch (error) {
      if (!signal.aborted) say(failureOf(this.#call, error))
    }
    unlisten()
    // For a stream that its reader has cancelled, this does nothing.
    if (signal.aborted) controller.error(signal.reason)
    else controller.close()
  }
}
