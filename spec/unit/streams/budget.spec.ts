// Who may hold how much, and who makes room, against a model that looks at all there is.

import { describe, expect, it, jest } from '@jest/globals'
import { fc, times } from '../../helpers/property.js'
import { atMost, Budget, timesTheRest } from '../../../lib/streams/budget.js'
import { Member } from '../../../lib/streams/linked-list.js'

class Thing extends Member {
  readonly owner: string
  readonly amount: number
  rank = -1
  /** When it was offered last. */
  at = 0

  constructor(owner: string, amount = 1) {
    super()
    this.owner = owner
    this.amount = amount
  }
}

describe('a budget that leaves something for the others', () => {
  it('is half of what there is for who comes first, and leaves some for the next', () => {
    const budget = new Budget(8, { mostOfOwner: timesTheRest(1) })
    const takeAll = (owner: string): number => {
      let taken = 0
      while (budget.hold(owner, 1)) taken++
      return taken
    }
    expect(['a', 'b', 'c'].map(takeAll)).toEqual([4, 2, 1])
    budget.release('a', 4)
    expect([takeAll('a'), takeAll('b'), budget.used]).toEqual([3, 0, 6])
  })

  it('is there for one', () => {
    expect(new Budget(1, { mostOfOwner: timesTheRest(1) }).hold('a', 1)).toBe(true)
  })

  it('is as many times what is left as it says', () => {
    const budget = new Budget(9, { mostOfOwner: timesTheRest(8) })
    expect([budget.hold('a', 8), budget.has('a', 1), budget.hold('b', 1)]).toEqual([
      true,
      false,
      true
    ])
  })
})

describe('a budget of which each owner may have so much', () => {
  it('limits each, but strangers together only by what there is for all', () => {
    const budget = new Budget(10, { mostOfOwner: atMost(4) })
    expect([budget.hold('a', 5), budget.hold('a', 4), budget.hold('', 6)]).toEqual([
      false,
      true,
      true
    ])
    expect([budget.hold('b', 1), budget.used]).toEqual([false, 10])
    budget.release('', 6)
    expect([budget.hold('a', 1), budget.hold('b', 4), budget.used]).toEqual([false, true, 8])
  })
})

/** A budget that lets go of what it is offered, and what has gone. */
function letting(max: number) {
  const gone: Thing[] = []
  const budget = new Budget<Thing>(max, {
    evict: thing => {
      drop(thing)
      gone.push(thing)
    }
  })
  const drop = (thing: Thing) => {
    budget.withdraw(thing)
    budget.release(thing.owner, thing.amount)
  }
  const add = (owner: string, amount = 1, rank = 0): boolean => {
    if (!budget.hold(owner, amount)) return false
    budget.offer(new Thing(owner, amount), rank)
    return true
  }
  return { budget, gone, add, drop }
}

describe('what has to go', () => {
  it('is of the owner that has most, and never of one for another that has twice as much', () => {
    const { budget, gone, add } = letting(16)
    for (let n = 0; n < 8; n++) add('a')
    for (let n = 0; n < 6; n++) budget.hold('b', 1)
    for (let n = 0; n < 2; n++) add('c')
    expect([add('c'), gone.map(({ owner }) => owner)]).toEqual([true, ['a']])
    // What `b` has is not offered, so it can make no room itself.
    expect([budget.hold('b', 2), gone.length, budget.sizeOf('a')]).toEqual([true, 3, 5])
    expect([budget.hold('b', 1), gone.length]).toEqual([false, 3])
    budget.holdAnyway('b', 1)
    expect([gone.length, budget.sizeOf('a'), budget.used]).toEqual([4, 4, 16])
  })

  it('is of the owner itself, if it has as much as any other', () => {
    const { gone, add } = letting(8)
    for (let n = 0; n < 4; n++) for (const owner of ['a', 'b']) add(owner)
    add('b')
    expect(gone.map(({ owner }) => owner)).toEqual(['b'])
  })

  it('is of several with equally much what costs least, and only of the ranks asked for', () => {
    const { budget, gone, add } = letting(8)
    for (let n = 0; n < 4; n++) add('a', 1, 3)
    for (let n = 0; n < 4; n++) add('b', 1, 2)
    expect(budget.evict('a', { ranks: [3, 7] })).toBe(true)
    expect(budget.evict('a', { ranks: [7] })).toBe(false)
    add('c')
    add('c')
    expect(gone.map(({ owner }) => owner)).toEqual(['a', 'b'])
  })

  it('is nothing where that would be of no use', () => {
    const { gone, add } = letting(8)
    for (let n = 0; n < 8; n++) add('a')
    expect([add('b', 9), gone.length]).toEqual([false, 0])
  })

  it('is passed over while it has nothing to give', () => {
    const asked: Thing[] = []
    const budget = new Budget<Thing>(4, { evict: thing => void asked.push(thing) })
    const things = [new Thing('a'), new Thing('a')]
    budget.hold('a', 4)
    for (const thing of things) budget.offer(thing)
    expect([budget.hold('b', 1), asked, budget.hold('b', 1)]).toEqual([false, things, false])
  })

  it('may leave for another budget, which goes on with it', () => {
    const traces = new Budget<Thing>(9)
    const budget = new Budget<Thing>(1, {
      evict: thing => {
        budget.withdraw(thing)
        traces.offer(thing)
      }
    })
    budget.hold('a', 1)
    const empty = new Thing('a', 0)
    budget.offer(empty)
    expect([budget.hold('b', 1), traces.next('')]).toEqual([false, empty])
  })
})

describe('owners that have nothing any more', () => {
  const { budget } = letting(10)
  const comeAndGo = (owner: string): void => {
    budget.hold(owner, 1)
    budget.release(owner, 1)
  }

  it('are not taken out of a map and put into it again each time, which costs more and more', () => {
    const deleted = jest.spyOn(Map.prototype, 'delete')
    for (let n = 0; n < 1000; n++) comeAndGo('x')
    expect(deleted).not.toHaveBeenCalled()
  })

  it('are forgotten for all that', () => {
    const set = jest.spyOn(Map.prototype, 'set')
    for (let n = 0; n < 5000; n++) comeAndGo(`${n}`)
    const accounts = set.mock.contexts.find(map => (map as Map<string, unknown>).has('4999'))
    expect((accounts as Map<string, unknown>).size).toBeLessThan(1000)
  })
})

const OWNERS = ['a', 'b', 'c', '']

it('is never overdrawn, starves nobody, and is empty once all has come back', () => {
  const step = fc.record({
    what: fc.constantFrom('hold', 'hold', 'hold', 'drop', 'anyway'),
    owner: fc.constantFrom(...OWNERS),
    amount: fc.integer({ min: 1, max: 60 }),
    rank: fc.nat(2),
    isOffered: fc.boolean(),
    which: fc.nat()
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), steps => {
      const held = new Set<Thing>()
      const weightOf = (owner: string): number =>
        [...held].reduce((sum, one) => sum + (one.owner === owner ? 2 * one.amount : 0), 0)
      const drop = (thing: Thing): void => {
        held.delete(thing)
        budget.withdraw(thing)
        budget.release(thing.owner, thing.amount, 2 * thing.amount)
      }
      const budget = new Budget<Thing>(100, { evict: drop })
      for (const [at, { what, owner, amount, rank, isOffered, which }] of steps.entries()) {
        const all = [...held]
        if (what === 'drop') {
          if (all.length > 0) drop(all[which % all.length]!)
          continue
        }
        const { used: taken } = budget
        const others = OWNERS.filter(one => one !== owner)
        const before = new Map(OWNERS.map(one => [one, weightOf(one)]))
        const isHeld = what === 'hold' ? budget.hold(owner, amount, 2 * amount) : true
        if (what === 'anyway') budget.holdAnyway(owner, amount, 2 * amount)
        const gone = all.filter(one => !held.has(one))
        if (isHeld) {
          const thing = Object.assign(new Thing(owner, amount), { rank: isOffered ? rank : -1, at })
          held.add(thing)
          if (isOffered) budget.offer(thing, rank)
        }
        // Nothing goes without need.
        if (taken + amount <= 100) expect([isHeld, gone]).toEqual([true, []])
        if (what === 'hold' && isHeld) expect(budget.used).toBeLessThanOrEqual(100)
        // With what it gives up itself, it has less.
        if (what === 'hold' && gone.every(one => one.owner !== owner))
          for (const one of gone)
            expect(2 * before.get(one.owner)!).toBeGreaterThan(before.get(owner)!)
        // Nobody is refused while somebody that has more may be asked to go.
        if (!isHeld)
          for (const one of held)
            if (one.rank >= 0 && others.includes(one.owner))
              expect(weightOf(one.owner)).toBeLessThanOrEqual(weightOf(owner))
        for (const one of OWNERS) expect(budget.sizeOf(one)).toBe(weightOf(one))
        expect(budget.used).toBe([...held].reduce((sum, one) => sum + one.amount, 0))
      }
      for (const thing of held) drop(thing)
      expect([budget.used, ...OWNERS.map(owner => budget.sizeOf(owner))]).toEqual([0, 0, 0, 0, 0])
      expect(budget.next('')).toBeUndefined()
    }),
    { numRuns: times(200) }
  )
})

it('what goes next is the oldest of the lowest rank, of an owner with most up to a factor of two', () => {
  const step = fc.record({
    what: fc.constantFrom('count', 'offer', 'withdraw'),
    which: fc.nat(8),
    amount: fc.integer({ min: -50, max: 100 })
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), steps => {
      const budget = new Budget<Thing>(Infinity)
      const things = Array.from({ length: 9 }, (_, n) => new Thing('abc'[n % 3]!))
      for (const [at, { what, which, amount }] of steps.entries()) {
        const thing = things[which]!
        const { owner } = thing
        if (what === 'count') {
          if (amount > 0) budget.hold(owner, amount)
          else budget.release(owner, Math.min(-amount, budget.sizeOf(owner)))
        } else if (what === 'offer') {
          Object.assign(thing, { rank: Math.abs(amount) % 3, at })
          budget.offer(thing, thing.rank)
        } else {
          thing.rank = -1
          budget.withdraw(thing)
        }
        const offered = things.filter(({ rank }) => rank >= 0)
        const most = Math.max(...offered.map(one => budget.sizeOf(one.owner)))
        const next = budget.next('')
        expect(next === undefined).toBe(offered.length === 0)
        if (next === undefined) continue
        expect(2 * budget.sizeOf(next.owner)).toBeGreaterThanOrEqual(most)
        const theirs = offered.filter(one => one.owner === next.owner)
        const lowest = Math.min(...theirs.map(({ rank }) => rank))
        const oldest = Math.min(...theirs.filter(one => one.rank === lowest).map(one => one.at))
        expect([next.rank, next.at]).toEqual([lowest, oldest])
      }
    }),
    { numRuns: times(200) }
  )
})
