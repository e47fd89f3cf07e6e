// Reads along while a response is written, and changes no byte of it.
import type { ServerResponse } from 'node:http'
import { GatheredBytes, withBytes } from './chunk.js'
import { patchedResponse, type Watch } from './patched-response.js'

export abstract class BodyWatch implements Watch {
  /** The body so far; `undefined`: nothing is kept any more. */
  #body: GatheredBytes | undefined = new GatheredBytes()

  /** Called with the whole body, if it is kept, at the end and before its last bytes are sent. */
  protected abstract whole(body: Buffer): void

  /** Whether `size` bytes may be kept, `more` of them new; if not, nothing is kept any more. */
  protected abstract mayKeep(size: number, more: number): boolean

  /** The head passes, with these arguments of `writeHead`. Default: does nothing. */
  head(_args: readonly unknown[]): void {}

  /** The endpoint has broken off. Default: does nothing. */
  destroyed(): void {}

  write([chunk, encoding]: readonly unknown[]): void {
    const body = this.#body
    if (body === undefined || (typeof chunk !== 'string' && !(chunk instanceof Uint8Array))) return
    withBytes(chunk, encoding, bytes => {
      if (this.mayKeep(body.size + bytes.length, bytes.length)) body.add(bytes)
      else this.#body = undefined
    })
  }

  end(args: readonly unknown[]): void {
    this.write(args)
    const body = this.#body
    this.#body = undefined
    if (body !== undefined) this.whole(body.whole())
  }

  /** Ends the reading along, and drops what has been kept. */
  stop(): void {
    this.#body = undefined
  }
}

/** A body of up to `limit` bytes, before its last bytes are sent. `isWanted`: asked as it comes. */
export function watchBody(
  res: ServerResponse,
  limit: number,
  onWhole: (body: Buffer) => void,
  isWanted = (): boolean => true
): void {
  patchedResponse(res).watch(new LimitedWatch(limit, onWhole, isWanted))
}

class LimitedWatch extends BodyWatch {
  protected readonly whole: (body: Buffer) => void
  readonly #limit: number
  readonly #isWanted: () => boolean

  constructor(limit: number, onWhole: (body: Buffer) => void, isWanted: () => boolean) {
    super()
    this.#limit = limit
    this.#isWanted = isWanted
    this.whole = onWhole
  }

  protected mayKeep(size: number): boolean {
    return size <= this.#limit && this.#isWanted()
  }
}
