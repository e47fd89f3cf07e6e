// What each protocol revision gets (README.md in this folder, section "Revisions").

/** How the event looks that carries the first id of a connection. */
export type Primer = 'none' | 'named' | 'empty'

export interface ClientProfile {
  /** Whether streams outlive their connections: ids, a link, and no `close` at a disconnect. */
  readonly isDurable: boolean
  readonly primer: Primer
  readonly reconnects: ReconnectRule
  readonly handoff: HandOffRule
}

/**
 * What shows that a client comes back by itself after the server has closed its connection, so that
 * it may be disconnected at will: it has said so; or it has come back for a call by an event id
 * (2025-11-25, where many clients never do); or only that it has fetched a stream URL, because
 * older clients that resume after a cut do not do so after a clean end.
 */
export type ReconnectRule = 'always' | 'when-resumed' | 'when-links-followed'

/** When a stream is handed off (SEP-1335): quiet, or after a fetch of a stream URL. */
type HandOffRule = 'when-quiet' | 'when-links-followed' | 'never'

export const FIRST_POLLING_REVISION = '2025-11-25'
export const FIRST_STATELESS_REVISION = '2026-07-28'

const REVISION = /^\d{4}-\d{2}-\d{2}$/

/** Reads a protocol version; anything that is not a dated revision is unknown. */
export function parseRevision(value: unknown): string | undefined {
  return typeof value === 'string' && REVISION.test(value) ? value : undefined
}

/** Whether a revision has no sessions, so that each request describes its client itself. */
export function isStateless(revision: string | undefined): boolean {
  return revision !== undefined && revision >= FIRST_STATELESS_REVISION
}

/** A client that has declared the Streams draft resumes, and its first event is a message. */
export function declaring(profile: ClientProfile): ClientProfile {
  return profile.isDurable
    ? { ...profile, reconnects: 'always' }
    : { isDurable: true, primer: 'none', reconnects: 'always', handoff: 'never' }
}

/** For a client whose stream lasts no longer than its connection. */
export const ONE_CONNECTION: ClientProfile = {
  isDurable: false,
  primer: 'none',
  reconnects: 'when-links-followed',
  handoff: 'never'
}

/**
 * How a client of a revision is treated.
 *
 * - Before 2025-11-25: an unnamed event with empty data breaks clients. A named one is skipped, but
 *   gives its id to those that can resume.
 * - 2025-11-25: the revision has primers.
 * - From 2026-07-28 on, a disconnect cancels the call and there are no event ids: the response is
 *   left alone unless the client has announced itself.
 */
export function profileFor(revision: string | undefined, announced: boolean): ClientProfile {
  const isPolling = revision !== undefined && revision >= FIRST_POLLING_REVISION
  if (isPolling && !announced && revision >= FIRST_STATELESS_REVISION) return ONE_CONNECTION
  if (announced) return isPolling ? ANNOUNCED : OLD_ANNOUNCED
  return isPolling ? POLLING : OLD
}

// Each is kept with all that is kept of a call, so they are shared. They are written out, as a
// bundler keeps what is spread.
const OLD: ClientProfile = {
  isDurable: true,
  primer: 'named',
  reconnects: 'when-links-followed',
  handoff: 'when-links-followed'
}
const POLLING: ClientProfile = {
  isDurable: true,
  primer: 'empty',
  reconnects: 'when-resumed',
  handoff: 'when-links-followed'
}
const OLD_ANNOUNCED: ClientProfile = {
  isDurable: true,
  primer: 'named',
  reconnects: 'always',
  handoff: 'when-quiet'
}
const ANNOUNCED: ClientProfile = {
  isDurable: true,
  primer: 'empty',
  reconnects: 'always',
  handoff: 'when-quiet'
}
