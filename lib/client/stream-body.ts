// One unbroken body, made of the bodies of as many connections as are needed.
import { STREAM_ERROR } from '../protocol/errors.js'
import { errorResponse } from '../protocol/json-rpc.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import { onAbort } from './aborting.js'
import { BodyConnections } from './body-connections.js'
import type { ReconnectReason } from './options.js'
import { ReceivedBlocks } from './received-blocks.js'
import { ResumptionError } from './resumption-error.js'
import { within } from './retry-delay.js'
import type { Call } from './stream-request.js'

type Reader = ReadableStreamDefaultReader<Uint8Array>
type Controller = ReadableStreamDefaultController<Uint8Array>

/** Milliseconds for which the end of a stream is awaited after all its responses have come. */
const PATIENCE_AFTER_RESPONSE = 1000

/** The body that the caller reads. It begins with the body of the first response. */
export function unbrokenBody(
  first: Response,
  streamUrl: string,
  call: Call
): ReadableStream<Uint8Array> {
  return new ReadableStream(new UnbrokenBody(first, streamUrl, call), { highWaterMark: 0 })
}

class UnbrokenBody {
  readonly #call: Call
  readonly #received: ReceivedBlocks
  readonly #connections: BodyConnections
  /** Aborts when the body is over: the caller gets nothing more. */
  readonly #over = new AbortController()
  #reader: Reader | undefined
  /** Stops listening to the caller's signal. */
  #release: (() => void) | undefined

  constructor(first: Response, streamUrl: string, call: Call) {
    this.#call = call
    this.#reader = first.body?.getReader()
    this.#received = new ReceivedBlocks(call)
    this.#connections = new BodyConnections(streamUrl, call, this.#received, this.#over.signal)
  }

  start(controller: Controller): void {
    const { signal } = this.#call.own
    this.#call.isConnected = () => this.#reader !== undefined
    this.#release = onAbort(signal, () => {
      this.#end(true)
      controller.error(signal?.reason)
    })
  }

  async pull(controller: Controller): Promise<void> {
    try {
      while (!this.#isOver) {
        this.#reader ??= this.#received.isAnswered ? undefined : await this.#connections.next()
        if (this.#reader === undefined) {
          this.#end(false)
          return controller.close()
        }
        const whole = await this.#read(this.#reader)
        if (whole !== undefined && !this.#isOver) return controller.enqueue(whole)
      }
    } catch (error) {
      if (!this.#isOver) this.#fail(error, controller)
    }
  }

  cancel(): void {
    this.#end(true)
  }

  get #isOver(): boolean {
    return this.#over.signal.aborted
  }

  /**
   * The blocks that the next chunk completes; `undefined` if there are none, or if the connection
   * is lost.
   */
  async #read(from: Reader): Promise<Uint8Array | undefined> {
    const received = this.#received
    let reason: ReconnectReason | undefined
    let cause: unknown
    try {
      const patience = received.isAnswered
        ? PATIENCE_AFTER_RESPONSE
        : this.#call.settings.idleTimeout
      const { value } = await within(patience, from.read(), () => {
        reason = 'idle'
        this.#disconnect()
      })
      if (value) return this.#take(value)
    } catch (error) {
      if (error instanceof ResumptionError) throw error
      cause = error
      reason ??= 'error'
    }
    this.#connections.lost(reason ?? 'end', cause)
    this.#reader = undefined
    received.dropPending()
    return undefined
  }

  #take(chunk: Uint8Array): Uint8Array | undefined {
    const whole = this.#received.take(chunk)
    if (!whole && this.#received.pendingBytes > this.#call.settings.maxEventSize)
      throw this.#connections.failure('event-too-large')
    return whole
  }

  /**
   * The stream cannot go on. Each open request gets a JSON-RPC error, so that its call rejects at
   * once; then the body fails.
   */
  #fail(error: unknown, controller: Controller): void {
    this.#end(this.#reader !== undefined)
    const { message = String(error), code } = Object(error) as Partial<ResumptionError>
    for (const id of this.#call.pending) {
      const response = errorResponse(id, { code: STREAM_ERROR, message, data: { reason: code } })
      controller.enqueue(encodeMessage(response))
    }
    // An error drops what has not been read from a stream, so it comes a little later.
    setTimeout(() => controller.error(error))
  }

  #disconnect(): void {
    this.#connections.disconnect()
    this.#reader?.cancel().catch(() => undefined)
  }

  /**
   * The body is over. If it is unwanted, the connection is closed, and the stream is cancelled on
   * the server unless all responses have come.
   */
  #end(isUnwanted: boolean): void {
    if (this.#isOver) return
    const call = this.#call
    this.#over.abort('over')
    call.onAnswer?.()
    call.stopWaiting?.()
    call.all.delete(call)
    this.#release?.()
    if (!isUnwanted) return
    this.#disconnect()
    if (!this.#received.isAnswered) this.#connections.cancelStream()
  }
}
