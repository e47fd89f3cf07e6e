// One request of a client that waits for a call, over HTTP or on another wire.
import type { IncomingMessage } from 'node:http'
import { faultError, type StreamFault } from '../protocol/errors.js'
import { errorResponse, type Message, type RequestId } from '../protocol/json-rpc.js'
import type { WrittenAnswer } from '../endpoint/endpoint-answer.js'
import { refusalOf, type ResumeTokenFault } from './token-fault.js'

/** What a request is answered with: the endpoint's answer, or an interim result. */
export type CallAnswer = WrittenAnswer | { readonly kind: 'interim'; readonly result: string }

export interface CallReply {
  readonly requestId: RequestId
  /** The HTTP request; `undefined` on another wire. */
  readonly req: IncomingMessage | undefined
  /** Whether messages can be sent before the answer. */
  readonly acceptsEvents: boolean
  /** Whether the response is written even if the client has gone (`Idempotency-Key`). */
  readonly isKept: boolean
  /** Whether the answer has been given, or the client has gone. */
  readonly isOver: boolean
  /** Whether the client is slow to read what it has been sent. */
  readonly isFull: boolean
  /** Whether the client could reach this process with another request. */
  readonly mayComeBack: boolean
  /**
   * Whether it must not be answered yet: it has passed on requests of the endpoint that its client
   * has not answered, or the endpoint has begun to refuse it.
   */
  readonly mustStay: boolean
  /**
   * Calls `onGone` if the client leaves before it has its answer, with `isCancelled` if it has
   * cancelled the call. Calls `onDrain` when the client has read what it was sent.
   */
  watch(onGone: (isCancelled: boolean) => void, onDrain: () => void): void
  /** Passes on a message of the endpoint. */
  send(message: Message, text: string): void
  answer(answer: CallAnswer): void
}

/** The answer of a call that has failed. */
export function faultAnswer(fault: StreamFault): WrittenAnswer {
  return errorAnswer(errorResponse('', faultError(fault)))
}

/** The answer to a request whose token is refused. */
export function refusalFor(fault: ResumeTokenFault): WrittenAnswer {
  return errorAnswer(refusalOf('', fault))
}

function errorAnswer(text: string): WrittenAnswer {
  return { kind: 'response', requestId: '', text, headers: {} }
}
