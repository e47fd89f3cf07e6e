// A request whose URL names a stream: whether the client may make it, and which method answers it.
import { parseStreamName, type StreamName } from '../protocol/event-id.js'
import { streamParameters } from '../protocol/link-header.js'
import { isKnown, UNKNOWN } from '../streams/directory.js'
import type { FoundStream } from '../streams/finished-streams.js'
import { keyOf } from '../endpoint/idempotency.js'
import { streamNamesIn } from '../endpoint/mcp-request.js'
import { whyNotTheirs } from '../endpoint/not-theirs.js'
import { refuseAndCount, refuseUrl } from '../endpoint/refusals.js'
import { canAnswer } from '../endpoint/reply.js'
import { callNamed, cancelCall, cancelStream } from './cancel.js'
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
 * The names of streams in a request's URL. A value of another form is not ours, except in a DELETE:
 * there it may be an `Idempotency-Key`, by which a call is cancelled before its response begins. It
 * counts for an MCP client, whose DELETE would end its session at the endpoint, and for a known
 * key.
 */
function streamsNamed(context: Context): readonly string[] {
  const { req } = context
  const names = streamNamesIn(req)
  if (names.length > 0 || req.method !== 'DELETE') return names
  const name = streamParameters(req.url ?? '').find(value => keyOf(context, value) !== undefined)
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
  const why = whyNotTheirs(context, found, 'stream url', name?.start)
  if (name === undefined || !isKnown(found) || why !== undefined)
    return refuseAndCount(context, 404, 'stream-unknown', { why })
  if (method === 'DELETE') return cancelStream(context, found)
  noteFollowsLinks(context, found)
  if (method === 'POST') return takeAnswers(context, found, name)
  resumeStream(context, found, name)
}

/** Notes that the client has shown that it follows stream links. */
function noteFollowsLinks({ instance }: Context, found: FoundStream): void {
  const { sessions, table } = instance
  const { owner, sessionId } = found.value
  if (found.kind === 'local') found.value.noteFollowsLinks()
  if (sessionId === undefined || sessions.followsLinks(owner, sessionId)) return
  sessions.noteFollowsLinks(owner, sessionId)
  // Streams of the session that were opened before this was known.
  for (const stream of table.index.ofSession(sessionId, owner)) stream.noteFollowsLinks()
}

function nameIn(names: readonly string[]): StreamName | undefined {
  return names.length === 1 ? parseStreamName(names[0] as string) : undefined
}
