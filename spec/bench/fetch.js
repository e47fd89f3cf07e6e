// (e) What `resumableFetch` costs while nothing is cut: events per second, and the time of a call,
// as ratios to plain fetch.

import { start } from './processes.js'
import { ratios, runRound, takeTurns, withServers } from './rounds.js'
import { printRow, printTitle } from './table.js'

const fetches = ['plain', 'resumable', 'plain']
const goal = { atLeast: 0.95 }

// `sdk` reads a body as the official client does: text, events, JSON. Nobody throws the bytes away,
// but it shows the most.
const kinds = [
  {
    name: 'SDK, read as the SDK does, 200 B',
    endpoint: 'sdkStateless',
    reader: 'sdk',
    size: 200,
    count: 500,
    goal
  },
  {
    name: 'SDK, read as the SDK does, 4096 B',
    endpoint: 'sdkStateless',
    reader: 'sdk',
    size: 4096,
    count: 200,
    goal
  },
  {
    name: 'raw, read as the SDK does, 200 B',
    endpoint: 'raw',
    reader: 'sdk',
    size: 200,
    count: 2000,
    goal
  },
  {
    name: 'raw, read as the SDK does, 4096 B',
    endpoint: 'raw',
    reader: 'sdk',
    size: 4096,
    count: 500,
    goal
  },
  {
    name: 'raw, bytes thrown away, 200 B',
    endpoint: 'raw',
    reader: 'bytes',
    size: 200,
    count: 2000
  },
  {
    name: 'raw, bytes thrown away, 4096 B',
    endpoint: 'raw',
    reader: 'bytes',
    size: 4096,
    count: 500
  },
  {
    name: 'SDK, a small call, its time',
    endpoint: 'sdkStateless',
    reader: 'sdk',
    size: 200,
    count: 1,
    isCall: true,
    goal
  },
  {
    name: 'raw, a small call, its time',
    endpoint: 'raw',
    reader: 'sdk',
    size: 200,
    count: 1,
    isCall: true
  },
  // Time from one event to the next, where each comes on its own.
  {
    name: 'raw, one event in a tick, 200 B',
    endpoint: 'raw',
    pace: 'singly',
    reader: 'sdk',
    size: 200,
    count: 500,
    goal
  }
]
const CONCURRENT = 4

export async function measureFetch({ rounds, seconds, only }) {
  printTitle('(e) resumableFetch on an uncut stream, as a ratio to plain fetch', ['speed', 'CPU'])
  const load = await start('fetch-load.js')

  for (const { name, endpoint, pace, isCall = false, goal, ...kind } of kinds) {
    if (!name.includes(only)) continue
    await withServers([{ endpoint, pace, variant: 'ours' }], async ([server]) => {
      const run = (fetch, calls) =>
        runRound(server, load, isCall ? 'timeOfCalls' : 'read', {
          fetch,
          ...kind,
          concurrent: isCall ? 1 : CONCURRENT,
          calls
        })
      for (const fetch of fetches) await run(fetch, 10)
      const { wall } = await run('plain', 20)
      const calls = Math.max(5, Math.round((20 * seconds * 2e6) / wall))

      const [plain, resumable, again] = await takeTurns(fetches, rounds, fetch => run(fetch, calls))
      const compare = (label, results, goals = {}) =>
        printRow(
          label,
          { of: ratios(results, plain, round => 1 / round.result), ...goals },
          { of: ratios(results, plain, round => round.loadCpu) }
        )
      compare(name, resumable, goal)
      compare(`${name}: plain again`, again)
    })
  }
  await load.stop()
}
