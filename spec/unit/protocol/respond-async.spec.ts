// `Prefer: respond-async` and `wait`, as RFC 7240 writes them.

import { describe, expect, it } from '@jest/globals'
import { respondAsync } from '../../../lib/protocol/respond-async.js'

describe('respondAsync', () => {
  it.each([
    ['respond-async', undefined],
    ['Respond-Async', undefined],
    ['respond-async; foo="bar"', undefined],
    ['return=minimal, respond-async', undefined],
    ['respond-async, wait=10', 10_000],
    ['wait=0,respond-async', 0],
    ['respond-async, WAIT = "7"', 7000],
    ['respond-async, wait=3; x=1, wait=9', 3000],
    ['respond-async, wait=1.5', undefined],
    ['respond-async, wait=-1', undefined],
    ['respond-async, wait=9999999999', undefined]
  ])('reads %s', (prefer, wait) => {
    expect(respondAsync(prefer)).toEqual({ wait })
  })

  it.each([
    undefined,
    '',
    'wait=10',
    'respond-asynchronously',
    'x-respond-async',
    'rel=stream',
    `respond-async${','.repeat(100_000)}`,
    'respond-async=1'
  ])('does not find it in %s', prefer => {
    expect(respondAsync(prefer)).toBeUndefined()
  })
})
