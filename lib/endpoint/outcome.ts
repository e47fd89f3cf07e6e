// What the endpoint's own answers mean for streams, calls and sessions.
import { isObject, type Message, type RequestId } from '../protocol/json-rpc.js'
import { writtenMessages } from '../protocol/json-splice.js'
import { parseRevision } from '../protocol/revisions.js'
import type { Record } from '../streams/record.js'
import { Stream } from '../streams/stream.js'
import { type Acceptance, onceAnswered, onceOver } from './acceptance.js'
import type { InstanceParts, PostOutcome } from './instance-parts.js'
import { Holder, type HeldAnswer } from '../http/held-answer.js'
import { type HeadInMaking, type Layer, patchedResponse } from '../http/patched-response.js'
import { watchBody } from '../http/body-watch.js'
import type { RequestContext, RequestFacts } from './request-context.js'
import { isAboutRequest } from './session-pings.js'

/** Bytes of an `initialize` answer that are read for the revision. */
const LONGEST_INITIALIZE = 1024 * 1024

/**
 * Acts on the endpoint's answer to a request, once it has been given. `isHeadSeen`: its head comes
 * to `noteNotFound`, so that of a call that ends nothing else, no more is watched.
 */
export function watchOutcome(context: RequestContext, isHeadSeen = false): void {
  const { instance, method, session, facts, isUnread, keyedCall } = context
  const mayBegin = isUnread || facts.isInitialize
  const isKnown = session === undefined || context.known.seen?.isOver === false
  if (mayBegin || !(isKnown || instance.sessions.isSeen(session))) watchSession(context)
  const isQuiet = facts.answered.length === 0 && facts.cancelled.length === 0 && !isUnread
  const isEnough =
    method !== 'DELETE' && (method !== 'POST' || (isHeadSeen && keyedCall === undefined))
  if (isQuiet && (session === undefined || isEnough)) return
  watchAnswer(context)
}

/** A 404 to a POST tells that its session has ended. */
export function noteNotFound(context: RequestContext): void {
  const { isWatched, session, method } = context
  if (!isWatched && session !== undefined && method === 'POST') watchAnswer(context)
}

function watchAnswer(context: RequestContext): void {
  context.isWatched = true
  const { instance: parts, req, res, owner, session, facts } = context
  // Not for our own requests: another stream may have asked under the same id.
  const { isOwn } = context
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

/**
 * Notes which sessions the endpoint knows. Its 400 to one that it does not know becomes the 404 of
 * the specification: else, hosts keep it.
 */
function watchSession(context: RequestContext): void {
  patchedResponse(context.res).changeHead(head => {
    if (head.status >= 200 && head.status < 300) see(context, head)
    if (isUnknownSession(context, head.status)) head.status = 404
    return undefined
  })
}

/** For a response whose head nobody else sees, or one that is rewritten. */
export function holdBadRequest(context: RequestContext): void {
  const holder = holderFor(context)
  if (holder !== undefined) patchedResponse(context.res).holdBy(holder)
}

/** The endpoint answers 400: what takes the response until it is known whether it stays so. */
export function heldBadRequest(context: RequestContext): Layer | undefined {
  const holder = holderFor(context)
  return holder && patchedResponse(context.res).hold(holder, BAD_REQUEST)
}

function holderFor(context: RequestContext): Holder | undefined {
  const { session, facts, isOwn } = context
  return session === undefined || facts.isInitialize || isOwn || !isSeen(context, session)
    ? undefined
    : new BadOrLost(context, session)
}

const BAD_REQUEST = 400

/** A 400 in a session that was begun here: it may be forgotten by now, or the request is bad. */
class BadOrLost extends Holder {
  readonly #context: RequestContext
  readonly #session: string

  constructor(context: RequestContext, session: string) {
    super()
    this.#context = context
    this.#session = session
  }

  protected holds(status: number): boolean {
    return status === 400
  }

  decide(held: HeldAnswer): void {
    const { instance, req, owner } = this.#context
    const facts = this.#context.learnParsed()
    if (held.isUnwanted || facts.isInitialize || isAboutRequest(held.text, facts.requestIds))
      return held.pass()
    const { revision } = instance.sessions.of(owner, this.#session)
    const session = { owner, name: this.#session, revision }
    void instance.sessionPings.isLost(req, session).then(isLost => {
      if (isLost) instance.debug('the endpoint has forgotten a session: its 400 becomes 404')
      held.pass(isLost ? 404 : 400)
    })
  }
}

function isUnknownSession(context: RequestContext, status: number): boolean {
  const { instance, session, method } = context
  if (status !== 400 || session === undefined || isSeen(context, session)) return false
  if (context.learnParsed().isInitialize) return false
  instance.debug('%s in a session that was not begun here: its 400 becomes 404', method)
  return true
}

function isSeen({ known, instance }: RequestContext, session: string): boolean {
  return known.seen?.isOver === false || instance.sessions.isSeen(session)
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
  for (const tell of parts.sessionEnded) tell(session, owner, isLost)
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
