// (b) Small calls that are answered at once, on 16 connections, or after a while, on as many as
// keep the server busy: its CPU for a call, and calls a second, as ratios to the bare endpoint.
// Variants take turns by slices of 250 ms; of all slices of a variant, the quarter with the least
// CPU for a call counts.

import { start } from './processes.js'
import { runRound, withServers } from './rounds.js'
import { printRow, printTitle } from './table.js'

const SSE = { most: 1.15, least: 0.9 }
const JSON_IN_TIME = { most: 1.1, least: 0.9, isJson: true }
const kinds = [
  { name: 'SDK v1, SSE', endpoint: 'sdkStateless', ...SSE, store: true },
  { name: 'SDK v1, JSON', endpoint: 'sdkStateless', ...JSON_IN_TIME, store: true },
  { name: 'SDK v1 with McpServer, SSE', endpoint: 'sdkStateless', full: true },
  { name: 'SDK v1 in sessions, SSE', endpoint: 'sdkStateful', ...SSE, store: true },
  { name: 'SDK v1 in sessions, JSON', endpoint: 'sdkStateful', ...JSON_IN_TIME, store: true },
  {
    name: 'SDK v1 in sessions, SSE, parsed in front',
    endpoint: 'sdkStateful',
    ...SSE,
    isParsed: true
  },
  { name: 'SDK v1 in sessions, SSE, 2 ms', endpoint: 'sdkStateful', most: 1.25, time: 2 },
  { name: 'SDK v1 in sessions, JSON, 2 ms', endpoint: 'sdkStateful', isJson: true, time: 2 },
  { name: 'SDK v1 in sessions, SSE, 50 ms', endpoint: 'sdkStateful', time: 50 },
  { name: 'SDK v1 in sessions, SSE, 1 s', endpoint: 'sdkStateful', time: 1000 },
  { name: 'SDK v2, SSE', endpoint: 'sdkV2', ...SSE },
  { name: 'SDK v2, JSON', endpoint: 'sdkV2', ...JSON_IN_TIME },
  { name: 'Express by hand, SSE', endpoint: 'raw', most: 1.25 },
  { name: 'Express by hand, SSE, parsed in front', endpoint: 'raw', most: 1.25, isParsed: true },
  { name: 'Express by hand, JSON', endpoint: 'raw', isJson: true, most: 1.15, least: 0.9 },
  { name: 'Express by hand, SSE, 2 ms', endpoint: 'raw', most: 1.25, time: 2 },
  { name: 'node:http by hand, SSE', endpoint: 'raw', isPlain: true, most: 1.25 },
  { name: 'node:http by hand, JSON', endpoint: 'raw', isPlain: true, isJson: true }
]

const CONNECTIONS = 16
/** Connections for a tool that takes so many milliseconds: some thousand calls a second. */
const connectionsFor = time => Math.max(CONNECTIONS, time)
/** Sessions of an endpoint that has them; calls take turns. */
const SESSIONS = 16
const SLICE = 0.25
const SLICES = 8

/**
 * Calls that each server answers before it is measured. After 1,200 its code was still being
 * compiled: of two bare servers one differed from the other by 10 to 18 per cent.
 */
const WARM_UP = 4_000

export async function measureCalls({ rounds, quick, only, compare }) {
  printTitle(`(b) small calls as ratios to bare`, ['CPU', 'calls/s'])
  const load = await start('load.js')
  for (const { name, most, least, store, isJson = false, time = 0, ...endpoint } of kinds) {
    if (!name.includes(only)) continue
    const others = [...(store ? ['store'] : []), ...(compare === undefined ? [] : ['compared'])]
    const variants = ['bare', 'ours', ...others].map(variant => ({
      ...endpoint,
      enableJsonResponse: isJson,
      variant,
      compare
    }))
    await withServers(variants, async servers => {
      const plan = { isInSessions: endpoint.endpoint === 'sdkStateful', time }
      const slices = await slicesOf(servers, load, plan, rounds * (quick ? 4 : SLICES))
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
async function slicesOf(servers, load, { isInSessions, time }, count) {
  const concurrent = connectionsFor(time)
  const run = (server, calls) => runRound(server, load, 'calls', { concurrent, calls, time })
  if (isInSessions)
    for (const { port } of servers) await load.call('openSessions', { port, count: SESSIONS })
  const each = []
  for (const server of servers) {
    await run(server, Math.ceil(WARM_UP / concurrent))
    const { result } = await run(server, time > 50 ? 1 : 50)
    each.push(Math.max(1, Math.ceil((result.rate * SLICE) / concurrent)))
  }
  const slices = servers.map(() => [])
  for (let slice = 0; slice < count; slice++)
    for (let turn = 0; turn < servers.length; turn++) {
      const index = (turn + slice) % servers.length
      const { cpu, result } = await run(servers[index], each[index])
      slices[index].push({ cpu: cpu / (each[index] * concurrent), rate: result.rate })
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
