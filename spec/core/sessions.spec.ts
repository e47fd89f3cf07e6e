// What is remembered of sessions, and that it is bounded.

import { describe, expect, it } from '@jest/globals'
import { Sessions } from '../../lib/core/sessions.js'

describe('the memory of sessions', () => {
  it('knows nothing at first', () => {
    const sessions = new Sessions(10)
    expect(sessions.revisionOf('a')).toBeUndefined()
    expect(sessions.hasProved('a')).toBe(false)
  })

  it('remembers revision and proof, each without the other', () => {
    const sessions = new Sessions(10)
    sessions.negotiated('a', '2025-11-25')
    expect(sessions.revisionOf('a')).toBe('2025-11-25')
    expect(sessions.hasProved('a')).toBe(false)
    sessions.prove('a')
    expect(sessions.revisionOf('a')).toBe('2025-11-25')
    expect(sessions.hasProved('a')).toBe(true)

    sessions.prove('b')
    expect(sessions.revisionOf('b')).toBeUndefined()
    expect(sessions.hasProved('b')).toBe(true)

    sessions.negotiated('c', undefined)
    expect(sessions.revisionOf('c')).toBeUndefined()
  })

  it('starts afresh when a session is initialized again, and when it has ended', () => {
    const sessions = new Sessions(10)
    sessions.negotiated('a', '2025-06-18')
    sessions.prove('a')
    sessions.negotiated('a', '2025-11-25')
    expect([sessions.revisionOf('a'), sessions.hasProved('a')]).toEqual(['2025-11-25', false])
    sessions.delete('a')
    expect([sessions.revisionOf('a'), sessions.hasProved('a')]).toEqual([undefined, false])
    sessions.delete('a')
  })

  it('forgets the session that was used longest ago', () => {
    const sessions = new Sessions(3)
    for (const id of ['a', 'b', 'c']) sessions.negotiated(id, '2025-11-25')
    sessions.revisionOf('a')
    sessions.negotiated('d', '2025-11-25')
    expect(['a', 'b', 'c', 'd'].map(id => sessions.revisionOf(id) !== undefined)).toEqual([true, false, true, true])
  })
})
