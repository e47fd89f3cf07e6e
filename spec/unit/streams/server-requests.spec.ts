// What a stream has asked its client: which requests await an answer, and where the turn after an
// answer begins.

import { beforeEach, describe, expect, it } from '@jest/globals'
import { ServerRequests } from '../../../lib/streams/server-requests.js'

let requests: ServerRequests
beforeEach(() => {
  requests = new ServerRequests()
})

const open = () => [...requests.open]

describe('a request to the client', () => {
  it('awaits an answer from when it is asked until it is answered', () => {
    requests.asked('a', 3)
    requests.asked(1, 4)
    expect(open()).toEqual([
      ['a', 3],
      [1, 4]
    ])
    expect(requests.answered('a', false)).toBe(true)
    expect(open()).toEqual([[1, 4]])
  })

  it('is answered once', () => {
    requests.asked('a', 1)
    expect([
      requests.answered('a', true),
      requests.answered('a', true),
      requests.answered('b', true)
    ]).toEqual([true, false, false])
  })

  it('has an id of its own type', () => {
    requests.asked(1, 1)
    expect([
      requests.answered('1', true),
      requests.cursorAfter(['1']),
      requests.answered(1, true)
    ]).toEqual([false, undefined, true])
  })

  it('may be taken back: no answer is wanted, and a late one is not passed off as handed over', () => {
    requests.asked('a', 1)
    expect([requests.withdrawn('a'), requests.withdrawn('a')]).toEqual([true, false])
    expect([open(), requests.wasHandedOver('a'), requests.cursorAfter(['a'])]).toEqual([
      [],
      false,
      1
    ])
  })

  it('may have the id of an earlier one: that one is forgotten', () => {
    requests.asked('a', 1)
    requests.answered('a', true)
    requests.asked('a', 7)
    expect([open(), requests.wasHandedOver('a'), requests.cursorAfter(['a'])]).toEqual([
      [['a', 7]],
      false,
      7
    ])
  })
})

describe('whether an answer was handed over', () => {
  it('is remembered of those that were, and of no other', () => {
    requests.asked('handed', 1)
    requests.asked('posted', 2)
    requests.asked('open', 3)
    requests.answered('handed', true)
    requests.answered('posted', false)
    expect(
      ['handed', 'posted', 'open', 'unheard of'].map(id => requests.wasHandedOver(id))
    ).toEqual([true, false, false, false])
  })

  it('is as it was the first time', () => {
    requests.asked('a', 1)
    requests.answered('a', false)
    requests.answered('a', true)
    expect(requests.wasHandedOver('a')).toBe(false)
  })
})

describe('the next turn', () => {
  it('begins behind the last of the requests that are answered', () => {
    requests.asked('a', 2)
    requests.asked('b', 5)
    expect([
      requests.cursorAfter(['a']),
      requests.cursorAfter(['a', 'b']),
      requests.cursorAfter(['b', 'a'])
    ]).toEqual([2, 5, 5])
  })

  it('begins behind what the client knew when it was told to answer', () => {
    requests.asked('a', 2)
    requests.acknowledged(4)
    expect(requests.cursorAfter(['a'])).toBe(4)
  })

  it('does not begin before the request, whatever an earlier turn knew', () => {
    requests.acknowledged(4)
    requests.asked('a', 9)
    expect(requests.cursorAfter(['a'])).toBe(9)
  })

  it('stays where it began, whatever has come since', () => {
    requests.asked('a', 2)
    requests.acknowledged(4)
    requests.answered('a', true)
    requests.asked('b', 8)
    requests.acknowledged(10)
    expect([
      requests.cursorAfter(['a']),
      requests.cursorAfter(['b']),
      requests.cursorAfter(['a', 'b'])
    ]).toEqual([4, 10, 10])
  })

  it('is nobody’s who answers nothing of this stream', () => {
    requests.asked('a', 2)
    expect([requests.cursorAfter([]), requests.cursorAfter(['x', 7])]).toEqual([
      undefined,
      undefined
    ])
    expect(requests.cursorAfter(['x', 'a', 7])).toBe(2)
  })
})

describe('what must stay in the log', () => {
  it('is everything from the first open request on', () => {
    expect(requests.lastBeforeOpen(10)).toBe(10)
    requests.asked('a', 4)
    requests.asked('b', 7)
    expect([requests.lastBeforeOpen(10), requests.lastBeforeOpen(2)]).toEqual([3, 2])
    requests.answered('a', true)
    expect(requests.lastBeforeOpen(10)).toBe(6)
    requests.answered('b', true)
    expect(requests.lastBeforeOpen(10)).toBe(10)
  })

  it('if it goes all the same, its answer is awaited still, and it holds nothing more in the log', () => {
    requests.asked('a', 4)
    requests.asked('b', 7)
    requests.evictedBefore(5, 10)
    expect([open(), requests.cursorAfter(['a']), requests.lastBeforeOpen(10)]).toEqual([
      [
        ['a', 4],
        ['b', 7]
      ],
      4,
      6
    ])
    expect(requests.answered('a', true)).toBe(true)
  })

  it('of very many that have gone, the oldest are forgotten', () => {
    for (let id = 1; id <= 150; id++) requests.asked(id, id)
    requests.evictedBefore(141, 150)
    expect([...requests.open.keys()]).toEqual(Array.from({ length: 110 }, (_, i) => i + 41))
    expect([requests.cursorAfter([40]), requests.answered(40, true)]).toEqual([undefined, false])
  })
})

describe('whether an answer is for the endpoint', () => {
  it('is certain of what is open, and of what is not', () => {
    requests.asked('open', 1)
    requests.asked('closed', 2)
    requests.answered('closed', false)
    expect(['open', 'closed', 'unheard of'].map(id => requests.mayAwait(id))).toEqual([
      true,
      false,
      false
    ])
  })

  it('is not where some have been forgotten: it may be to one of those', () => {
    for (let id = 1; id <= 150; id++) requests.asked(id, id)
    requests.answered(150, false)
    requests.evictedBefore(151, 151)
    expect([1, 149, 150].map(id => [requests.open.has(id), requests.mayAwait(id)])).toEqual([
      [false, true],
      [true, true],
      [false, false]
    ])
  })
})

describe('of a stream that asks and asks', () => {
  it('the newest thousand requests are open, and hold what follows them in the log', () => {
    for (let id = 1; id <= 1500; id++) requests.asked(id, id)
    expect([...requests.open.keys()]).toEqual(Array.from({ length: 1000 }, (_, i) => i + 501))
    expect(requests.lastBeforeOpen(1500)).toBe(500)
  })

  it('one that has been asked again is among the newest', () => {
    requests.asked('again', 1)
    requests.asked('first', 2)
    requests.asked('again', 3)
    expect([open(), requests.lastBeforeOpen(9)]).toEqual([
      [
        ['first', 2],
        ['again', 3]
      ],
      1
    ])
  })

  it('answers are remembered for as long as the turn after them is kept, and a hundred beyond', () => {
    const ids = Array.from({ length: 200 }, (_, i) => i + 1)
    for (const id of ids) {
      requests.asked(id, 10 * id)
      requests.answered(id, true)
    }
    const remembered = () => ids.filter(id => requests.cursorAfter([id]) !== undefined)
    requests.evictedBefore(1501, 9999)
    expect(remembered()).toEqual(ids.slice(49))
    requests.evictedBefore(1502, 9999)
    expect(remembered()).toEqual(ids.slice(50))
    // Nothing has come after the last: its turn is whole, although nothing is kept of the log.
    requests.evictedBefore(2001, 2000)
    expect(remembered()).toEqual(ids.slice(99))
  })

  it('ids of absurd length are not kept longer than their events', () => {
    const long = (id: number) => `${id}`.padEnd(2000, 'x')
    requests.asked(long(1), 1)
    requests.asked(long(2), 2)
    expect([requests.answered(long(2), true), requests.wasHandedOver(long(2))]).toEqual([
      true,
      false
    ])
    requests.evictedBefore(2, 5)
    expect([open(), requests.mayAwait(long(1))]).toEqual([[], true])
  })
})

describe('when the stream is over', () => {
  it('nothing is awaited, and what was asked is still known', () => {
    requests.asked('a', 1)
    requests.asked('b', 2)
    requests.answered('a', true)
    requests.closeAll()
    expect([
      open(),
      requests.wasHandedOver('a'),
      requests.wasHandedOver('b'),
      requests.cursorAfter(['b'])
    ]).toEqual([[], true, false, 2])
  })
})

it('a stream that asks for ever does not grow for ever', () => {
  for (let i = 1; i <= 10_002; i++) {
    requests.asked(i, i)
    requests.answered(i, true)
  }
  expect([1, 2, 3, 10_002].map(id => requests.wasHandedOver(id))).toEqual([
    false,
    false,
    true,
    true
  ])
})
