// Reads along while a response is written, and changes no byte of it.
import type { ServerResponse } from 'node:http'
import { withBytes } from './chunk.js'
import { GatheredBytes } from './gathered-bytes.js'
import { pipelineOf } from './response-pipeline.js'
import { Stage } from './stage.js'

export abstract class ObservedBody extends Stage {
  abstract override readonly kind: 'observe' | 'record'
  /** `undefined`: no more is kept. */
  #body: GatheredBytes | undefined = new GatheredBytes()

  /** The response is ended, and its last bytes have not left: its whole body, where it is kept. */
  protected abstract ended(body: Buffer): void

  /** Whether so many bytes may be kept, with `more` that have come; if not, no more are. */
  protected abstract mayKeep(size: number, more: number): boolean

  override write(args: readonly unknown[]): boolean {
    this.#keep(args[0], args[1])
    return this.next.write(args)
  }

  override end(args: readonly unknown[]): ServerResponse {
    this.#keep(args[0], args[1])
    const body = this.#body
    this.#body = undefined
    if (body !== undefined) this.ended(body.whole())
    return this.next.end(args)
  }

  /** Ends the reading along, and drops what has been kept. */
  stop(): void {
    this.#body = undefined
  }

  #keep(chunk: unknown, encoding: unknown): void {
    const body = this.#body
    if (body === undefined || (typeof chunk !== 'string' && !(chunk instanceof Uint8Array))) return
    withBytes(chunk, encoding, bytes => {
      if (this.mayKeep(body.size + bytes.length, bytes.length)) body.add(bytes)
      else this.#body = undefined
    })
  }
}

/** Calls back with a body of so many bytes at the most, before its last bytes leave. */
export function observeBody(
  res: ServerResponse,
  limit: number,
  onEnd: (body: Buffer) => void
): void {
  pipelineOf(res).add(new Observer(limit, onEnd))
}

class Observer extends ObservedBody {
  readonly kind = 'observe'
  protected readonly ended: (body: Buffer) => void
  readonly #limit: number

  constructor(limit: number, onEnd: (body: Buffer) => void) {
    super()
    this.#limit = limit
    this.ended = onEnd
  }

  protected mayKeep(size: number): boolean {
    return size <= this.#limit
  }
}
