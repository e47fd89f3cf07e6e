// (a) What an event costs on its way through: events per second and server CPU per event, as ratios
// to the bare endpoint.

import { start } from './processes.js'
import { ratios, runRound, takeTurns, withServers } from './rounds.js'
import { printNote, printRow, printTitle } from './table.js'

const SIZES = [200, 4096]
const CONCURRENT = [1, 16, 64]

/** Events of 4 KB that fill the middleware's default `maxBytes`. */
const FILL = 64_000

const sdkVariants = ['ours', 'store']
const kinds = [
  {
    name: 'SDK stateless',
    endpoint: 'sdkStateless',
    variants: sdkVariants,
    perCall: 500,
    guess: 20_000
  },
  {
    name: 'SDK stateful',
    endpoint: 'sdkStateful',
    variants: sdkVariants,
    perCall: 500,
    guess: 20_000
  },
  { name: 'raw, until drain', endpoint: 'raw', pace: 'drain', perCall: 2000, guess: 150_000 },
  { name: 'raw, 20 in a tick', endpoint: 'raw', pace: 'bursts', perCall: 2000, guess: 150_000 },
  // Nothing to gather, so nothing to win: what is left is the price of keeping the event.
  {
    name: 'raw, one in a tick',
    endpoint: 'raw',
    pace: 'singly',
    perCall: 1000,
    guess: 60_000,
    sizes: [200]
  }
]

const labels = { ours: '', store: ': the SDK, its own store', bare: ': bare against bare' }

export async function measureEvents({ rounds, seconds, quick, only }) {
  printTitle('(a) an event on its way through, as a ratio to bare', ['events/s', 'CPU'])
  const load = await start('load.js')
  let loadCpu = 0
  let serverCpu = 0

  const measure = async (server, { concurrent, calls, count, size }) => {
    const round = await runRound(
      server,
      load,
      'events',
      { concurrent, calls, count, size },
      { forget: true }
    )
    if (server.variant === 'bare') {
      loadCpu += round.loadCpu
      serverCpu += round.cpu
    }
    const events = concurrent * calls * count
    return { ...round, rate: events / round.result, perEvent: round.cpu / events }
  }

  for (const {
    name,
    endpoint,
    pace,
    variants = ['ours'],
    perCall,
    guess,
    sizes = SIZES
  } of kinds) {
    if (!name.includes(only)) continue
    const started = ['bare', ...variants, 'bare'].map(variant => ({ endpoint, pace, variant }))
    await withServers(started, async servers => {
      if (endpoint === 'sdkStateful') {
        for (const { port } of servers)
          await load.call('openSessions', { port, count: Math.max(...CONCURRENT) })
      }
      for (const server of servers)
        await measure(server, { concurrent: 4, calls: 3, count: perCall, size: 200 })
      // From here on its buffer is full: an event then costs the room that must be made for it,
      // too.
      if (!quick)
        await measure(servers[1], {
          concurrent: 16,
          calls: Math.ceil(FILL / perCall / 16),
          count: perCall,
          size: 4096
        })

      for (const size of sizes) {
        for (const concurrent of CONCURRENT) {
          const count = concurrent === 64 ? perCall / 4 : perCall
          const plan = events => ({
            concurrent,
            calls: Math.max(1, Math.round(events / count / concurrent)),
            count,
            size
          })
          const { rate } = await measure(servers[0], plan(guess * seconds))
          // For comparison, in the middle of the table only: the SDK's own store; and a second bare
          // process, because how far apart two equals come out is what this machine cannot tell.
          const compared = concurrent === 16 ? servers : servers.slice(0, 2)
          const [bare, ...others] = await takeTurns(compared, rounds, server =>
            measure(server, plan(rate * seconds))
          )

          for (const [index, { variant }] of compared.slice(1).entries()) {
            const goal = variant === 'ours' ? [{ atLeast: 1 }, { atMost: 1 }] : []
            printRow(
              `${name}, ${size} B, ${concurrent}${labels[variant]}`,
              { of: ratios(others[index], bare, round => round.rate), ...goal[0] },
              { of: ratios(others[index], bare, round => round.perEvent), ...goal[1] }
            )
          }
        }
      }
    })
  }
  if (serverCpu > 0)
    printNote(
      `The load used ${(loadCpu / serverCpu).toFixed(2)} of the CPU time of the bare servers.`
    )
  await load.stop()
}
