// The transport that the SDK's server is given: it shows the properties of the wire's transport,
// and gives messages to the server.
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

  /** Cancels a request of the client at the server. */
  protected cancelAtServer(requestId: RequestId, reason: string): void {
    this.sendToServer(cancellation(requestId, reason))
  }

  /** Tells the server that its client will not answer these requests. */
  unanswered(ids: readonly RequestId[]): void {
    const error = faultError('unanswered')
    // A call that is resumed with tokens asks again, or ends by itself.
    for (const id of ids)
      if (parseForeignId(id) === undefined) this.sendToServer({ jsonrpc: '2.0', id, error })
  }
}
