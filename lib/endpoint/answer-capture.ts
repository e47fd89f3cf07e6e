// Captures the endpoint's response to a call whose client we answer ourselves, whatever kind of
// response it is, and reads it as it comes.
import type { OutgoingHttpHeader, OutgoingHttpHeaders } from 'node:http'
import { Timer } from '../streams/timer.js'
import { type AnswerListener, AnswerReader } from './endpoint-answer.js'
import type { Capture, LateHead } from './capture-types.js'

export interface CapturedAnswerListener extends AnswerListener {
  /** The endpoint should wait for `drain`. */
  readonly isFull: boolean
}

/** Milliseconds for which an endpoint may go on with its response once it has answered. */
const PATIENCE = 1000

export class AnswerCapture implements Capture {
  readonly #requestId: string
  readonly #limit: number
  readonly #listener: CapturedAnswerListener
  /** Lets the endpoint see that its response is over. */
  readonly #release: () => void
  #reader: AnswerReader | undefined
  /** It has begun to refuse the call by its status. */
  isRefusal = false
  #isAnswered = false
  #isEnded = false
  /** Runs once no more of the response is wanted. */
  #patience: Timer | undefined

  constructor(
    requestId: string,
    limit: number,
    listener: CapturedAnswerListener,
    release: () => void
  ) {
    this.#requestId = requestId
    this.#limit = limit
    this.#listener = listener
    this.#release = release
  }

  /** No more of it is wanted. An endpoint that has answered is given time to end its response. */
  leave(): void {
    if (!this.#isAnswered || this.#isEnded) return this.#release()
    this.#patience = new Timer(this.#release)
    this.#patience.start(PATIENCE)
  }

  // Capture

  begin(): void {
    // The client gets a head of ours, once there is something to send.
  }

  lateHead({ status, headers }: LateHead): void {
    this.isRefusal = status !== 200
    // It concerns the preference of this request, and not of others that fetch the answer.
    const { 'preference-applied': _applied, ...given } = distinct(headers())
    const head = { status, headers: given }
    this.#reader = new AnswerReader(head, this.#requestId, this.#limit, {
      message: (message, text) => this.#listener.message(message, text),
      answered: answer => {
        this.#isAnswered = true
        this.#listener.answered(answer)
      }
    })
  }

  write(bytes: Buffer): boolean {
    this.#reader?.push(bytes)
    return !this.isFull
  }

  get isFull(): boolean {
    return this.#listener.isFull
  }

  end(): void {
    this.#isEnded = true
    this.#reader?.end()
    this.#over()
  }

  abort(): void {
    this.#isEnded = true
    if (this.#reader !== undefined) this.#reader.brokenOff()
    else this.#listener.answered({ kind: 'fault', fault: 'endpoint-failed' })
    this.#over()
  }

  connectionClosed(): void {
    // The connection is that of our own answer, which does not concern the endpoint.
  }

  #over(): void {
    if (this.#patience === undefined) return
    this.#patience.stop()
    this.#release()
  }
}

/** Headers in the form of Node's `headersDistinct`. */
function distinct(headers: OutgoingHttpHeaders): NodeJS.Dict<string[]> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), listed(value)])
  )
}

function listed(value: OutgoingHttpHeader | undefined): string[] | undefined {
  if (value === undefined) return undefined
  return Array.isArray(value) ? value : [String(value)]
}
