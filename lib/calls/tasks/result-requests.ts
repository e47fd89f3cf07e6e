// Requests that wait for a task's result (2025-11-25). Those that accept event streams get the
// endpoint's messages until then.
import type { ServerResponse } from 'node:http'
import type { RequestId } from '../../protocol/json-rpc.js'
import { encodeJson } from '../../protocol/sse-writer.js'
import {
  answerJson,
  canAnswer,
  claim,
  endGuarded,
  guarded,
  isWritable,
  writeGuarded
} from '../../endpoint/reply.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { responseText, type TaskReply } from './task-answer.js'

const NOBODY: readonly ResultRequest[] = []

export class ResultRequests {
  /** An array, as most tasks have none or one, and a set takes more memory. */
  #waiting: readonly ResultRequest[] = NOBODY

  /** Whether one of them accepts messages before its answer. */
  get areListening(): boolean {
    return this.#waiting.some(request => request.acceptsEvents)
  }

  has(id: RequestId): boolean {
    return this.#waiting.some(request => request.id === id)
  }

  /** Lets a request wait. */
  add(context: RequestContext, id: RequestId): ResultRequest {
    const request = new ResultRequest(context, id)
    this.#waiting = [...this.#waiting, request]
    context.res.once('close', () => {
      this.#waiting = this.#waiting.filter(other => other !== request)
    })
    request.begin()
    return request
  }

  /** Sends a message of the endpoint to all that accept it. */
  send(text: string): void {
    for (const request of this.#waiting) request.send(text)
  }

  /** Answers all of them. */
  answer(reply: TaskReply): void {
    const waiting = this.#waiting
    this.#waiting = NOBODY
    for (const request of waiting) request.answer(reply)
  }
}

class ResultRequest {
  readonly acceptsEvents: boolean
  readonly id: RequestId
  readonly #res: ServerResponse

  constructor({ res, acceptsEvents }: RequestContext, id: RequestId) {
    this.id = id
    this.#res = res
    this.acceptsEvents = acceptsEvents && canAnswer(res)
  }

  /** Begins the event stream at once, so that it gets comments while it waits. */
  begin(): void {
    const res = this.#res
    if (!this.acceptsEvents || !claim(res)) return
    guarded(res, () => {
      res.writeHead(200, {
        'Content-Type': 'text/event-stream',
        'Cache-Control': 'no-cache, no-transform',
        'X-Accel-Buffering': 'no'
      })
      res.flushHeaders()
    })
  }

  send(text: string): void {
    if (this.acceptsEvents) this.#write(text)
  }

  answer(reply: TaskReply): void {
    const res = this.#res
    const text = responseText(this.id, reply)
    if (!this.acceptsEvents) return guarded(res, () => answerJson(res, 200, text))
    this.#write(text)
    if (isWritable(res)) endGuarded(res)
  }

  /** No handler runs here that could catch an error: it would end the process. */
  #write(text: string): void {
    const res = this.#res
    if (isWritable(res)) writeGuarded(res, () => res.write(encodeJson(text)))
  }
}
