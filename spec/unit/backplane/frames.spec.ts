// What instances say to each other, as bytes.
import { describe, expect, it } from '@jest/globals'
import {
  decodePositions,
  decodeResets,
  encodeData,
  encodePositions,
  encodeResets,
  KIND
} from '../../../lib/backplane/frames.js'
import { Relay } from '../../../lib/backplane/relay.js'

describe('messages between instances', () => {
  it('are malformed where they have not the length of what they say', () => {
    const relay = new Relay({ now: () => 0, send: () => undefined, accept: () => undefined })
    const name = { isMine: true, id: 1 }
    const position = { ...name, used: 0, seen: 0, gapEnd: 0, isKnown: false }
    const data = encodeData({ ...name, sequence: 0, isLast: false, bytes: new Uint8Array(0) })
    const whole: [number, Buffer][] = [
      [KIND.data, data],
      [KIND.positions, encodePositions([position])],
      [KIND.resets, encodeResets([name])]
    ]
    for (const [kind, frame] of whole) {
      expect(relay.receive('b', kind, frame.subarray(1))).toBe(false)
      expect(relay.receive('b', kind, frame)).toBe(true)
    }
    expect(relay.receive('b', 99, data)).toBe(false)
  })

  it('say all that they were given', () => {
    const positions = [
      { isMine: true, isKnown: false, id: 2 ** 32 - 1, used: 1, seen: 2, gapEnd: 3 },
      {
        isMine: false,
        isKnown: true,
        id: 4,
        used: 2 ** 32 - 1,
        seen: 2 ** 32 - 2,
        gapEnd: 2 ** 32 - 3
      }
    ]
    expect(decodePositions(encodePositions(positions))).toEqual(positions)
    const resets = positions.map(({ isMine, id }) => ({ isMine, id }))
    expect(decodeResets(encodeResets(resets))).toEqual(resets)
  })

  it('are written as the instances of another release read them', () => {
    const name = { isMine: true, id: 0x01020304 }
    const hex = (frame: Buffer): string => frame.toString('hex')
    const chunk = { ...name, sequence: 5, isLast: true, bytes: Uint8Array.of(0xff) }
    expect(hex(encodeData(chunk))).toBe('03' + '01020304' + '00000005' + '00' + 'ff')
    const position = { ...name, used: 6, seen: 7, gapEnd: 8, isKnown: true }
    expect(hex(encodePositions([position]))).toBe('0301020304000000060000000700000008')
    expect(hex(encodeResets([name, { ...name, isMine: false }]))).toBe('01010203040001020304')
  })
})
