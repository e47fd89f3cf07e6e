// The figures that `stats()` returns.
import type { BackplaneStats, InstanceStats } from './endpoint/other-instances.js'
import { now } from './protocol/clock.js'
import type { Record } from './streams/record.js'
import type { Stream } from './streams/stream.js'
import type { StreamKind, StreamState } from './streams/stream-types.js'
import { digestOf } from './diagnostics.js'
import type { Feature, Fullness } from './endpoint/feature.js'
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
  /** Total of sessions that were ended at the endpoint, as nothing came in them (`idle`). */
  readonly idled: number
  /** Figures of the connection to other instances; empty without option `backplane`. */
  readonly backplane: Partial<BackplaneStats>
}

export interface StatsOptions {
  /**
   * Adds `McpStreamsDetails`, with so many streams at the most of those whose client is away, of
   * those whose client is there, and of those that have ended. From 0 to 1,000.
   */
  readonly streams: number
}

/** What `stats({ streams })` has beside the figures. Nothing in it gives a stream away. */
export interface McpStreamsDetails {
  /** The newest of each group: client away, client there, ended. */
  readonly streams: readonly StreamStats[]
  /** Streams that have not ended, and whose client is away. */
  readonly away: number
  /** How full what has a limit is, by the name of the limit. */
  readonly limits: { readonly [name in LimitName]?: Fullness }
  /** Other instances that are known of, 50 at the most; none without option `backplane`. */
  readonly instances: readonly InstanceStats[]
  /** This instance's own tag; `undefined` without option `backplane`. */
  readonly instance: string | undefined
  /** `close()` has been called. */
  readonly isClosing: boolean
}

export interface StreamStats {
  /** A digest of its id, which is another one in each process. `cut()` takes it. */
  readonly name: string
  readonly kind: StreamKind
  readonly state: StreamState
  /** A digest of its owner; `undefined`: it has none. */
  readonly owner: string | undefined
  /** Milliseconds since it was opened. */
  readonly age: number
  /** How many events it has had. */
  readonly events: number
  /** Bytes of those that are kept. */
  readonly bytes: number
  /** How many connections it has had. */
  readonly connections: number
  /** Milliseconds since its client left; `undefined`: the client is there. */
  readonly away: number | undefined
}

/**
 * `maxStreams`, `maxBytes`: the options. `maxStreamBytes`: the option, and the fullest of the
 * streams that run. The others are bytes within parts of `maxBytes`: bodies that are being read,
 * answers under an `Idempotency-Key`, calls with resume tokens, tasks.
 */
export type LimitName =
  'maxStreams' | 'maxBytes' | 'maxStreamBytes' | 'bodies' | 'keyed' | 'calls' | 'tasks'

export function statsOf(instance: Instance): McpStreamsStats {
  const { table, connections, bodies, features, observations } = instance
  const { bytes, remembered, evictions, ...streams } = table.counts()
  const counts = {
    calls: 0,
    tasks: 0,
    keyed: 0,
    transfers: 0,
    bytes: bytes + bodies.used,
    remembered,
    evictions,
    revivals: 0,
    idled: 0
  }
  for (const feature of features) {
    const own = feature.counts?.() ?? {}
    for (const name of Object.keys(counts) as (keyof typeof counts)[])
      counts[name] += own[name] ?? 0
  }
  return {
    ...streams,
    ...counts,
    connections: connections.size,
    backplane: instance.others?.stats ?? {},
    ...observations.totals()
  }
}

const MOST_STREAMS = 1000
const MOST_INSTANCES = 50

/** @throws {TypeError} naming the option, for an option that is unknown or has a bad value. */
export function detailsOf(instance: Instance, options: StatsOptions): McpStreamsDetails {
  const most = checked(options)
  const there: Stream[] = []
  const away: Stream[] = []
  let fullest = 0
  for (const stream of instance.table.running) {
    const group = stream.isFollowed ? there : away
    group.push(stream)
    fullest = Math.max(fullest, stream.log.bytes)
  }
  const shown = [away, there, instance.table.finished].flatMap(group =>
    most === 0 ? [] : group.slice(-most).reverse()
  )
  const { others } = instance
  return {
    streams: shown.map(streamStats),
    away: away.length,
    limits: limitsOf(instance, fullest),
    instances: others?.instances(MOST_INSTANCES) ?? [],
    instance: others?.tag,
    isClosing: instance.isClosing
  }
}

function checked(options: StatsOptions): number {
  const { streams, ...others } = options
  const [other] = Object.keys(others)
  if (other !== undefined) throw new TypeError(`stats: unknown option \`${other}\``)
  if (!Number.isSafeInteger(streams) || streams < 0 || streams > MOST_STREAMS)
    throw new TypeError(`stats: \`streams\` must be a whole number from 0 to ${MOST_STREAMS}`)
  return streams
}

function streamStats(stream: Stream | Record): StreamStats {
  const { id, kind, state, owner, begunAt, last, size, connections, leftAt } = stream
  return {
    name: digestOf(id),
    kind,
    state,
    owner: owner === '' ? undefined : digestOf(owner),
    age: Math.max(0, Math.round(now() - begunAt)),
    events: last,
    bytes: size,
    connections,
    away: leftAt === 0 ? undefined : Math.max(0, Math.round(now() - leftAt))
  }
}

function limitsOf(instance: Instance, fullest: number): McpStreamsDetails['limits'] {
  const { table, bodies, features } = instance
  const { live, waiting, finished, bytes } = table.counts()
  const { maxStreams, maxBytes, maxStreamBytes } = table.limits
  const ofFeatures: ReturnType<NonNullable<Feature['fullness']>> = {}
  for (const feature of features) Object.assign(ofFeatures, feature.fullness?.())
  return {
    maxStreams: { used: live + waiting + finished, max: maxStreams },
    maxBytes: { used: bytes, max: maxBytes },
    maxStreamBytes: { used: fullest, max: maxStreamBytes },
    bodies: { used: bodies.used, max: bodies.max },
    ...ofFeatures
  }
}

/** `false`: there is no such stream, or it has no connection of its own. */
export function cutConnection({ connections }: Instance, name: string): boolean {
  connections.giveStreams()
  for (const connection of connections) {
    const { id, readers } = connection.stream
    if (readers.current !== connection || digestOf(id) !== name) continue
    connection.cut()
    return true
  }
  return false
}
