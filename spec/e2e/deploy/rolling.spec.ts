// A rolling deploy under load: three instances behind nginx, each replaced twice, and clients that
// notice nothing.

import { describe, expect, it } from '@jest/globals'
import { isWithoutRedis } from '../../helpers/backplane/redis-server.js'
import { sleep } from '../../helpers/sleep.js'
import { programs } from '../proxies/configurations.js'
import { fleet, type Fleet, type Kind, type Replica } from './fleet.js'
import { type ClientKind, load, type Load, type Outcome } from './load.js'

const isHere = (programs.nginx !== undefined && !isWithoutRedis) || process.env['CI'] !== undefined

/** By `import` and by `require`, and with an `eventStore` of the endpoint. */
const KINDS: readonly Kind[] = [
  { module: 'esm', eventStore: false },
  { module: 'cjs', eventStore: false },
  { module: 'esm', eventStore: true }
]
const CLIENTS: readonly ClientKind[] = [
  'SDK 1',
  'SDK 1',
  'SDK 1',
  'SDK 2',
  'SDK 2',
  'resumableFetch',
  'resumableFetch'
]
const LONGEST = 5000
const TIMES = [0, LONGEST / 4, LONGEST]
/** Milliseconds beyond its last call for which a stop may take. */
const BEYOND = 3000

interface Stop {
  readonly at: number
  readonly took: number
  /** When the last call has ended that it had begun. */
  readonly lastCall: number
}

async function stop(replica: Replica, { outcomes }: Load): Promise<Stop> {
  const at = performance.now()
  const took = await replica.end('SIGTERM')
  const own = outcomes.filter(({ key }) => replica.begun.has(key))
  return { at, took, lastCall: Math.max(at, ...own.map(({ endedAt }) => endedAt)) - at }
}

/** One after the other; then each again, the old and the new process side by side for a while. */
async function deploy(all: Fleet, load: Load, first: Replica[]): Promise<Stop[]> {
  const stops: Stop[] = []
  const replicas = [...first]
  for (const [i, kind] of KINDS.entries()) {
    stops.push(await stop(replicas[i]!, load))
    replicas[i] = await all.start(all.ports[i]![0], kind)
  }
  for (const [i, kind] of KINDS.entries()) {
    const newer = await all.start(all.ports[i]![1], kind)
    await sleep(1000)
    stops.push(await stop(replicas[i]!, load))
    replicas[i] = newer
  }
  return stops
}

const begin = async (door: boolean): Promise<{ all: Fleet; first: Replica[] }> => {
  const all = await fleet(door)
  const first = await Promise.all(KINDS.map((kind, i) => all.start(all.ports[i]![0], kind)))
  return { all, first }
}

const describeHere = isHere ? describe : describe.skip

describeHere('a rolling deploy behind nginx (SKIPPED without it or Redis, but not in CI)', () => {
  it('with the option `sessions`, no call is lost and none runs twice', async () => {
    const { all, first } = await begin(true)
    const clients = await load(all.url, CLIENTS, TIMES, false)
    await sleep(2000)
    const stops = await deploy(all, clients, first)
    await clients.stop()
    const { outcomes } = clients
    expect(outcomes.filter(({ error }) => error !== undefined)).toEqual([])
    expect(outcomes.filter(({ key }) => all.begun(key) !== 1)).toEqual([])
    expect(outcomes.length).toBeGreaterThan(CLIENTS.length * TIMES.length)
    for (const { took, lastCall } of stops) expect(took).toBeLessThan(lastCall + BEYOND)
  })

  it('without it, no call is lost that has begun before the signal', async () => {
    const { all, first } = await begin(false)
    const clients = await load(all.url, CLIENTS, TIMES, true)
    await sleep(2000)
    const stops: Stop[] = []
    const lost: Outcome[] = []
    for (const [i, kind] of KINDS.entries()) {
      const before = new Set(clients.running.keys())
      stops.push(await stop(first[i]!, clients))
      await all.start(all.ports[i]![0], kind)
      lost.push(
        ...clients.outcomes.filter(({ key, error }) => before.has(key) && error !== undefined)
      )
    }
    await clients.stop()
    expect(lost).toEqual([])
    const { outcomes } = clients
    // Their sessions have ended, and that is what they are told.
    const errors = outcomes.flatMap(({ error }) => error ?? [])
    expect(errors.filter(error => !/session/i.test(error))).toEqual([])
    expect(outcomes.filter(({ key }) => all.begun(key) > 1)).toEqual([])
    for (const { took, lastCall } of stops) expect(took).toBeLessThan(lastCall + BEYOND)
  })

  it('where an instance is killed, its own calls are lost, and told soon', async () => {
    const { all, first } = await begin(true)
    const clients = await load(all.url, CLIENTS, TIMES, false)
    await sleep(4000)
    const killed = first[0]!
    const own = [...clients.running.keys()].filter(key => killed.begun.has(key))
    const at = performance.now()
    await killed.end('SIGKILL')
    await sleep(10_000)
    await clients.stop()
    const failed = clients.outcomes.filter(({ error }) => error !== undefined)
    expect(failed.filter(({ key }) => !killed.begun.has(key))).toEqual([])
    expect(failed.length).toBeLessThanOrEqual(own.length + CLIENTS.length)
    for (const { endedAt } of failed) expect(endedAt - at).toBeLessThan(10_000)
    expect(clients.outcomes.filter(({ key }) => all.begun(key) > 1)).toEqual([])
  })
})
