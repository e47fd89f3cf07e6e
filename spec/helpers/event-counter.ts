// Counts the events of an SSE payload and tells the byte where each ends.

const CR = 0x0d
const LF = 0x0a
/** `data:` tells a data line; what follows does not matter. */
const START = 5

/**
 * Counts SSE events: blocks with at least one `data` line, ended by a blank line (LF, CRLF or CR).
 */
export class EventCounter {
  readonly #onEvent: (count: number, offset: number) => void
  #line: number[] = []
  #lineLength = 0
  #hasData = false
  /** A CR was seen; whether its line ends there or with the next LF is not known yet. */
  #pendingCr: 'none' | 'line' | 'event' = 'none'
  count = 0

  /**
   * `onEvent` gets the ordinal (from 1) and the offset just behind the last byte of the blank line.
   */
  constructor(onEvent: (count: number, offset: number) => void) {
    this.#onEvent = onEvent
  }

  feed(payload: Buffer, offset: number): void {
    for (let i = 0; i < payload.length; i++) {
      const byte = payload[i]!
      if (this.#pendingCr !== 'none') {
        const wasEvent = this.#pendingCr === 'event'
        this.#pendingCr = 'none'
        if (wasEvent) this.#onEvent(++this.count, byte === LF ? offset + i + 1 : offset + i)
        if (byte === LF) continue
      }
      if (byte === LF) {
        if (this.#endLine()) this.#onEvent(++this.count, offset + i + 1)
      } else if (byte === CR) {
        this.#pendingCr = this.#endLine() ? 'event' : 'line'
      } else if (this.#lineLength < START) {
        this.#line.push(byte)
        this.#lineLength++
      } else {
        const end = lineEnd(payload, i)
        this.#lineLength += end - i
        i = end - 1
      }
    }
  }

  /** True when the line that ends is the blank line of a block that carries data. */
  #endLine(): boolean {
    const blank = this.#lineLength === 0
    const start = String.fromCharCode(...this.#line)
    this.#line = []
    const isData = start === 'data:' || (start === 'data' && this.#lineLength === 4)
    this.#lineLength = 0
    if (!blank) {
      if (isData) this.#hasData = true
      return false
    }
    const isEvent = this.#hasData
    this.#hasData = false
    return isEvent
  }
}

/** Where the line goes on to, at least: the next LF or CR, or the end of the payload. */
function lineEnd(payload: Buffer, from: number): number {
  const lf = payload.indexOf(LF, from)
  const end = lf === -1 ? payload.length : lf
  const cr = payload.subarray(from, end).indexOf(CR)
  return cr === -1 ? end : from + cr
}
