// The oldest of many keys, whatever comes and goes.

import { expect, it } from '@jest/globals'
import fc from 'fast-check'
import { OldestFirst } from '../../../lib/streams/oldest-first.js'

it('the oldest key is the one that a plain list would give', () => {
  const step = fc.record({
    key: fc.integer({ min: 0, max: 9 }),
    what: fc.constantFrom('add', 'delete', 'look', 'take')
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), steps => {
      const keys = new OldestFirst<string>()
      let model: string[] = []
      for (const { key: number, what } of steps) {
        const key = what === 'take' ? (model[0] ?? 'none') : `${number}`
        if (what === 'look') {
          expect(keys.first).toBe(model[0])
          continue
        }
        const had = model.includes(key)
        model = model.filter(one => one !== key)
        if (what === 'add') keys.add(key)
        else expect(keys.delete(key)).toBe(had)
        if (what === 'add') model.push(key)
        expect(keys.size).toBe(model.length)
        if (what === 'take') expect(keys.first).toBe(model[0])
      }
    })
  )
})
