// A part of an open file as a stream that reuses its memory, so that large files make no work for
// the garbage collector.
import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'

/** How many pieces of memory there are: one is sent while the next one is read. */
const PIECES = 2

/** It does not close the file, which its caller has opened. */
export class FilePart extends Readable {
  readonly #handle: FileHandle
  /** The position of the next byte; `#end` is that of the byte after the last one. */
  #position: number
  readonly #end: number
  readonly #pieceSize: number
  /** Memory that may be used again. */
  #free: Buffer[] = []
  #made = 0
  /** Bytes are wanted, and a piece of memory is waited for. */
  #isWaiting = false
  /** Whether pieces come back by `release`. If not, each has memory of its own. */
  readonly #isReusing: boolean

  constructor(
    handle: FileHandle,
    start: number,
    end: number,
    pieceSize: number,
    isReusing: boolean
  ) {
    super({ highWaterMark: 1 })
    this.#handle = handle
    this.#position = start
    this.#end = end
    this.#pieceSize = Math.max(1, Math.min(pieceSize, end - start))
    this.#isReusing = isReusing
  }

  /** A piece has been sent: its memory may be used again. */
  release(piece: Uint8Array): void {
    if (this.destroyed) return
    this.#free.push(Buffer.from(piece.buffer))
    if (!this.#isWaiting) return
    this.#isWaiting = false
    this._read()
  }

  override _read(): void {
    const length = Math.min(this.#pieceSize, this.#end - this.#position)
    if (length <= 0) return void this.push(null)
    const memory = this.#memory()
    if (memory === undefined) {
      this.#isWaiting = true
      return
    }
    this.#handle.read(memory, 0, length, this.#position).then(
      ({ bytesRead }) => {
        this.#position += bytesRead
        // A file that has become shorter meanwhile ends here.
        this.push(bytesRead === 0 ? null : memory.subarray(0, bytesRead))
      },
      (error: Error) => void this.destroy(error)
    )
  }

  #memory(): Buffer | undefined {
    if (!this.#isReusing) return Buffer.allocUnsafeSlow(this.#pieceSize)
    if (this.#free.length > 0) return this.#free.pop()
    if (this.#made === PIECES) return undefined
    this.#made++
    return Buffer.allocUnsafeSlow(this.#pieceSize)
  }
}
