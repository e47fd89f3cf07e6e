// (j) Several instances on one Redis: what calls pay whose clients stay, what those pay whose
// clients are elsewhere, and how soon a death is known. Redis and all instances share this machine.

import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from 'redis'
import { startRedis } from '../../examples/cluster/redis.js'
import { mostSockets, start } from './processes.js'
import { ratios, runRound, takeTurns, withServers } from './rounds.js'
import { median, printNote, printRow, printTitle } from './table.js'

const CONNECTIONS = 8
const PROCESSES = 3
/** Milliseconds: the default. */
const LEASE = 6000

export async function measureSeveral({ rounds, seconds, quick, only }) {
  const redis = await startRedis()
  if (redis === undefined) return printNote('(j) is left out: there is no redis-server here.')
  const client = await createClient({ url: redis.url }).connect()
  const load = await start('load.js')
  const clients = await start('several-load.js')
  const run = { redis: redis.url, client, load, clients, rounds, seconds, quick }
  const parts = { measureLocal, measureRelayed, measureParked, measureDeath }
  for (const [name, measure] of Object.entries(parts))
    if (name.toLowerCase().includes(only.toLowerCase())) await measure(run)
  await Promise.all([load.stop(), clients.stop()])
  client.destroy()
  redis.close()
}

const instance = (redis, more = {}) => ({ endpoint: 'raw', variant: 'ours', redis, ...more })

/** Commands that Redis has been given, but for the signs of life and what is asked of it here. */
async function commandsOf(client) {
  const text = await client.info('commandstats')
  const all = [...text.matchAll(/^cmdstat_(\w+):calls=(\d+)/gm)]
  return all.reduce((sum, [, name, calls]) => (name === 'info' ? sum : sum + Number(calls)), 0)
}

async function commandsASecond(client, seconds) {
  const before = await commandsOf(client)
  await sleep(seconds * 1000)
  return ((await commandsOf(client)) - before) / seconds
}

async function usedMemory(client) {
  return Number(/^used_memory:(\d+)/m.exec(await client.info('memory'))[1])
}

async function measureLocal({ redis, client, load, rounds, seconds }) {
  printTitle(`(j) small calls whose clients stay, as a ratio to no backplane`, ['calls/s', 'CPU'])
  const variants = [{}, { redis }, {}].map(more => ({ ...instance(undefined), ...more }))
  await withServers(variants, async servers => {
    const measure = (server, calls) =>
      runRound(server, load, 'calls', { concurrent: CONNECTIONS, calls })
    for (const server of servers) await measure(server, 300)
    const { rate } = (await measure(servers[0], 50)).result
    const calls = Math.ceil((rate * 2 * seconds) / CONNECTIONS)
    const perCall = []
    const [off, on, again] = await takeTurns(servers, rounds, async server => {
      const before = await commandsOf(client)
      const round = await measure(server, calls)
      if (server.redis) perCall.push(((await commandsOf(client)) - before) / (CONNECTIONS * calls))
      return round
    })
    const compare = (label, ours, atLeast) =>
      printRow(
        label,
        { of: ratios(ours, off, round => round.result.rate), atLeast },
        { of: ratios(ours, off, round => round.cpu) }
      )
    compare('with a backplane', on, 0.98)
    compare('without against without', again)
    printRow('commands per call, signs of life included', { of: perCall, atMost: 0.05 })
  })
}

async function measureRelayed({ redis, clients, rounds, quick }) {
  printTitle('    a small call of a session, one at a time, in ms', ['p50', 'p99'])
  const stateful = instance(redis, { endpoint: 'sdkStateful' })
  await withServers([stateful, stateful], async ([home, away]) => {
    await bothUp([home, away])
    const session = await clients.call('openSession', { port: home.port })
    const calls = quick ? 300 : 2000
    const trips = { local: [], relayed: [] }
    for (let round = 0; round <= rounds; round++)
      for (const [name, { port }] of Object.entries({ local: home, relayed: away })) {
        const trip = await clients.call('roundTrips', { port, session, calls })
        // The first round is for the compiler.
        if (round > 0) trips[name].push(trip)
      }
    const row = (label, of) => printRow(label, { of: of('p50') }, { of: of('p99') })
    row('at its own instance', name => trips.local.map(trip => trip[name]))
    row('at another instance', name => trips.relayed.map(trip => trip[name]))
    row('added by the way there and back', name =>
      trips.relayed.map((trip, i) => trip[name] - trips.local[i][name])
    )
  })
}

async function measureParked({ redis, client, clients, quick }) {
  const wanted = quick ? 300 : 3000
  // A connection at each end, and one that leaves.
  const calls = Math.min(wanted, Math.floor(mostSockets() / (2 * PROCESSES)))
  printTitle(`    ${PROCESSES * calls} parked calls, their clients at other instances`, [''])
  if (calls < wanted) printNote(`Open files are limited: ${calls} at each instance, not ${wanted}.`)
  const variants = Array.from({ length: PROCESSES }, () => instance(redis))
  await withServers(variants, async servers => {
    await bothUp(servers)
    const all = calls * PROCESSES
    const heap = async () => {
      const weights = await Promise.all(servers.map(server => server.call('memory')))
      return weights.reduce((sum, weight) => sum + weight.heap, 0)
    }
    const ports = servers.map(({ port }) => port)
    await clients.call('park', { ports, calls: 50 })
    const idle = await commandsASecond(client, 10)
    const before = { heap: await heap(), memory: await usedMemory(client) }
    const commands = await commandsOf(client)
    await clients.call('park', { ports, calls })
    printRow('commands to begin and to follow one', {
      of: [((await commandsOf(client)) - commands) / all]
    })
    printRow('memory of Redis for each', {
      of: [Math.max(0, (await usedMemory(client)) - before.memory) / all],
      bytes: true,
      atMost: 200
    })
    printRow('heap of both instances for each', {
      of: [((await heap()) - before.heap) / all],
      bytes: true
    })
    // Each says twice in this time that it is there, where it says so.
    const waiting = await commandsASecond(client, 30)
    printRow('commands a second while all of them wait', { of: [waiting] })
    printRow('commands a minute for each of them', {
      of: [(Math.max(0, waiting - idle) * 60) / all],
      atMost: 0.1
    })
    await clients.call('leave')
  })
}

async function measureDeath({ redis, clients, rounds, quick }) {
  printTitle('    from the death of an instance to the error, in seconds', [''])
  const took = []
  for (let round = 0; round < (quick ? 1 : Math.min(rounds, 3)); round++)
    await withServers([instance(redis), instance(redis)], async ([home, away]) => {
      await bothUp([home, away])
      // Who has been there for less than a lease judges nobody.
      await sleep(LEASE * 1.1)
      const told = clients.call('follow', { home: home.port, away: away.port })
      await clients.call('following')
      const at = performance.now()
      home.kill()
      await told
      took.push((performance.now() - at) / 1000)
    })
  printRow('a client that waits at another instance', { of: took, atMost: 12 })
  printNote(`The lease is ${LEASE / 1000} s. Median: ${median(took).toFixed(1)} s.`)
}

async function bothUp(servers) {
  for (const server of servers)
    while ((await server.call('stats')).backplane.up !== 1) await sleep(20)
}
