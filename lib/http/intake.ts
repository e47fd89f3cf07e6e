// From the endpoint's bytes to a stream's events: the producer's side of a taken response.
import type { RequestId } from '../core/json-rpc.js'
import { type BlockListener, BlockSplitter, transientLines } from '../core/sse.js'
import type { Stream } from '../core/stream.js'
import type { Producer } from '../core/stream-types.js'
import type { Connection } from './connection.js'
import type { ResponseTap } from './tap.js'
import type { Intake } from './tap-types.js'

/** The request behind a response that has been taken. */
export interface IntakeHost {
  /** Bytes that an unfinished event may have. */
  readonly maxEventBytes: number
  /** Sets our headers on the response. */
  setHeaders(): void
  /** Opens the stream's first connection, on the socket that asked. */
  connect(stream: Stream): Connection
  /** Tells the endpoint that nobody will answer these requests of its own. */
  unanswered(requestIds: readonly RequestId[]): void
  /** The endpoint numbers its events itself: the stream is not ours. */
  stepAside(stream: Stream): void
}

export class EndpointIntake implements Intake, Producer {
  stream: Stream | undefined
  /** The stream's first connection, as long as it is open: a call may wait much longer than that. */
  #connection: Connection | undefined
  #hasConnected = false
  readonly #tap: ResponseTap
  readonly #host: IntakeHost
  readonly #splitter = new BlockSplitter()
  /** Blocks from the one on that showed that the endpoint numbers its events itself. */
  #withheld: Uint8Array[] | undefined
  /** Events of the endpoint's have gone into the stream. */
  #hasAppended = false
  /** Events that have come out of the write at hand. */
  #events = 0

  constructor(tap: ResponseTap, host: IntakeHost) {
    this.#tap = tap
    this.#host = host
  }

  begin(): void {
    if (this.stream === undefined) return
    this.#tap.sendHead(() => this.#host.setHeaders())
    const connection = this.#host.connect(this.stream)
    this.#hasConnected = true
    // What its client is told first may have been that it is to come back.
    if (!connection.isClosed) this.#connection = connection
    connection.flush()
    if (!connection.hasWritten && !connection.isClosed) this.#tap.flushHead()
  }

  write(bytes: Buffer): boolean {
    const { stream } = this
    if (stream === undefined) return false
    this.#events = 0
    this.#splitter.push(bytes, this.#onBlock)
    if (this.#withheld !== undefined) return this.#stepAside(this.#withheld)
    if (this.#splitter.pending > this.#host.maxEventBytes) return stream.fail('event-too-large')
    return !stream.isFull && !stream.isEnded
  }

  end(): void {
    this.stream?.producerEnded()
  }

  abort(): void {
    this.stream?.producerEnded()
  }

  parted(): void {
    this.#connection = undefined
  }

  get isFull(): boolean {
    return this.stream?.isFull ?? false
  }

  drain(): void {
    this.#tap.drain()
  }

  unanswered(requestIds: readonly RequestId[]): void {
    this.#host.unanswered(requestIds)
  }

  release(): void {
    // The endpoint may hold on to its response; what it has begun to say need not stay with it.
    this.#splitter.takePending()
    this.#tap.release()
  }

  readonly #onBlock: BlockListener = (bytes, from, to, fields) => {
    if (this.#withheld !== undefined) {
      this.#withheld.push(copyOf(bytes, from, to))
      return
    }
    if (fields.hasId) this.#withheld = [copyOf(bytes, from, to)]
    else if (fields.dataLines > 0) {
      this.#hasAppended = true
      this.stream?.append(bytes, from, to, fields, this.#events++ > 0)
    } else this.stream?.comment(transientLines(bytes, from, to))
  }

  #stepAside(withheld: Uint8Array[]): boolean {
    const { stream } = this
    if (stream !== undefined) {
      if (this.#hasAppended && !this.#hasConnected) this.begin()
      this.#connection?.letGo()
      this.stream = undefined
      this.#host.stepAside(stream)
    }
    withheld.push(this.#splitter.takePending())
    return this.#tap.stepAside(Buffer.concat(withheld))
  }
}

/** A real copy: `slice` of a Buffer is a view, and the memory is used again for the next write. */
function copyOf(bytes: Uint8Array, from: number, to: number): Uint8Array {
  return Uint8Array.from(bytes.subarray(from, to))
}
