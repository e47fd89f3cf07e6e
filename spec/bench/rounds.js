// Rounds that can be compared: variants take turns, each round in another order, and each is set
// against the bare one beside it.

import { cpus } from 'node:os'
import { start } from './processes.js'

/**
 * Starts a server per variant, each a process that runs `module`, runs `work` with them, and ends
 * them.
 */
export async function withServers(variants, work, module = 'server.js') {
  const servers = []
  try {
    for (const variant of variants) {
      const server = await start(module, variant)
      servers.push({ ...server, port: await server.call('port') })
    }
    await work(servers)
  } finally {
    await Promise.all(servers.map(server => server.stop()))
  }
}

/** Times of the rounds so far, in microseconds: what the machine did besides. */
const machine = { others: 0, wall: 0 }

/**
 * What other processes used of the machine during the rounds, in CPUs; `undefined` if there were
 * none.
 */
export const othersShare = () => (machine.wall > 0 ? machine.others / machine.wall : undefined)

/**
 * One round: the load does `method` with a server. Answers its `result`, and the server's `cpu` and
 * event-`loop` time, the
 * `loadCpu`, and the `wall` time, in microseconds; `others` is how many CPUs other processes kept
 * busy.
 */
export async function runRound(server, load, method, params, { forget } = {}) {
  await server.call('begin', { forget })
  const loadBefore = await load.call('cpu')
  const busyBefore = busyTime()
  const began = performance.now()
  const result = await load.call(method, { port: server.port, ...params })
  const wall = (performance.now() - began) * 1000
  const busy = busyTime() - busyBefore
  const { cpu, loop } = await server.call('end')
  const loadCpu = (await load.call('cpu')) - loadBefore
  const others = Math.max(0, busy - cpu - loadCpu)
  machine.others += others
  machine.wall += wall
  return { result, cpu, loop, loadCpu, wall, others: others / wall }
}

const busyTime = () =>
  1000 *
  cpus().reduce((sum, { times: { user, nice, sys, irq } }) => sum + user + nice + sys + irq, 0)

const DISTURBED = 0.3

/**
 * Measures every server `rounds` times, taking turns; answers a list of rounds for each. A round
 * that other processes have disturbed is repeated, and the quieter of the two counts; half as many
 * times as there are rounds, so that this ends.
 */
export async function takeTurns(servers, rounds, measure) {
  const results = servers.map(() => [])
  let repeats = (rounds * servers.length) / 2
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < servers.length; turn++) {
      const index = (turn + round) % servers.length
      let kept = await measure(servers[index])
      if (kept.others > DISTURBED && repeats-- > 0) {
        const again = await measure(servers[index])
        if (again.others < kept.others) kept = again
      }
      results[index].push(kept)
    }
  }
  return results
}

/**
 * The ratios of two series, round by round: what slows the machine for a while slows both, and
 * cancels.
 */
export function ratios(ours, bare, of) {
  return ours.map((round, index) => of(round) / of(bare[index]))
}
