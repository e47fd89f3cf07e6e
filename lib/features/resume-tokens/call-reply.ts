// How one request is answered that waits for a call, over HTTP or on another wire.
import type { IncomingMessage } from 'node:http'
import { faultError, type StreamFault } from '../../protocol/errors.js'
import { errorResponse, type RequestId } from '../../protocol/json-rpc.js'
import type { WrittenMessage } from '../../protocol/json-splice.js'
import type { WrittenAnswer } from '../../endpoint/endpoint-answer.js'
import { refusalOf, type ResumeTokenFault } from './token-fault.js'

export type CallAnswer = WrittenAnswer | { readonly kind: 'interim'; readonly result: string }

export interface CallReply {
  readonly requestId: RequestId
  readonly req: IncomingMessage | undefined
  readonly acceptsEvents: boolean
  /** Whether the response is written even if the client has gone (`Idempotency-Key`). */
  readonly isKept: boolean
  readonly isOver: boolean
  readonly isFull: boolean
  /** Whether the client could reach this process with another request. */
  readonly mayComeBack: boolean
  /** It has passed on requests that are open, or the endpoint has begun to refuse it. */
  readonly mustStay: boolean
  /** `onGone`: the client left before its answer; `onDrain`: it has read what it was sent. */
  watch(onGone: (isCancelled: boolean) => void, onDrain: () => void): void
  send(said: WrittenMessage): void
  answer(answer: CallAnswer): void
}

export function faultAnswer(fault: StreamFault): WrittenAnswer {
  return errorAnswer(errorResponse('', faultError(fault)))
}

export function refusalFor(fault: ResumeTokenFault): WrittenAnswer {
  return errorAnswer(refusalOf('', fault))
}

function errorAnswer(text: string): WrittenAnswer {
  return { kind: 'response', requestId: '', text, headers: {} }
}
