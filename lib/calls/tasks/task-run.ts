// Lets the endpoint work on a task: on the request that it began with, and on each further round.
import type { IncomingMessage } from 'node:http'
import { nanoid } from 'nanoid'
import type { StreamFault } from '../../protocol/errors.js'
import { cancellation, isObject, type Message } from '../../protocol/json-rpc.js'
import { memberTexts, withMembers } from '../../protocol/json-splice.js'
import { progressText } from '../../protocol/tasks.js'
import type { Stream } from '../../streams/stream.js'
import { Timer } from '../../streams/timer.js'
import { tellEndpoint } from '../../endpoint/endpoint-client.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import { AskedEndpoint } from './asked-endpoint.js'
import type { RelatedMessages } from './related-messages.js'
import { type TaskListener, TaskReader } from './task-reader.js'
import type { Outcome, Task, TaskWork } from './task.js'
import type { Round } from './task-input.js'

/** Milliseconds until an endpoint is asked again that has only returned a `requestState`. */
const FIRST_PAUSE = 250
const LONGEST_PAUSE = 5000

export interface RunFacts {
  readonly parts: InstanceParts
  readonly task: Task
  /** The request as JSON, for further rounds; `undefined`: there are none. */
  readonly request?: Buffer
  /** Headers that repeat params of the request (`Mcp-Param-*`). */
  readonly headers: readonly string[]
  /** [2025-11-25] Passes the endpoint's messages on to the client. */
  readonly related?: RelatedMessages | undefined
}

export class TaskRun implements TaskWork, TaskListener {
  readonly #facts: RunFacts
  /** The client's request whose credentials the endpoint got last. */
  #req: IncomingMessage
  /** What reads the endpoint's answer. */
  #source: TaskReader | AskedEndpoint | undefined
  /** The id of the request that the endpoint works on, if it was made here. */
  #requestId: string | undefined
  /** Bytes of the round that the endpoint works on. */
  #underway = 0
  #pause = FIRST_PAUSE
  #again: Timer | undefined

  constructor(facts: RunFacts, req: IncomingMessage) {
    this.#facts = facts
    this.#req = req
    facts.task.work = this
  }

  get task(): Task {
    return this.#facts.task
  }

  /**
   * Reads the endpoint's answer from a stream, which has no other reader. `requestId`: the id that
   * the endpoint knows, if it was made here.
   */
  follow(stream: Stream, requestId?: string): void {
    this.#requestId = requestId
    this.#source = new TaskReader(stream, this)
  }

  // TaskWork

  goOn(req: IncomingMessage, { inputResponses, requestState }: Round): void {
    const { parts, task, request, headers } = this.#facts
    task.releaseInput()
    if (task.isEnded || request === undefined) return
    const text = request.toString()
    const params = withMembers(memberTexts(text).get('params') ?? '{}', {
      inputResponses: inputResponses === '{}' ? undefined : inputResponses,
      requestState
    })
    const id = nanoid()
    const asked = withMembers(text, { params, id: JSON.stringify(id) })
    // The endpoint may hold it for as long as it works on it.
    const size = Buffer.byteLength(asked)
    if (!task.grow(size)) return task.fail('overflow')
    this.#underway = size
    this.#req = req
    this.#requestId = id
    this.#source = new AskedEndpoint({ parts, task, req, id, text: asked, headers }, this)
  }

  stop(by?: IncomingMessage): void {
    this.#again?.stop()
    if (this.#source === undefined) return
    this.#source.leave()
    // An endpoint with sessions learns of a cancellation by a notification only.
    const { parts, task } = this.#facts
    const { sessionId } = task.facts
    if (sessionId === undefined || this.#requestId === undefined) return
    const cancelled = cancellation(this.#requestId, 'The client has cancelled the task')
    void tellEndpoint(parts, by ?? this.#req, cancelled, { sessionId })
  }

  // TaskListener

  heard(message: Message, text: string): void {
    const { task, related } = this.#facts
    if (task.isEnded) return
    const isProgress = message.method === 'notifications/progress'
    const status = isProgress ? progressText(message) : undefined
    if (status !== undefined) task.changed(status)
    related?.heard(message, text)
  }

  answered(message: Message, text: string): void {
    this.#roundOver()
    const { task, related } = this.#facts
    if (task.isEnded) return
    const members = memberTexts(text)
    const outcome = outcomeIn(message, members)
    if (outcome === undefined) return this.unanswered()
    if (related !== undefined) return related.settled(message, outcome)
    const asked = inputIn(message, members.get('result'))
    // [SEP-2663] If the tool reports an error, the task has completed: only requests fail.
    if (asked === undefined) task.settle(outcome)
    else this.#asked(asked)
  }

  unanswered(fault: StreamFault = 'no-response'): void {
    this.#roundOver()
    this.#facts.task.fail(fault)
  }

  #roundOver(): void {
    const { task } = this.#facts
    this.#source = undefined
    if (!task.isEnded) task.grow(-this.#underway)
    this.#underway = 0
  }

  #asked({ questions, requestState }: Input): void {
    const { task } = this.#facts
    if (questions.size === 0 && requestState === undefined) return task.fail('endpoint-failed')
    const kept = [...[...questions].flat(), requestState ?? ''].join('')
    if (!task.growInput(Buffer.byteLength(kept))) return task.fail('overflow')
    // No input is needed: the endpoint only wants to be asked again.
    if (questions.size === 0) return this.#askAgain({ inputResponses: '{}', requestState })
    this.#pause = FIRST_PAUSE
    task.input.ask(questions, requestState)
    task.changed()
  }

  #askAgain(round: Round): void {
    this.#again = new Timer(() => this.goOn(this.#req, round))
    this.#again.start(this.#pause)
    this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE)
  }
}

interface Input {
  /** By the endpoint's keys, as JSON. */
  readonly questions: ReadonlyMap<string, string>
  readonly requestState: string | undefined
}

/** The input that an answer asks for; `undefined`: none. */
function inputIn({ result }: Message, text: string | undefined): Input | undefined {
  if (!isObject(result) || result['resultType'] !== 'input_required') return undefined
  const members = memberTexts(text ?? '{}')
  const questions = memberTexts(members.get('inputRequests') ?? '{}')
  const requestState = members.get('requestState')
  // Some endpoints write `null` if they have no state.
  return { questions, requestState: requestState === 'null' ? undefined : requestState }
}

/** `undefined`: the response has neither a result nor an error, as `"error": null` is none. */
function outcomeIn(
  { result, error }: Message,
  members: ReadonlyMap<string, string>
): Outcome | undefined {
  if (isObject(error)) return { kind: 'error', text: members.get('error') ?? '{}' }
  return result === undefined ? undefined : { kind: 'result', text: members.get('result') ?? '{}' }
}
