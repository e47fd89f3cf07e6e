// (h) Slow JSON: what small calls pay so that slow ones need not wait in silence, and what a slow
// one holds while it waits, beside a stream that waits for its endpoint just as long.

import { setTimeout as sleep } from 'node:timers/promises'
import { mostSockets, start } from './processes.js'
import { ratios, runRound, takeTurns, withServers } from './rounds.js'
import { printNote, printRow, printTitle } from './table.js'

const CONNECTIONS = 8
const JSON_ENDPOINT = { enableJsonResponse: true }

const kinds = [
  { name: 'SDK with McpServer', endpoint: 'sdkStateless', full: true, goal: 0.97 },
  { name: 'SDK stateless', endpoint: 'sdkStateless', goal: 0.97 },
  // No goal: next to an endpoint that does nothing at all, everything is much.
  { name: 'raw', endpoint: 'raw' }
]

export async function measureSlowJson({ rounds, seconds, quick, only }) {
  const load = await start('load.js')
  const chosen = kinds.filter(({ name }) => name.includes(only))
  await measureSmallCalls({ load, kinds: chosen, rounds, seconds })
  for (const wanted of quick ? [500] : [1_000, 5_000])
    await measureWaiting({ load, wanted, rounds: Math.min(rounds, 3) })
  await load.stop()
}

async function measureSmallCalls({ load, kinds, rounds, seconds }) {
  printTitle(`(h) small JSON calls on ${CONNECTIONS} connections, as a ratio to bare`, [
    'calls/s',
    'CPU'
  ])
  const measure = (server, calls) =>
    runRound(server, load, 'calls', { concurrent: CONNECTIONS, calls })

  for (const { name, goal, ...endpoint } of kinds) {
    const variants = [
      { variant: 'bare' },
      { variant: 'ours' },
      { variant: 'ours', streams: { upgradeAfter: null } },
      { variant: 'bare' }
    ].map(variant => ({ ...JSON_ENDPOINT, ...endpoint, ...variant, countTimers: true }))
    await withServers(variants, async servers => {
      for (const server of servers) await measure(server, 300)
      const { rate } = (await measure(servers[0], 50)).result
      const calls = Math.ceil((rate * 2 * seconds) / CONNECTIONS)
      const timed = await servers[1].call('timers')

      const [bare, ours, never, again] = await takeTurns(servers, rounds, server =>
        measure(server, calls)
      )
      const compare = (label, rounds, atLeast) =>
        printRow(
          label,
          { of: ratios(rounds, bare, round => round.result.rate), atLeast },
          { of: ratios(rounds, bare, round => round.cpu) }
        )
      compare(name, ours, goal)
      compare(`${name}: upgradeAfter null`, never)
      compare(`${name}: bare against bare`, again)
      const set = (await servers[1].call('timers')).set - timed.set
      printNote(`${set} timers were set for at least ${rounds * CONNECTIONS * calls} calls.`)
    })
  }
}

/** What waits, and how it comes to that. */
const states = {
  stream: { name: 'parked event stream', endpoint: {}, options: {} },
  silent: {
    name: 'slow JSON, nothing sent yet',
    endpoint: JSON_ENDPOINT,
    options: { upgradeAfter: 3_600_000 }
  },
  upgraded: {
    name: 'slow JSON, given an event stream',
    endpoint: JSON_ENDPOINT,
    options: { upgradeAfter: 20 }
  },
  white: {
    name: 'slow JSON, given white space',
    endpoint: JSON_ENDPOINT,
    // Not oftener: each space is a write, and thousands wait.
    options: { jsonKeepAlive: 1000 },
    onlyJson: true
  }
}
/** Calls that wait already when the weighing begins. */
const WARM_UP = 200

async function measureWaiting({ load, wanted, rounds }) {
  const calls = Math.min(wanted, mostSockets() - WARM_UP)
  printTitle(`    ${calls} calls that wait for their endpoint`, [''])
  if (calls < wanted) printNote(`Open files are limited: not ${wanted}.`)
  const held = {}
  for (let round = 0; round < rounds; round++) {
    for (const [state, plan] of Object.entries(states)) {
      const weights = await weigh({ load, calls, plan })
      for (const [name, weight] of Object.entries(weights))
        ((held[state] ??= {})[name] ??= []).push(weight)
    }
  }
  for (const [state, { name }] of Object.entries(states)) {
    const { connected, gone, timers } = held[state]
    if (state === 'stream') {
      printRow(`${name}, heap`, { of: connected, bytes: true })
      printRow(`${name}, client gone`, { of: gone, bytes: true })
    } else {
      const toStream = (weights, of) => weights.map((weight, i) => weight / held.stream[of][i])
      printRow(`${name}: to that`, { of: toStream(connected, 'connected'), atMost: 1 })
      if (state === 'upgraded')
        printRow(`${name}, client gone`, { of: toStream(gone, 'gone'), atMost: 1 })
    }
    printRow(`${name}, timers for each call`, {
      of: timers,
      ...(state !== 'stream' && { atMost: 0.01 })
    })
  }
}

/** What each call adds to a process in which some wait already, and the timers that it sets. */
async function weigh({ load, calls, plan: { endpoint, options, onlyJson } }) {
  const weights = {}
  const variant = {
    endpoint: 'raw',
    ...endpoint,
    variant: 'ours',
    streams: options,
    countTimers: true
  }
  await withServers([variant], async ([server]) => {
    const { port } = server
    const isSilent = options.upgradeAfter > 1000
    const wait = async count => {
      await load.call('wait', { port, calls: count, onlyJson, isSilent })
      while ((await server.call('parked')) < count) await sleep(10)
    }
    await wait(WARM_UP)
    const before = (await server.call('memory')).heap
    const timersBefore = await server.call('timers')
    const perCall = async () => ((await server.call('memory')).heap - before) / calls
    await wait(calls)
    weights.connected = await perCall()
    weights.timers = ((await server.call('timers')).pending - timersBefore.pending) / calls
    await load.call('leave')
    while ((await server.call('connections')) > 0) await sleep(10)
    weights.gone = await perCall()
  })
  return weights
}
