// Reads along while a response is written, and changes no byte of it.
import type { ServerResponse } from 'node:http'
import { GatheredBytes, withBytes } from './chunk.js'
import { pipelineOf } from './response-pipeline.js'
import { Stage } from './stage.js'

export abstract class ObservedBody extends Stage {
  abstract override readonly kind: 'observe' | 'record'
  /** The body so far; `undefined`: nothing is kept any more. */
  #body: GatheredBytes | undefined = new GatheredBytes()

  /** Called with the whole body, if it is kept, at the end and before its last bytes are sent. */
  protected abstract ended(body: Buffer): void

  /** Whether `size` bytes may be kept, `more` of them new; if not, nothing is kept any more. */
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

/** A body of up to `limit` bytes, before its last bytes are sent. `isWanted`: asked at the head. */
export function observeBody(
  res: ServerResponse,
  limit: number,
  onEnd: (body: Buffer) => void,
  isWanted = (): boolean => true
): void {
  pipelineOf(res).add(new Observer(limit, onEnd, isWanted))
}

class Observer extends ObservedBody {
  readonly kind = 'observe'
  protected readonly ended: (body: Buffer) => void
  readonly #limit: number
  readonly #isWanted: () => boolean

  constructor(limit: number, onEnd: (body: Buffer) => void, isWanted: () => boolean) {
    super()
    this.#limit = limit
    this.#isWanted = isWanted
    this.ended = onEnd
  }

  protected mayKeep(size: number): boolean {
    return size <= this.#limit && this.#isWanted()
  }
}
