// Who makes room, against a model that looks at all there is.

import { expect, it } from '@jest/globals'
import { fc, times } from '../../helpers/property.js'
import { FairShares } from '../../../lib/streams/fair-shares.js'
import { LinkedList, Member } from '../../../lib/streams/linked-list.js'

class Thing extends Member {
  readonly owner: string
  rank = -1
  /** When it was put there last. */
  at = 0

  constructor(owner: string) {
    super()
    this.owner = owner
  }
}

it('a list has its members in the order in which they were added last', () => {
  const step = fc.record({ which: fc.nat(5), isAdded: fc.boolean() })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), steps => {
      const list = new LinkedList<Thing>()
      const things = Array.from({ length: 6 }, (_, n) => new Thing(`${n}`))
      let model: Thing[] = []
      for (const { which, isAdded } of steps) {
        const thing = things[which]!
        model = model.filter(other => other !== thing)
        if (isAdded) list.add(thing)
        else thing.list?.delete(thing)
        if (isAdded) model.push(thing)
        const found: Thing[] = []
        for (let next = list.first; next !== undefined; next = next.later as Thing | undefined)
          found.push(next)
        expect(found).toEqual(model)
        expect([list.first, list.isEmpty]).toEqual([model[0], model.length === 0])
      }
    }),
    { numRuns: times(100) }
  )
})

it('what goes next is the oldest of the lowest rank, of an owner with most up to a factor of two', () => {
  const step = fc.record({
    what: fc.constantFrom('grow', 'put', 'drop'),
    which: fc.nat(8),
    amount: fc.integer({ min: -50, max: 100 })
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), steps => {
      const shares = new FairShares<Thing>()
      const sizes = new Map<string, number>()
      const things = Array.from({ length: 9 }, (_, n) => new Thing('abc'[n % 3]!))
      for (const [at, { what, which, amount }] of steps.entries()) {
        const thing = things[which]!
        const { owner } = thing
        if (what === 'grow') {
          const by = Math.max(amount, -(sizes.get(owner) ?? 0))
          sizes.set(owner, (sizes.get(owner) ?? 0) + by)
          shares.grow(owner, by)
        } else if (what === 'put') {
          Object.assign(thing, { rank: Math.abs(amount) % 3, at })
          shares.put(owner, thing, thing.rank)
        } else {
          thing.rank = -1
          shares.drop(owner, thing)
        }
        const listed = things.filter(({ rank }) => rank >= 0)
        const most = Math.max(...listed.map(one => sizes.get(one.owner) ?? 0))
        const next = shares.next()
        expect(next === undefined).toBe(listed.length === 0)
        if (next === undefined) continue
        expect(2 * (sizes.get(next.owner) ?? 0)).toBeGreaterThanOrEqual(most)
        const mine = listed.filter(one => one.owner === next.owner)
        const lowest = Math.min(...mine.map(({ rank }) => rank))
        const oldest = Math.min(...mine.filter(one => one.rank === lowest).map(one => one.at))
        expect([next.rank, next.at]).toEqual([lowest, oldest])
        expect(shares.sizeOf(next.owner)).toBe(sizes.get(next.owner) ?? 0)
      }
    }),
    { numRuns: times(200) }
  )
})
