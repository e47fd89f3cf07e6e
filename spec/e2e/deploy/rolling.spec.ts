// A rolling deploy under load: three instances behind nginx, each replaced twice, and clients that
// notice nothing.

import { describe, expect, it } from '@jest/globals'
import { sleep } from '../../helpers/sleep.js'
import { CLIENTS, fleet, isHere, KINDS, type Stop, TIMES } from './fleet.js'
import { load } from './load.js'

/** Milliseconds of load, at least, and for which an old and a new process stand side by side. */
const LOAD = 60_000
const SIDE_BY_SIDE = 5000

const describeHere = isHere ? describe : describe.skip

describeHere('a rolling deploy behind nginx (SKIPPED without it or Redis, but not in CI)', () => {
  it('with the option `sessions`, no call is lost and none runs twice', async () => {
    const all = await fleet(true, 30_000)
    const begunAt = performance.now()
    const clients = await load(all.url, CLIENTS, TIMES, false)
    const replicas = [...all.first]
    const stops: Stop[] = []
    await sleep(2000)
    // One after the other; then each again, by one that stands beside it.
    for (const [i, kind] of KINDS.entries()) {
      stops.push(await all.stop(replicas[i]!, clients))
      replicas[i] = await all.start(all.ports[i]![0], kind)
    }
    for (const [i, kind] of KINDS.entries()) {
      const newer = await all.start(all.ports[i]![1], kind)
      await sleep(SIDE_BY_SIDE)
      stops.push(await all.stop(replicas[i]!, clients))
      replicas[i] = newer
    }
    await sleep(Math.max(0, begunAt + LOAD - performance.now()))
    await clients.stop()
    const { outcomes } = clients
    expect(outcomes.filter(({ error }) => error !== undefined)).toEqual([])
    expect(outcomes.filter(({ key }) => all.begun(key) !== 1)).toEqual([])
    expect(outcomes.length).toBeGreaterThan(CLIENTS.length * TIMES.length)
    for (const { took, most } of stops) expect(took).toBeLessThan(most)
  }, 600_000)
})
