// One request for a resource: how long it may last, and what is to be let go when it is over.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Timer } from '../streams/timer.js'
import { responseOnTurn } from '../endpoint/node-internals.js'
import { breakOff } from '../endpoint/reply.js'
import { whenClosed } from '../endpoint/socket-closed.js'
import { ClientGone } from './send-bytes.js'

/** Who asks, as far as the request has told. */
export interface Requester {
  readonly owner: string
  readonly sessionId: string | undefined
  readonly revision: string | undefined
  /** The `_meta` in which a request of 2026-07-28 says who its client is. */
  readonly envelope: Record<string, unknown> | undefined
  /** Bytes that the client takes; `undefined`: it has named no limit. */
  readonly maxStreamSize: number | undefined
}

/** A resource, and who asks for it. */
export interface WantedResource extends Requester {
  readonly uri: string
}

/** Work for a client, for no longer than the client is there. */
export class Waiting {
  protected readonly controller = new AbortController()

  get signal(): AbortSignal {
    return this.controller.signal
  }

  /** Its client has gone. */
  gone(): void {
    this.controller.abort(new ClientGone())
  }

  /**
   * Waits for something that others do, no longer than `timeout`, and no longer than the client.
   * What comes too late is handed to `discard`.
   */
  async wait<T>(
    work: T | PromiseLike<T>,
    timeout: number | null,
    discard: (late: T) => void
  ): Promise<T> {
    const { signal } = this
    const promise = Promise.resolve(work)
    const timer = new Timer(() =>
      this.controller.abort(new Error('Nothing was heard of the resource in time'))
    )
    let stop: (() => void) | undefined
    const given = new Promise<never>((_resolve, reject) => {
      stop = () => reject(signal.reason as Error)
      if (signal.aborted) stop()
      signal.addEventListener('abort', stop)
      if (timeout !== null) timer.start(timeout)
    })
    try {
      return await Promise.race([promise, given])
    } catch (error) {
      // Nobody is there any more whom it could be told if that fails, too.
      promise.then(discard).catch(() => undefined)
      throw error
    } finally {
      timer.stop()
      if (stop !== undefined) signal.removeEventListener('abort', stop)
    }
  }
}

export class ResourceRequest extends Waiting {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** Its response is ours: what goes wrong from now on breaks it. */
  isSending = false
  readonly #unwatchSocket: () => void
  readonly #onClose = (): void => {
    // A response closes when it has been given, too.
    if (!this.res.writableFinished) this.gone()
  }

  constructor(req: IncomingMessage, res: ServerResponse) {
    super()
    this.req = req
    this.res = res
    res.once('close', this.#onClose)
    this.#unwatchSocket = whenClosed(req.socket, this.#onClose)
    if (res.destroyed || req.socket.destroyed) this.#onClose()
  }

  /**
   * Resolves when no other response is in front of its own. With pipelined requests, a file that is
   * opened earlier would be held for nothing, and a client that leaves would go unnoticed.
   */
  async turn(): Promise<void> {
    const { req, res } = this
    const isQueued = res.socket === null && !res.writableEnded
    if (!isQueued || responseOnTurn(req.socket) === undefined) return
    const begins = new Promise(resolve => res.once('socket', resolve))
    await this.wait(begins, null, () => undefined)
  }

  /** Its answer has been given: what comes now is no news. */
  end(): void {
    this.res.off('close', this.#onClose)
    this.#unwatchSocket()
  }

  /**
   * Ends it where it is. What it waits for fails with `reason`, which is its answer if its head has
   * not left; else its client is told nothing but that.
   */
  breakOff(reason: Error): void {
    this.controller.abort(reason)
    if (this.res.headersSent) breakOff(this.res)
  }
}

/**
 * What compresses, in front of us, would take the length away, and the ranges with it. It asks the
 * request when the head leaves.
 */
export function leaveUncompressed(req: IncomingMessage): void {
  delete req.headers['accept-encoding']
}
