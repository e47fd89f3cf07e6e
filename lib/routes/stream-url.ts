// A request whose URL names a stream: whether the client may make it, and which method answers it.
import { label, parseStreamName, type StreamName } from '../protocol/event-id.js'
import { type FoundStream, UNKNOWN, isKnown } from '../streams/directory.js'
import { streamNamesIn } from '../endpoint/mcp-request.js'
import { authorize } from '../endpoint/authorize.js'
import { refuseAndCount, refuseUrl } from '../endpoint/refusals.js'
import { canAnswer, guarded, noContent } from '../http/reply.js'
import { cancellation, type RequestId } from '../protocol/json-rpc.js'
import type { RequestContext } from '../endpoint/request-context.js'
import { tellEndpoint } from '../endpoint/endpoint-client.js'
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

async function answerStreamUrl(context: Context, names: readonly string[]): Promise<void> {
  const { instance, method } = context
  // Before any look-up, so that a foreign page learns nothing about streams.
  if (context.isForeign) return refuseAndCount(context, 403, 'foreign-origin')
  const { waitingStreams } = instance
  const methods = waitingStreams === undefined ? METHODS.filter(name => name !== 'POST') : METHODS
  if (!methods.includes(method))
    return refuseUrl(context, 405, 'method-not-allowed', { headers: { Allow: methods.join(', ') } })

  const [text = ''] = names
  const name = names.length === 1 ? parseStreamName(text) : undefined
  const found = await findNamed(context, name)
  if (found === undefined || name === undefined) return
  if (method === 'DELETE') return cancelStream(context, found)
  noteFollowsLinks(context, found)
  if (method === 'POST') await waitingStreams?.answered(context, found, name)
  else resumeStream(context, found, name)
}

/**
 * `undefined`: the request has been refused, or its client has left.
 *
 * @param name `undefined`: it is known to be none.
 */
export async function findNamed(
  context: RequestContext,
  name: StreamName | undefined
): Promise<FoundStream | undefined> {
  const { instance, res } = context
  const found = name === undefined ? UNKNOWN : await instance.directory.find('stream', name.id)
  if (!canAnswer(res)) return undefined
  const why = authorize(context, found, 'stream url', name?.start)
  if (isKnown(found) && why === undefined) return found
  refuseAndCount(context, 404, 'stream-unknown', { why })
  return undefined
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

export function cancelStream(context: RequestContext, found: FoundStream): void {
  const { instance, res } = context
  const { value } = found
  if (found.kind === 'ended' || value.isEnded) {
    instance.table.drop(value)
    return noContent(res)
  }
  const stream = found.value
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
  const told = tellEndpoint(instance.debug, req, said, { sessionId, patience: PATIENCE, name })
  void told.then(() => guarded(res, () => noContent(res)))
}
