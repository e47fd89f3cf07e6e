// Whether a client gets the stream that it asks for. The reason why not is for operators alone:
// clients are told the same in each case.
import type { IncomingMessage } from 'node:http'
import { type Label, label, parseEventId } from '../protocol/event-id.js'
import { streamParameters } from '../protocol/link-header.js'
import { type Elsewhere, type FoundStream, type Unknown, isKnown } from '../streams/directory.js'
import { headerOf } from '../access/guards.js'
import type { RequestContext } from './request-context.js'

/** `unknown here`: never made, or forgotten; or begun at another instance. */
export type Denial =
  'unknown here' | 'another owner' | 'another session' | 'an event that it has not had'

type By = 'stream url' | 'endpoint'

/** At a stream URL, only one of them need name a session. `isOf` compares, perhaps by a digest. */
export function isSameSession(
  { session }: RequestContext,
  isOf: (session: string | undefined) => boolean,
  by: By
): boolean {
  return isOf(session) || (by === 'stream url' && (session === undefined || isOf(undefined)))
}

/** Why a client does not get a stream. `sequence`: of an event that it says that it has had. */
export function authorize(
  context: RequestContext,
  found: FoundStream | Unknown | Elsewhere,
  by: By,
  sequence = 0
): Denial | undefined {
  if (!isKnown(found)) return 'unknown here'
  const { owner, sessionId, last } = found.value
  if (!context.mayRead(one => one === owner)) return 'another owner'
  if (!isSameSession(context, one => one === sessionId, by)) return 'another session'
  return sequence > last ? 'an event that it has not had' : undefined
}

/** The stream that a request is about, as a log may show it; `undefined`: it names none. */
export function streamLabelIn(req: IncomingMessage): Label | undefined {
  const [name] = streamParameters(req.url ?? '')
  const id = name ?? parseEventId(headerOf(req, 'last-event-id') ?? '')?.streamId
  return id === undefined ? undefined : label({ id })
}
