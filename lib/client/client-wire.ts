// One wire of a reconnecting transport. Opening it is limited in time, and when it is lost, nobody
// waits for messages that it has not taken.
import type { TransportLike, WireMessage } from '../protocol/shared-wire.js'
import type { ReconnectReason } from './options.js'
import { within } from './waiting.js'

export interface WireListener {
  messageCame(wire: ClientWire, message: WireMessage, extra: unknown): void
  /** Called once, and not for a wire that was closed here. */
  wireLost(wire: ClientWire, reason: ReconnectReason): void
  onerror?: ((error: Error) => void) | undefined
}

/** Makes a transport that is not started yet. */
export type Connect = () => TransportLike | Promise<TransportLike>

export class ClientWire {
  readonly #listener: WireListener
  #transport: TransportLike | undefined
  /** Resolves the sends that the transport has not finished yet. */
  readonly #waiting = new Set<() => void>()
  /** Whether it is lost or closed. */
  isGone = false

  constructor(listener: WireListener) {
    this.#listener = listener
  }

  /** @param patience milliseconds that it may take; `null`: no limit */
  async open(connect: Connect, patience: number | null): Promise<void> {
    await within(patience, this.#start(connect)).catch((error: unknown) => {
      this.discard()
      throw error
    })
  }

  async #start(connect: Connect): Promise<void> {
    const transport = (this.#transport = await connect())
    // Opening it has taken too long.
    if (this.isGone) return transport.close()
    // Listeners that the user has set on the transport are still called.
    const { onmessage, onerror, onclose } = transport
    transport.onmessage = (message: WireMessage, extra?: unknown) => {
      onmessage?.(message, extra)
      if (!this.isGone) this.#listener.messageCame(this, message, extra)
    }
    transport.onerror = error => {
      onerror?.(error)
      // If the wire is lost by this error, another one is opened, so the error is not reported.
      setTimeout(() => this.isGone || this.#listener.onerror?.(error))
    }
    transport.onclose = () => {
      onclose?.()
      this.lose('end')
    }
    await transport.start()
  }

  /** Resolves once the transport has taken the message, or the wire is lost. */
  send(message: WireMessage): Promise<void> {
    return new Promise(resolve => {
      if (this.isGone) return resolve()
      this.#waiting.add(resolve)
      const sent = async (): Promise<void> => this.#transport?.send(message)
      sent()
        .catch(() => this.lose('error'))
        .finally(() => {
          this.#waiting.delete(resolve)
          resolve()
        })
    })
  }

  lose(reason: ReconnectReason): void {
    if (this.isGone) return
    this.discard()
    this.#listener.wireLost(this, reason)
  }

  /** Closes the wire without telling the listener, and ignores errors. */
  discard(): void {
    this.close().catch(() => undefined)
  }

  async close(): Promise<void> {
    this.isGone = true
    for (const resolve of this.#waiting) resolve()
    await this.#transport?.close()
  }
}
