// (c) What a resume costs in the server's event loop while much or little is held, against a plain
// array per stream.

import { start } from './processes.js'
import { ratios, runRound, takeTurns, withServers } from './rounds.js'
import { median, printRow, printTitle } from './table.js'

const HELD = [1_000, 10_000, 100_000]
const STREAMS = 1_000
const STORM = 20
const SIZE = 200
const LONG = 10_000

// The streams that are resumed are the same at each level, 100 events in each; only what is held
// beside them grows.
const PROBES = { calls: STORM, count: 100, size: SIZE }

const variants = [
  { endpoint: 'arrays', variant: 'bare' },
  { endpoint: 'raw', variant: 'ours' },
  { endpoint: 'sdkStateless', variant: 'store' }
]

const widths = [
  { width: 1, label: 'resumes, one by one' },
  { width: STORM, label: `${STORM} resumes at once` }
]

export async function measureResume({ rounds, quick }) {
  printTitle('(c) resumes, as a ratio to a plain array per stream', ['CPU', 'loop'])
  const load = await start('load.js')

  const fill = async (server, plan) => {
    if (server.variant !== 'store') return load.call('fill', { port: server.port, ...plan })
    const firstIds = await server.call('fillStore', plan)
    return firstIds.map(firstId => ({ target: '/mcp', firstId, count: plan.count, live: true }))
  }
  const measure = (server, streams, width) => runRound(server, load, 'resume', { streams, width })
  const [cpuTime, loopTime] = [round => round.cpu, round => round.loop]
  // These rounds take milliseconds, so there can be more of them.
  const times = rounds * 4

  const ours = widths.map(() => [])
  for (const held of quick ? HELD.slice(0, 2) : HELD) {
    await withServers(variants, async servers => {
      const probes = new Map()
      for (const server of servers) {
        await fill(server, { calls: STREAMS, count: held / STREAMS, size: SIZE })
        probes.set(server, await fill(server, PROBES))
      }
      const [fast, slow] = [servers.slice(0, 2), servers.slice(2)]
      for (const [index, { width, label }] of widths.entries()) {
        const run = server => measure(server, probes.get(server), width)
        await takeTurns(fast, 10, run)
        const [array, mine] = await takeTurns(fast, times, run)
        const [theirs] = await takeTurns(slow, 2, run)
        const compare = (name, rounds, goal) =>
          printRow(
            name,
            { of: ratios(rounds, array, cpuTime), ...goal },
            { of: ratios(rounds, array, loopTime), ...goal }
          )
        compare(`${label}, ${held} held`, mine, { atMost: 2 })
        compare(`${label}, ${held} held: the SDK's store`, theirs, {})
        ours[index].push(mine)
      }
    })
  }
  for (const [index, { label }] of widths.entries()) {
    const flat = time => {
      const least = median(ours[index][0].map(time))
      return { of: ours[index].at(-1).map(round => time(round) / least), atMost: 1.25 }
    }
    printRow(`${label}: most held to least held`, flat(cpuTime), flat(loopTime))
  }

  printTitle(`    replay of ${LONG} events, as a ratio to a plain array per stream`, [
    'events/s',
    'loop'
  ])
  await withServers(variants, async servers => {
    const probes = new Map()
    for (const server of servers)
      probes.set(server, await fill(server, { calls: 1, count: LONG, size: SIZE }))
    const run = server => measure(server, probes.get(server), 1)
    await takeTurns(servers, 5, run)
    const [array, mine, theirs] = await takeTurns(servers, times, run)
    const compare = (label, rounds, goals) =>
      printRow(
        label,
        { of: ratios(array, rounds, round => round.result), ...goals[0] },
        { of: ratios(rounds, array, loopTime), ...goals[1] }
      )
    compare('one stream', mine, [{ atLeast: 0.5 }, { atMost: 2 }])
    compare("one stream: the SDK's store", theirs, [])
  })
  await load.stop()
}
