// What an optional part of the middleware may take part in. The core names none: it asks each.
import type { IncomingMessage } from 'node:http'
import type { StreamName } from '../protocol/event-id.js'
import type { Message } from '../protocol/json-rpc.js'
import type { WireResources } from '../protocol/shared-wire.js'
import type { FoundStream, Here, KeptValue, NameKind } from '../streams/directory.js'
import type { InstanceParts } from './instance-parts.js'
import type { CallKey } from './keyed-call.js'
import type { Record } from '../streams/record.js'
import type { Stream } from '../streams/stream.js'
import type { RequestContext } from './request-context.js'
import type { SlowAnswers } from './call.js'
import type { Triggers } from './triggers.js'

export type Answer = () => unknown

/** What works on a POST beside the endpoint. */
export type Worker =
  /** A run of the endpoint: it captures the response at once, and then begins. */
  | { readonly kind: 'run'; readonly capture: (slow: SlowAnswers) => Answer }
  /** An answer in the endpoint's place, over a response that is captured like the endpoint's. */
  | { readonly kind: 'answer'; readonly answer: Answer }
  /** The same, over the client's own response; it settles the call under the request's key. */
  | { readonly kind: 'reply'; readonly answer: Answer }

/** Something that another instance may have. */
export interface Named {
  readonly kind: NameKind
  readonly name: string
}

/** Figures of `stats()`. */
export type FeatureCounts = {
  readonly [
    name in
      | 'calls'
      | 'tasks'
      | 'keyed'
      | 'transfers'
      | 'bytes'
      | 'remembered'
      | 'evictions'
      | 'revivals'
      | 'idled'
  ]?: number
}

/** How full a limit is. */
export interface Fullness {
  readonly used: number
  readonly max: number
}

/** Bounds of one instance. */
export interface FeatureLimits {
  /** How many calls, tasks or downloads there may be. */
  readonly maxEntries: number
  /** Bytes that one of them may keep. */
  readonly maxEntryBytes: number
  /** Bytes that all of them may keep. */
  readonly maxBytes: number
}

/** What an instance that has gone has left of a call under a key. */
export type KeptKeyedCall =
  | { readonly kind: 'answer'; readonly answer: Answer }
  | { readonly kind: 'stream'; readonly streamId: string }

/** Calls that their clients can ask for again, by keys of their own. */
export interface CallKeys {
  /** A key, bound to owner, session and path; `undefined`: one that is ignored. */
  scoped(context: RequestContext, key: string): string | undefined
  /** What a POST is kept under; `undefined`: it has no key that counts. */
  keyOf(context: RequestContext): string | undefined
  of(context: RequestContext): CallKey | undefined
  /** `undefined`: the value is not the outcome of a call under a key. */
  kept(context: RequestContext, callKey: CallKey, value: KeptValue): KeptKeyedCall | undefined
  /** A stream is kept for other instances, so the outcome of its call is kept, too. */
  keepStream(key: string): void
  /** Keeps for other instances every answer that was given in the last `time` milliseconds. */
  keepSince(time: number): void
}

/** Sessions that outlive the process that has begun them. */
export interface LastingSessions {
  /** Called before anything looks at the session that a request names. */
  enter(context: RequestContext): void
  /** Whether it is a request of ours about a session itself. */
  isOwn(req: IncomingMessage): boolean
  /** Whether a session may be begun again where its instance is gone. */
  mayBeRevived(session: string): boolean
}

/** Streams that stop for the answers of their client. */
export interface WaitingStreams {
  /** A POST to the URL of a stream. */
  answered(context: RequestContext, found: FoundStream, name: StreamName): Promise<void>
  /** A client has come back: answers it, if it is to send its answers first. `false`: it is not. */
  mustAnswer(context: RequestContext, stream: Stream, cursor: number | undefined): boolean
}

export interface Feature {
  /**
   * What makes a request special to it: by the hooks below that get a request's context, it is
   * asked about such requests alone. Default: `all`.
   */
  readonly triggers?: Triggers
  /** What the query of a request names: with that, it is ours, whatever else it is. */
  namedByHead?(req: IncomingMessage): readonly Named[]
  /** What a message names. */
  namedBy?(context: RequestContext, message: Message): Named | undefined
  /** What this instance has under such a name. */
  find?(name: string): Here<unknown, unknown>
  /** Answers a request by its head. */
  byHead?(context: RequestContext): Answer | undefined
  /** Answers a POST by its messages. */
  byMessage?(context: RequestContext): Answer | undefined
  worker?(context: RequestContext): Worker | undefined
  /**
   * Answers what nothing else has answered; or takes part in what the endpoint does with it. Behind
   * a feature that takes part in a POST, none in the list may answer one here.
   */
  beforeEndpoint?(context: RequestContext): Answer | undefined
  /** Changes the endpoint's answer. Called before the endpoint runs, once it is captured. */
  rewrite?(context: RequestContext): void
  /** Answers by what was kept of an instance that has gone; `undefined`: that is not its own. */
  answerKept?(context: RequestContext, kept: KeptValue): Answer | undefined
  /** The same by what was kept of its stream, which the client may read. */
  answerSaved?(context: RequestContext, saved: Record): Answer | undefined
  /** For transports that are no HTTP. `tokens`: calls with resume tokens, as they know them. */
  readonly onWires?: { readonly resources?: WireResources; readonly tokens?: object }
  counts?(): FeatureCounts
  fullness?(): { readonly [name in 'calls' | 'tasks' | 'keyed']?: Fullness }
  /** The process is about to end; clients come back within so many milliseconds, if at all. */
  beginClosing?(comesBackWithin: number): void
  /** From now on, calls without a client end after so many milliseconds. */
  abandonAfter?(milliseconds: number): void
  whenIdle?(): Promise<void> | undefined
  /** The time for closing is over: whoever waits gets an error. */
  expire?(): void
}

/** What the value of an option carries (`partOf`). */
export type FeatureCode<Made extends Feature = Feature> = (
  parts: InstanceParts,
  limits: FeatureLimits
) => Made
