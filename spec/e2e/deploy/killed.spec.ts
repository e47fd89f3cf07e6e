// An instance of three that is killed under load.

import { describe, expect, it } from '@jest/globals'
import { sleep } from '../../helpers/sleep.js'
import { CLIENTS, fleet, isHere, TIMES } from './fleet.js'
import { load, type Outcome } from './load.js'

const LEASE = 4500
/** Milliseconds, about twice the lease, within which clients are told. */
const TOLD = 10_000
/** Milliseconds in which a call has at least the head of its answer. */
const ON_ITS_WAY = 2000

const describeHere = isHere ? describe : describe.skip

describeHere('an instance that is killed (SKIPPED without nginx or Redis, but not in CI)', () => {
  it('loses its own calls, of which each client is told soon', async () => {
    const all = await fleet(true, LEASE)
    const clients = await load(all.url, CLIENTS, TIMES, false)
    await sleep(6000)
    const killed = all.first[0]!
    const at = performance.now()
    await killed.end('SIGKILL')
    await sleep(TOLD)
    await clients.stop()
    const failed = clients.outcomes.filter(({ error }) => error !== undefined)
    // They ran there, or were on their way there, or on their way back by it.
    const isIts = ({ key, begunAt }: Outcome): boolean =>
      killed.begun.has(key) ||
      all.begun(key) === 0 ||
      (killed.taken.has(key) && begunAt > at - ON_ITS_WAY)
    expect(failed.filter(outcome => !isIts(outcome))).toEqual([])
    for (const { endedAt } of failed) expect(endedAt - at).toBeLessThan(TOLD)
    expect(clients.outcomes.filter(({ key }) => all.begun(key) > 1)).toEqual([])
  }, 600_000)
})
