// What a stream has asked its client: which requests await an answer, and where the turn after an
// answer begins.

import { beforeEach, describe, expect, it } from '@jest/globals'
import { ServerRequests } from '../../../lib/streams/server-requests.js'

let turns: ServerRequests
beforeEach(() => {
  turns = new ServerRequests()
})

const open = () => [...turns.open]

describe('a request to the client', () => {
  it('awaits an answer from when it is asked until it is answered', () => {
    turns.asked('a', 3)
    turns.asked(1, 4)
    expect(open()).toEqual([
      ['a', 3],
      [1, 4]
    ])
    expect(turns.answered('a', false)).toBe(true)
    expect(open()).toEqual([[1, 4]])
  })

  it('is answered once', () => {
    turns.asked('a', 1)
    expect([
      turns.answered('a', true),
      turns.answered('a', true),
      turns.answered('b', true)
    ]).toEqual([true, false, false])
  })

  it('has an id of its own type', () => {
    turns.asked(1, 1)
    expect([turns.answered('1', true), turns.cursorAfter(['1']), turns.answered(1, true)]).toEqual([
      false,
      undefined,
      true
    ])
  })

  it('may be taken back: no answer is wanted, and a late one is not passed off as handed over', () => {
    turns.asked('a', 1)
    expect([turns.withdrawn('a'), turns.withdrawn('a')]).toEqual([true, false])
    expect([open(), turns.wasHandedOver('a'), turns.cursorAfter(['a'])]).toEqual([[], false, 1])
  })

  it('may have the id of an earlier one: that one is forgotten', () => {
    turns.asked('a', 1)
    turns.answered('a', true)
    turns.asked('a', 7)
    expect([open(), turns.wasHandedOver('a'), turns.cursorAfter(['a'])]).toEqual([
      [['a', 7]],
      false,
      7
    ])
  })
})

describe('whether an answer was handed over', () => {
  it('is remembered of those that were, and of no other', () => {
    turns.asked('handed', 1)
    turns.asked('posted', 2)
    turns.asked('open', 3)
    turns.answered('handed', true)
    turns.answered('posted', false)
    expect(['handed', 'posted', 'open', 'unheard of'].map(id => turns.wasHandedOver(id))).toEqual([
      true,
      false,
      false,
      false
    ])
  })

  it('is as it was the first time', () => {
    turns.asked('a', 1)
    turns.answered('a', false)
    turns.answered('a', true)
    expect(turns.wasHandedOver('a')).toBe(false)
  })
})

describe('the next turn', () => {
  it('begins behind the last of the requests that are answered', () => {
    turns.asked('a', 2)
    turns.asked('b', 5)
    expect([
      turns.cursorAfter(['a']),
      turns.cursorAfter(['a', 'b']),
      turns.cursorAfter(['b', 'a'])
    ]).toEqual([2, 5, 5])
  })

  it('begins behind what the client knew when it was told to answer', () => {
    turns.asked('a', 2)
    turns.told(4)
    expect(turns.cursorAfter(['a'])).toBe(4)
  })

  it('does not begin before the request, whatever an earlier turn knew', () => {
    turns.told(4)
    turns.asked('a', 9)
    expect(turns.cursorAfter(['a'])).toBe(9)
  })

  it('stays where it began, whatever has come since', () => {
    turns.asked('a', 2)
    turns.told(4)
    turns.answered('a', true)
    turns.asked('b', 8)
    turns.told(10)
    expect([
      turns.cursorAfter(['a']),
      turns.cursorAfter(['b']),
      turns.cursorAfter(['a', 'b'])
    ]).toEqual([4, 10, 10])
  })

  it('is nobody’s who answers nothing of this stream', () => {
    turns.asked('a', 2)
    expect([turns.cursorAfter([]), turns.cursorAfter(['x', 7])]).toEqual([undefined, undefined])
    expect(turns.cursorAfter(['x', 'a', 7])).toBe(2)
  })
})

describe('what must stay in the log', () => {
  it('is everything from the first open request on', () => {
    expect(turns.lastBeforeOpen(10)).toBe(10)
    turns.asked('a', 4)
    turns.asked('b', 7)
    expect([turns.lastBeforeOpen(10), turns.lastBeforeOpen(2)]).toEqual([3, 2])
    turns.answered('a', true)
    expect(turns.lastBeforeOpen(10)).toBe(6)
    turns.answered('b', true)
    expect(turns.lastBeforeOpen(10)).toBe(10)
  })

  it('if it goes all the same, its answer is awaited still, and it holds nothing more in the log', () => {
    turns.asked('a', 4)
    turns.asked('b', 7)
    turns.evictedBefore(5)
    expect([open(), turns.cursorAfter(['a']), turns.lastBeforeOpen(10)]).toEqual([
      [
        ['a', 4],
        ['b', 7]
      ],
      4,
      6
    ])
    expect(turns.answered('a', true)).toBe(true)
  })

  it('of very many that have gone, the oldest are forgotten', () => {
    for (let id = 1; id <= 150; id++) turns.asked(id, id)
    turns.evictedBefore(141)
    expect([...turns.open.keys()]).toEqual(Array.from({ length: 110 }, (_, i) => i + 41))
    expect([turns.cursorAfter([40]), turns.answered(40, true)]).toEqual([undefined, false])
  })
})

describe('when the stream is over', () => {
  it('nothing is awaited, and what was asked is still known', () => {
    turns.asked('a', 1)
    turns.asked('b', 2)
    turns.answered('a', true)
    turns.closeAll()
    expect([
      open(),
      turns.wasHandedOver('a'),
      turns.wasHandedOver('b'),
      turns.cursorAfter(['b'])
    ]).toEqual([[], true, false, 2])
  })
})

it('a stream that asks for ever does not grow for ever', () => {
  for (let i = 1; i <= 10_002; i++) {
    turns.asked(i, i)
    turns.answered(i, true)
  }
  expect([1, 2, 3, 10_002].map(id => turns.wasHandedOver(id))).toEqual([false, false, true, true])
})
