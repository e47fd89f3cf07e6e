// A POST about a call of a gone instance, answered to its client by what was kept of the call.
import type { InstanceLink } from './instance-link.js'
import { Answerer } from '../endpoint/answerer.js'
import type { Feature, Named } from '../endpoint/feature.js'
import type { CallKey } from '../endpoint/keyed-call.js'
import { canAnswer, noContent } from '../http/reply.js'
import { cursorOf } from '../protocol/stream-messages.js'
import type { Record } from '../streams/record.js'
import { parseStreamName } from '../protocol/event-id.js'
import { streamNamesIn } from '../endpoint/mcp-request.js'
import { isSameSession } from '../endpoint/authorize.js'
import { refuseAndCount, refuseUrl } from '../endpoint/refusals.js'
import { writeEventsHead } from '../endpoint/stream-headers.js'
import type { Answer, Context } from '../routes/route.js'
import type { SavedRecord } from './results.js'
import { tellGone } from './tell-gone.js'

type Kept = Pick<InstanceLink, 'kept' | 'results'>

/** By the id of a stream, a token or a task in the message. `undefined`: nothing was kept. */
export async function answerKept(
  context: Context,
  { kept, results }: Kept,
  { kind, name }: Named
): Promise<Answer | undefined> {
  const { instance, messages, isBatch, res } = context
  const [message] = messages
  if (isBatch || message === undefined) return undefined
  if (kind === 'stream') {
    const saved = await results.find(name)
    if (saved === undefined || !mayHave(context, saved, 'stream url')) return undefined
    return firstAnswer(instance.features, feature => feature.answerSaved?.(context, saved.record))
  }
  const value = await kept.find(name)
  if (value === undefined || !canAnswer(res)) return undefined
  return firstAnswer(instance.features, feature => feature.answerKept?.(context, value))
}

function firstAnswer(
  features: readonly Feature[],
  ask: (feature: Feature) => Answer | undefined
): Answer | undefined {
  for (const feature of features) {
    const answer = ask(feature)
    if (answer !== undefined) return answer
  }
  return undefined
}

/** By the key of a call, which includes its owner. */
export async function answerKeptCall(
  context: Context,
  { kept, results }: Kept,
  callKey: CallKey
): Promise<Answer | undefined> {
  const value = await kept.find(callKey.key)
  const call = value && context.instance.keys.kept(context, callKey, value)
  if (call === undefined) return undefined
  if (call.kind === 'answer') return call.answer
  const saved = await results.find(call.streamId)
  // From the start, as at the instance that had the call, whatever else the request names.
  const isTheirs = saved !== undefined && mayHave(context, saved, 'endpoint')
  return isTheirs ? giveSaved(context, saved.record, 0) : undefined
}

/** `undefined`: the client may not read it, so the stream has never been. */
export function answerSaved(context: Context, saved: SavedRecord): Answer | undefined {
  const { req, res, method, lastEventId = '' } = context
  const isByUrl = streamNamesIn(req).length > 0
  if (!mayHave(context, saved, isByUrl ? 'stream url' : 'endpoint')) return undefined
  if (method === 'DELETE')
    return () => {
      saved.drop()
      noContent(res)
    }
  const { record } = saved
  // A POST brings answers that nobody waits for any more: it gets the rest like a GET.
  const given = lastEventId === '' ? undefined : cursorOf(record, lastEventId)
  const isInvalid = lastEventId !== '' && given === undefined
  const mayRefuse = isByUrl && canAnswer(res)
  if (isInvalid && mayRefuse) return () => refuseUrl(context, 400, 'invalid-event-id')
  const cursor = given ?? startIn(context)
  if (isInvalid || cursor > record.last) return undefined
  if (mayRefuse && record.hasEvicted(cursor))
    return () => refuseAndCount(context, 410, 'events-evicted')
  return giveSaved(context, record, cursor)
}

/** Gives the events after a cursor. */
function giveSaved(context: Context, record: Record, cursor: number): Answer {
  const { req, res } = context
  if (cursor === record.last) return () => (res.headersSent ? res.end() : noContent(res))
  return () => {
    if (!res.headersSent && !writeEventsHead(res)) return
    const rest = record.eventsAfter(cursor)
    if (rest === undefined) return tellGone(req, res, record.requestIds)
    new Answerer(context).finish({ key: undefined, parts: [rest] })
  }
}

/** Whether a client may read it, by the same rules as for streams. */
function mayHave(context: Context, saved: SavedRecord, by: 'endpoint' | 'stream url'): boolean {
  return (
    context.mayRead(owner => saved.isOwnedBy(owner)) &&
    isSameSession(context, session => saved.isOfSession(session), by)
  )
}

/** The cursor of a client that sends none: the start of the turn that the URL names. */
function startIn({ req }: Context): number {
  const [name = ''] = streamNamesIn(req)
  return parseStreamName(name)?.start ?? 0
}
