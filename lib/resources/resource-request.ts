// One request for a resource: it ends with its client, a timeout, or the server.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Timer } from '../streams/timer.js'
import { responseOnTurn } from '../http/node-internals.js'
import { breakOff } from '../http/reply.js'
import { whenClosed } from '../http/sockets.js'
import { ClientGone } from './send-bytes.js'

export interface Requester {
  readonly owner: string
  readonly sessionId: string | undefined
  readonly revision: string | undefined
  /** The `_meta` in which a request of 2026-07-28 says who its client is. */
  readonly envelope: Record<string, unknown> | undefined
  /** The most bytes that the client takes; `undefined`: it has named no limit. */
  readonly maxStreamSize: number | undefined
}

export interface WantedResource extends Requester {
  readonly uri: string
  /** The name under which it is to be saved; `undefined`: its own. */
  readonly filename?: string | undefined
  /** It does not matter who fetches it. */
  readonly isForAnyone?: boolean
}

/** Work for a client, which is aborted when the client goes. */
export class Waiting {
  protected readonly controller = new AbortController()

  get signal(): AbortSignal {
    return this.controller.signal
  }

  gone(): void {
    this.controller.abort(new ClientGone())
  }

  /** Waits `timeout` ms at most while the client is there. `discard` gets what comes late. */
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
      // The request has failed already, so a late failure is reported to nobody.
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
  /** We have begun its response: if something fails after the head, it is broken off. */
  isSending = false
  readonly #unwatchSocket: () => void
  readonly #onClose = (): void => {
    // A response also closes when it has been sent as a whole.
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

  /** A pipelined request would hold a file open, and not notice when the client leaves. */
  async turn(): Promise<void> {
    const { req, res } = this
    const isQueued = res.socket === null && !res.writableEnded
    if (!isQueued || responseOnTurn(req.socket) === undefined) return
    const begins = new Promise(resolve => res.once('socket', resolve))
    await this.wait(begins, null, () => undefined)
  }

  /** It is over: what happens to its socket does not matter any more. */
  unwatch(): void {
    this.res.off('close', this.#onClose)
    this.#unwatchSocket()
  }

  /** Ends it at once, with `reason` as its answer if no head has been sent. */
  breakOff(reason: Error): void {
    this.controller.abort(reason)
    if (this.res.headersSent) breakOff(this.res)
  }
}

/** Compression in front of us would remove the length and the ranges; it reads this header. */
export function leaveUncompressed(req: IncomingMessage): void {
  delete req.headers['accept-encoding']
}
