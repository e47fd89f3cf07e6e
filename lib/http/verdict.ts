// What the endpoint's own answers mean for streams: a session that ended, a call that was cancelled, a revision agreed upon.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { cancelledRequest, isObject, isResponse, type Message, messagesOf, type RequestId } from '../core/json-rpc.js'
import { parseRevision } from '../core/protocol-version.js'
import { sessionOf } from './guards.js'
import type { House } from './house.js'
import { isInMemory } from './memory-socket.js'
import { observeBody } from './observe-body.js'

/** Bytes of an `initialize` answer that are read for the revision. */
const LONGEST_INITIALIZE = 1024 * 1024

/** Acts on the endpoint's answer to a request, once it has been given. */
export function watchVerdict(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  messages: readonly Message[],
  owner: string
): void {
  const session = sessionOf(req)
  const cancelled = messages.flatMap(message => cancelledRequest(message) ?? [])
  // Who sends one from here knows whose answer it is: another stream may have asked under the same id.
  const answers = isInMemory(req) ? [] : messages.filter(isResponse)
  if (session === undefined && cancelled.length === 0 && answers.length === 0) return
  res.once('close', () => {
    if (!res.headersSent) return
    const { statusCode } = res
    const isAccepted = statusCode >= 200 && statusCode < 300
    if (isAccepted) {
      for (const id of cancelled) house.table.findByRequest(id, session, owner)?.cancelRequest(id)
      if (answers.length > 0) noteAnswers(house, answers, session, owner)
    }
    if (session === undefined) return
    // Not on GET: an endpoint without a listen channel may say 404 there, and goes on with its session.
    const isGone = statusCode === 404 && req.method === 'POST'
    if (isGone || (isAccepted && req.method === 'DELETE')) endSession(house, session, owner, isGone)
  })
}

/** Reads the revision from the `initialize` result, whichever way it comes. */
export function noteRevision(house: House, { sessionId, hasStreams }: InitializeAnswer, message: Message): void {
  if (sessionId === undefined || !isObject(message.result)) return
  house.sessions.negotiated(sessionId, parseRevision(message.result['protocolVersion']), hasStreams)
}

/** The answer to `initialize`, as far as its head has told. */
export interface InitializeAnswer {
  sessionId: string | undefined
  /** The client has declared the Streams draft. */
  readonly hasStreams: boolean
}

/** Looks over a JSON answer to `initialize` without touching a byte of it. The session is for the caller to fill in. */
export function watchInitializeJson(house: House, res: ServerResponse, hasStreams: boolean): InitializeAnswer {
  const answer: InitializeAnswer = { sessionId: undefined, hasStreams }
  observeBody(res, LONGEST_INITIALIZE, body => {
    if (answer.sessionId !== undefined && body !== undefined) noteJson(house, answer, body)
  })
  return answer
}

function noteJson(house: House, answer: InitializeAnswer, bytes: Buffer): void {
  let body: unknown
  try {
    body = JSON.parse(bytes.toString('utf8'))
  } catch {
    return // An event stream: its response is read from the stream.
  }
  for (const message of messagesOf(body)) noteRevision(house, answer, message)
}

function noteAnswers(house: House, answers: readonly Message[], session: string | undefined, owner: string): void {
  const asking = house.table.listFor(session, owner).filter(({ openRequests }) => openRequests.size > 0)
  for (const { id } of answers) {
    const theirs = asking.filter(({ openRequests }) => openRequests.has(id as RequestId))
    // Without a session, two calls may have asked under one id: then it is not certain which is answered.
    if (session !== undefined || theirs.length === 1) for (const stream of theirs) stream.answered(id as RequestId)
  }
}

function endSession(house: House, session: string, owner: string, isLost: boolean): void {
  const streams = house.table.ofSession(session, owner)
  house.debug('session ended by %s: %d streams dropped', isLost ? 'the endpoint (404)' : 'DELETE', streams.length)
  house.sessions.delete(session)
  for (const stream of streams) {
    // A lost session owes its callers an error; a client that ended its session itself wants nothing more.
    if (isLost) stream.fail('session-ended')
    else if (stream.isEnded) house.table.drop(stream)
    else stream.cancel()
  }
}
