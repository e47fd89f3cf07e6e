// What a download URL has delivered: the whole once, in parts that overlap only as much as cuts and
// clients make necessary.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { TicketDelivery } from '../../../lib/resources/ticket-delivery.js'

afterEach(() => {
  jest.restoreAllMocks()
})

const SIZE = 1000

interface Begun {
  part: { from: number; to: number; end: number }
  over: (isWhole: boolean) => void
  wasBrokenOff: boolean
}

function begin(
  delivery: TicketDelivery,
  from: number,
  end = SIZE,
  size: number | null = SIZE
): Begun | undefined {
  if (delivery.isOver(from)) return undefined
  const part = { from, to: from, end }
  const begun = { part, over: () => undefined, wasBrokenOff: false } as Begun
  const over = delivery.begin(part, size ?? undefined, () => (begun.wasBrokenOff = true))
  return over === undefined ? undefined : Object.assign(begun, { over })
}

/** A part that is delivered whole; `false`: it is refused. */
function whole(delivery: TicketDelivery, from: number, end = SIZE): boolean {
  const begun = begin(delivery, from, end)
  if (begun === undefined) return false
  begun.part.to = end
  begun.over(true)
  return true
}

/** A part that is broken off once so many bytes have left. */
function broken(delivery: TicketDelivery, from: number, to: number, end = SIZE): boolean {
  const begun = begin(delivery, from, end)
  if (begun === undefined) return false
  begun.part.to = to
  begun.over(false)
  return true
}

describe('a delivery', () => {
  it('is complete once all has been delivered, in any parts and order', () => {
    const delivery = new TicketDelivery()
    for (const [from, end] of [
      [500, 1000],
      [0, 200],
      [200, 500]
    ] as const)
      expect(whole(delivery, from, end)).toBe(true)
    expect(whole(delivery, 0)).toBe(false)
  })

  it('may be begun again where it was broken off, and where that was shows what has arrived', () => {
    const delivery = new TicketDelivery()
    for (let from = 0; from < 900; from += 10) expect(broken(delivery, from, SIZE - 1)).toBe(true)
    expect(whole(delivery, 900)).toBe(true)
    expect(whole(delivery, 0)).toBe(false)
  })

  it('does not begin anew for ever without a sign that anything arrives', () => {
    const delivery = new TicketDelivery()
    const begun = Array.from({ length: 20 }, () => broken(delivery, 0, SIZE - 1))
    expect(begun.filter(Boolean)).toHaveLength(11)
  })

  it('repeats half of the whole, and no more', () => {
    const delivery = new TicketDelivery()
    expect([whole(delivery, 0, 500), whole(delivery, 0, 500), whole(delivery, 0, 500)]).toEqual([
      true,
      true,
      false
    ])
    expect([whole(delivery, 499, 500), whole(delivery, 500, 900)]).toEqual([false, true])
    expect([whole(delivery, 900), whole(delivery, 0)]).toEqual([true, false])
  })

  it('of unknown size is over once it has ended as it should', () => {
    const delivery = new TicketDelivery()
    const first = begin(delivery, 0, Infinity, null)!
    first.over(false)
    begin(delivery, 0, Infinity, null)!.over(true)
    expect(begin(delivery, 0, Infinity, null)).toBeUndefined()
  })

  it('of nothing is over at once', () => {
    const delivery = new TicketDelivery()
    begin(delivery, 0, 0, 0)!.over(true)
    expect(delivery.isOver(0)).toBe(true)
  })

  it('is tracked in a hundred separate spans, and complete once they meet', () => {
    const delivery = new TicketDelivery()
    const size = 300
    const at = (i: number) => {
      const begun = begin(delivery, i, i + 1, size)!
      begun.part.to = i + 1
      begun.over(true)
    }
    for (let i = 1; i < size; i += 2) at(i)
    for (let i = 0; i < size; i += 2) at(i)
    expect(delivery.isOver(0)).toBe(false)
    // Those that were too many have to come once more.
    for (let i = 201; i < size; i += 2) at(i)
    expect(delivery.isOver(0)).toBe(true)
  })

  it('is tracked in no more spans where broken deliveries make them, either', () => {
    const delivery = new TicketDelivery()
    const size = 600
    const at = (from: number, end: number, isWhole: boolean) => {
      const begun = begin(delivery, from, end, size)!
      begun.part.to = end
      begun.over(isWhole)
    }
    // What lies before the place where the next request goes on has arrived.
    for (let from = 0; from < size; from += 4) {
      at(from, from + 4, false)
      at(from + 2, from + 3, true)
    }
    // Of all of them, more than half would come for a second time.
    expect(begin(delivery, 0, size, size)).toBeDefined()
  })
})

describe('several at once', () => {
  it('for the same bytes: the newest wins', () => {
    const delivery = new TicketDelivery()
    const [one, two] = [begin(delivery, 0)!, begin(delivery, 0)!]
    expect([one.wasBrokenOff, two.wasBrokenOff]).toEqual([true, false])
    one.over(false)
    two.part.to = SIZE
    two.over(true)
    expect(delivery.isOver(0)).toBe(true)
  })

  it('for separate parts do not break each other off', () => {
    const delivery = new TicketDelivery()
    const parts = [begin(delivery, 0, 500)!, begin(delivery, 500)!]
    expect(parts.map(({ wasBrokenOff }) => wasBrokenOff)).toEqual([false, false])
  })

  it('are not broken off by one that is refused', () => {
    const delivery = new TicketDelivery()
    const begun = Array.from({ length: 20 }, () => begin(delivery, 0))
    expect(begun.filter(one => one !== undefined)).toHaveLength(11)
    expect(begun.filter(one => one?.wasBrokenOff === false)).toHaveLength(1)
  })
})

describe('the tail of what was delivered', () => {
  it('may be fetched for ten seconds, and no longer, however often it is', () => {
    let now = 1000
    jest.spyOn(performance, 'now').mockImplementation(() => now)
    const delivery = new TicketDelivery()
    whole(delivery, 0)
    now += 9000
    expect(whole(delivery, 1)).toBe(true)
    now += 9000
    expect(whole(delivery, 2)).toBe(false)
  })

  it('may be continued, but not again and again from one place', () => {
    const delivery = new TicketDelivery()
    whole(delivery, 0)
    for (let from = 1; from < 900; from++) expect(whole(delivery, from)).toBe(true)
    expect(whole(delivery, 1)).toBe(false)
    expect(Array.from({ length: 8 }, () => whole(delivery, 950)).filter(Boolean)).toHaveLength(5)
    expect(whole(delivery, 951)).toBe(true)
  })
})
