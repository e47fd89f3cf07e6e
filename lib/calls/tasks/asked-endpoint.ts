// A request to the endpoint that the middleware makes itself for a task: a further round, or a call
// whose own request has been answered already.
import type { IncomingMessage } from 'node:http'
import type { Message } from '../../protocol/json-rpc.js'
import { writtenMessages } from '../../protocol/json-splice.js'
import { type EndpointAnswer, readAnswer } from '../../endpoint/endpoint-answer.js'
import { sendToEndpoint } from '../../endpoint/endpoint-client.js'
import { HandlerContext, runInContext } from '../../endpoint/handler-context.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import { messagesIn } from '../../endpoint/late-answer.js'
import { stringOf } from '../../endpoint/response-headers.js'
import type { Task } from './task.js'
import type { TaskListener } from './task-reader.js'
import type { StreamState } from '../../streams/stream-types.js'

interface AskedFacts {
  readonly parts: InstanceParts
  readonly task: Task
  /** The client's request whose credentials the endpoint gets. */
  readonly req: IncomingMessage
  /** The id of the request to the endpoint. */
  readonly id: string
  /** The request as JSON. */
  readonly text: string
  readonly headers: readonly string[]
}

export class AskedEndpoint {
  readonly #id: string
  readonly #listener: TaskListener
  readonly #gone = new AbortController()

  /** Sends the request. */
  constructor(asked: AskedFacts, listener: TaskListener) {
    const { parts, task, id } = asked
    this.#id = id
    this.#listener = listener
    sent(asked, this.#gone.signal).then(
      response =>
        readAnswer(response, id, task.maxBytes, {
          message: (said, written) => listener.heard(said, written),
          answered: answer => this.#answered(answer)
        }),
      (error: unknown) => {
        parts.debug('the endpoint did not answer: %o', error)
        listener.unanswered('endpoint-failed')
      }
    )
  }

  /** The answer is not wanted any more: the endpoint sees its response close. */
  leave(): void {
    this.#gone.abort()
  }

  #answered(answer: EndpointAnswer): void {
    if (answer.kind === 'fault') return this.#listener.unanswered(answer.fault)
    if (answer.kind === 'response') return this.#listener.answered(answer.message, answer.text)
    const { status, headers, body } = answer
    const header = (name: string): string | undefined => stringOf(headers[name])
    const [text = ''] = messagesIn({ status, header, body }, [this.#id])
    const [said] = writtenMessages(text)
    // A status such as 202 accepts the request, but nothing comes after it.
    if (said === undefined) this.#listener.unanswered('no-response')
    else this.#listener.answered(said.message, said.text)
  }
}

/** Not where the answer is waited for: what waits would hold the request as well. */
function sent(
  { parts, task, req, text, headers }: AskedFacts,
  signal: AbortSignal
): Promise<IncomingMessage> {
  const message = JSON.parse(text) as Message
  return runInContext(new TaskContext(parts, task, signal), () =>
    sendToEndpoint(req, message, { text, headers, signal })
  )
}

/**
 * `currentStream()` for a handler that works on a further round of a task. No client reads its
 * stream, so no client can be disconnected or be given parts of the result.
 */
class TaskContext extends HandlerContext {
  readonly #task: Task
  readonly #signal: AbortSignal

  constructor(parts: InstanceParts, task: Task, signal: AbortSignal) {
    super(parts, parts.newId())
    this.#task = task
    this.#signal = signal
  }

  override get state(): StreamState {
    const { status } = this.#task
    return status === 'working' || status === 'input_required' ? 'live' : status
  }

  override get signal(): AbortSignal {
    return this.#signal
  }
}
