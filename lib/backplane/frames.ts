// The binary form of the messages between instances. All numbers are big-endian, 4 bytes each.
import type { Chunk, Position } from './half-stream.js'

export const KIND = { data: 1, positions: 2, resets: 3, ping: 4, pong: 5, epoch: 6 } as const

/** Each instance numbers the exchanges that it begins: the number alone is not enough. */
export interface ExchangeName {
  /** Whether the sender of the frame has begun the exchange. */
  readonly isMine: boolean
  readonly id: number
}

type DataFrame = ExchangeName & Chunk
export interface PositionFrame extends ExchangeName, Position {
  /** Whether the receiver of the frame has confirmed before that it knows of the exchange. */
  readonly isKnown: boolean
}

/** Bytes of each part. */
const DATA_HEAD = 10
const POSITION = 17
const RESET = 5

/** Flags (1 byte), id, sequence, an unused byte, then the bytes. */
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

/** For each: flags (1 byte), id, used, seen, gapEnd. */
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

/** `undefined`: malformed. */
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

/** For each: flags (1 byte), id. */
export function encodeResets(names: readonly ExchangeName[]): Buffer {
  const frame = Buffer.allocUnsafe(RESET * names.length)
  for (const [i, { isMine, id }] of names.entries()) {
    frame[i * RESET] = Number(isMine)
    frame.writeUInt32BE(id, i * RESET + 1)
  }
  return frame
}

/** `undefined`: malformed. */
export function decodeResets(frame: Buffer): readonly ExchangeName[] | undefined {
  if (frame.length % RESET !== 0) return undefined
  return Array.from({ length: frame.length / RESET }, (_, i) => ({
    isMine: frame[i * RESET] === 1,
    id: frame.readUInt32BE(i * RESET + 1)
  }))
}
