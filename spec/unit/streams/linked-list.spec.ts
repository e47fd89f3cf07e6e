// Lists against arrays.

import { expect, it } from '@jest/globals'
import { fc, times } from '../../helpers/property.js'
import { LinkedList, Member } from '../../../lib/streams/linked-list.js'

it('a list has its members in the order in which they were added last', () => {
  const step = fc.record({ which: fc.nat(5), isAdded: fc.boolean() })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), steps => {
      const list = new LinkedList<Member>()
      const things = Array.from({ length: 6 }, () => new Member())
      let model: Member[] = []
      for (const { which, isAdded } of steps) {
        const thing = things[which]!
        model = model.filter(other => other !== thing)
        if (isAdded) list.add(thing)
        else thing.list?.delete(thing)
        if (isAdded) model.push(thing)
        const found: Member[] = []
        for (let next = list.first; next !== undefined; next = next.later) found.push(next)
        expect(found).toEqual(model)
        expect([list.first, list.isEmpty]).toEqual([model[0], model.length === 0])
      }
    }),
    { numRuns: times(100) }
  )
})
