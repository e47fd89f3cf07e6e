import { describe, expect, it } from '@jest/globals'
import { RevivalLine } from '../../../../lib/features/sessions/revival-line.js'
import { now } from '../../../../lib/protocol/clock.js'

/** Starts so many for each owner; `begun` has when each began, and `go` ends them. */
function start(line: RevivalLine, owners: readonly string[]) {
  const begun: number[] = []
  let go!: () => void
  const gate = new Promise<void>(resolve => (go = resolve))
  const from = now()
  const results = owners.map(owner =>
    line.run(owner, async () => {
      begun.push(now() - from)
      await gate
    })
  )
  return { begun, go, results: Promise.all(results) }
}

describe('the line of sessions that are to be begun again', () => {
  it('lets 32 run at once, and each that ends lets in the next', async () => {
    const line = new RevivalLine(1000)
    const { begun, go, results } = start(line, Array<string>(1000).fill(''))
    await new Promise(setImmediate)
    expect([begun.length, line.count]).toEqual([32, 1000])
    go()
    await results
    expect([begun.length, line.count]).toEqual([1000, 0])
  })

  it('lets ten of one owner begin at once, and then one a second, beside those of others', async () => {
    const line = new RevivalLine(1000)
    const { begun, go, results } = start(line, [...Array<string>(13).fill('a'), 'b'])
    await new Promise(setImmediate)
    expect(begun).toHaveLength(11)
    go()
    await results
    const late = begun.slice(11).map(time => Math.round(time / 1000))
    expect(late).toEqual([1, 2, 3])
  })

  it('is bounded, and goes on after a failure', async () => {
    const line = new RevivalLine(2)
    const failed = line.run('a', () => Promise.reject(new Error('no')))
    const { go, results } = start(line, ['b', 'c'])
    go()
    expect(await results).toEqual([undefined, 'full'])
    await expect(failed).rejects.toThrow('no')
    expect(line.count).toBe(0)
  })
})
