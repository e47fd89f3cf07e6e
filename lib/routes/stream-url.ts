// A request whose URL names a stream: whether the client may make it, and which method answers it.
import { label, parseStreamName, type StreamName } from '../protocol/event-id.js'
import { streamParameters } from '../protocol/link-header.js'
import { type Ended, type Here, isKnown, type Local, UNKNOWN } from '../streams/directory.js'
import type { FoundStream } from '../streams/finished-streams.js'
import { scopedKeyOf } from '../endpoint/idempotency.js'
import { streamNamesIn } from '../endpoint/mcp-request.js'
import { authorize } from '../endpoint/authorize.js'
import { refuseAndCount, refuseUrl } from '../endpoint/refusals.js'
import { canAnswer, guarded, noContent } from '../http/reply.js'
import { cancellation, type RequestId } from '../protocol/json-rpc.js'
import type { IdempotentRequest, SettledCall } from '../endpoint/idempotent-request.js'
import { tellEndpoint } from '../endpoint/endpoint-client.js'
import { takeAnswers } from './client-answers.js'
import { resumeStream } from './resume.js'
import type { Answer, Context } from './route.js'

export function streamUrl(context: Context): Answer | undefined {
  const names = streamsNamed(context)
  if (names.length === 0) return undefined
  return () => {
    context.giveCookie()
    return answerStreamUrl(context, names)
  }
}

/**
 * A value of another form is not ours, except the `Idempotency-Key` in a DELETE by which a call is
 * cancelled before its response: of an MCP client, or a known key.
 */
function streamsNamed(context: Context): readonly string[] {
  const { req } = context
  const names = streamNamesIn(req)
  if (names.length > 0 || req.method !== 'DELETE') return names
  const name = streamParameters(req.url ?? '').find(
    value => scopedKeyOf(context, value) !== undefined
  )
  if (name === undefined) return []
  return context.hasMcpHeaders || callNamed(context, name).kind !== 'unknown' ? [name] : []
}

const METHODS = ['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS']

async function answerStreamUrl(context: Context, names: readonly string[]): Promise<void> {
  const { instance, method, res } = context
  // Before any look-up, so that a foreign page learns nothing about streams.
  if (context.isForeign) return refuseAndCount(context, 403, 'foreign-origin')
  const methods = instance.handoff === 'never' ? METHODS.filter(name => name !== 'POST') : METHODS
  if (!methods.includes(method))
    return refuseUrl(context, 405, 'method-not-allowed', { headers: { Allow: methods.join(', ') } })

  const [text = ''] = names
  const call = method === 'DELETE' ? callNamed(context, text) : UNKNOWN
  const outcome = call.kind === 'ended' ? call.value.outcome : undefined
  if (call.kind !== 'unknown' && outcome?.kind !== 'stream') return cancelCall(context, call, text)
  const name = outcome?.kind === 'stream' ? { id: outcome.streamId, start: 0 } : nameIn(names)
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

function noteFollowsLinks({ instance }: Context, found: FoundStream): void {
  const { sessions, table } = instance
  const { owner, sessionId } = found.value
  if (found.kind === 'local') found.value.noteFollowsLinks()
  if (sessionId === undefined || sessions.of(owner, sessionId).followsLinks) return
  sessions.noteFollowsLinks(owner, sessionId)
  // Streams of the session that were opened before this was known.
  for (const stream of table.index.ofSession(sessionId, owner)) stream.noteFollowsLinks()
}

function nameIn(names: readonly string[]): StreamName | undefined {
  return names.length === 1 ? parseStreamName(names[0] as string) : undefined
}

/** Milliseconds that the endpoint may take to accept a cancellation. */
const PATIENCE = 5000

/** By its `Idempotency-Key`, which is all that a client knows before the response. */
function callNamed(context: Context, name: string): Here<IdempotentRequest, SettledCall> {
  const key = scopedKeyOf(context, name)
  return key === undefined ? UNKNOWN : context.instance.directory.here.key(key)
}

/** Cancels a call that has no stream yet, or never gets one; `name` is its name in the URL. */
function cancelCall(
  context: Context,
  call: Local<IdempotentRequest> | Ended<SettledCall>,
  name: string
): void {
  if (call.kind === 'ended') return noContent(context.res)
  context.instance.debug('call cancelled by DELETE before it was answered')
  const { requestIds } = call.value
  call.value.abandon()
  tellCancelled(context, requestIds, context.session, name)
}

function cancelStream(context: Context, found: FoundStream): void {
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
function tellCancelled(
  { instance, req, res }: Context,
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
