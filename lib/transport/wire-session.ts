// What a session is to its wires, and a wire to its sessions.
import type { ErrorObject, Message, RequestId } from '../protocol/json-rpc.js'
import type { TransportLike, WireMessage } from '../protocol/shared-wire.js'
import type { Stream } from '../streams/stream.js'

/** A session, as its wires know it. */
export interface WireSession {
  readonly id: string
  readonly owner: string
  readonly onerror?: ((error: Error) => void) | undefined
  /** Nothing has been passed on yet. */
  readonly isFresh: boolean
  readonly hasWire: boolean
  receive(message: WireMessage, extra: unknown): void
  /** An answer to a request of the server's. */
  answered(message: Message & { readonly id: RequestId }, extra: unknown): void
  /**
   * Its client is on this wire now. `except`: a stream that is followed from a cursor of the
   * client's.
   */
  follow(wire: SessionWire, except: Stream): void
  signOfLife(): void
  wireLost(wire: SessionWire): void
  /** While the process is about to end, a client that is idle is made to come back elsewhere. */
  leaveIfIdle(): void
  /** Its client wants no more of anything. */
  cancel(): void
  /** Lets go of its wire; it stays for a client that comes back. */
  disconnect(): void
  /** The process is about to end: its wire closes when its calls are over. */
  beginClosing(): void
}

/** A wire, as its sessions know it. */
export interface SessionWire {
  readonly transport: TransportLike
  /** The events of a call are still on their way. */
  readonly isGivingCalls: boolean
  start(): Promise<void>
  send(message: WireMessage): Promise<void>
  refuse(id: RequestId | undefined, error: ErrorObject): void
  /** Gives its client a stream from a cursor on. */
  follow(stream: Stream, cursor: number): void
  /** A session has ended, or lives on another wire from now on. */
  leave(session: WireSession): Promise<void>
  close(): Promise<void>
  /** Closes it behind what is being sent. */
  closeWhenSent(): Promise<void>
}
