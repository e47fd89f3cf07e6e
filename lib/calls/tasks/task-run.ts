// Lets the endpoint work on a task: the request that it began with, and each further round.
import type { IncomingMessage } from 'node:http'
import { nanoid } from 'nanoid'
import { isObject, type Message } from '../../protocol/json-rpc.js'
import { memberTexts, withMembers } from '../../protocol/json-splice.js'
import { progressText } from '../../protocol/tasks.js'
import { Timer } from '../../streams/timer.js'
import type { EndpointAnswer } from '../../endpoint/endpoint-answer.js'
import { readAnswer } from '../../endpoint/endpoint-answer.js'
import { sendToEndpoint, tellEndpoint } from '../../endpoint/endpoint-client.js'
import { runInContext } from '../../endpoint/handler-context.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { CoreDialogue } from './core-dialogue.js'
import { TaskContext } from './task-context.js'
import type { Task } from './task.js'
import type { Round } from './task-input.js'

/** Milliseconds until an endpoint is asked again that only says "come again". */
const FIRST_PAUSE = 250
const LONGEST_PAUSE = 5000

export interface RunFacts {
  readonly parts: InstanceParts
  readonly task: Task
  /** The request, as the endpoint is to have it. */
  readonly text: string
  /** Whether its client takes messages before the answer, as long as it waits for it. */
  readonly acceptsEvents: boolean
  /** At 2025-11-25: what the endpoint says is given to the client. */
  readonly dialogue?: CoreDialogue | undefined
  /** Headers that say what stands in the request's parameters. */
  readonly headers: readonly string[]
}

export class TaskRun {
  readonly #facts: RunFacts
  #pause = FIRST_PAUSE
  #next: () => void = () => undefined
  readonly #again = new Timer(() => this.#next())

  constructor(facts: RunFacts) {
    this.#facts = facts
  }

  /** @param req whose credentials the endpoint gets. */
  begin(req: IncomingMessage): void {
    this.#send(req, this.#facts.text)
  }

  /** All that the endpoint has asked for is there. */
  goOn(req: IncomingMessage, { inputResponses, requestState }: Round): void {
    const { text, task } = this.#facts
    task.letGoOfInput()
    const params = withMembers(memberTexts(text).get('params') ?? '{}', {
      inputResponses: inputResponses === '{}' ? undefined : inputResponses,
      requestState
    })
    this.#send(req, withMembers(text, { params }))
  }

  #send(req: IncomingMessage, request: string): void {
    const { parts, task, headers } = this.#facts
    const { call } = task
    if (call.isEnded) return
    const id = nanoid()
    const text = withMembers(request, { id: JSON.stringify(id) })
    const message = JSON.parse(text) as Message
    const { sessionId } = call.facts
    if (sessionId !== undefined)
      call.onCancelled = by => {
        const params = { requestId: id, reason: 'The client has cancelled the task' }
        const told = { jsonrpc: '2.0', method: 'notifications/cancelled', params }
        void tellEndpoint(parts, by ?? req, told, { sessionId })
      }
    const send = (): Promise<IncomingMessage> =>
      sendToEndpoint(req, message, { text, headers, signal: call.signal })
    runInContext(new TaskContext(parts, call), send).then(
      response => {
        call.onDrain = () => response.resume()
        readAnswer(response, id, task.maxCallBytes, {
          message: (said, written) => {
            if (this.#facts.dialogue?.heard(said, written) === false) response.destroy()
            else if (this.#facts.dialogue === undefined && !this.#heard(said, written))
              response.pause()
          },
          answered: answer => this.#answered(req, answer)
        })
      },
      (error: unknown) => {
        parts.debug('the endpoint did not answer: %o', error)
        call.fail('endpoint-failed')
      }
    )
  }

  /** `false`: the client cannot be told more for now. */
  #heard(message: Message, text: string): boolean {
    const { task, acceptsEvents } = this.#facts
    if (!task.isTask) return !acceptsEvents || task.call.tell(message, text)
    const isProgress = message.method === 'notifications/progress' && !task.isEnded
    const words = isProgress ? progressText(message) : undefined
    if (words !== undefined) task.changed(words)
    return true
  }

  #answered(req: IncomingMessage, answer: EndpointAnswer): void {
    const { task } = this.#facts
    if (task.isEnded) return
    const { dialogue } = this.#facts
    if (dialogue !== undefined) return task.call.settle(dialogue.settled(answer))
    const asked = task.isTask ? inputIn(answer) : undefined
    if (asked !== undefined) return this.#asked(req, asked)
    if (isFailure(answer)) task.willFail()
    task.call.settle(answer)
  }

  #asked(req: IncomingMessage, { questions, requestState }: Input): void {
    const { task } = this.#facts
    if (questions.size === 0 && requestState === undefined) return task.call.fail('endpoint-failed')
    const kept = [...questions.values(), requestState ?? ''].join('')
    if (!task.growInput(Buffer.byteLength(kept))) return task.call.fail('overflow')
    // Nobody is asked anything: the endpoint wants to be asked again.
    if (questions.size === 0) return this.#askAgain(req, { inputResponses: '{}', requestState })
    this.#pause = FIRST_PAUSE
    task.input.ask(questions, requestState)
    task.changed()
  }

  #askAgain(req: IncomingMessage, round: Round): void {
    this.#next = () => this.goOn(req, round)
    this.#again.start(this.#pause)
    this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE)
  }
}

interface Input {
  /** By the endpoint's keys, as JSON. */
  readonly questions: ReadonlyMap<string, string>
  readonly requestState: string | undefined
}

/** What an answer asks its client for; `undefined`: nothing. */
function inputIn(answer: EndpointAnswer): Input | undefined {
  if (answer.kind !== 'response' || !isObject(answer.message.result)) return undefined
  if (answer.message.result['resultType'] !== 'input_required') return undefined
  const members = memberTexts(memberTexts(answer.text).get('result') ?? '{}')
  const questions = memberTexts(members.get('inputRequests') ?? '{}')
  return { questions, requestState: members.get('requestState') }
}

/** [SEP-2663] A tool that reports an error has completed: what fails is the request. */
function isFailure(answer: EndpointAnswer): boolean {
  return answer.kind !== 'response' || answer.message.error !== undefined
}
