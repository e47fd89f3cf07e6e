// Room that is taken for a time: nobody gets all of it.

import { describe, expect, it } from '@jest/globals'
import { SharedRoom } from '../../../lib/streams/shared-room.js'

describe('room that is shared', () => {
  it('is half of what there is for who comes first, and leaves some for the next', () => {
    const room = new SharedRoom(8)
    const takeAll = (owner: string): number => {
      let taken = 0
      while (room.take(owner, 1)) taken++
      return taken
    }
    expect(['a', 'b', 'c'].map(takeAll)).toEqual([4, 2, 1])
    room.giveBack('a', 4)
    expect([takeAll('a'), takeAll('b'), room.taken]).toEqual([3, 0, 6])
  })

  it('is there for one', () => {
    expect(new SharedRoom(1).take('a', 1)).toBe(true)
  })
})
