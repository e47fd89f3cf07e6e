// What a message between instances is wrapped in: nobody without a secret reads it, changes it, or
// sends it again.
import { describe, expect, it } from '@jest/globals'
import { Envelopes } from '../../../lib/backplane/envelope.js'
import { ReplayWindow } from '../../../lib/backplane/instance-link.js'

const one = new Envelopes(['the first secret of all'])
const text = Buffer.from('Authorization: Bearer a-token')
const sealed = one.seal(3, 7, text, 'aaaaa>bbbbb')

describe('a sealed message', () => {
  it('opens where it belongs, and shows nothing of its text before', () => {
    expect(one.open(sealed, 'aaaaa>bbbbb')).toEqual({ kind: 3, counter: 7, text })
    expect(sealed.includes('a-token')).toBe(false)
  })

  it('opens nowhere else, nor with another secret', () => {
    expect(one.open(sealed, 'aaaaa>ccccc')).toBe('forged')
    const other = new Envelopes(['another secret of ours'])
    expect(other.open(sealed, 'aaaaa>bbbbb')).toBe('forged')
  })

  it('opens with no byte of it changed, and none cut off', () => {
    for (let i = 0; i < sealed.length; i++) {
      const changed = Buffer.from(sealed)
      changed[i]! ^= 1
      expect(one.open(changed, 'aaaaa>bbbbb')).toBe(i === 0 ? 'version' : 'forged')
      expect(['malformed', 'forged']).toContain(one.open(sealed.subarray(0, i), 'aaaaa>bbbbb'))
    }
  })

  it('opens with any secret of the list, of which the first signs', () => {
    const both = new Envelopes(['another secret of ours', 'the first secret of all'])
    expect(both.open(sealed, 'aaaaa>bbbbb')).toMatchObject({ text })
    expect(one.open(both.seal(3, 7, text, ''), '')).toBe('forged')
    expect(both.namesOf('a session')).toContain(one.nameOf('a session'))
  })
})

describe('a message that was seen', () => {
  it('is not taken again, nor is one too old to tell', () => {
    const replays = new ReplayWindow()
    expect([5, 4, 5, 6, 4].map(count => replays.accept('aaaaa', count))).toEqual([
      true,
      true,
      false,
      true,
      false
    ])
    expect(replays.accept('bbbbb', 5)).toBe(true)
    expect(replays.accept('aaaaa', 10_000)).toBe(true)
    expect(replays.accept('aaaaa', 7)).toBe(false)
  })

  it('is remembered of ten thousand senders', () => {
    const replays = new ReplayWindow()
    for (let i = 0; i < 10_000; i++) replays.accept(`sender ${i}`, 1)
    expect(replays.accept('sender 0', 1)).toBe(false)
    replays.accept('one more', 1)
    expect(replays.accept('sender 1', 1)).toBe(false)
    expect(replays.accept('sender 0', 1)).toBe(true)
  })

  it('is remembered for 4,096 counts, also of a sender of many', () => {
    const replays = new ReplayWindow()
    for (let count = 1; count <= 20_000; count++)
      if (count !== 15_905) expect(replays.accept('aaaaa', count)).toBe(true)
    for (const count of [15_904, 15_906, 19_999]) expect(replays.accept('aaaaa', count)).toBe(false)
    expect(replays.accept('aaaaa', 15_905)).toBe(true)
    expect(replays.accept('aaaaa', 15_905)).toBe(false)
  })
})
