// What all requests of one instance share.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { RequestId } from '../protocol/json-rpc.js'
import type { BlockListener } from '../protocol/sse-fields.js'
import type { Sessions } from '../streams/sessions.js'
import type { Budget } from '../streams/budget.js'
import type { Record } from '../streams/record.js'
import type { Stream } from '../streams/stream.js'
import type { ResumeInterval } from '../protocol/stream-messages.js'
import type { Directory, Keeper } from '../streams/directory.js'
import type { StreamRegistry } from '../streams/stream-registry.js'
import type { Admissions } from './admission.js'
import type { Connections } from './connections.js'
import type { DebugLog } from './endpoint-client.js'
import type { OwnerFunction } from '../access/guards.js'
import type { Capture } from '../http/capture-types.js'
import type { Caller, HandlerContext, MakeLink } from '../http/handler-context.js'
import type { SessionPings } from './session-pings.js'
import type { TriggerTable } from './triggers.js'
import type { Unanswered } from './unanswered.js'

export type ClientEventName =
  'connection-lost' | 'resumed' | 'taken-over' | 'upgraded' | 'repeated' | 'refused'

/** What the endpoint's answer to a request has meant for others. */
export interface PostOutcome {
  readonly req: IncomingMessage
  readonly owner: string
  readonly session: string | undefined
  /** Requests of the client that it has cancelled; none if the endpoint has refused it. */
  readonly cancelled: readonly RequestId[]
  /** Requests of the endpoint that it has answered; none if the endpoint has refused it. */
  readonly answered: readonly RequestId[]
  /** Its session has ended: the endpoint does not know it any more, or its client has ended it. */
  readonly sessionEnd: 'lost' | 'deleted' | undefined
}

/** What option `cookie` brings. */
export interface CookieCode {
  /** Good for reading alone. `undefined`: there is no cookie that says so. */
  ownerIn(req: IncomingMessage): string | undefined
  /** Lets the answer carry the cookie of this owner. */
  addTo(req: IncomingMessage, res: ServerResponse, owner: string): void
}

/** What option `progress` brings. */
export interface ProgressReports {
  /** `undefined`: no request of the stream wants progress. */
  begin(stream: Stream, tokens: readonly RequestId[], startedAt: number): CallProgress | undefined
}

export interface CallProgress {
  /** The endpoint has sent an event. */
  heard(block: Uint8Array): void
  stop(): void
}

/** What makes an endpoint with an `eventStore` of its own work. */
export interface EndpointEventStore {
  /** Its event streams pass as they are. */
  readonly isLeft: boolean
  /** Takes the blocks of a response whose events have ids, from the first on. */
  follow(
    run: NumberedRun,
    request: { readonly req: IncomingMessage; readonly revision: string | undefined },
    handler: HandlerContext
  ): NumberedEvents
}

/** Takes what the endpoint goes on with, as it took what came before. */
export interface NumberedRun extends Pick<Capture, 'write' | 'end' | 'abort'> {
  /** Takes a block that has no id. */
  take(...block: Parameters<BlockListener>): void
}

/** The events of one response, which have ids of the endpoint's. */
export interface NumberedEvents {
  take(...block: Parameters<BlockListener>): void
  /** The endpoint has closed the stream; `isAtWill`: by an end, and not by breaking off. */
  closed(isAtWill: boolean): void
  /** There is room again in the stream. */
  drain(): void
  /** Nothing more is wanted. */
  stop(): void
}

export interface InstanceParts {
  /** What makes requests special, and to whom. */
  readonly triggers: TriggerTable
  readonly directory: Directory
  /** Makes the id of a stream, a token or a ticket: unguessable, and naming its instance. */
  readonly newId: () => string
  /** Says who a request is from. */
  readonly owner: OwnerFunction
  /** The signed cookie that may also say so; `undefined`: there is none. */
  readonly cookie: CookieCode | undefined
  readonly table: StreamRegistry
  readonly sessions: Sessions
  /** Whether the endpoint still knows a session. */
  readonly sessionPings: SessionPings
  /** Which clients the endpoint has admitted. */
  readonly admissions: Admissions
  readonly connections: Connections
  /** Tells endpoints of requests of theirs that nobody will answer. */
  readonly unanswered: Unanswered
  /** Where other instances find results that nobody has fetched; `undefined`: there are none. */
  readonly kept: Keeper | undefined
  /** Makes what handlers give out as links to resources; `undefined`: off. */
  readonly links: { for(caller: Caller): MakeLink } | undefined
  /** Reports progress in the endpoint's place; `undefined`: off. */
  readonly progress: ProgressReports | undefined
  readonly bodies: Budget
  /** Bytes up to which a body is read ahead. */
  readonly maxBodyBytes: number
  /** The process is about to end: responses pass untouched. */
  isClosing: boolean
  /** Bytes that one event may have. */
  readonly maxEventBytes: number
  /** Bytes that an answer may have that becomes an event once it is whole. */
  readonly maxAnswerBytes: number
  readonly eventStore: EndpointEventStore
  readonly primer: 'auto' | 'always' | 'never'
  readonly handoff: 'auto' | 'always' | 'never'
  readonly notifications: 'auto' | 'always' | 'never'
  readonly resumeInterval: ResumeInterval
  readonly allowedOrigins: ReadonlySet<string>
  /** Called with what an answer of the endpoint has meant. */
  readonly outcomes: Set<(outcome: PostOutcome) => void>
  /** Its client has ended it, or the endpoint does not know it any more (`isLost`). */
  readonly sessionEnded: Set<(sessionId: string, owner: string, isLost: boolean) => void>
  readonly debug: DebugLog
  readonly count: (
    name: ClientEventName,
    stream: Stream | Record | undefined,
    reason?: string
  ) => void
  readonly report: (error: Error, streamId: string | undefined) => void
}
