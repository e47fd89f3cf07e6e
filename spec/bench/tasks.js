// (i) Tasks: what one holds while it waits, beside a stream that waits as long; what looking at
// many costs; and what calls pay that become none.

import { setTimeout as sleep } from 'node:timers/promises'
import { start } from './processes.js'
import { ratios, runRound, takeTurns, withServers } from './rounds.js'
import { median, printNote, printRow, printTitle } from './table.js'

const JSON_ENDPOINT = { enableJsonResponse: true }
const options = policy => ({
  tasks: { tools: { work: policy }, maxPerOwner: 100_000 },
  streams: { maxStreams: 100_000 }
})
/** Calls that wait already when the weighing begins. */
const WARM_UP = 200
const POLLED = 1_000
const CONNECTIONS = 8

export async function measureTasks({ rounds, seconds, quick, only }) {
  const load = await start('tasks-load.js')
  const streams = await start('load.js')
  const isChosen = name => name.includes(only)
  if (isChosen('memory'))
    await measureWaiting({ load, streams, rounds: Math.min(rounds, 3), calls: quick ? 500 : 2_000 })
  if (isChosen('looks')) await measureLooks({ load, rounds: Math.min(rounds, 3), quick })
  if (isChosen('calls')) await measureCalls({ load, rounds, seconds })
  await load.stop()
  await streams.stop()
}

/** What waits, and whose request it is. */
const states = {
  stream: { name: 'parked event stream, client gone', revision: '2026-07-28', endpoint: {} },
  events: { name: 'task over an event stream', revision: '2026-07-28', endpoint: {} },
  json: { name: 'task over JSON', revision: '2026-07-28', endpoint: JSON_ENDPOINT },
  core: { name: 'task of 2025-11-25', revision: '2025-11-25', endpoint: {} }
}

async function measureWaiting({ load, streams, rounds, calls }) {
  printTitle(`(i) memory of ${calls} tasks that wait for their endpoint`, [''])
  const held = {}
  for (let round = 0; round < rounds; round++)
    for (const [state, plan] of Object.entries(states))
      (held[state] ??= []).push(await weigh({ load, streams, calls, state, plan }))
  const stream = median(held.stream)
  for (const [state, { name }] of Object.entries(states)) {
    if (state === 'stream') printRow(name, { of: held.stream, bytes: true })
    else {
      const beyond = held[state].map(weight => weight - stream)
      printRow(`${name}: beyond that`, { of: beyond, bytes: true, atMost: 1024 })
    }
  }
}

/** What each call adds to a process in which some wait already. */
async function weigh({ load, streams, calls, state, plan: { revision, endpoint } }) {
  const variant = {
    endpoint: 'rawTools',
    ...endpoint,
    variant: 'ours',
    ...options('always')
  }
  let weight
  await withServers([variant], async ([server]) => {
    const { port } = server
    const wait = async count => {
      if (state === 'stream') await streams.call('wait', { port, calls: count })
      else await load.call('create', { port, calls: count, revision })
      await (state === 'stream' ? streams : load).call('leave')
      while ((await server.call('connections')) > 0) await sleep(10)
    }
    await wait(WARM_UP)
    const before = (await server.call('memory')).heap
    await wait(calls)
    while ((await server.call('parked')) < WARM_UP + calls) await sleep(10)
    weight = ((await server.call('memory')).heap - before) / calls
  })
  return weight
}

async function measureLooks({ load, rounds, quick }) {
  printTitle(`    ${POLLED} tasks, looked at once a second, the endpoint included`, ['cores'])
  const plan = { revision: '2026-07-28', seconds: quick ? 5 : 10 }
  const measure = async (variant, method) => {
    const cores = []
    await withServers(
      [{ endpoint: 'rawTools', ...JSON_ENDPOINT, ...variant }],
      async ([server]) => {
        const { port } = server
        await load.call('leave')
        if (!method.arePings) await load.call('create', { port, calls: POLLED, ...plan, ...method })
        // Once for whatever is compiled first.
        await load.call('poll', { port, ...plan, ...method, seconds: 1 })
        for (let round = 0; round < rounds; round++) {
          const { cpu, wall } = await runRound(server, load, 'poll', { ...plan, ...method })
          cores.push(cpu / wall)
        }
        await load.call('leave')
      }
    )
    return cores
  }
  const ours = { variant: 'ours', ...options('always') }
  printRow('as many pings of the bare endpoint', {
    of: await measure({ variant: 'bare' }, { arePings: true })
  })
  printRow('looks of one client', { of: await measure(ours, { clients: 1 }), atMost: 0.2 })
  const many = { clients: POLLED }
  printRow(`looks of ${POLLED} clients`, { of: await measure(ours, many), atMost: 0.2 })
  printNote('The endpoint says once in five seconds of each client whether it may look.')
}

async function measureCalls({ load, rounds, seconds }) {
  printTitle(`    small JSON calls that declare tasks, on ${CONNECTIONS} connections`, [
    'calls/s',
    'CPU'
  ])
  const variants = [
    { variant: 'bare' },
    { variant: 'ours' },
    { variant: 'ours', ...options('after') },
    { variant: 'bare' }
  ].map(variant => ({ endpoint: 'rawTools', ...JSON_ENDPOINT, ...variant }))
  await withServers(variants, async servers => {
    const measure = (server, calls) =>
      runRound(server, load, 'calls', { concurrent: CONNECTIONS, calls })
    for (const server of servers) await measure(server, 300)
    const { rate } = (await measure(servers[0], 50)).result
    const calls = Math.ceil((rate * 2 * seconds) / CONNECTIONS)
    const [bare, off, on, again] = await takeTurns(servers, rounds, server =>
      measure(server, calls)
    )
    const compare = (label, of, to, atLeast) =>
      printRow(
        label,
        { of: ratios(of, to, round => round.result.rate), atLeast },
        { of: ratios(of, to, round => round.cpu) }
      )
    compare('calls with tasks on, to tasks off', on, off, 0.97)
    // No goal: next to an endpoint that does nothing at all, everything is much.
    compare('calls with tasks off, to bare', off, bare)
    compare('calls, bare against bare', again, bare)
  })
}
