// (f) A call that asks its client: handed off with `resumableFetch`, as a ratio to an open
// connection; and what it holds while it waits.

import { setTimeout as sleep } from 'node:timers/promises'
import { mostSockets, start } from './processes.js'
import { ratios, runRound, takeTurns, withServers } from './rounds.js'
import { median, printNote, printRow, printTitle } from './table.js'

const kinds = [
  { name: 'SDK stateful', endpoint: 'sdkAsking', hasSession: true },
  { name: 'raw', endpoint: 'rawAsking', hasSession: false }
]
const CONCURRENT = 16
const SESSIONS = 50
/** Calls that wait already when the weighing begins. */
const WARM_UP = 200

// Nobody waits for the sake of waiting: what is left is what a turn costs.
const streams = { retry: 0, resumeInterval: { min: 0 } }

export async function measureHandOff({ rounds, seconds, quick, only }) {
  const load = await start('asking-load.js')
  const chosen = kinds.filter(({ name }) => name.includes(only))
  await measureSpeed({ load, kinds: chosen, rounds, seconds })
  const calls = Math.min(quick ? 500 : 5_000, mostSockets() - WARM_UP)
  await measureWaiting({ load, kinds: chosen, rounds: Math.min(rounds, 3), calls })
  await load.stop()
}

async function measureSpeed({ load, kinds, rounds, seconds }) {
  printTitle('(f) a call that asks, handed off, as a ratio to an open connection', [
    'speed',
    'CPU',
    'client CPU'
  ])
  const times = []
  for (const { name, endpoint, hasSession } of kinds) {
    await withServers(
      ['bare', 'ours', 'bare'].map(variant => ({ endpoint, variant, streams })),
      async servers => {
        const run = (server, method, plan) =>
          runRound(server, load, method, {
            hasSession,
            handsOff: server.variant === 'ours',
            ...plan
          })
        const compare = (label, rounds, bare, speed) =>
          printRow(
            label,
            { of: ratios(rounds, bare, speed) },
            { of: ratios(rounds, bare, round => round.cpu) },
            { of: ratios(rounds, bare, round => round.loadCpu) }
          )
        for (const questions of [1, 2]) {
          const plan = calls => ({ concurrent: CONCURRENT, calls, questions })
          for (const server of servers) await run(server, 'calls', plan(20))
          const rate = (await run(servers[0], 'calls', plan(20))).result
          const calls = Math.max(5, Math.ceil((rate * 2 * seconds) / CONCURRENT))
          const [bare, ours, again] = await takeTurns(servers, rounds, server =>
            run(server, 'calls', plan(calls))
          )
          const label = `${name}, ${questions + 1} turns, calls/s`
          compare(label, ours, bare, round => round.result)
          if (questions === 1)
            compare(`${label}: bare against bare`, again, bare, round => round.result)
        }
        const plan = { calls: 50 }
        for (const server of servers) await run(server, 'answerTime', plan)
        const [bare, ours, again] = await takeTurns(servers, rounds, server =>
          run(server, 'answerTime', plan)
        )
        const inverse = round => 1 / round.result
        compare(`${name}, answer to next event`, ours, bare, inverse)
        compare(`${name}, answer to next event: bare again`, again, bare, inverse)
        const inMs = rounds => `${(median(rounds.map(round => round.result)) * 1000).toFixed(2)} ms`
        times.push(`${name}: ${inMs(ours)}, with an open connection ${inMs(bare)}`)
      }
    )
  }
  for (const time of times) printNote(`From the answer to the next event, ${time}.`)
}

async function measureWaiting({ load, kinds, rounds, calls }) {
  printTitle(`    ${calls} calls that wait for their client`, [''])
  for (const { name, endpoint, hasSession } of kinds) {
    const held = { ours: [], connected: [], gone: [] }
    const sockets = []
    for (let round = 0; round < rounds; round++) {
      await withServers([{ endpoint, variant: 'ours' }], async ([server]) => {
        const { wait, weigh, idle } = await scales(server, {
          load,
          calls,
          hasSession,
          handsOff: true
        })
        await wait()
        await idle()
        const { waiting, connections } = await server.call('stats')
        if (waiting !== calls + WARM_UP || connections !== 0)
          throw new Error(`${waiting} waiting, ${connections} connected`)
        sockets.push(await server.call('connections'))
        held.ours.push(await weigh())
        await load.call('answerAll', { port: server.port })
        const after = await server.call('stats')
        if (after.waiting !== WARM_UP) throw new Error(`${after.waiting} still waiting`)
      })
      await withServers([{ endpoint, variant: 'bare' }], async ([server]) => {
        const { wait, weigh, idle } = await scales(server, {
          load,
          calls,
          hasSession,
          handsOff: false
        })
        await wait()
        held.connected.push(await weigh())
        await load.call('leave')
        await idle()
        held.gone.push(await weigh())
      })
    }
    printRow(`${name}, sockets held`, { of: sockets, atMost: 0 })
    // The raw endpoint keeps its response, whoever is there; the SDK lets go of it where its client
    // leaves, so that there is nothing to set this against but a call whose connection is open.
    if (endpoint === 'rawAsking') {
      const own = median(held.gone)
      const share = held.ours.map(heap => heap - own)
      printRow(`${name}, heap beyond the endpoint's own`, { of: share, bytes: true, atMost: 8192 })
    }
    printRow(`${name}, heap, all of it`, { of: held.ours, bytes: true })
    printRow(`${name}, heap, bare and connected`, { of: held.connected, bytes: true })
  }
}

/** Weighs what calls add to a process that has some that wait already. */
async function scales(server, { load, calls, hasSession, handsOff }) {
  const { port } = server
  const sessions = hasSession ? await load.call('openSessions', { port, count: SESSIONS }) : []
  const wait = (count = calls) => load.call('wait', { port, calls: count, handsOff, sessions })
  const idle = async () => {
    while ((await server.call('connections')) > 0) await sleep(10)
  }
  await wait(WARM_UP)
  if (!handsOff) await load.call('leave')
  await idle()
  const before = (await server.call('memory')).heap
  return { wait, idle, weigh: async () => ((await server.call('memory')).heap - before) / calls }
}
