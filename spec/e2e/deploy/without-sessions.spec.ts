// The same without the option `sessions`: a session ends with its instance, and no call is lost
// that it had begun.

import { describe, expect, it } from '@jest/globals'
import { sleep } from '../../helpers/sleep.js'
import { CLIENTS, fleet, isHere, KINDS, type Stop, TIMES } from './fleet.js'
import { load, type Outcome } from './load.js'

const describeHere = isHere ? describe : describe.skip

describeHere('a rolling deploy behind nginx (SKIPPED without it or Redis, but not in CI)', () => {
  it('without the option `sessions`, no call is lost that has begun before the signal', async () => {
    const all = await fleet(false, 30_000)
    const clients = await load(all.url, CLIENTS, TIMES, true)
    await sleep(2000)
    const stops: Stop[] = []
    const lost: Outcome[] = []
    for (const [i, kind] of KINDS.entries()) {
      const stop = await all.stop(all.first[i]!, clients)
      stops.push(stop)
      await all.start(all.ports[i]![0], kind)
      lost.push(...clients.outcomes.filter(({ key, error }) => stop.begun.has(key) && error))
    }
    await clients.stop()
    expect(lost).toEqual([])
    const { outcomes } = clients
    // Their sessions have ended, and that is what they are told.
    const errors = outcomes.flatMap(({ error }) => error ?? [])
    expect(errors.filter(error => !/session/i.test(error))).toEqual([])
    expect(outcomes.filter(({ key }) => all.begun(key) > 1)).toEqual([])
    for (const { took, most } of stops) expect(took).toBeLessThan(most)
  }, 600_000)
})
