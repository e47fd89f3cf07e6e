// One direction of an exchange: what its sender keeps, and what its receiver passes on.
import { describe, expect, it } from '@jest/globals'
import {
  type Chunk,
  CHUNK,
  CREDIT,
  Incoming,
  Outgoing
} from '../../../lib/backplane/half-stream.js'

const bytes = (size: number): Uint8Array => new Uint8Array(size)
const chunk = (sequence: number, size = 1, isLast = false): Chunk => ({
  sequence,
  bytes: Uint8Array.from({ length: size }, () => sequence),
  isLast
})

function sender() {
  const sent: Chunk[] = []
  let drained = 0
  const outgoing = new Outgoing(
    one => sent.push(one),
    () => void drained++
  )
  /** The sequences of what has been sent since this was last asked. */
  const news = (): number[] => sent.splice(0).map(({ sequence }) => sequence)
  return { outgoing, sent, news, drained: () => drained }
}

describe('what is sent', () => {
  it('goes out at once, in chunks of 64 KiB, and is kept until it has been used', () => {
    const { outgoing, sent } = sender()
    outgoing.write(bytes(2 * CHUNK + 1), 0)
    expect(sent.map(({ bytes }) => bytes.length)).toEqual([65536, 65536, 1])
    expect(outgoing.bytes).toBe(131073)
    outgoing.moved({ used: 1, seen: 3, gapEnd: 0 }, 0)
    expect(outgoing.bytes).toBe(65537)
    outgoing.moved({ used: 3, seen: 3, gapEnd: 0 }, 0)
    expect(outgoing.bytes).toBe(0)
  })

  it('has been used once its end has', () => {
    const { outgoing, sent } = sender()
    outgoing.write(bytes(1), 0)
    outgoing.moved({ used: 1, seen: 1, gapEnd: 0 }, 0)
    expect(outgoing.isUsed).toBe(false)
    outgoing.end(0)
    outgoing.end(0)
    outgoing.write(bytes(1), 0)
    expect(sent.map(({ isLast }) => isLast)).toEqual([false, true])
    expect(outgoing.bytes).toBe(0)
    expect(outgoing.isUsed).toBe(false)
    outgoing.moved({ used: 2, seen: 2, gapEnd: 0 }, 0)
    expect(outgoing.isUsed).toBe(true)
  })

  it('is known of at the other end once something of it has arrived there', () => {
    const { outgoing } = sender()
    outgoing.write(bytes(1), 0)
    outgoing.moved({ used: 0, seen: 0, gapEnd: 0 }, 0)
    expect(outgoing.isKnown).toBe(false)
    outgoing.moved({ used: 0, seen: 1, gapEnd: 0 }, 0)
    expect(outgoing.isKnown).toBe(true)
  })

  it('waits at a mebibyte until half of it has been used', () => {
    const { outgoing, drained } = sender()
    expect(outgoing.write(bytes(CREDIT - 1), 0)).toBe(true)
    expect(outgoing.write(bytes(1), 0)).toBe(false)
    expect(outgoing.write(bytes(0), 0)).toBe(false)
    // 16 chunks, of which the last is a byte short, and one of a byte.
    outgoing.moved({ used: 8, seen: 17, gapEnd: 0 }, 0)
    expect(outgoing.bytes).toBe(CREDIT / 2)
    expect(outgoing.write(bytes(0), 0)).toBe(false)
    expect(drained()).toBe(0)
    outgoing.moved({ used: 9, seen: 17, gapEnd: 0 }, 0)
    expect(drained()).toBe(1)
    outgoing.moved({ used: 10, seen: 17, gapEnd: 0 }, 0)
    expect(drained()).toBe(1)
    expect(outgoing.write(bytes(1), 0)).toBe(true)
  })

  it('is not moved by a position that is old or made up', () => {
    const { outgoing, news } = sender()
    for (let i = 0; i < 4; i++) outgoing.write(bytes(1), 0)
    outgoing.moved({ used: 2, seen: 3, gapEnd: 0 }, 0)
    news()
    outgoing.moved({ used: 1, seen: 1, gapEnd: 4 }, 0)
    outgoing.moved({ used: 4, seen: 3, gapEnd: 4 }, 0)
    outgoing.moved({ used: 3, seen: 5, gapEnd: 0 }, 0)
    expect(outgoing.bytes).toBe(2)
    expect(news()).toEqual([])
    outgoing.moved({ used: 3, seen: 4, gapEnd: 0 }, 0)
    expect(outgoing.bytes).toBe(1)
  })

  it('is sent again where it is asked for, and no more than that', () => {
    const { outgoing, news } = sender()
    for (let i = 0; i < 6; i++) outgoing.write(bytes(1), 0)
    news()
    outgoing.moved({ used: 1, seen: 2, gapEnd: 4 }, 0)
    expect(news()).toEqual([2, 3])
    outgoing.moved({ used: 2, seen: 3, gapEnd: 3 }, 0)
    expect(news()).toEqual([])
  })

  it('is sent again, the last of it, where nothing has been heard for so long', () => {
    const { outgoing, news } = sender()
    outgoing.repeat(1000, 100)
    outgoing.write(bytes(1), 1000)
    outgoing.write(bytes(1), 1050)
    outgoing.write(bytes(1), 1050)
    news()
    outgoing.repeat(1099, 100)
    expect(news()).toEqual([])
    outgoing.repeat(1100, 100)
    expect(news()).toEqual([2])
    outgoing.repeat(1199, 100)
    expect(news()).toEqual([])
    // Where some of it has arrived, the rest may be on its way.
    outgoing.moved({ used: 0, seen: 1, gapEnd: 0 }, 1199)
    outgoing.repeat(1298, 100)
    expect(news()).toEqual([])
    outgoing.repeat(1299, 100)
    expect(news()).toEqual([2])
    // So may what was asked for just now.
    outgoing.moved({ used: 0, seen: 1, gapEnd: 2 }, 1350)
    expect(news()).toEqual([1])
    outgoing.repeat(1449, 100)
    expect(news()).toEqual([])
    // A position that says nothing new is no sign that the rest has arrived.
    outgoing.moved({ used: 1, seen: 1, gapEnd: 0 }, 1449)
    outgoing.repeat(1450, 100)
    expect(news()).toEqual([2])
    // What has arrived is not sent again, though it has not been used.
    outgoing.moved({ used: 1, seen: 3, gapEnd: 0 }, 1450)
    outgoing.repeat(9000, 100)
    expect(news()).toEqual([])
  })
})

function receiver(takes: (sequence: number) => boolean = () => true) {
  const got: number[] = []
  const incoming = new Incoming({
    bytes: ([sequence]) => {
      got.push(sequence as number)
      return takes(sequence as number)
    },
    end: () => got.push(-1)
  })
  return { incoming, got }
}

describe('what has arrived', () => {
  it('is passed on once and in order, and what came behind a gap after it', () => {
    const { incoming, got } = receiver()
    expect(incoming.take(chunk(0))).toBe(true)
    expect(incoming.take(chunk(0))).toBe(true)
    expect(incoming.take(chunk(2))).toBe(false)
    expect(incoming.take(chunk(2))).toBe(false)
    expect(incoming.take(chunk(4, 0, true))).toBe(false)
    expect(got).toEqual([0])
    expect(incoming.position()).toEqual({ used: 1, seen: 1, gapEnd: 2 })
    expect(incoming.take(chunk(1))).toBe(false)
    expect(got).toEqual([0, 1, 2])
    expect(incoming.position()).toEqual({ used: 3, seen: 3, gapEnd: 4 })
    expect(incoming.hasEnded).toBe(false)
    expect(incoming.take(chunk(3))).toBe(true)
    expect(got).toEqual([0, 1, 2, 3, -1])
    expect(incoming.position()).toEqual({ used: 5, seen: 5, gapEnd: 0 })
    expect(incoming.hasEnded).toBe(true)
  })

  it('waits from the one that was too much until there is room', () => {
    const { incoming, got } = receiver(sequence => sequence !== 1)
    for (let i = 0; i < 4; i++) incoming.take(chunk(i))
    expect(got).toEqual([0, 1])
    expect(incoming.position()).toEqual({ used: 2, seen: 4, gapEnd: 0 })
    incoming.resume()
    expect(got).toEqual([0, 1, 2, 3])
    expect(incoming.position()).toMatchObject({ used: 4 })
  })

  it('is news to its sender until its position has been told', () => {
    const { incoming } = receiver(sequence => sequence !== 1)
    expect(incoming.isNews).toBe(false)
    incoming.take(chunk(0))
    expect(incoming.isNews).toBe(true)
    incoming.position()
    expect(incoming.isNews).toBe(false)
    // A copy says that the sender does not know.
    incoming.take(chunk(0))
    expect(incoming.isNews).toBe(true)
    incoming.take(chunk(1))
    incoming.take(chunk(2))
    incoming.position()
    incoming.resume()
    expect(incoming.isNews).toBe(true)
  })

  it('is urgent news where it is a quarter of what may be on its way, or the end', () => {
    const { incoming } = receiver()
    for (let i = 0; i < 4; i++) {
      expect(incoming.isUrgent).toBe(false)
      incoming.take(chunk(i, CHUNK))
    }
    expect(incoming.isUrgent).toBe(true)
    incoming.position()
    expect(incoming.isUrgent).toBe(false)
    incoming.take(chunk(4, 0, true))
    expect(incoming.isUrgent).toBe(true)
    incoming.position()
    expect(incoming.isUrgent).toBe(false)
  })

  it('is dropped behind a gap where it is more than may be on its way', () => {
    const { incoming, got } = receiver()
    for (let i = 1; i <= 33; i++) incoming.take(chunk(i, CHUNK))
    incoming.take(chunk(0))
    expect(got.at(-1)).toBe(32)
    // What was passed on counts no more.
    for (let i = 34; i <= 66; i++) incoming.take(chunk(i, CHUNK))
    incoming.take(chunk(33))
    expect(got.at(-1)).toBe(65)
  })

  it('is dropped behind a gap where it is too many, however small', () => {
    const { incoming } = receiver()
    for (let i = 1; i <= 4097; i++) incoming.take(chunk(i))
    incoming.take(chunk(0))
    expect(incoming.seen).toBe(4097)
  })
})
