// What is remembered of sessions, and that it is bounded.

import { describe, expect, it } from '@jest/globals'
import { Sessions } from '../../../lib/streams/sessions.js'

describe('the memory of sessions', () => {
  it('knows nothing at first', () => {
    const sessions = new Sessions(10)
    expect(sessions.of('owner', 'a').revision).toBeUndefined()
    expect(sessions.of('owner', 'a').followsLinks).toBe(false)
  })

  it('remembers revision and proof, each without the other', () => {
    const sessions = new Sessions(10)
    sessions.negotiated('owner', 'a', '2025-11-25')
    expect(sessions.of('owner', 'a').revision).toBe('2025-11-25')
    expect(sessions.of('owner', 'a').followsLinks).toBe(false)
    sessions.noteFollowsLinks('owner', 'a')
    expect(sessions.of('owner', 'a').revision).toBe('2025-11-25')
    expect(sessions.of('owner', 'a').followsLinks).toBe(true)

    sessions.noteFollowsLinks('owner', 'b')
    expect(sessions.of('owner', 'b').revision).toBeUndefined()
    expect(sessions.of('owner', 'b').followsLinks).toBe(true)

    sessions.negotiated('owner', 'c', undefined)
    expect(sessions.of('owner', 'c').revision).toBeUndefined()
  })

  it('starts afresh when a session is initialized again, and when it has ended', () => {
    const sessions = new Sessions(10)
    sessions.negotiated('owner', 'a', '2025-06-18')
    sessions.noteFollowsLinks('owner', 'a')
    sessions.negotiated('owner', 'a', '2025-11-25')
    expect([sessions.of('owner', 'a').revision, sessions.of('owner', 'a').followsLinks]).toEqual([
      '2025-11-25',
      false
    ])
    sessions.delete('owner', 'a')
    expect([sessions.of('owner', 'a').revision, sessions.of('owner', 'a').followsLinks]).toEqual([
      undefined,
      false
    ])
    sessions.delete('owner', 'a')
  })

  it('forgets the session that was used longest ago', () => {
    const sessions = new Sessions(3)
    for (const id of ['a', 'b', 'c']) sessions.negotiated('owner', id, '2025-11-25')
    sessions.of('owner', 'a')
    sessions.negotiated('owner', 'd', '2025-11-25')
    expect(['a', 'b', 'c', 'd'].map(id => sessions.of('owner', id).revision !== undefined)).toEqual(
      [true, false, true, true]
    )
  })

  it('tells owners apart, whatever they call their sessions', () => {
    const sessions = new Sessions(10)
    sessions.negotiated('a', 'session', '2025-11-25')
    sessions.noteFollowsLinks('b', 'session')
    expect([
      sessions.of('a', 'session').revision,
      sessions.of('a', 'session').followsLinks
    ]).toEqual(['2025-11-25', false])
    expect([
      sessions.of('b', 'session').revision,
      sessions.of('b', 'session').followsLinks
    ]).toEqual([undefined, true])
    sessions.delete('b', 'session')
    expect(sessions.of('a', 'session').revision).toBe('2025-11-25')
  })

  it('lets the owner make room that has most', () => {
    const sessions = new Sessions(3)
    sessions.negotiated('a', 'mine', '2025-11-25')
    for (let n = 0; n < 10; n++) sessions.negotiated('b', `${n}`, '2025-11-25')
    expect(sessions.of('a', 'mine').revision).toBe('2025-11-25')
    expect(sessions.of('b', '9').revision).toBe('2025-11-25')
    expect(sessions.of('b', '0').revision).toBeUndefined()
  })

  it('keeps nothing of a session whose id is absurdly long', () => {
    const sessions = new Sessions(3)
    sessions.negotiated('a', 'x'.repeat(1025), '2025-11-25')
    expect(sessions.of('a', 'x'.repeat(1025)).revision).toBeUndefined()
  })
})
