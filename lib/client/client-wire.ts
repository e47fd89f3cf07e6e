// One wire of a reconnecting transport: opened with patience, and nobody waits for what it does not
// take once it is lost.
import type { TransportLike, WireMessage } from '../protocol/shared-wire.js'
import type { ReconnectReason } from './options.js'
import { within } from './retry-delay.js'

export interface WireListener {
  messageCame(wire: ClientWire, message: WireMessage, extra: unknown): void
  /** Told once, and not of a wire that was closed. */
  wireLost(wire: ClientWire, reason: ReconnectReason): void
  onerror?: ((error: Error) => void) | undefined
}

/** Makes a transport that is not started yet. */
export type Connect = () => TransportLike | Promise<TransportLike>

export class ClientWire {
  readonly #listener: WireListener
  #transport: TransportLike | undefined
  /** Those who wait for the transport to take a message: more than a signal has listeners for. */
  readonly #waiting = new Set<() => void>()
  /** Lost, or closed. */
  isGone = false

  constructor(listener: WireListener) {
    this.#listener = listener
  }

  /** @param patience milliseconds that it may take; `null`: for ever */
  async open(connect: Connect, patience: number | null): Promise<void> {
    await within(patience, this.#start(connect)).catch((error: unknown) => {
      this.discard()
      throw error
    })
  }

  async #start(connect: Connect): Promise<void> {
    const transport = (this.#transport = await connect())
    // Nobody waits for it any more.
    if (this.isGone) return transport.close()
    // What the user has hung on the transport stays there.
    const { onmessage, onerror, onclose } = transport
    transport.onmessage = (message: WireMessage, extra?: unknown) => {
      onmessage?.(message, extra)
      if (!this.isGone) this.#listener.messageCame(this, message, extra)
    }
    transport.onerror = error => {
      onerror?.(error)
      // That of a wire which is lost with it is no news: another takes its place.
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

  /** Closes it, and nobody is to be told. */
  discard(): void {
    this.close().catch(() => undefined)
  }

  async close(): Promise<void> {
    this.isGone = true
    for (const resolve of this.#waiting) resolve()
    await this.#transport?.close()
  }
}
