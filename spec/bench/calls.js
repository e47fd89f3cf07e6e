// (b) Small calls: how many a second, how long the slowest of a hundred takes, and server CPU, as
// ratios to the bare endpoint.

import { start } from './processes.js'
import { ratios, runRound, takeTurns, withServers } from './rounds.js'
import { printRow, printTitle } from './table.js'

const kinds = [
  { name: 'SDK with McpServer, SSE', endpoint: 'sdkStateless', full: true },
  {
    name: 'the same, nobody asks for currentStream()',
    endpoint: 'sdkStateless',
    full: true,
    streams: { currentStream: false }
  },
  {
    name: 'SDK with McpServer, JSON',
    endpoint: 'sdkStateless',
    full: true,
    enableJsonResponse: true
  },
  { name: 'SDK stateless, SSE', endpoint: 'sdkStateless' },
  { name: 'SDK stateless, JSON', endpoint: 'sdkStateless', enableJsonResponse: true },
  { name: 'SDK stateful, SSE', endpoint: 'sdkStateful' },
  { name: 'SDK stateful, JSON', endpoint: 'sdkStateful', enableJsonResponse: true },
  { name: 'SDK v2, SSE', endpoint: 'sdkV2' },
  { name: 'SDK v2, JSON', endpoint: 'sdkV2', enableJsonResponse: true },
  // An endpoint that does nothing at all: no goal, but nothing shows the middleware's own cost
  // better.
  { name: 'raw, SSE', endpoint: 'raw', goals: [] },
  { name: 'raw, JSON', endpoint: 'raw', enableJsonResponse: true, goals: [] }
]

const CONNECTIONS = 16

/**
 * Calls that each server answers before it is measured. After 1,200 its code was still being
 * compiled: of two bare servers one differed from the other by 10 to 18 per cent.
 */
const WARM_UP = 4_000

export async function measureCalls({ rounds, seconds, only }) {
  printTitle(`(b) small calls on ${CONNECTIONS} connections, as a ratio to bare`, [
    'calls/s',
    'p99',
    'CPU'
  ])
  const load = await start('load.js')
  const measure = (server, calls) =>
    runRound(server, load, 'calls', { concurrent: CONNECTIONS, calls })

  for (const {
    name,
    goals = [{ atLeast: 0.97 }, { atMost: 1.1 }, { atMost: 1.03 }],
    ...endpoint
  } of kinds) {
    if (!name.includes(only)) continue
    const variants = ['bare', 'ours', 'bare'].map(variant => ({ ...endpoint, variant }))
    await withServers(variants, async servers => {
      if (endpoint.endpoint === 'sdkStateful') {
        for (const { port } of servers)
          await load.call('openSessions', { port, count: CONNECTIONS })
      }
      for (const server of servers) await measure(server, WARM_UP / CONNECTIONS)
      const { rate } = (await measure(servers[0], 50)).result
      const calls = Math.ceil((rate * 2 * seconds) / CONNECTIONS)

      const [bare, ours, again] = await takeTurns(servers, rounds, server => measure(server, calls))
      const compare = (label, rounds, goals) =>
        printRow(
          label,
          { of: ratios(rounds, bare, round => round.result.rate), ...goals[0] },
          { of: ratios(rounds, bare, round => round.result.p99), ...goals[1] },
          { of: ratios(rounds, bare, round => round.cpu), ...goals[2] }
        )
      compare(name, ours, goals)
      compare(`${name}: bare against bare`, again, [])
    })
  }
  await load.stop()
}
