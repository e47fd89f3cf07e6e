// How clients of each protocol revision are treated.

import { describe, expect, it } from '@jest/globals'
import { profileFor, parseRevision } from '../../../lib/protocol/revisions.js'

const ANNOUNCED = { reconnects: 'always', handoff: 'when-quiet' }

describe('what a revision allows towards a client', () => {
  const untouched = {
    isDurable: false,
    primer: 'none',
    reconnects: 'when-links-followed',
    handoff: 'never'
  }
  const early = {
    isDurable: true,
    primer: 'named',
    reconnects: 'when-links-followed',
    handoff: 'when-links-followed'
  }
  const polling = { ...early, primer: 'empty', reconnects: 'when-resumed' }

  it.each([
    [undefined, early, { ...early, ...ANNOUNCED }],
    ['2024-11-05', early, { ...early, ...ANNOUNCED }],
    ['2025-03-26', early, { ...early, ...ANNOUNCED }],
    ['2025-06-18', early, { ...early, ...ANNOUNCED }],
    ['2025-11-24', early, { ...early, ...ANNOUNCED }],
    ['2025-11-25', polling, { ...polling, ...ANNOUNCED }],
    ['2026-01-01', polling, { ...polling, ...ANNOUNCED }],
    ['2026-07-28', untouched, { ...polling, ...ANNOUNCED }],
    ['2027-01-01', untouched, { ...polling, ...ANNOUNCED }]
  ])('at %s', (revision, silent, announced) => {
    expect(profileFor(revision, false)).toEqual(silent)
    expect(profileFor(revision, true)).toEqual(announced)
  })
})

describe('a protocol version', () => {
  it.each(['2025-03-26', '2026-07-28', '9999-99-99'])('is a date such as %j', version => {
    expect(parseRevision(version)).toBe(version)
  })

  it.each([
    undefined,
    null,
    20251125,
    '',
    '2025-11',
    '2025-11-25 ',
    ' 2025-11-25',
    '2025-11-25\n',
    'draft',
    '2025-11-25, 2025-06-18',
    {}
  ])('is not %j', version => {
    expect(parseRevision(version)).toBeUndefined()
  })
})
