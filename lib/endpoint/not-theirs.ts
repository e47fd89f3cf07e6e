// Why a client does not get the stream that it asks for: for operators alone, as clients are told
// the same in each case.
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

/** @param isAtEndpoint there an absent session is another one. */
export function whyNotTheirs(
  context: RequestContext,
  found: FoundStream | Unknown | Elsewhere,
  isAtEndpoint = false
): NotTheirs {
  if (!isKnown(found)) return 'unknown here'
  const { owner, sessionId } = found.value
  if (!context.mayRead(owner)) return 'another owner'
  const { session } = context
  const mayBeAbsent = session === undefined && !isAtEndpoint
  const isSame = mayBeAbsent || sessionId === session
  return isSame || (sessionId === undefined && !isAtEndpoint)
    ? 'an event that it has not had'
    : 'another session'
}

/** The stream that a request is about, as a log may show it; `undefined`: it names none. */
export function streamLabelIn(req: IncomingMessage): string | undefined {
  const [name] = streamParameters(req.url ?? '')
  const id = name ?? parseEventId(headerOf(req, 'last-event-id') ?? '')?.streamId
  return id === undefined ? undefined : label({ id })
}
