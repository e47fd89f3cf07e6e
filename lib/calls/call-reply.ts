// One request of a client that waits for a call, whatever it has come by.
import type { IncomingMessage } from 'node:http'
import { faultError, type StreamFault } from '../protocol/errors.js'
import { errorResponse, type Message, type RequestId } from '../protocol/json-rpc.js'
import type { WrittenAnswer } from '../endpoint/endpoint-answer.js'
import { refusalOf, type ResumeTokenFault } from './token-fault.js'

/** What a request is answered with: what its endpoint says, or a result in the meantime. */
export type CallAnswer = WrittenAnswer | { readonly kind: 'interim'; readonly result: string }

export interface CallReply {
  readonly requestId: RequestId
  /** The request that it is, where it has come by HTTP. */
  readonly req: IncomingMessage | undefined
  /** Whether it can be sent something before its answer. */
  readonly acceptsEvents: boolean
  /** Its response is held open without its client. */
  readonly isKept: boolean
  /** It has been given an answer, or its client has gone. */
  readonly isOver: boolean
  /** Its client does not take what it has been sent. */
  readonly isFull: boolean
  /** Where it came to, its client can come to again. */
  readonly mayComeBack: boolean
  /**
   * It must not go yet: it has passed on requests of the endpoint that its client has not answered,
   * or the endpoint has begun to refuse it.
   */
  readonly mustStay: boolean
  /**
   * Calls `onGone` if the client leaves before it has its answer; `isCancelled`: it wants no more
   * of the call. Calls `onDrain` when it is full no more.
   */
  watch(onGone: (isCancelled: boolean) => void, onDrain: () => void): void
  /** Passes on a message of the endpoint. */
  send(message: Message, text: string): void
  answer(answer: CallAnswer): void
}

/** What answers for a call that has failed. */
export function faultAnswer(fault: StreamFault): WrittenAnswer {
  return errorAnswer(errorResponse('', faultError(fault)))
}

/** What answers a request whose token stands for nothing. */
export function refusalFor(fault: ResumeTokenFault): WrittenAnswer {
  return errorAnswer(refusalOf('', fault))
}

function errorAnswer(text: string): WrittenAnswer {
  return { kind: 'response', requestId: '', text, headers: {} }
}
