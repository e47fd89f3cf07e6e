// Requests that wait for a task's result (2025-11-25). Those that accept event streams get the
// endpoint's messages until then.
import type { RequestId } from '../../protocol/json-rpc.js'
import { encodeJson, messageText } from '../../protocol/sse-writer.js'
import { canAnswer, claim, guarded, isWritable, writeGuarded } from '../../endpoint/reply.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { answerWhole, responseSink } from '../../endpoint/response-sink.js'
import { keptIn, responseText, type TaskReply } from './task-answer.js'

/** Bytes of messages that a client leaves in its socket before it is cut off. */
const MOST_UNREAD = 1024 * 1024

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
  readonly #context: RequestContext

  constructor(context: RequestContext, id: RequestId) {
    const { res, acceptsEvents } = context
    this.id = id
    this.#context = context
    // It may be large, and is not needed while the request waits.
    context.dropBody()
    this.acceptsEvents = acceptsEvents && canAnswer(res)
  }

  /** Begins the event stream at once, so that it gets comments while it waits. */
  begin(): void {
    const { res } = this.#context
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
    const { res } = this.#context
    if (!this.acceptsEvents || !isWritable(res)) return
    // Its client may ask again, and gets what is asked of it once more.
    if (res.writableLength > MOST_UNREAD) return void res.destroy()
    writeGuarded(res, () => res.write(encodeJson(text)))
  }

  answer(reply: TaskReply): void {
    const { req, res, owner, instance } = this.#context
    const text = responseText(this.id, reply)
    const kept = keptIn(reply)
    if (!this.acceptsEvents) return guarded(res, () => answerWhole(this.#context, text, kept))
    if (!isWritable(res)) return
    const { outgoing } = instance.connections
    const answer = outgoing.answerOf(messageText(text), kept)
    // No handler runs here that could catch an error: it would end the process.
    guarded(res, () => outgoing.write(responseSink(req, res), owner, answer))
  }
}
