// Other instances of the service, for the core: the value of option `backplane` brings them.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Directory, Keeper, LocalDirectory } from '../streams/directory.js'
import type { Record } from '../streams/record.js'
import type { Stream } from '../streams/stream.js'
import type { Answer } from './feature.js'

export interface OtherInstances<Context> {
  /** What the ids of this instance begin with. */
  readonly tag: string
  readonly newId: () => string
  readonly directory: Directory
  readonly kept: Keeper
  readonly stats: BackplaneStats
  /** So many at the most, the one that was heard of last at the end. */
  instances(most: number): InstanceStats[]

  // Requests for something that another instance has. `undefined`: none has it.
  byHead(context: Context): Answer | undefined | Promise<Answer | undefined>
  byMessage(context: Context): Answer | undefined
  /** Claims its `Idempotency-Key` for this instance, if no other has it. */
  byKey(context: Context): Promise<Answer | undefined> | undefined
  /** This instance leaves: another one is to begin the request. `undefined`: there is none. */
  elsewhere(context: Context): Answer | undefined

  /** A request has come. Those of others go to the same server. */
  arrived(req: IncomingMessage, res: ServerResponse): void
  /** If no client has its events, they are kept for others. */
  streamEnded(ended: Stream | Record): void

  // The end of this instance, in this order.
  /** What clients get from now on, or got in the last so many ms, may be lost: it is kept. */
  beginClosing(comesBackWithin: number): void
  /** Clients here whose listen channels others have are to come back. */
  stopListening(): void
  /** Whether another instance can take over from this one. */
  hasSuccessor(): Promise<boolean>
  /** Another one does: clients whose responses others write are to come back to it. */
  leave(): void
  /** Resolves when others have answered all clients here, and all that was posted here is. */
  whenAnswered(): Promise<void> | undefined
  /** Resolves when no call runs here for a client of theirs. */
  whenCallsOver(): Promise<void> | undefined
  /** Cuts the responses that others write, and those that begin later. */
  cut(): void
  /** Resolves when they have been told. */
  close(): Promise<void>
}

/** What they have to know of the instance that is to be one of them. */
export interface OtherInstancesHost<Context> {
  /** Answers a request anew, which another instance has handed back as it leaves. */
  readonly answerAgain: (context: Context) => void
  /** The directory of this instance alone. */
  readonly here: LocalDirectory
  /** The most sessions, and calls under a key, that others are told of. */
  readonly maxEntries: number
  /** Milliseconds for which results, and the keys of calls, are kept. */
  readonly keptFor: number
  /** Milliseconds of silence after which a comment keeps a connection open; `null`: never. */
  readonly keepAlive: number | null
  /** Whether a session can be begun again where its instance is gone. */
  readonly mayBeRevived: (session: string) => boolean
  /** Called when the connection to them, of an instance with this tag, has changed. */
  readonly changed: (state: 'up' | 'degraded' | 'down', tag: string) => void
}

/** Figures about the backplane of an instance: `stats().backplane`. */
export interface BackplaneStats {
  /** 1 while there is a connection over which the instance's own messages come back; else 0. */
  readonly up: number
  /** 1 while round trips take a sixth of a lease or longer, or keys cannot be written; else 0. */
  readonly degraded: number
  /** Requests of this instance's clients that other instances are answering. */
  readonly forwarded: number
  /** Requests of other instances' clients that this instance is answering. */
  readonly accepted: number
  /** Bytes that were sent to other instances, and are kept until they have used them. */
  readonly bytes: number
  /** Totals of messages sent, and of valid messages received. */
  readonly sent: number
  readonly received: number
  /** Total of messages that were not sent: no connection, or too many bytes waited for it. */
  readonly unsent: number
  /**
   * Totals of messages that were dropped: in no valid form, in the form of another release, not
   * signed with one of the secrets, or received before.
   */
  readonly malformed: number
  readonly version: number
  readonly forged: number
  readonly replayed: number
}

/** Another instance: `stats({ streams }).instances`. */
export interface InstanceStats {
  /** What its stream ids begin with. */
  readonly tag: string
  /** Whether it lives; `unknown`: that has not been found out, or cannot be at the moment. */
  readonly state: 'alive' | 'gone' | 'unknown'
  /** Milliseconds since its last message; `undefined`: none has come. */
  readonly heard: number | undefined
}
