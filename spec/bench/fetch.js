// (e) What `resumableFetch` costs while nothing is cut: events per second, and the time of a small call, as ratios to plain fetch.

import { start } from './processes.js'
import { ratios, runRound, takeTurns, withServers } from './rounds.js'
import { printRow, printTitle } from './table.js'

const fetches = ['plain', 'resumable', 'plain']
const kinds = [
  // What the official client makes of a body: text, events, JSON.
  { name: 'read as the SDK does, 200 B', reader: 'sdk', size: 200, count: 5000, goal: { atLeast: 0.95 } },
  { name: 'read as the SDK does, 4096 B', reader: 'sdk', size: 4096, count: 2000, goal: { atLeast: 0.95 } },
  // Nobody does this, but it shows the most that can be seen.
  { name: 'bytes thrown away, 200 B', reader: 'bytes', size: 200, count: 5000 },
  { name: 'bytes thrown away, 4096 B', reader: 'bytes', size: 4096, count: 2000 }
]
const CONCURRENT = 4

export async function measureFetch({ rounds, seconds, only }) {
  printTitle('(e) resumableFetch on an uncut stream, as a ratio to plain fetch', ['rate', 'CPU'])
  const load = await start('fetch-load.js')

  await withServers([{ endpoint: 'raw', variant: 'ours' }], async ([server]) => {
    const compare = async (name, goals, method, params, rate) => {
      if (!name.includes(only)) return
      const run = fetch => runRound(server, load, method, { fetch, ...params })
      for (const fetch of fetches) await run(fetch)
      const [plain, resumable, again] = await takeTurns(fetches, rounds, run)
      const print = (label, results, [first, second] = []) =>
        printRow(
          label,
          { of: ratios(results, plain, rate), ...first },
          { of: ratios(results, plain, round => round.loadCpu), ...second }
        )
      print(name, resumable, goals)
      print(`${name}: plain against plain`, again)
    }

    for (const { name, goal, ...kind } of kinds) {
      const plan = { ...kind, concurrent: CONCURRENT, calls: Math.ceil(seconds * 10) }
      await compare(name, [goal], 'read', plan, round => 1 / round.result)
    }
    const calls = Math.ceil(seconds * 1000)
    for (const [name, json] of [
      ['a small call, SSE', false],
      ['an event on its way, one at a time', 'events']
    ]) {
      const method = json === 'events' ? 'latency' : 'small'
      await compare(name, [{ atLeast: 0.95 }], method, { calls }, round => 1 / round.result)
    }
  })
  await load.stop()
}
