// Requests that wait for a task's result (2025-11-25): where they take event streams, they get what
// the endpoint says until then.
import type { ServerResponse } from 'node:http'
import type { RequestId } from '../../protocol/json-rpc.js'
import { encodeJson } from '../../protocol/sse-writer.js'
import { answerJson, canAnswer, claim, guarded, isWritable } from '../../endpoint/reply.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { responseText, type TaskReply } from './task-answer.js'

const NOBODY: readonly ResultRequest[] = []

export class ResultRequests {
  /** So few that a set of them would be larger: most tasks have none. */
  #waiting: readonly ResultRequest[] = NOBODY

  /** One of them can be sent something before its answer. */
  get areListening(): boolean {
    return this.#waiting.some(request => request.acceptsEvents)
  }

  /** A request waits from now on. */
  add(context: RequestContext, id: RequestId): ResultRequest {
    const request = new ResultRequest(context, id)
    this.#waiting = [...this.#waiting, request]
    context.res.once('close', () => {
      this.#waiting = this.#waiting.filter(other => other !== request)
    })
    request.begin()
    return request
  }

  /** Sends a message of the endpoint to all that take one. */
  send(text: string): void {
    for (const request of this.#waiting) request.send(text)
  }

  answer(reply: TaskReply): void {
    const waiting = this.#waiting
    this.#waiting = NOBODY
    for (const request of waiting) request.answer(reply)
  }
}

class ResultRequest {
  readonly acceptsEvents: boolean
  readonly #id: RequestId
  readonly #res: ServerResponse

  constructor({ res, acceptsEvents }: RequestContext, id: RequestId) {
    this.#id = id
    this.#res = res
    this.acceptsEvents = acceptsEvents && canAnswer(res)
  }

  /** Begins its event stream, so that what keeps a wire open keeps this one. */
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
    const text = responseText(this.#id, reply)
    if (!this.acceptsEvents) return guarded(res, () => answerJson(res, 200, text))
    this.#write(text)
    if (isWritable(res)) guarded(res, () => res.end())
  }

  /** What is written here is written outside of any handler: an error would be the process's. */
  #write(text: string): void {
    const res = this.#res
    if (isWritable(res)) guarded(res, () => res.write(encodeJson(text)))
  }
}
