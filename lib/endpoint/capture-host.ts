// What a capture asks of the request whose response has been taken.
import type { RequestId } from '../protocol/json-rpc.js'
import type { ByteBudget } from '../streams/event-log.js'
import type { Stream } from '../streams/stream.js'
import type { Connection } from '../readers/connection.js'
import type { LateBodyHost } from './late-body.js'
import type { ProgressReport } from './progress-reports.js'

/** The request behind a response that has been taken. */
export interface CaptureHost extends LateBodyHost {
  /** Bytes that an unfinished event may have. */
  readonly maxEventBytes: number
  /** Where they are counted. */
  readonly budget: ByteBudget
  /** Sets our headers on the response. */
  setHeaders(): void
  /**
   * Sends our head in the place of the endpoint's, which has not begun, and opens the stream's
   * first reader on the socket.
   */
  beginEarly(stream: Stream): Connection | undefined
  /**
   * Opens the stream's first connection, on the socket that asked; `undefined`: the request has
   * been repeated, on a newer one.
   */
  connect(stream: Stream): Connection | undefined
  /** Begins to report progress in the endpoint's place, where that is wanted. */
  reportProgress(stream: Stream): ProgressReport | undefined
  /** Calls back once it is known what has been asked: what is owed cannot be told before. */
  whenKnown(listener: () => void): void
  /** Tells the endpoint that nobody will answer these requests of its own. */
  unanswered(requestIds: readonly RequestId[]): void
  /** The stream is not ours. */
  stepAside(stream: Stream, why: NotOurs): void
  /** An event has come with an id of the endpoint's, on a stream that stays ours. */
  numbered(stream: Stream): void
  /** The first event has come without an id of the endpoint's. */
  unnumbered(): void
}

/**
 * Why a response that looked like ours is none: the endpoint numbers its events itself; or it is
 * one of the old HTTP+SSE transport.
 */
export type NotOurs = 'own ids' | 'HTTP+SSE'
