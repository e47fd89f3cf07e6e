// A short run of the fuzzer with seeds that are always the same, and one with any.

import { afterEach, expect, it } from '@jest/globals'
import { closeAll } from '../helpers/listen.js'
import { describe as text, run } from './run.js'

afterEach(closeAll)

it('finds nothing with seeds that are always the same', async () => {
  const { cases, broken } = await run({ seed: 1, cases: 16 })
  expect(broken.map(text)).toEqual([])
  expect(cases).toBe(16)
})

// Not in CI: what has nothing to do with a change must not fail it.
const itElsewhere = process.env['CI'] ? it.skip : it

itElsewhere('finds nothing with any seeds', async () => {
  const { broken } = await run({ seed: Math.floor(Math.random() * 2 ** 32), cases: 8 })
  // Each says how to see it again.
  expect(broken.map(text)).toEqual([])
})
