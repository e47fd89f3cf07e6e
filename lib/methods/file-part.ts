// A part of a file as a stream that uses its memory again: gigabytes leave nothing behind for the garbage collector.
import { close, fstat, open, read, type Stats } from 'node:fs'
import { Readable } from 'node:stream'

/** One piece is on its way to the client while the next one is read. */
const PIECES = 2

export class FilePart extends Readable {
  readonly #path: string
  /** Where the next byte is, and the one behind the last. */
  #position: number
  readonly #end: number
  readonly #pieceSize: number
  #fd: number | undefined
  /** Memory that nobody needs any more. */
  #free: Buffer[] = []
  #made = 0
  /** Bytes are wanted, and there is no memory to read them to. */
  #isWaiting = false
  #isReading = false
  #onRead: (() => void) | undefined
  /** Pieces come back by `release`. Where they do not, each has memory of its own. */
  readonly #isReusing: boolean

  /** Whether an open file is the one whose facts have been told already, and not another one that has taken its place. */
  readonly #isSame: (stats: Stats) => boolean

  constructor(
    path: string,
    start: number,
    end: number,
    pieceSize: number,
    isReusing: boolean,
    isSame: (stats: Stats) => boolean
  ) {
    super({ highWaterMark: 1 })
    this.#path = path
    this.#position = start
    this.#end = end
    this.#pieceSize = Math.max(1, Math.min(pieceSize, end - start))
    this.#isReusing = isReusing
    this.#isSame = isSame
  }

  /** A piece has been sent. */
  release(piece: Uint8Array): void {
    if (this.destroyed) return
    this.#free.push(Buffer.from(piece.buffer))
    if (!this.#isWaiting) return
    this.#isWaiting = false
    this._read()
  }

  override _construct(callback: (error?: Error | null) => void): void {
    open(this.#path, 'r', (error, fd) => {
      if (error !== null) return callback(error)
      this.#fd = fd
      fstat(fd, (failed, stats) =>
        callback(failed ?? (this.#isSame(stats) ? null : new Error('Another file has taken its place')))
      )
    })
  }

  override _read(): void {
    const length = Math.min(this.#pieceSize, this.#end - this.#position)
    if (length <= 0) return void this.push(null)
    const memory = this.#memory()
    if (memory === undefined) {
      this.#isWaiting = true
      return
    }
    this.#isReading = true
    read(this.#fd as number, memory, 0, length, this.#position, (error, count) => {
      this.#isReading = false
      if (this.#onRead !== undefined) return this.#onRead()
      if (error !== null) return void this.destroy(error)
      this.#position += count
      // A file that has become shorter meanwhile ends here.
      this.push(count === 0 ? null : memory.subarray(0, count))
    })
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    const fd = this.#fd
    this.#free = []
    if (fd === undefined) return callback(error)
    const end = (): void => close(fd, failed => callback(error ?? failed))
    // Not while the system still writes to our memory.
    if (this.#isReading) this.#onRead = end
    else end()
  }

  #memory(): Buffer | undefined {
    if (!this.#isReusing) return Buffer.allocUnsafeSlow(this.#pieceSize)
    if (this.#free.length > 0) return this.#free.pop()
    if (this.#made === PIECES) return undefined
    this.#made++
    return Buffer.allocUnsafeSlow(this.#pieceSize)
  }
}
