// How much each owner may take of what there is for all.

import { describe, expect, it } from '@jest/globals'
import { atMost, Quota, timesTheRest } from '../../../lib/streams/quota.js'

describe('a quota that leaves something for the others', () => {
  it('is half of what there is for who comes first, and leaves some for the next', () => {
    const quota = new Quota(8)
    const takeAll = (owner: string): number => {
      let taken = 0
      while (quota.take(owner, 1)) taken++
      return taken
    }
    expect(['a', 'b', 'c'].map(takeAll)).toEqual([4, 2, 1])
    quota.release('a', 4)
    expect([takeAll('a'), takeAll('b'), quota.taken]).toEqual([3, 0, 6])
  })

  it('is there for one', () => {
    expect(new Quota(1).take('a', 1)).toBe(true)
  })

  it('is as many times what is left as it says', () => {
    const quota = new Quota(9, timesTheRest(8))
    expect([quota.take('a', 8), quota.has('a', 1), quota.take('b', 1)]).toEqual([true, false, true])
  })
})

describe('a quota of which each owner may have so much', () => {
  it('limits each, but strangers together only by what there is for all', () => {
    const quota = new Quota(10, atMost(4))
    expect([quota.take('a', 5), quota.take('a', 4), quota.take('', 6)]).toEqual([false, true, true])
    expect([quota.take('b', 1), quota.taken]).toEqual([false, 10])
    quota.release('', 6)
    expect([quota.take('a', 1), quota.take('b', 4), quota.taken]).toEqual([false, true, 8])
  })
})
