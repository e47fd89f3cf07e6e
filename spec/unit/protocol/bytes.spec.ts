// Pieces of one whole, kept as they come.

import { describe, expect, it } from '@jest/globals'
import { addPiece, joined } from '../../../lib/protocol/bytes.js'

const kept = (...pieces: Uint8Array[]): Uint8Array[] => {
  const all: Uint8Array[] = []
  for (const piece of pieces) addPiece(all, piece)
  return all
}
const bytesOf = (length: number): Uint8Array => Uint8Array.from({ length }, (_, i) => i)

describe('pieces', () => {
  it('are few, however small they come', () => {
    const whole = bytesOf(100_000)
    for (const size of [1, 2, 700, 1024]) {
      const sizes = Array.from({ length: Math.ceil(whole.length / size) }, (_, i) => i * size)
      const all = kept(...sizes.map(at => whole.subarray(at, at + size)))
      expect(all.length).toBeLessThan(200)
      expect(joined(all)).toEqual(whole)
    }
  })

  it('are not copied where they are large', () => {
    const large = bytesOf(2000)
    const all = kept(bytesOf(1), large, bytesOf(3), bytesOf(4))
    expect(all.map(({ length }) => length)).toEqual([1, 2000, 7])
    expect(all[1]).toBe(large)
  })

  it('stay what they were where they are joined', () => {
    const piece = bytesOf(3)
    const all = kept(piece, bytesOf(4))
    all[0]!.fill(9)
    expect(piece).toEqual(bytesOf(3))
  })
})
