// What instances say to each other, in bytes.
import type { Chunk, Position } from './half-stream.js'

export const KIND = { data: 1, positions: 2, resets: 3, ping: 4, pong: 5 } as const

/** An exchange as one of its ends names it: who has begun it, and its number there. */
export interface ExchangeName {
  /** The sender of the frame has begun it. */
  readonly isMine: boolean
  readonly id: number
}

export type DataFrame = ExchangeName & Chunk
export interface PositionFrame extends ExchangeName, Position {
  /** The receiver of the frame has shown before that it knows of the exchange. */
  readonly isKnown: boolean
}

const DATA_HEAD = 10
const POSITION = 17
const RESET = 5

/** `flags, id, sequence, 0`, then the bytes. */
export function encodeData({ isMine, id, sequence, isLast, bytes }: DataFrame): Buffer {
  const frame = Buffer.allocUnsafe(DATA_HEAD + bytes.length)
  frame[0] = Number(isMine) | (isLast ? 2 : 0)
  frame.writeUInt32BE(id, 1)
  frame.writeUInt32BE(sequence, 5)
  frame[9] = 0
  frame.set(bytes, DATA_HEAD)
  return frame
}

/** `undefined`: malformed. */
export function decodeData(frame: Buffer): DataFrame | undefined {
  if (frame.length < DATA_HEAD) return undefined
  const flags = frame[0] as number
  return {
    isMine: (flags & 1) === 1,
    isLast: (flags & 2) === 2,
    id: frame.readUInt32BE(1),
    sequence: frame.readUInt32BE(5),
    bytes: frame.subarray(DATA_HEAD)
  }
}

export function encodePositions(positions: readonly PositionFrame[]): Buffer {
  const frame = Buffer.alloc(POSITION * positions.length)
  for (const [i, { isMine, gapEnd, isKnown, id, used, seen }] of positions.entries()) {
    const at = i * POSITION
    frame[at] = Number(isMine) | (isKnown ? 2 : 0)
    frame.writeUInt32BE(id, at + 1)
    frame.writeUInt32BE(used, at + 5)
    frame.writeUInt32BE(seen, at + 9)
    frame.writeUInt32BE(gapEnd, at + 13)
  }
  return frame
}

export function decodePositions(frame: Buffer): readonly PositionFrame[] | undefined {
  if (frame.length % POSITION !== 0) return undefined
  return Array.from({ length: frame.length / POSITION }, (_, i) => {
    const at = i * POSITION
    const flags = frame[at] as number
    return {
      isMine: (flags & 1) === 1,
      isKnown: (flags & 2) === 2,
      id: frame.readUInt32BE(at + 1),
      used: frame.readUInt32BE(at + 5),
      seen: frame.readUInt32BE(at + 9),
      gapEnd: frame.readUInt32BE(at + 13)
    }
  })
}

export function encodeResets(names: readonly ExchangeName[]): Buffer {
  const frame = Buffer.allocUnsafe(RESET * names.length)
  for (const [i, { isMine, id }] of names.entries()) {
    frame[i * RESET] = Number(isMine)
    frame.writeUInt32BE(id, i * RESET + 1)
  }
  return frame
}

export function decodeResets(frame: Buffer): readonly ExchangeName[] | undefined {
  if (frame.length % RESET !== 0) return undefined
  return Array.from({ length: frame.length / RESET }, (_, i) => ({
    isMine: frame[i * RESET] === 1,
    id: frame.readUInt32BE(i * RESET + 1)
  }))
}
