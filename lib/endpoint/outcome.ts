// What the endpoint's own answers mean for streams, calls and sessions.
import { isObject, type Message, type RequestId } from '../protocol/json-rpc.js'
import { writtenMessages } from '../protocol/json-splice.js'
import { parseRevision } from '../protocol/revisions.js'
import type { Record } from '../streams/record.js'
import { Stream } from '../streams/stream.js'
import { type Acceptance, onceAnswered, onceOver } from './acceptance.js'
import type { InstanceParts, PostOutcome } from './instance-parts.js'
import { type HeadInMaking, patchedResponse } from '../http/patched-response.js'
import { isLoopback } from '../http/loopback.js'
import { watchBody } from '../http/body-watch.js'
import type { RequestContext } from './request-context.js'
import type { RequestFacts } from './request-facts.js'

/** Bytes of an `initialize` answer that are read for the revision. */
const LONGEST_INITIALIZE = 1024 * 1024

/**
 * Acts on the endpoint's answer to a request, once it has been given.
 *
 * @param seesHead whoever lets the endpoint answer calls `noteLost` if it answers 404.
 */
export function watchOutcome(context: RequestContext, seesHead = false): void {
  watchSession(context)
  const { instance: parts, req, res, owner, session, facts } = context
  const isQuiet = facts.answered.length === 0 && facts.cancelled.length === 0
  const isPlain = session === undefined || (seesHead && req.method === 'POST')
  if (isPlain && isQuiet && !context.isUnread) return
  // Not for our own requests: another stream may have asked under the same id.
  const isOwn = isLoopback(req)
  const askingIn = ({ answered }: RequestFacts): [RequestId, Stream][] =>
    isOwn ? [] : askingFor(parts, answered, session, owner)
  // Looked up now: the call may end with the answer.
  const asking = askingIn(facts)
  // The endpoint may end the session's streams before it answers.
  const ending =
    session !== undefined && req.method === 'DELETE'
      ? parts.table.index.ofSession(session, owner)
      : []
  for (const stream of ending) stream.sessionEnding()
  onceAnswered(context, acceptance => {
    const outcome = outcomeOf(context, acceptance)
    for (const [id, stream] of parts.table.index.findByRequests(outcome.cancelled, session, owner))
      stream.cancelRequest(id)
    if (acceptance.isAccepted) {
      for (const [, stream] of asking) noteDirectAnswer(parts, stream)
      for (const [id, stream] of askingIn(context.facts)) stream.answered(id)
    }
    for (const act of parts.outcomes) act(outcome)
    if (session !== undefined && outcome.sessionEnd !== undefined)
      endSession(parts, session, owner, outcome.sessionEnd === 'lost')
  })
  if (ending.length > 0)
    onceOver(res, () => {
      for (const stream of ending) stream.sessionKept()
    })
}

/** The endpoint answers 404 in a session: it does not know it any more. Not on GET. */
export function noteLost(context: RequestContext): void {
  const { instance, res, req, session, owner, facts } = context
  const isQuiet = facts.answered.length === 0 && facts.cancelled.length === 0
  // Else that is noted with what it says.
  if (session === undefined || req.method !== 'POST' || !isQuiet || context.isUnread) return
  onceOver(res, () => {
    if (!res.headersSent) return
    const outcome = outcomeOf(context, { isAccepted: false, isSessionLost: true })
    for (const act of instance.outcomes) act(outcome)
    endSession(instance, session, owner, true)
  })
}

/**
 * Notes which sessions the endpoint knows. Its 400 to one that was not handed out here becomes the
 * 404 of the specification: else, hosts keep it.
 */
function watchSession(context: RequestContext): void {
  const { instance, session, facts, isUnread, res } = context
  const mayBegin = isUnread || facts.isInitialize
  if (!mayBegin && (session === undefined || instance.sessions.isSeen(session))) return
  patchedResponse(res).changeHead(head => {
    if (head.status >= 200 && head.status < 300) see(context, head)
    if (isUnknownSession(context, head.status)) head.status = 404
    return undefined
  })
}

function isUnknownSession(context: RequestContext, status: number): boolean {
  const { instance, session, method } = context
  if (status !== 400 || session === undefined || instance.sessions.isSeen(session)) return false
  if (context.learnParsed().isInitialize) return false
  instance.debug('%s in a session that was not begun here: its 400 becomes 404', method)
  return true
}

function see({ instance, session, owner }: RequestContext, head: HeadInMaking): void {
  const { sessions } = instance
  const named = head.header('mcp-session-id')
  if (session !== undefined) sessions.see(owner, session)
  if (named !== undefined) sessions.see(owner, sessions.nameOf(named))
}

const NO_IDS: readonly RequestId[] = []

function outcomeOf(
  { facts, session, owner, method, req }: RequestContext,
  { isAccepted, isSessionLost }: Acceptance
): PostOutcome {
  const isDeleted = isAccepted && method === 'DELETE'
  const end = isSessionLost ? 'lost' : isDeleted ? 'deleted' : undefined
  return {
    req,
    owner,
    session,
    cancelled: isAccepted ? facts.cancelled : NO_IDS,
    answered: isAccepted ? facts.answered : NO_IDS,
    sessionEnd: session === undefined ? undefined : end
  }
}

/** Reads the revision from the `initialize` result, whichever way it comes. */
export function noteRevision(
  parts: InstanceParts,
  { owner, sessionId, hasStreams }: InitializeAnswer,
  message: Message
): void {
  if (sessionId === undefined || !isObject(message.result)) return
  parts.sessions.negotiated(
    owner,
    sessionId,
    parseRevision(message.result['protocolVersion']),
    hasStreams
  )
}

export interface InitializeAnswer {
  readonly owner: string
  /** The session that the endpoint has named: one that the client names may be another's. */
  sessionId: string | undefined
  /** The client has declared the Streams draft. */
  readonly hasStreams: boolean
}

/** Without changing it. The caller fills in the session. */
export function watchInitializeJson(context: RequestContext): InitializeAnswer {
  const { instance, res, owner } = context
  const answer: InitializeAnswer = {
    owner,
    sessionId: undefined,
    get hasStreams() {
      return context.facts.declaresStreams
    }
  }
  const ended = (body: Buffer): void => {
    // An event stream is no JSON: its response is read from the stream.
    for (const { message } of writtenMessages(body.toString('utf8')))
      noteRevision(instance, answer, message)
  }
  watchBody(res, LONGEST_INITIALIZE, ended, () => answer.sessionId !== undefined)
  return answer
}

/** The streams whose requests are answered, by request id. */
function askingFor(
  parts: InstanceParts,
  answers: readonly RequestId[],
  session: string | undefined,
  owner: string
): [RequestId, Stream][] {
  if (answers.length === 0) return []
  const asking = parts.table.index
    .listFor(session, owner)
    .filter(({ openRequests }) => openRequests.size > 0)
  return answers.flatMap(id => {
    const found = asking.filter(({ openRequests }) => openRequests.has(id))
    // Without a session, two calls may have asked under one id.
    if (session === undefined && found.length !== 1) return []
    return found.map((stream): [RequestId, Stream] => [id, stream])
  })
}

/** Ends a session; `isLost`: its endpoint no longer knows it. */
export function endSession(
  parts: InstanceParts,
  session: string,
  owner: string,
  isLost: boolean
): void {
  const { table } = parts
  const streams = table.index.ofSession(session, owner)
  const ended = table.endedFor(session, owner)
  parts.debug(
    'session ended by %s: %d streams dropped',
    isLost ? 'the endpoint (404)' : 'DELETE',
    streams.length + ended.length
  )
  parts.sessions.delete(owner, session)
  for (const tell of parts.sessionEnded) tell(session, owner)
  for (const stream of streams) {
    // A lost session owes its callers an error.
    if (isLost) stream.fail('session-ended')
    else stream.cancel()
  }
  if (!isLost) for (const one of ended) table.drop(one)
}

/** The client has answered at the endpoint, not at the stream URL. */
export function noteDirectAnswer({ sessions }: InstanceParts, stream: Stream | Record): void {
  const { owner, sessionId } = stream
  // A client that follows links may do both; it counts as one that waits.
  if (stream instanceof Stream ? stream.followsLinks : sessions.of(owner, sessionId).followsLinks)
    return
  if (stream instanceof Stream) stream.noteDirectAnswer()
  if (sessionId !== undefined) sessions.noteDirectAnswer(owner, sessionId)
}
