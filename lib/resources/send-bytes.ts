// Sends a source to a response: what is not whole never looks whole.
import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { Timer } from '../streams/timer.js'
import { pendingBytes } from '../http/node-internals.js'
import { endGuarded, isWritable, wrote } from '../http/reply.js'

interface Shipment {
  /** Bytes that the head has promised. */
  readonly size: number | undefined
  /** The most bytes that the client takes, if the size is not known beforehand. */
  readonly limit: number | undefined
  /** Makes the error for a source that exceeds `limit`, before the head is sent. */
  readonly tooLarge: () => Error
  /** Milliseconds without progress after which the transfer fails; `null`: no limit. */
  readonly timeout: number | null
  /** Stops the transfer before the head is sent; the promise then rejects with its reason. */
  readonly signal: AbortSignal
  /** Writes the head, before the first byte. Until then the client can be told of an error. */
  readonly begin: () => void
  /** The operating system has taken a piece: its memory may be used again. */
  readonly onTaken?: ((piece: Uint8Array) => void) | undefined
}

/** The client has gone, or takes nothing any more. It is not reported to `onError`. */
export class ClientGone extends Error {}

/** Rejects when source or client fails; before the head, an error can still be answered. */
export function sendBytes(
  source: Readable,
  res: ServerResponse,
  shipment: Shipment
): Promise<void> {
  return new Promise((resolve, reject) =>
    new Transfer(source, res, shipment, resolve, reject).start()
  )
}

class Transfer {
  readonly #source: Readable
  readonly #res: ServerResponse
  readonly #shipment: Shipment
  readonly #resolve: () => void
  readonly #reject: (error: Error) => void
  #sent = 0
  #hasBegun = false
  #isOver = false
  #hasEnded = false
  /** The last bytes are held back: if the source gives more, the response must not look whole. */
  #held: Uint8Array | undefined
  /** Bytes that the client had not taken at the last look. */
  #pending = 0
  readonly #silence = new Timer(() => this.#timedOut())

  constructor(
    source: Readable,
    res: ServerResponse,
    shipment: Shipment,
    resolve: () => void,
    reject: (error: Error) => void
  ) {
    this.#source = source
    this.#res = res
    this.#shipment = shipment
    this.#resolve = resolve
    this.#reject = reject
  }

  start(): void {
    const source = this.#source
    const res = this.#res
    // Never removed: a source that fails after the transfer would end the process.
    source.on('error', error => this.#settle(error))
    source.on('close', this.#onSourceClosed)
    res.on('close', this.#onClosed)
    res.on('drain', this.#onDrain)
    res.on('finish', this.#onFinish)
    const { timeout } = this.#shipment
    if (timeout !== null) this.#silence.start(timeout)
    const { signal } = this.#shipment
    if (signal.aborted) return this.#onAborted()
    signal.addEventListener('abort', this.#onAborted)
    if (res.destroyed) return this.#settle(new ClientGone())
    if (source.errored !== null && source.errored !== undefined) return this.#settle(source.errored)
    if (source.readableEnded) return this.#onEnd()
    if (source.destroyed) return this.#onSourceClosed()
    source.on('end', this.#onEnd)
    source.on('data', this.#onData)
    // A source that was paused before does not flow by itself.
    source.resume()
  }

  readonly #onData = (chunk: unknown): void => {
    if (this.#isOver) return
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
    if (!(bytes instanceof Uint8Array))
      return this.#settle(new TypeError('The source gave something that is no bytes'))
    if (bytes.length === 0) return
    const { size, limit } = this.#shipment
    const total = this.#sent + bytes.length
    if (size !== undefined && (total > size || this.#held !== undefined))
      return this.#settle(new RangeError(`The source gave more than the ${size} bytes promised`))
    if (limit !== undefined && total > limit)
      return this.#settle(
        this.#hasBegun
          ? new RangeError(`The source gave more than the ${limit} bytes that the client takes`)
          : this.#shipment.tooLarge()
      )
    this.#silence.refresh()
    if (total === size) this.#held = bytes
    else if (!this.#write(bytes)) this.#source.pause()
  }

  #write(bytes: Uint8Array): boolean {
    if (!this.#begin() || this.#hasLost()) return false
    this.#sent += bytes.length
    const { onTaken } = this.#shipment
    const res = this.#res
    const hasRoom = this.#attempt(() =>
      wrote(res, onTaken === undefined ? res.write(bytes) : res.write(bytes, () => onTaken(bytes)))
    )
    if (hasRoom === undefined) return false
    if (!hasRoom) this.#pending = this.#notTaken()
    return hasRoom
  }

  /** Whether the transfer is over, as it is if earlier middleware has ended the response. */
  #hasLost(): boolean {
    if (!isWritable(this.#res)) this.#settle(new ClientGone())
    return this.#isOver
  }

  /** Writes the head once. `false`: it could not be written. */
  #begin(): boolean {
    if (this.#hasBegun) return true
    this.#hasBegun = true
    this.#attempt(() => this.#shipment.begin())
    return !this.#isOver
  }

  /** Where middleware in front throws, the transfer fails: events of the source catch nothing. */
  #attempt<T>(work: () => T): T | undefined {
    try {
      return work()
    } catch (error) {
      this.#settle(error as Error)
      return undefined
    }
  }

  readonly #onEnd = (): void => {
    if (this.#isOver) return
    this.#hasEnded = true
    const { size } = this.#shipment
    const held = this.#held
    if (size !== undefined && this.#sent + (held?.length ?? 0) < size)
      return this.#settle(
        new RangeError(`The source gave ${this.#sent} of the ${size} bytes promised`)
      )
    if (!this.#begin() || this.#hasLost()) return
    const res = this.#res
    const end = (): unknown => this.#attempt(() => (held === undefined ? res.end() : res.end(held)))
    endGuarded(res, end)
    if (held === undefined) return
    this.#pending = this.#notTaken()
  }

  readonly #onSourceClosed = (): void => {
    if (!this.#hasEnded) this.#settle(new Error('The source was closed before its end'))
  }

  readonly #onDrain = (): void => {
    this.#silence.refresh()
    this.#source.resume()
  }

  readonly #onFinish = (): void => this.#settle(this.#hasEnded ? undefined : new ClientGone())

  readonly #onClosed = (): void => this.#settle(new ClientGone())

  readonly #onAborted = (): void => {
    if (!this.#hasBegun) this.#settle(this.#shipment.signal.reason as Error)
  }

  #notTaken(): number {
    return pendingBytes(this.#res.req.socket, this.#res)
  }

  #timedOut(): void {
    const isClients = this.#hasEnded || this.#res.writableNeedDrain
    if (!isClients) return this.#settle(new Error('The source has given nothing for too long'))
    const pending = this.#notTaken()
    // A client that has taken some of a piece is still there, however large the piece is.
    if (pending >= this.#pending) return this.#settle(new ClientGone())
    this.#pending = pending
    this.#silence.refresh()
  }

  #settle(error: Error | undefined): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#silence.stop()
    this.#source.off('data', this.#onData)
    this.#source.off('end', this.#onEnd)
    this.#source.off('close', this.#onSourceClosed)
    this.#res.off('close', this.#onClosed)
    this.#res.off('drain', this.#onDrain)
    this.#res.off('finish', this.#onFinish)
    this.#shipment.signal.removeEventListener('abort', this.#onAborted)
    this.#source.destroy()
    if (error === undefined) this.#resolve()
    else this.#reject(error)
  }
}
