import { describe, expect, it } from '@jest/globals'
import { FairLine } from '../../../../lib/features/sessions/fair-line.js'

const LIMITS = { atOnce: 32, most: 1000, patience: 30_000 }

/** Starts work for each owner; `begun` has the owners in turn, and `end` ends the oldest. */
function start(line: FairLine, owners: readonly string[], signal?: AbortSignal) {
  const begun: string[] = []
  const ends: (() => void)[] = []
  const results = owners.map(owner =>
    line.run(
      owner,
      () => {
        begun.push(owner)
        return new Promise<string>(resolve => ends.push(() => resolve('done')))
      },
      signal
    )
  )
  return { begun, results, end: () => ends.shift()?.() }
}

const turn = () => new Promise(setImmediate)

async function endAll({ begun, end }: ReturnType<typeof start>): Promise<void> {
  for (let known = -1; known < begun.length;) {
    known = begun.length
    for (let i = 0; i < known; i++) end()
    await turn()
  }
}

describe('the line of sessions that are to be begun again', () => {
  it('lets one owner alone run 32 at once, and each that ends lets in the next', async () => {
    const line = new FairLine(LIMITS)
    const all = start(line, Array<string>(200).fill('a'))
    await turn()
    expect([all.begun.length, line.count]).toEqual([32, 200])
    all.end()
    await turn()
    expect([all.begun.length, line.count]).toEqual([33, 199])
    await endAll(all)
    expect(new Set(await Promise.all(all.results))).toEqual(new Set(['done']))
    expect(line.count).toBe(0)
  })

  it('lets owners take turns, however many each of them has', async () => {
    const line = new FairLine({ ...LIMITS, atOnce: 1 })
    const all = start(line, ['a', 'a', 'a', 'a', 'a', 'b', 'b', 'c'])
    await endAll(all)
    expect(all.begun.join('')).toBe('aabcabaa')
  })

  it('drops who waits for nobody any more, also before it has begun to wait', async () => {
    const line = new FairLine({ ...LIMITS, atOnce: 1 })
    const gone = new AbortController()
    const first = start(line, ['a'])
    const left = start(line, ['b', 'b'], gone.signal)
    const last = start(line, ['c'])
    gone.abort()
    const late = start(line, ['d'], gone.signal)
    expect(await Promise.all([...left.results, ...late.results])).toEqual(['left', 'left', 'left'])
    expect(line.count).toBe(2)
    await endAll(first)
    await endAll(last)
    expect([left.begun, last.begun, line.count]).toEqual([[], ['c'], 0])
  })

  it('is full for the owner that has most, and makes room for others at its cost', async () => {
    const line = new FairLine({ ...LIMITS, atOnce: 1, most: 4 })
    const many = start(line, ['a', 'a', 'a', 'a', 'a', 'a'])
    expect(await many.results[5]).toBe('full')
    const other = start(line, ['b', 'b', 'b'])
    expect(await Promise.all([many.results[4], many.results[3]])).toEqual(['full', 'full'])
    expect(await other.results[2]).toBe('full')
    for (const all of [many, other, many, other]) await endAll(all)
    expect([many.begun.length, other.begun.length, line.count]).toEqual([3, 2, 0])
  })

  it('lets nobody wait for longer than its patience', async () => {
    const line = new FairLine({ ...LIMITS, atOnce: 1, patience: 20 })
    const all = start(line, ['a', 'b'])
    expect(await all.results[1]).toBe('late')
    expect(line.count).toBe(1)
    await endAll(all)
  })

  it('goes on after a failure', async () => {
    const line = new FairLine({ ...LIMITS, atOnce: 1 })
    const failed = line.run('a', () => Promise.reject(new Error('no')))
    const all = start(line, ['b'])
    await expect(failed).rejects.toThrow('no')
    await endAll(all)
    expect([all.begun, line.count]).toEqual([['b'], 0])
  })
})
