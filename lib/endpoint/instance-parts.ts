// What the rooms share: the streams, the sessions, the connections, and the rules for who gets
// what.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { StreamFault } from '../protocol/errors.js'
import { NO_HAND_OFF, prefersStream, STREAM_PREFERENCE } from '../protocol/prefer.js'
import {
  type ClientProfile,
  profileFor,
  parseRevision,
  type Primer
} from '../protocol/revisions.js'
import { STREAM_RELATION, formatLink, streamTarget } from '../protocol/link-header.js'
import type { Sessions } from '../streams/sessions.js'
import type { Stream } from '../streams/stream.js'
import type { ResumeInterval } from '../protocol/stream-messages.js'
import type { StreamRegistry } from '../streams/stream-registry.js'
import type { BodyBudget } from './body-budget.js'
import type { Connections } from './connections.js'
import { headerOf, sessionOf } from '../access/guards.js'
import type { ListenRules } from './listen-rules.js'
import type { OwnIds } from './own-ids.js'
import type { IdempotencyStore } from './keyed-calls.js'
import type { ProgressReports } from './progress-reports.js'
import { refuse } from './reply.js'
import type { SlowAnswers } from './slow-answers.js'
import { stringOf, withDirectives } from './response-headers.js'

/** Something that a client did with a stream, or was refused. */
export type ClientEventName = 'resumed' | 'taken-over' | 'refused'

export interface InstanceParts {
  readonly table: StreamRegistry
  readonly sessions: Sessions
  readonly connections: Connections
  readonly calls: IdempotencyStore
  readonly ownIds: OwnIds
  /** How many listen channels a session may have. */
  readonly listenRules: ListenRules
  /** What clients of slow endpoints get in the meantime. */
  readonly slow: SlowAnswers
  /** Progress on the endpoint's behalf; `undefined`: none. */
  readonly progress: ProgressReports | undefined
  /** Bodies that are read ahead of the endpoint. */
  readonly bodies: BodyBudget
  /** Bytes up to which one is. */
  readonly maxBodyBytes: number
  /** The process is about to end: responses pass untouched. */
  isClosing: boolean
  /** The warning about an endpoint that numbers its events itself has been given. */
  hasWarnedOfIds: boolean
  /** Bytes that one event may have. */
  readonly maxEventBytes: number
  /** Bytes that an answer may have that becomes an event once it is whole. */
  readonly maxAnswerBytes: number
  readonly primer: 'auto' | 'always' | 'never'
  readonly handoff: 'auto' | 'always' | 'never'
  readonly notifications: 'auto' | 'always' | 'never'
  readonly resumeInterval: ResumeInterval
  readonly allowedOrigins: ReadonlySet<string>
  /**
   * Told of each session that is over: by its owner's word, or because the endpoint does not know
   * it any more.
   */
  readonly sessionEnded: Set<(sessionId: string, owner: string) => void>
  /** A digest of a text, which stands for it where the text itself is not to be kept. */
  readonly hash: (text: string) => string
  /** A line for `DEBUG=mcp-streams`. */
  readonly debug: (format: string, ...args: unknown[]) => void
  readonly count: (name: ClientEventName, stream: Stream | undefined, reason?: string) => void
}

/**
 * How the client of a request is treated, from what it negotiated and what it says of itself.
 * `owner`: whose session it names; of a stream, its own, as a cookie's request may have another. A
 * client that comes back for a stream and says nothing is treated as the one that opened it.
 */
export function profileOf(
  parts: InstanceParts,
  req: IncomingMessage,
  owner: string,
  opener?: ClientProfile
): ClientProfile {
  const session = sessionOf(req)
  const revision =
    parts.sessions.revisionOf(owner, session) ??
    parseRevision(headerOf(req, 'mcp-protocol-version'))
  const hasAnnounced =
    parts.sessions.followsLinks(owner, session) || prefersStream(headerOf(req, 'prefer'))
  if (
    opener !== undefined &&
    (revision === undefined || !profileFor(revision, hasAnnounced).taken)
  ) {
    return hasAnnounced ? { ...opener, reconnects: true } : opener
  }
  let profile = profileFor(revision, hasAnnounced)
  if (!profile.taken) return profile
  if (parts.primer !== 'auto') profile = { ...profile, primer: FORCED_PRIMER[parts.primer] }
  if (parts.handoff === 'always') return { ...profile, handoff: 'when-quiet', reconnects: true }
  return parts.handoff === 'never' ? { ...profile, handoff: 'never' } : profile
}

const FORCED_PRIMER: Record<'always' | 'never', Primer> = { always: 'empty', never: 'none' }

/** The headers of every response that carries a stream, added to what is there already. */
export function setStreamHeaders(
  parts: InstanceParts,
  req: IncomingMessage & { originalUrl?: string },
  res: ServerResponse,
  streamName: string,
  setHeader: (name: string, value: string) => void
): void {
  const link = formatLink(
    streamTarget(req.originalUrl ?? req.url ?? '', streamName),
    STREAM_RELATION
  )
  setHeader('Link', joined(res, 'Link', link))
  setUnbuffered(res, setHeader)
  applyPreference(parts, req, res, setHeader)
}

/** The headers of every response that is to come through as it is written. */
export function setUnbuffered(
  res: ServerResponse,
  setHeader: (name: string, value: string) => void
): void {
  setHeader(
    'Cache-Control',
    withDirectives(stringOf(res.getHeader('Cache-Control')), ['no-cache', 'no-transform'])
  )
  setHeader('X-Accel-Buffering', 'no')
}

/** Tells a client that has announced itself that it was understood (RFC 7240, 3). */
export function applyPreference(
  parts: InstanceParts,
  req: IncomingMessage,
  res: ServerResponse,
  setHeader: (name: string, value: string) => void
): void {
  const isApplied = prefersStream(stringOf(res.getHeader('Preference-Applied')))
  if (isApplied || !prefersStream(headerOf(req, 'prefer'))) return
  setHeader(
    'Preference-Applied',
    joined(res, 'Preference-Applied', parts.handoff === 'never' ? NO_HAND_OFF : STREAM_PREFERENCE)
  )
}

function joined(res: ServerResponse, name: string, value: string): string {
  const present = stringOf(res.getHeader(name)) ?? ''
  return present === '' ? value : `${present}, ${value}`
}

/** Refuses a request about a stream. */
export function refuseUrl(
  parts: InstanceParts,
  res: ServerResponse,
  status: number,
  fault: StreamFault,
  headers?: Record<string, string>
): void {
  parts.debug('stream URL refused with %d: %s', status, fault)
  refuse(res, status, fault, headers)
}

/** The same, of a stream that is not the client's, or gone: an operator wants to know how often. */
export function refuseAndCount(
  parts: InstanceParts,
  res: ServerResponse,
  status: number,
  fault: StreamFault,
  stream?: Stream
): void {
  parts.count('refused', stream, fault)
  refuseUrl(parts, res, status, fault)
}
