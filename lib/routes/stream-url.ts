// A request whose URL names a stream: whether the client may make it, and which method answers it.
import { label, parseStreamName, type StreamName } from '../protocol/event-id.js'
import { isKnown, UNKNOWN } from '../streams/directory.js'
import type { FoundStream } from '../streams/finished-streams.js'
import { streamNamesIn } from '../endpoint/mcp-request.js'
import { authorize } from '../endpoint/authorize.js'
import { refuseAndCount, refuseUrl } from '../endpoint/refusals.js'
import { canAnswer, guarded, noContent } from '../http/reply.js'
import { cancellation, type RequestId } from '../protocol/json-rpc.js'
import type { RequestContext } from '../endpoint/request-context.js'
import { tellEndpoint } from '../endpoint/endpoint-client.js'
import { takeAnswers } from './client-answers.js'
import { resumeStream } from './resume.js'
import type { Answer, Context } from './route.js'

export function streamUrl(context: Context): Answer | undefined {
  const names = streamNamesIn(context.req)
  if (names.length === 0) return undefined
  return () => {
    context.giveCookie()
    return answerStreamUrl(context, names)
  }
}

const METHODS = ['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS']

function answerStreamUrl(context: Context, names: readonly string[]): unknown {
  const { instance, method } = context
  // Before any look-up, so that a foreign page learns nothing about streams.
  if (context.isForeign) return refuseAndCount(context, 403, 'foreign-origin')
  const methods = instance.handoff === 'never' ? METHODS.filter(name => name !== 'POST') : METHODS
  if (!methods.includes(method))
    return refuseUrl(context, 405, 'method-not-allowed', { headers: { Allow: methods.join(', ') } })

  const [name = ''] = names
  return answerNamed(context, names.length === 1 ? parseStreamName(name) : undefined)
}

/** @param name of the stream; `undefined`: it is known to be none. */
export async function answerNamed(
  context: RequestContext,
  name: StreamName | undefined
): Promise<void> {
  const { instance, method, res } = context
  const found = name === undefined ? UNKNOWN : await instance.directory.find('stream', name.id)
  if (!canAnswer(res)) return
  const why = authorize(context, found, 'stream url', name?.start)
  if (name === undefined || !isKnown(found) || why !== undefined)
    return refuseAndCount(context, 404, 'stream-unknown', { why })
  if (method === 'DELETE') return cancelStream(context, found)
  noteFollowsLinks(context, found)
  if (method === 'POST') return takeAnswers(context, found, name)
  resumeStream(context, found, name)
}

function noteFollowsLinks({ instance }: RequestContext, found: FoundStream): void {
  const { sessions, table } = instance
  const { owner, sessionId } = found.value
  if (found.kind === 'local') found.value.noteFollowsLinks()
  if (sessionId === undefined || sessions.of(owner, sessionId).followsLinks) return
  sessions.noteFollowsLinks(owner, sessionId)
  // Streams of the session that were opened before this was known.
  for (const stream of table.index.ofSession(sessionId, owner)) stream.noteFollowsLinks()
}

/** Milliseconds that the endpoint may take to accept a cancellation. */
const PATIENCE = 5000

function cancelStream(context: RequestContext, found: FoundStream): void {
  const { instance, res } = context
  if (found.kind === 'ended') return noContent(res)
  const stream = found.value
  if (stream.isEnded) {
    instance.table.drop(stream)
    return noContent(res)
  }
  instance.debug('stream %s cancelled by DELETE', label(stream))
  stream.cancel()
  tellCancelled(context, stream.requestIds, stream.sessionId)
}

/**
 * Tells the endpoint, and answers the client. A stateless endpoint sees its response close. One
 * with sessions learns by a notification only, whose answer is not passed on.
 */
export function tellCancelled(
  { instance, req, res }: RequestContext,
  requestIds: readonly RequestId[],
  sessionId: string | undefined,
  name?: string
): void {
  if (sessionId === undefined || requestIds.length === 0) return noContent(res)
  const reason = 'The client has cancelled the stream'
  const messages = requestIds.map(id => cancellation(id, reason))
  const said = messages.length === 1 ? (messages[0] as object) : messages
  const told = tellEndpoint(instance, req, said, { sessionId, patience: PATIENCE, name })
  void told.then(() => guarded(res, () => noContent(res)))
}
