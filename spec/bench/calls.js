// (b) Small calls that are answered at once, on 16 connections: the server's CPU for a call, and
// calls a second, as ratios to the bare endpoint. Variants take turns by slices of 250 ms; of all
// slices of a variant, the quarter with the least CPU for a call counts.

import { start } from './processes.js'
import { runRound, withServers } from './rounds.js'
import { printRow, printTitle } from './table.js'

const kinds = [
  { name: 'SDK v1, SSE', endpoint: 'sdkStateless', most: 1.25, least: 0.8, store: true },
  { name: 'SDK v1, JSON', endpoint: 'sdkStateless', isJson: true, most: 1.1, least: 0.9 },
  { name: 'SDK v1 with McpServer, SSE', endpoint: 'sdkStateless', full: true },
  { name: 'SDK v1 with sessions, SSE', endpoint: 'sdkStateful', store: true },
  { name: 'SDK v2, SSE', endpoint: 'sdkV2', most: 1.25, least: 0.8 },
  { name: 'SDK v2, JSON', endpoint: 'sdkV2', isJson: true },
  { name: 'Express by hand, SSE', endpoint: 'raw', most: 1.3 },
  { name: 'Express by hand, JSON', endpoint: 'raw', isJson: true, most: 1.4, least: 0.75 },
  { name: 'node:http by hand, SSE', endpoint: 'raw', isPlain: true, most: 1.5 },
  { name: 'node:http by hand, JSON', endpoint: 'raw', isPlain: true, isJson: true }
]

const CONNECTIONS = 16
const SLICE = 0.25
const SLICES = 8

/**
 * Calls that each server answers before it is measured. After 1,200 its code was still being
 * compiled: of two bare servers one differed from the other by 10 to 18 per cent.
 */
const WARM_UP = 4_000

export async function measureCalls({ rounds, quick, only, compare }) {
  printTitle(`(b) small calls on ${CONNECTIONS} connections, as ratios to bare`, ['CPU', 'calls/s'])
  const load = await start('load.js')
  for (const { name, most, least, store, isJson = false, ...endpoint } of kinds) {
    if (!name.includes(only)) continue
    const others = [...(store ? ['store'] : []), ...(compare === undefined ? [] : ['compared'])]
    const variants = ['bare', 'ours', ...others].map(variant => ({
      ...endpoint,
      enableJsonResponse: isJson,
      variant,
      compare
    }))
    await withServers(variants, async servers => {
      const slices = await slicesOf(servers, load, endpoint.endpoint, rounds * (quick ? 4 : SLICES))
      const [bare, ...figures] = slices.map(figuresOf)
      for (const [i, { cpu, rate }] of figures.entries()) {
        const goals = i === 0 ? { most, least } : {}
        const label = i === 0 ? name : `${name}: ${variants[i + 1].variant}`
        printRow(
          `${label} (${Math.round(cpu)} us, bare ${Math.round(bare.cpu)})`,
          { of: [cpu / bare.cpu], atMost: goals.most },
          { of: [rate / bare.rate], atLeast: goals.least }
        )
      }
    })
  }
  await load.stop()
}

/** The slices of each server, in turns. */
async function slicesOf(servers, load, endpoint, count) {
  const run = (server, calls) => runRound(server, load, 'calls', { concurrent: CONNECTIONS, calls })
  if (endpoint === 'sdkStateful')
    for (const { port } of servers) await load.call('openSessions', { port, count: CONNECTIONS })
  const each = []
  for (const server of servers) {
    await run(server, WARM_UP / CONNECTIONS)
    const { result } = await run(server, 50)
    each.push(Math.max(1, Math.ceil((result.rate * SLICE) / CONNECTIONS)))
  }
  const slices = servers.map(() => [])
  for (let slice = 0; slice < count; slice++)
    for (let turn = 0; turn < servers.length; turn++) {
      const index = (turn + slice) % servers.length
      const { cpu, result } = await run(servers[index], each[index])
      slices[index].push({ cpu: cpu / (each[index] * CONNECTIONS), rate: result.rate })
    }
  return slices
}

/** The mean CPU of the quarter of the slices that took least, and the rate of those. */
function figuresOf(slices) {
  const sorted = [...slices].sort((a, b) => a.cpu - b.cpu)
  const quarter = sorted.slice(0, Math.ceil(sorted.length / 4))
  const mean = of => quarter.reduce((sum, slice) => sum + of(slice), 0) / quarter.length
  return { cpu: mean(({ cpu }) => cpu), rate: mean(({ rate }) => rate) }
}
