// `Prefer: respond-async` and `wait`, as RFC 7240 writes them.

import { describe, expect, it } from '@jest/globals'
import { respondAsync, withoutAsync } from '../../../lib/protocol/prefer.js'

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
    ['respond-async=""', undefined],
    ['respond-async, note="a, wait=3, b", wait=9', 9000],
    ['respond-async, wait=x, wait=9', undefined],
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
    'respond-async=1',
    'note="a, respond-async, b"',
    'respond-async=1, respond-async'
  ])('does not find it in %s', prefer => {
    expect(respondAsync(prefer)).toBeUndefined()
  })
})

describe('withoutAsync', () => {
  it.each([
    ['respond-async', undefined],
    ['respond-async, wait=5', undefined],
    ['return=minimal, Respond-Async; x=1, WAIT = 5, rel=stream', 'return=minimal, rel=stream'],
    ['respond-async, note="a, wait, b"', 'note="a, wait, b"']
  ])('leaves what is not about it of %s', (prefer, rest) => {
    expect(withoutAsync(prefer)).toBe(rest)
  })
})
