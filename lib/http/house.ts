// What the rooms share: the streams, the sessions, the connections, and the rules for who gets what.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { StreamFault } from '../core/errors.js'
import { NO_HAND_OFF, prefersStream, STREAM_PREFERENCE } from '../core/prefer.js'
import { type Manners, mannersFor, parseRevision, type Primer } from '../core/protocol-version.js'
import { STREAM_RELATION, formatLink, streamTarget } from '../core/link-header.js'
import type { Sessions } from '../core/sessions.js'
import type { Stream } from '../core/stream.js'
import type { ResumeInterval } from '../core/stream-messages.js'
import type { StreamTable } from '../core/stream-table.js'
import type { Connections } from './connections.js'
import { headerOf, sessionOf } from './guards.js'
import type { KeyedCalls } from './idempotency.js'
import { refuse } from './reply.js'
import { stringOf, withDirectives } from './response-headers.js'

/** Something that a client did with a stream, or was refused. */
export type ClientEventName = 'resumed' | 'taken-over' | 'refused'

export interface House {
  readonly table: StreamTable
  readonly sessions: Sessions
  readonly connections: Connections
  readonly calls: KeyedCalls
  /** The process is about to end: responses pass untouched. */
  isClosing: boolean
  /** The warning about an endpoint that numbers its events itself has been given. */
  hasWarnedOfIds: boolean
  /** Bytes that one event may have. */
  readonly maxEventBytes: number
  readonly primer: 'auto' | 'always' | 'never'
  readonly handoff: 'auto' | 'always' | 'never'
  readonly notifications: 'auto' | 'always' | 'never'
  readonly resumeInterval: ResumeInterval
  readonly allowedOrigins: ReadonlySet<string>
  /** A line for `DEBUG=mcp-streams`. */
  readonly debug: (format: string, ...args: unknown[]) => void
  readonly count: (name: ClientEventName, stream: Stream | undefined, reason?: string) => void
}

/**
 * How the client of a request is treated, from what it negotiated and what it says of itself. A client that comes back for a
 * stream and says nothing is treated as the one that opened it.
 */
export function mannersOf(house: House, req: IncomingMessage, opener?: Manners): Manners {
  const session = sessionOf(req)
  const negotiated = session === undefined ? undefined : house.sessions.revisionOf(session)
  const revision = negotiated ?? parseRevision(headerOf(req, 'mcp-protocol-version'))
  const hasProved = session !== undefined && house.sessions.hasProved(session)
  const hasAnnounced = hasProved || prefersStream(headerOf(req, 'prefer'))
  if (opener !== undefined && (revision === undefined || !mannersFor(revision, hasAnnounced).taken)) {
    return hasAnnounced ? { ...opener, comesBack: true } : opener
  }
  let manners = mannersFor(revision, hasAnnounced)
  if (!manners.taken) return manners
  if (house.primer !== 'auto') manners = { ...manners, primer: FORCED_PRIMER[house.primer] }
  if (house.handoff === 'always') return { ...manners, handoff: 'when-quiet', comesBack: true }
  return house.handoff === 'never' ? { ...manners, handoff: 'never' } : manners
}

const FORCED_PRIMER: Record<'always' | 'never', Primer> = { always: 'empty', never: 'none' }

/** The headers of every response that carries a stream, added to what is there already. */
export function setStreamHeaders(
  house: House,
  req: IncomingMessage & { originalUrl?: string },
  res: ServerResponse,
  streamName: string,
  setHeader: (name: string, value: string) => void
): void {
  const link = formatLink(streamTarget(req.originalUrl ?? req.url ?? '', streamName), STREAM_RELATION)
  setHeader('Link', joined(res, 'Link', link))
  setHeader('Cache-Control', withDirectives(stringOf(res.getHeader('Cache-Control')), ['no-cache', 'no-transform']))
  setHeader('X-Accel-Buffering', 'no')
  applyPreference(house, req, res, setHeader)
}

/** Tells a client that has announced itself that it was understood (RFC 7240, 3). */
export function applyPreference(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  setHeader: (name: string, value: string) => void
): void {
  const isApplied = prefersStream(stringOf(res.getHeader('Preference-Applied')))
  if (isApplied || !prefersStream(headerOf(req, 'prefer'))) return
  setHeader(
    'Preference-Applied',
    joined(res, 'Preference-Applied', house.handoff === 'never' ? NO_HAND_OFF : STREAM_PREFERENCE)
  )
}

function joined(res: ServerResponse, name: string, value: string): string {
  const present = stringOf(res.getHeader(name)) ?? ''
  return present === '' ? value : `${present}, ${value}`
}

/** Refuses a request about a stream. */
export function refuseUrl(
  house: House,
  res: ServerResponse,
  status: number,
  fault: StreamFault,
  headers?: Record<string, string>
): void {
  house.debug('stream URL refused with %d: %s', status, fault)
  refuse(res, status, fault, headers)
}

/** The same, of a stream that is not the client's, or gone: an operator wants to know how often. */
export function refuseAndCount(
  house: House,
  res: ServerResponse,
  status: number,
  fault: StreamFault,
  stream?: Stream
): void {
  house.count('refused', stream, fault)
  refuseUrl(house, res, status, fault)
}
