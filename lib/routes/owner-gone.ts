// Answers a client whose call, stream or session is lost with its instance, or is out of reach.
import type { InstanceLink } from '../backplane/instance-link.js'
import { isGoneId, parseEventId } from '../protocol/event-id.js'
import { isRequest } from '../protocol/json-rpc.js'
import { keyedBy } from '../endpoint/idempotency.js'
import { streamNamesIn } from '../endpoint/mcp-request.js'
import { debugElsewhere, refuseAndCount } from '../endpoint/refusals.js'
import { answerJson, noContent, refuse } from '../endpoint/reply.js'
import { answerKept, answerKeptCall } from './kept-answer.js'
import { idNamed, namedByMessages } from './names.js'
import type { Answer, Context } from './route.js'
import { answerSaved } from './saved-result.js'
import { writeEventsHead } from '../endpoint/stream-headers.js'
import { goneError, OWNER_GONE, tellGone } from './tell-gone.js'

/** Methods of a stream URL beside GET. */
const OF_STREAMS = ['HEAD', 'POST', 'DELETE']

const isByUrl = ({ req }: Context): boolean => streamNamesIn(req).length > 0

/**
 * Answers a request that names something of an instance that is gone; `undefined`: it is answered
 * like a request that names nothing.
 */
export async function answerLost(
  context: Context,
  link: InstanceLink,
  tag: string
): Promise<Answer | undefined> {
  const { req, res, method, lastEventId = '' } = context
  const id = idNamed(context)?.name
  if (id === undefined) return undefined
  const mayBeSaved = method === 'GET' || (OF_STREAMS.includes(method) && isByUrl(context))
  let answer: Answer | undefined
  try {
    const saved = mayBeSaved ? await link.results.find(id) : undefined
    answer = saved && answerSaved(context, saved)
  } catch {
    return comeAgain(context)
  }
  if (answer !== undefined) return answer
  if (isGoneId(lastEventId) && !res.headersSent) return () => noContent(res)
  // The other instance is alive after all: the client is to come again.
  if (!(await link.declareGone(id, tag))) return comeAgain(context)
  countGone(context)
  if (res.headersSent) return () => tellGone(req, res, [])
  if (method === 'GET' && parseEventId(lastEventId)?.requestId !== undefined)
    return () => {
      if (writeEventsHead(res)) tellGone(req, res, [])
    }
  return isByUrl(context) ? () => refuse(res, 410, OWNER_GONE) : undefined
}

/** Answers a request that had been sent to another instance, which has gone without an answer. */
export async function goneMeanwhile(
  context: Context,
  link: InstanceLink,
  tag: string
): Promise<void> {
  const { req, res, method } = context
  const answer = await answerLost(context, link, tag)
  if (answer !== undefined) return void answer()
  if (res.headersSent) return tellGone(req, res, [])
  if (method === 'POST') return answerLostPost(context, link)
  refuse(res, 410, OWNER_GONE)
}

/** Answers a POST about something of an instance that is gone, by what was kept of it. */
export async function answerLostPost(context: Context, link: InstanceLink): Promise<void> {
  // The endpoint's own check of the origin would not run.
  if (context.isForeign) return refuseAndCount(context, 403, 'foreign-origin')
  const named = namedByMessages(context)
  const keyed = named === undefined ? keyedBy(context) : undefined
  let answer: Answer | undefined
  try {
    answer =
      keyed === undefined
        ? named && (await answerKept(context, link, named.name))
        : await answerKeptCall(context, link, keyed)
  } catch {
    answer = comeAgain(context)
  }
  if (answer === undefined) tellLost(context)
  else await answer()
}

/** Answers a POST with an error for each of its requests, which are lost. */
function tellLost(context: Context): void {
  const { res, messages, isBatch } = context
  countGone(context)
  const errors = messages.filter(isRequest).map(({ id }) => goneError(id))
  if (errors.length === 0) return refuse(res, 410, OWNER_GONE)
  answerJson(res, 200, isBatch ? `[${errors.join(',')}]` : (errors[0] as string))
}

function countGone(context: Context): void {
  debugElsewhere(context, 'which has gone: %s', OWNER_GONE)
  context.instance.count('refused', undefined, OWNER_GONE)
}

/** The client is to come again: what was kept is out of reach, or nothing is lost after all. */
function comeAgain(context: Context): Answer {
  const { res } = context
  return () => void (res.headersSent ? res.end() : refuseUnreachable(context))
}

/** It is not known now which instance has it: the client is to come again (503). */
export function refuseUnreachable(context: Context): void {
  const { res } = context
  debugElsewhere(context, 'out of reach: %s', 'owner-unreachable')
  refuse(res, 503, 'owner-unreachable', { 'Retry-After': '1' })
}
