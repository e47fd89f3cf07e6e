// The figures that `stats()` returns.
import type { BackplaneStats } from './backplane/types.js'
import type { Instance } from './instance.js'
import type { Totals } from './observations.js'

/** Counts and sizes at this moment, and totals since the start. */
export interface McpStreamsStats extends Totals {
  /** Streams whose endpoint still writes, or may write: `answering` and `listening` together. */
  readonly live: number
  /** How many of these answer requests: running calls. */
  readonly answering: number
  /** How many of these are listen channels: the GET on which a session gets other messages. */
  readonly listening: number
  /** Bytes of events of running streams that no connection has been given yet, within `bytes`. */
  readonly undelivered: number
  /** Live streams that wait for their client's answers. */
  readonly waiting: number
  /** Ended streams that are kept for clients that come back. */
  readonly finished: number
  /** Open client connections. */
  readonly connections: number
  /**
   * Calls whose results are collected with resume tokens: those that run, and those that are kept
   * for clients that come back.
   */
  readonly calls: number
  /** Tasks that can be asked for, and calls that may become tasks. */
  readonly tasks: number
  /**
   * Calls under an `Idempotency-Key` that have not been answered yet, with their client or without.
   */
  readonly keyed: number
  /** Resources that are being asked for, or on their way (`resources/stream` and download URLs). */
  readonly transfers: number
  /**
   * Bytes of events held, of results that are collected with resume tokens or kept for tasks, of
   * calls under an `Idempotency-Key` and their answers, of bodies that have not come whole, of
   * answers that sockets have not taken, and of the requests of calls that go on without a client.
   */
  readonly bytes: number
  /**
   * Bytes of what is remembered for an hour of streams that are gone, so that a client that comes
   * back is told why, and of download URLs. Limited by `maxStreams`, and not part of `maxBytes`. It
   * does not fall to 0 when nothing runs any more.
   */
  readonly remembered: number
  /**
   * Total of evictions: events, streams, results or answers that had to make room before their
   * time.
   */
  readonly evictions: number
  /** Total of sessions that were begun again (option `sessions`). */
  readonly revivals: number
  /** Figures of the connection to other instances; empty without option `backplane`. */
  readonly backplane: Partial<BackplaneStats>
}

export function statsOf(instance: Instance): McpStreamsStats {
  const { table, connections, idempotency, bodies, tokens, resources, observations } = instance
  const { bytes, remembered, evictions, ...streams } = table.counts()
  const calls = tokens?.store.counts()
  const tasks = instance.tasks?.store.counts()
  return {
    ...streams,
    calls: calls?.calls ?? 0,
    tasks: tasks?.tasks ?? 0,
    keyed: idempotency.running,
    transfers: resources?.service.requests ?? 0,
    bytes: bytes + (calls?.bytes ?? 0) + (tasks?.bytes ?? 0) + idempotency.bytes + bodies.taken,
    remembered: remembered + (resources?.downloads.tickets.bytes ?? 0),
    evictions: evictions + (calls?.evictions ?? 0) + idempotency.evictions,
    connections: connections.size,
    revivals: instance.surviving?.revived ?? 0,
    backplane: instance.seat?.link.stats ?? {},
    ...observations.totals()
  }
}
