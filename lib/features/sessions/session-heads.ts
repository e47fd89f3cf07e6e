// The id of a session in the endpoint's answers: its client gets the one that it knows.
import type { ServerResponse } from 'node:http'
import { isEventStreamType } from '../../protocol/media-types.js'
import { isResponse, type RequestId } from '../../protocol/json-rpc.js'
import { encodeMessage } from '../../protocol/sse-writer.js'
import { patchedResponse } from '../../http/patched-response.js'
import { rewriteAnswer } from '../../http/rewrite-answer.js'
import type { Session } from './session.js'

const SESSION = 'mcp-session-id'
const ON_WIRE = 'Mcp-Session-Id'

/**
 * All else of ours sees the id that the client gets, so this is to be called last.
 *
 * @param mayNotify its client reads the answer: it hears what has changed with its session.
 */
export function translateHead(res: ServerResponse, session: Session, mayNotify: boolean): void {
  patchedResponse(res).changeHead(head => {
    const { id, endpointId, notices } = session
    if (head.header(SESSION) === endpointId) head.setHeader(ON_WIRE, id)
    const isStream = head.status === 200 && isEventStreamType(head.header('content-type'))
    if (!head.isExplicit || !isStream || !mayNotify || notices.length === 0) return undefined
    session.notices = []
    // Some SDKs name the length of a stream that has come to its end by now.
    head.removeHeader('Content-Length')
    return Buffer.concat(notices.map(encodeMessage))
  })
}

/** Bytes in which the result of `initialize` must come. */
const LONGEST_RESULT = 1024 * 1024

/** What the endpoint is able to do goes into the id, and the id is in the head. */
export function sealHead(
  res: ServerResponse,
  requestId: RequestId,
  seal: (endpointId: string, result: unknown) => string | undefined
): void {
  rewriteAnswer(res, {
    limit: LONGEST_RESULT,
    holdsHead: header => header(SESSION) !== undefined,
    headersFor(first, header) {
      const endpointId = header(SESSION)
      if (endpointId === undefined) return {}
      const answer = first.find(message => isResponse(message) && message.id === requestId)
      const id = seal(endpointId, answer?.result)
      return id === undefined ? {} : { [ON_WIRE]: id }
    }
  })
}
