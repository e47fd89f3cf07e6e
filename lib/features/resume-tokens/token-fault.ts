// The reasons for which a resume token is refused. None says anything about another client's call.
import type { WrittenAnswer } from '../../endpoint/endpoint-answer.js'
import { faultError, type StreamFault } from '../../protocol/errors.js'
import { errorResponse, INVALID_PARAMS, type RequestId } from '../../protocol/json-rpc.js'

/**
 * The `reason` in the `data` of the error (-32602) that answers a request with a resume token:
 *
 * - `token-invalid`: never given out, or forgotten; or given to another owner, in another session
 *   or on another path. The client is not told which of these it is.
 * - `token-expired`: the request was not resumed in time, or its result was evicted.
 * - `token-superseded`: the next token of the same call has been used.
 * - `token-completed`: the result has been given, and the time for which it could be asked for
 *   again is over.
 * - `token-cancelled`: the client has cancelled the request.
 * - `method-changed`, `parameters-changed`: the method or the parameters differ from those of the
 *   request that the token was given for.
 * - `token-in-batch`: the request is part of a batch, and must be sent alone.
 */
export type ResumeTokenFault =
  | 'token-invalid'
  | 'token-expired'
  | 'token-superseded'
  | 'token-completed'
  | 'token-cancelled'
  | 'method-changed'
  | 'parameters-changed'
  | 'token-in-batch'

const MESSAGES: Record<ResumeTokenFault, string> = {
  'token-invalid': 'The resume token is not valid',
  'token-expired': 'The resume token has expired: the request was not resumed in time',
  'token-superseded': 'The resume token has expired: a newer one has been used',
  'token-completed': 'The resume token has expired: the request is completed',
  'token-cancelled': 'The resume token has expired: the request was cancelled',
  'method-changed': 'The resume token was given for another method',
  'parameters-changed': 'The resume token was given for other parameters',
  'token-in-batch': 'A request with a resume token must not be part of a batch'
}

export function tokenFaultMessage(fault: ResumeTokenFault): string {
  return `Invalid params: ${MESSAGES[fault]}`
}

/** The Resuming draft's error that answers a request with a resume token, as JSON. */
export function refusalOf(id: RequestId | null, reason: ResumeTokenFault): string {
  return errorResponse(id, {
    code: INVALID_PARAMS,
    message: tokenFaultMessage(reason),
    data: { reason }
  })
}

/** The same as the answer to a call. */
export function refusalFor(fault: ResumeTokenFault): WrittenAnswer {
  return errorAnswer(refusalOf('', fault))
}

export function faultAnswer(fault: StreamFault): WrittenAnswer {
  return errorAnswer(errorResponse('', faultError(fault)))
}

function errorAnswer(text: string): WrittenAnswer {
  return { kind: 'response', requestId: '', text, headers: {} }
}
