// One wire of a reconnecting transport: opened with patience, and nobody waits for what it does not
// take once it is lost.
import { now } from '../protocol/clock.js'
import type { TransportLike, WireMessage } from '../protocol/shared-wire.js'
import { untilAborted } from './aborting.js'
import type { ReconnectReason } from './options.js'
import { within } from './retry-delay.js'

export interface WireListener {
  messageCame(wire: ClientWire, message: WireMessage, extra: unknown): void
  /** Told once, and not of a wire that was closed. */
  wireLost(wire: ClientWire, reason: ReconnectReason): void
  onerror?: ((error: Error) => void) | undefined
}

export class ClientWire {
  readonly #transport: TransportLike
  readonly #listener: WireListener
  readonly #openedAt = now()
  /** Aborts when it is lost, or closed. */
  readonly #over = new AbortController()

  constructor(transport: TransportLike, listener: WireListener) {
    this.#transport = transport
    this.#listener = listener
    // What the user has hung on the transport stays there.
    const { onmessage, onerror, onclose } = transport
    transport.onmessage = (message: WireMessage, extra?: unknown) => {
      onmessage?.(message, extra)
      if (!this.isGone) listener.messageCame(this, message, extra)
    }
    transport.onerror = error => {
      onerror?.(error)
      // That of a wire which is lost with it is no news: another takes its place.
      setTimeout(() => this.isGone || listener.onerror?.(error))
    }
    transport.onclose = () => {
      onclose?.()
      this.lose('end')
    }
  }

  /** @param patience milliseconds for which the transport may take to start; `null`: for ever */
  async start(patience: number | null): Promise<void> {
    try {
      await within(patience, this.#transport.start())
    } catch (error) {
      this.discard()
      throw error
    }
  }

  /** Lost, or closed. */
  get isGone(): boolean {
    return this.#over.signal.aborted
  }

  /** Milliseconds for which it has been there. */
  get age(): number {
    return now() - this.#openedAt
  }

  /** Resolves once the transport has taken the message, or the wire is lost. */
  async send(message: WireMessage): Promise<void> {
    if (this.isGone) return
    const sent = async (): Promise<void> => this.#transport.send(message)
    await untilAborted(this.#over.signal, sent()).catch(() => this.lose('error'))
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
    this.#over.abort()
    await this.#transport.close()
  }
}
