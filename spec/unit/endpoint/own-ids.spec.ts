// What is known of endpoints that number their events themselves: bounded, and nobody's flood costs
// another what is known of hers.

import { describe, expect, it } from '@jest/globals'
import { OwnIds } from '../../../lib/endpoint/own-ids.js'

const PATH = '/mcp'
const alice = { owner: 'alice', sessionId: 'hers', path: PATH }
const mallory = (n: number) => ({
  owner: 'mallory',
  sessionId: `${n}`.padEnd(900, 'x'),
  path: PATH
})

describe('an endpoint that has shown an id of its own', () => {
  it('is known by the session, and assumed of new ones on its path', () => {
    const ids = new OwnIds()
    expect(ids.isNumbered(alice)).toBe(false)
    ids.numbered(alice)
    expect(ids.isNumbered(alice)).toBe(true)
    expect(ids.isNumbered({ ...alice, owner: 'bob', sessionId: 'his' })).toBe(true)
    expect(ids.isNumbered({ ...alice, sessionId: 'another', path: '/other' })).toBe(false)
    expect(ids.isNumbered({ ...alice, sessionId: undefined })).toBe(false)
  })

  it('is known to differ where a session has shown the contrary', () => {
    const ids = new OwnIds()
    ids.numbered(mallory(0))
    ids.unnumbered(alice)
    expect([ids.isNumbered(alice), ids.isNumbered(mallory(0)), ids.isNumbered(mallory(1))]).toEqual(
      [false, true, true]
    )
  })

  it.each([true, false])(
    'is not forgotten for what others show, however many sessions they open (%p)',
    isNumbered => {
      const ids = new OwnIds()
      ids.numbered(isNumbered ? alice : mallory(-1))
      if (!isNumbered) ids.unnumbered(alice)
      for (let n = 0; n < 10_000; n++) ids.numbered(mallory(n))
      expect(ids.isNumbered(alice)).toBe(isNumbered)
      expect(ids.isNumbered({ ...alice, sessionId: 'new' })).toBe(true)
    }
  )
})
