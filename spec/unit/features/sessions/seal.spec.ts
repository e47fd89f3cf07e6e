import { describe, expect, it } from '@jest/globals'
import { nameIn, Seals } from '../../../../lib/features/sessions/seal.js'

const PARTS = {
  endpointId: 'one',
  expires: 1,
  params: { protocolVersion: '2025-11-25', capabilities: {} },
  revision: '2025-11-25',
  capabilities: { tools: {} }
}
const SECRET = 'a secret of this spec'
const seals = new Seals([SECRET])

describe('a sealed id', () => {
  it('opens for its owner, whatever that is called, and gives what went in', () => {
    for (const owner of ['', 'a', 'é', '\ud800', 'x'.repeat(10_000)]) {
      const id = seals.seal(owner, PARTS) as string
      expect(id).toMatch(/^mcps1\.[\w-]+$/)
      expect(seals.open(owner, id)).toEqual(PARTS)
      for (const other of [`${owner} `, '\ud801', 'A'])
        expect(seals.open(other, id)).toBeUndefined()
    }
  })

  it('is another one each time, and so is its name', () => {
    const ids = [1, 2].map(() => seals.seal('a', PARTS) as string)
    expect(new Set(ids.map(nameIn)).size).toBe(2)
  })

  it('does not open with any of its characters changed, left out or doubled', () => {
    const id = seals.seal('a', PARTS) as string
    for (let i = 0; i < id.length; i++) {
      const [before, one, after] = [id.slice(0, i), id[i] as string, id.slice(i + 1)]
      for (const other of [one === 'A' ? 'B' : 'A', '', one + one, '=', ' ', '\u00ff'])
        expect(seals.open('a', before + other + after)).toBeUndefined()
      expect(seals.open('a', before)).toBeUndefined()
    }
  })

  it('is none where it would have more than 4,096 characters', () => {
    const of = (size: number) =>
      seals.seal('a', { ...PARTS, params: { padding: 'x'.repeat(size) } })
    expect(of(2900)?.length).toBeLessThanOrEqual(4096)
    expect(of(3000)).toBeUndefined()
  })

  it('opens with each of the secrets, and is sealed with the first', () => {
    const id = seals.seal('a', PARTS) as string
    const newer = new Seals(['another secret of this', SECRET])
    expect(newer.open('a', id)).toEqual(PARTS)
    expect(seals.open('a', newer.seal('a', PARTS) as string)).toBeUndefined()
  })
})
