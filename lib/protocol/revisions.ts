// What each protocol revision gets (the table of README.md here, section "Revisions").

/**
 * How a primer looks: the event that carries the first id of a connection before any message
 * exists.
 */
export type Primer = 'none' | 'named' | 'empty'

/** How one client is treated. */
export interface ClientProfile {
  /** Whether the response is touched at all: ids, link, held close. */
  readonly taken: boolean
  readonly primer: Primer
  /** Whether the client comes back by itself after the server has closed its connection. */
  readonly reconnects: boolean
  readonly handoff: HandOffRule
}

/**
 * When a stream that waits for its client's answers is handed off to it (SEP-1335, multi-turn
 * requests): for a client that has announced itself, as soon as it is quiet; for any other, once it
 * has fetched a stream URL.
 */
export type HandOffRule = 'when-quiet' | 'when-links-followed' | 'never'

export const FIRST_POLLING_REVISION = '2025-11-25'
export const FIRST_STATELESS_REVISION = '2026-07-28'

const REVISION = /^\d{4}-\d{2}-\d{2}$/

/** Reads a protocol version; anything that is not a dated revision is unknown. */
export function parseRevision(value: unknown): string | undefined {
  return typeof value === 'string' && REVISION.test(value) ? value : undefined
}

/** Whether there are no sessions, and each request speaks for itself. */
export function isStateless(revision: string | undefined): boolean {
  return revision !== undefined && revision >= FIRST_STATELESS_REVISION
}

/** How a client is treated whose stream lasts no longer than its connection. */
export const ONE_CONNECTION: ClientProfile = {
  taken: false,
  primer: 'none',
  reconnects: false,
  handoff: 'never'
}

/**
 * How a client of a revision is treated.
 *
 * - Before 2025-11-25: an unnamed event with empty data breaks clients, a named one is skipped,
 *   and primes those that can resume; only a client that has announced itself, or has fetched a
 *   stream URL, comes back after a clean close.
 * - 2025-11-25: primer and closing at will are in the revision.
 * - From 2026-07-28 on, a close *is* the cancellation and event ids are gone: untouched, unless
 *   the client announced itself.
 */
export function profileFor(revision: string | undefined, announced: boolean): ClientProfile {
  const handoff = announced ? 'when-quiet' : 'when-links-followed'
  if (isStateless(revision)) {
    return announced ? { taken: true, primer: 'empty', reconnects: true, handoff } : ONE_CONNECTION
  }
  if (revision !== undefined && revision >= FIRST_POLLING_REVISION)
    return { taken: true, primer: 'empty', reconnects: true, handoff }
  return { taken: true, primer: 'named', reconnects: announced, handoff }
}
