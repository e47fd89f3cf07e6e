// What a stream is to those around it: its states, the facts it is born with, who reads and writes
// it, and who keeps it.
import type { StreamError } from '../protocol/errors.js'
import type { DueQueue } from './due-queue.js'
import type { ByteBudget } from './event-log.js'
import type { RequestId } from '../protocol/json-rpc.js'
import type { Retained } from './retained.js'
import type { ClientProfile } from '../protocol/revisions.js'
import type { ResumeInterval } from '../protocol/stream-messages.js'
import type { UndeliveredLimits, UndeliveredQuota } from './undelivered-quota.js'

/**
 * - `live`: the endpoint writes, or may write.
 * - `waiting`: it waits for its client's answers, and no connection is held.
 * - `completed`: it has ended, with all its responses.
 * - `failed`: it has ended without; a JSON-RPC error took the place of each missing response.
 * - `cancelled`: its client has cancelled it.
 * - `abandoned`: its client did not come back in time.
 */
export type StreamState = 'live' | 'waiting' | 'completed' | 'failed' | 'cancelled' | 'abandoned'

/** The states that may follow each state: none after an end. */
export const TRANSITIONS: Record<StreamState, readonly StreamState[]> = {
  live: ['waiting', 'completed', 'failed', 'cancelled', 'abandoned'],
  waiting: ['live', 'completed', 'failed', 'cancelled', 'abandoned'],
  completed: [],
  failed: [],
  cancelled: [],
  abandoned: []
}

/** Of such a stream nothing is kept, and nobody may know whose it was. */
export function isForgotten({ state }: { readonly state: StreamState }): boolean {
  return state === 'abandoned' || state === 'cancelled'
}

/** What a stream is for: the responses to requests, or a session's listen channel (GET). */
export type StreamKind = 'request' | 'listen'

/** The facts that a stream is born with, and that its tombstone keeps. */
export interface StreamIdentity {
  readonly id: string
  readonly kind: StreamKind
  /** Who may resume it; '' for nobody in particular. */
  readonly owner: string
  /** The requests that it answers; empty for a listen channel. */
  readonly requestIds: readonly RequestId[]
}

/** What a stream is opened with. */
export interface StreamInit extends StreamIdentity {
  /** The MCP session, known from the request or from the response that opens it. */
  readonly sessionId: string | undefined
  /** How the client that asked for it is treated. */
  readonly profile: ClientProfile
  /**
   * Set where the client is told of its stream in messages (Streams draft):
   * `notifications/stream/create` first, `end` last.
   */
  readonly resumeInterval?: ResumeInterval | undefined
  /**
   * It lasts no longer than its one connection, as from 2026-07-28 on: its events have no ids, and
   * a cut cancels it.
   */
  readonly isEphemeral?: boolean | undefined
  /**
   * Its client has been given something else for its call, and does not know of it: no request
   * names it, and operators hear of it once it is announced.
   */
  readonly isUnknown?: boolean | undefined
  /** It answers `initialize`: once that is done, nobody wants to hear of it in a list. */
  readonly isHandshake?: boolean | undefined
  /** A connection follows it before anything else happens; `missed` is called where it cannot. */
  readonly isConnecting?: boolean | undefined
  /** Its call has an `Idempotency-Key`: what it is kept by. */
  readonly callKey?: string | undefined
}

/**
 * Follows a stream: one client connection, or another consumer. It pulls; the stream only
 * says when there is something.
 */
export interface Reader {
  /**
   * There is something new in the log, or the stream has ended. Called synchronously from `append`.
   */
  wake(): void
  /**
   * The stream has ended: what there is goes out now, because the producer may close the server
   * next, or end the process.
   */
  finish(): void
  /** A newer reader has taken this one's place: it ends. */
  takeOver(): void
  /** The same, but it ends later: `takeOver` follows. */
  giveWay(): void
  /**
   * A block without an event, from the producer: worth passing on now, never worth keeping. It
   * counts until it is released.
   */
  comment(bytes: Uint8Array, retained: Retained): void
  /**
   * The server wants it gone, and back after `retry` milliseconds. `false`: it would not come back,
   * so it stays. `isPresumed`: it comes back, whatever its revision says.
   */
  disconnect(retry?: number, isPresumed?: boolean): boolean
}

/** Writes a stream: the endpoint's response. */
export interface Producer {
  /** There is room again after `append` had returned `false`. */
  drain(): void
  /**
   * Nobody will answer these requests of the producer's any more: its stream has been abandoned.
   */
  unanswered(requestIds: readonly RequestId[]): void
  /** The stream has ended, in any state: nothing more is wanted from the producer. */
  release(): void
}

export interface StreamLimits {
  /** Milliseconds for which written events stay. */
  readonly window: number
  /** Bytes of one stream's events; unwritten ones beyond it fail the stream. */
  readonly maxStreamBytes: number
  /**
   * What may lie in the log that no connection was given. Absent: `maxStreamBytes` alone counts.
   */
  readonly unsent?: UndeliveredLimits | undefined
  /** Bytes of one event. */
  readonly maxEventBytes: number
  /**
   * Milliseconds without an event after which a stream that awaits answers is handed off to a
   * client that follows links.
   */
  readonly handoffQuiet: number
  /**
   * The same for a client of which that is not known: it is disconnected, and shows it by how it
   * comes back.
   */
  readonly handoffAfter: number
}

export interface RegistryLimits extends StreamLimits {
  /** Milliseconds without a reader or a sign of life after which a running stream is abandoned. */
  readonly abandonAfter: number
  /** Bytes that all logs together may hold. */
  readonly maxBytes: number
  /** Streams that may be kept, running or finished. */
  readonly maxStreams: number
}

/** What a stream needs of the table that it lives in. */
export interface StreamHost<Stream> {
  readonly limits: StreamLimits
  readonly budget: ByteBudget
  readonly unsent: UndeliveredQuota | undefined
  /**
   * All streams together are close to their limit, and none would make room for this owner's: who
   * can wait should.
   */
  isTight(owner: string): boolean
  /** Where running streams wait for a reader or a sign of life before they are abandoned. */
  readonly abandonments: DueQueue
  /** The process is about to end: a client that is disconnected could not come back. */
  readonly isClosing: boolean
  /** Whether its client is known to send its answers at once. */
  answersDirectly(stream: Stream): boolean
  /** Names a ping of ours to its client. */
  namePing(stream: Stream): string
  /** It waits for its client's answers. */
  waiting(stream: Stream): void
  /** It has left `live` or `waiting` for good. */
  ended(stream: Stream, error: StreamError | undefined): void
  /** Some of its events have been written, and are kept in case the wire has lost them. */
  written(stream: Stream): void
  /** Its reader came or went. */
  readerChanged(stream: Stream): void
  /** Events that were still inside the window had to go. */
  evicted(stream: Stream): void
}
