// Reads along while a response is written, and changes no byte of it.
import type { ServerResponse } from 'node:http'
import { withBytes } from './chunk.js'
import { GatheredBytes } from './gathered-bytes.js'
import { pipelineOf } from './response-pipeline.js'
import { Stage } from './stage.js'

export interface BodyObserver {
  /** Bytes of a body that are kept. */
  readonly limit: number
  /**
   * The response is ended, and its last bytes have not left: the whole body, or `undefined` where
   * it is not kept.
   */
  onEnd(body: Buffer | undefined): void
  /**
   * Hears of each piece before it is kept, and of `undefined` where the limit has been passed.
   * `false`: no more is kept. Default: yes.
   */
  mayGrow?(bytes: number | undefined): boolean
}

export class ObservedBody extends Stage {
  readonly kind: 'observe' | 'record'
  readonly #observer: BodyObserver
  #body: GatheredBytes | undefined = new GatheredBytes()
  #isObserving = true

  constructor(observer: BodyObserver, kind: 'observe' | 'record' = 'observe') {
    super()
    this.kind = kind
    this.#observer = observer
  }

  override write(args: readonly unknown[]): boolean {
    this.#keep(args[0], args[1])
    return this.next.write(args)
  }

  override end(args: readonly unknown[]): ServerResponse {
    if (this.#isObserving) {
      this.#isObserving = false
      this.#keep(args[0], args[1])
      this.#observer.onEnd(this.#body?.whole())
    }
    return this.next.end(args)
  }

  /** Ends the reading along, and drops what has been kept. */
  stop(): void {
    this.#isObserving = false
    this.#body = undefined
  }

  #keep(chunk: unknown, encoding: unknown): void {
    const body = this.#body
    if (body === undefined || (typeof chunk !== 'string' && !(chunk instanceof Uint8Array))) return
    const { limit } = this.#observer
    withBytes(chunk, encoding, bytes => {
      const isInside = body.size + bytes.length <= limit
      const mayGrow = this.#observer.mayGrow?.(isInside ? bytes.length : undefined) ?? true
      if (mayGrow && isInside) body.add(bytes)
      else this.#body = undefined
    })
  }
}

/** Reads a body along. Returns a function that ends that. */
export function observeBody(res: ServerResponse, observer: BodyObserver): () => void {
  const stage = new ObservedBody(observer)
  pipelineOf(res).add(stage)
  return () => stage.stop()
}
