// The transport that the SDK's server has been given: what it says of the wire's, and what reaches
// the server through it.
import { faultError } from '../protocol/errors.js'
import { parseForeignId } from '../protocol/foreign-id.js'
import { cancellation, type RequestId } from '../protocol/json-rpc.js'
import type { TransportLike, WireMessage } from '../protocol/shared-wire.js'

export interface SendOptions {
  readonly relatedRequestId?: RequestId | undefined
}

export abstract class ServerTransport implements TransportLike {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: WireMessage, extra?: unknown) => void) | undefined
  protected readonly transport: TransportLike

  constructor(transport: TransportLike) {
    this.transport = transport
  }

  get sessionId(): string | undefined {
    return this.transport.sessionId
  }

  setProtocolVersion(version: string): void {
    this.transport.setProtocolVersion?.(version)
  }

  setSupportedProtocolVersions(versions: string[]): void {
    this.transport.setSupportedProtocolVersions?.(versions)
  }

  abstract start(): Promise<void>
  abstract send(message: WireMessage, options?: SendOptions): Promise<void>
  abstract close(): Promise<void>

  protected abstract get isClosed(): boolean

  sendToServer(message: WireMessage, extra?: unknown): void {
    if (!this.isClosed) this.onmessage?.(message, extra)
  }

  /** Cancels a request of the client's at the server. */
  protected cancelAtServer(requestId: RequestId, reason: string): void {
    this.sendToServer(cancellation(requestId, reason))
  }

  /** Nobody will answer these requests of the server's. */
  unanswered(ids: readonly RequestId[]): void {
    const error = faultError('unanswered')
    // A call that is collected with tokens asks again, or ends itself.
    for (const id of ids)
      if (parseForeignId(id) === undefined) this.sendToServer({ jsonrpc: '2.0', id, error })
  }
}
