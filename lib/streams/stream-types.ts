// The types around a stream.
import type { StreamError } from '../protocol/errors.js'
import type { Message, RequestId } from '../protocol/json-rpc.js'
import type { ClientProfile } from '../protocol/revisions.js'
import type { ResumeInterval } from '../protocol/stream-messages.js'
import type { DueQueue } from './due-queue.js'
import type { Counter } from './budget.js'
import type { Retained } from './retained.js'

/**
 * `live` and `waiting` may follow each other, and nothing follows the others.
 *
 * - `live`: the endpoint writes, or may write.
 * - `waiting`: it waits for its client's answers, and no connection is held.
 * - `completed`: it has ended, with all its responses.
 * - `failed`: it has ended without all of them; each missing one was replaced by a JSON-RPC error.
 * - `cancelled`: its client has cancelled it.
 * - `abandoned`: its client did not come back in time.
 */
export type StreamState = 'live' | 'waiting' | 'completed' | 'failed' | 'cancelled' | 'abandoned'

/** Nothing is kept of such a stream: the Streams draft's methods answer as if it were unknown. */
export function isForgotten({ state }: { readonly state: StreamState }): boolean {
  return state === 'abandoned' || state === 'cancelled'
}

/** What a stream is for: the responses to requests, or a session's listen channel (GET). */
export type StreamKind = 'request' | 'listen'

/** The facts that a stream is opened with, and that its tombstone keeps. */
export interface StreamIdentity {
  readonly id: string
  readonly kind: StreamKind
  readonly owner: string
  readonly requestIds: readonly RequestId[]
}

export interface StreamInit extends StreamIdentity {
  /** The MCP session, known from the request or from the response that opens it. */
  readonly sessionId: string | undefined
  readonly profile: ClientProfile
  /** Messages tell of the stream (Streams draft): `stream/create` first, `stream/end` last. */
  readonly resumeInterval?: ResumeInterval | undefined
  /** As from 2026-07-28 on: its events have no ids, and a cut cancels it. */
  readonly isEphemeral?: boolean | undefined
  /** Its client never learns of it. `announce` tells operators once it is kept. */
  readonly isUnknown?: boolean | undefined
  /** It answers `initialize`; clients that list their streams are not told of it. */
  readonly isHandshake?: boolean | undefined
  /** A connection is about to follow it; `missed` is called if it cannot. */
  readonly isConnecting?: boolean | undefined
  readonly callKey?: string | undefined
  /** Room for it has been asked for before, and is there. */
  readonly hasRoom?: boolean
  /** When the call began that had no stream before, of which operators were told. */
  readonly begunAt?: number | undefined
}

/** What operators are told of a stream, of its record, and of a call that has none yet. */
export interface Announced extends StreamIdentity {
  readonly sessionId: string | undefined
  readonly state: StreamState
  readonly isEnded: boolean
  readonly begunAt: number
  readonly connections: number
}

/** Pulls from a stream, which only tells it when there is something to read. */
export interface Reader {
  /**
   * Something is new in the log, or the end. Called synchronously from `append`, with the messages
   * of the event as far as they have been read.
   */
  wake(said?: readonly Message[]): void
  /** What is left is written now: the producer may end the process next. */
  finish(): void
  /** A newer reader has taken this one's place: it ends. */
  takeOver(): void
  /** A newer reader has taken this one's place: it ends later, when `takeOver` is called. */
  giveWay(): void
  /** A block without an event: passed on now or never. Counts until `retained` is released. */
  comment(bytes: Uint8Array, retained: Retained): void
  /**
   * To come back after `retry` ms. `false`: it would not. `isPresumed`: it will, whatever its
   * revision.
   */
  disconnect(retry?: number, isPresumed?: boolean): boolean
}

/** Writes a stream: the endpoint's response. */
export interface Producer {
  /** There is room again after `append` had returned `false`. */
  drain(): void
  /** These requests of the producer will not be answered: its stream has been abandoned. */
  unanswered(requestIds: readonly RequestId[]): void
  /** The stream has ended, in any state: nothing more is wanted from the producer. */
  streamEnded(): void
}

/** What no connection has been given yet (Streams draft, "Security Considerations"). */
interface UnsentLimit {
  readonly messages: number
  readonly bytes: number
}

interface StreamLimits {
  /** Milliseconds for which written events are kept. */
  readonly window: number
  /** Bytes of one stream's events; unwritten ones beyond it fail the stream. */
  readonly maxStreamBytes: number
  /** How much of the log may be undelivered. Absent: only `maxStreamBytes` limits that. */
  readonly unsent?: UnsentLimit | undefined
  /** Bytes of one event. */
  readonly maxEventBytes: number
  /** `undefined`: a stream never stops for the answers of its client. */
  readonly handOff?: HandOffRules | undefined
}

/** A stream that has asked its client, or is about to. */
export interface AskingStream {
  readonly kind: StreamKind
  readonly state: StreamState
  readonly profile: ClientProfile
  readonly followsLinks: boolean
  readonly hasReader: boolean
  readonly readers: { readonly count: number }
  readonly answersDirectly: boolean
  /** The process is about to end: a client that is disconnected could not come back. */
  readonly isClosing: boolean
  /** It is the client's turn: it waits, or only disconnects, to see how the client comes back. */
  stopForAnswers(isHandOff: boolean): void
  /** An answer has come, or is not wanted any more. */
  goOn(): void
}

/** When such a stream stops for the answers. */
export interface HandOffRules {
  /** Whether to ping before the first question, as its client may keep its answers. */
  needsPing(stream: AskingStream): boolean
  /** It is the client's turn; `false`: it is only disconnected, to see how it comes back. */
  isForClient(stream: AskingStream): boolean
  /** Milliseconds of quiet that are waited for; `undefined`: it does not stop. */
  patienceWith(stream: AskingStream): number | undefined
}

export interface RegistryLimits extends StreamLimits {
  /** Milliseconds without a reader or a sign of life after which a running stream is abandoned. */
  readonly abandonAfter: number
  /** Bytes that all logs together may hold. */
  readonly maxBytes: number
  readonly maxStreams: number
}

export interface StreamHost<Stream> {
  readonly limits: StreamLimits
  readonly budget: Counter
  /** All streams are close to their limit, and nothing can be evicted: producers should wait. */
  isTight(owner: string): boolean
  /** Where running streams wait for a reader or a sign of life before they are abandoned. */
  readonly abandonments: DueQueue
  /** The process is about to end: a client that is disconnected could not come back. */
  readonly isClosing: boolean
  /** Whether its client is known to come back for calls by event ids. */
  isResumed(stream: Stream): boolean
  answersDirectly(stream: Stream): boolean
  namePing(stream: Stream): string
  waiting(stream: Stream): void
  /** It has left `live` or `waiting` for good. */
  ended(stream: Stream, error: StreamError | undefined): void
  /** Some of its events have been written, and are now kept only in case the wire has lost them. */
  written(stream: Stream): void
  readerChanged(stream: Stream): void
  evicted(stream: Stream): void
}
