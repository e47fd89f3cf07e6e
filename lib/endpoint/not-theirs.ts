// Whether a client gets the stream that it asks for. The reason why not is for operators alone:
// clients are told the same in each case.
import type { IncomingMessage } from 'node:http'
import { label, parseEventId } from '../protocol/event-id.js'
import { streamParameters } from '../protocol/link-header.js'
import { type Elsewhere, isKnown, type Unknown } from '../streams/directory.js'
import type { FoundStream } from '../streams/finished-streams.js'
import { headerOf } from '../access/guards.js'
import type { RequestContext } from './request-context.js'

/**
 * `unknown here`: never made by this process, or forgotten since; after a restart, or, without a
 * backplane, at another instance than the one that it began at, too.
 */
export type NotTheirs =
  'unknown here' | 'another owner' | 'another session' | 'an event that it has not had'

/** By what a client has named a stream. */
type By = 'stream url' | 'endpoint'

/**
 * Whether the session of a stream is that of the request. At a stream URL it may also be that only
 * one of them names a session, as the URL names the stream and the credentials name its owner; at
 * the endpoint it may not.
 *
 * @param isOf compares sessions: of what another instance has kept, only a digest is known.
 */
export function isOfTheirSession(
  { session }: RequestContext,
  isOf: (session: string | undefined) => boolean,
  by: By
): boolean {
  return isOf(session) || (by === 'stream url' && (session === undefined || isOf(undefined)))
}

/**
 * Why a client does not get a stream; `undefined`: it does.
 *
 * @param sequence of an event that the client says that it has had.
 */
export function whyNotTheirs(
  context: RequestContext,
  found: FoundStream | Unknown | Elsewhere,
  by: By,
  sequence = 0
): NotTheirs | undefined {
  if (!isKnown(found)) return 'unknown here'
  const { owner, sessionId, last } = found.value
  if (!context.mayRead(one => one === owner)) return 'another owner'
  if (!isOfTheirSession(context, one => one === sessionId, by)) return 'another session'
  return sequence > last ? 'an event that it has not had' : undefined
}

/** The stream that a request is about, as a log may show it; `undefined`: it names none. */
export function streamLabelIn(req: IncomingMessage): string | undefined {
  const [name] = streamParameters(req.url ?? '')
  const id = name ?? parseEventId(headerOf(req, 'last-event-id') ?? '')?.streamId
  return id === undefined ? undefined : label({ id })
}
