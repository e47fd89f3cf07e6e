// The bytes of the resources that are benched: the same at the same place, wherever they come from,
// so that every one is checked.

import { Readable } from 'node:stream'

const CHUNK = 64 * 1024
/** A prime number of chunks, so that what is lost or doubled shifts all that follows. */
const PERIOD = 17 * CHUNK

const pattern = Buffer.alloc(PERIOD)
for (let i = 0, state = 1; i < PERIOD; i++) {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
  pattern[i] = state >>> 24
}

/**
 * What a provider would return: chunks that are there already, so that nothing but the way of the
 * bytes is measured.
 */
export function bytesFrom(start, size) {
  let at = start
  return new Readable({
    highWaterMark: CHUNK,
    read() {
      if (at >= size) return void this.push(null)
      const from = at % PERIOD
      const to = Math.min(PERIOD, from + CHUNK, from + size - at)
      at += to - from
      this.push(pattern.subarray(from, to))
    }
  })
}

/** A sink that checks what it is given, from the first byte on. */
export class BytesCheck {
  bytes = 0

  push(chunk, from = 0, to = chunk.length) {
    while (from < to) {
      const start = this.bytes % PERIOD
      const length = Math.min(to - from, PERIOD - start)
      if (pattern.compare(chunk, from, from + length, start, start + length) !== 0)
        throw new Error(`Other bytes than there should be, after ${this.bytes}`)
      this.bytes += length
      from += length
    }
  }

  verify(size) {
    if (this.bytes !== size) throw new Error(`${this.bytes} bytes of ${size}`)
  }
}
