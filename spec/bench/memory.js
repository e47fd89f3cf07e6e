// (d) What a call in flight holds while its client is connected and after it has gone, and what an
// event in the buffer holds.

import { setTimeout as sleep } from 'node:timers/promises'
import { eventMaker } from './endpoints.js'
import { mostSockets, start } from './processes.js'
import { withServers } from './rounds.js'
import { median, printNote, printRow, printTitle } from './table.js'

const SIZE = 200
const EVENTS = 100_000
const EVENTS_PER_CALL = 1_000

/** The bytes of an event itself, as the endpoint writes it. */
const ownBytes = () => {
  const event = eventMaker(SIZE)
  let bytes = 0
  for (let sequence = 1; sequence <= EVENTS_PER_CALL; sequence++) bytes += event(sequence).length
  return bytes / EVENTS_PER_CALL
}

export async function measureMemory({ rounds, quick }) {
  printTitle('(d) memory of a call in flight, and of an event in the buffer', [''])
  const load = await start('load.js')
  const wanted = quick ? 500 : 10_000
  const calls = Math.min(wanted, mostSockets())
  if (calls < wanted) printNote(`Open files are limited: ${calls} calls in flight, not ${wanted}.`)

  const leave = async server => {
    await load.call('leave')
    while ((await server.call('connections')) > 0) await sleep(10)
  }

  /**
   * What each call adds to a process that has served some before: while its client is connected,
   * and when it has gone.
   */
  const weigh = async variant => {
    const weights = {}
    await withServers([variant], async ([server]) => {
      await load.call('park', { port: server.port, calls: 200, size: SIZE })
      await leave(server)
      const before = await server.call('memory')
      const perCall = async () => {
        const { heap, rss } = await server.call('memory')
        return { heap: (heap - before.heap) / calls, rss: (rss - before.rss) / calls }
      }
      await load.call('park', { port: server.port, calls, size: SIZE })
      weights.connected = await perCall()
      await leave(server)
      weights.gone = await perCall()
    })
    return weights
  }
  const weighAll = async (endpoint, rounds) => {
    const bare = []
    const ours = []
    for (let round = 0; round < rounds; round++) {
      bare.push(await weigh({ endpoint, variant: 'bare' }))
      ours.push(await weigh({ endpoint, variant: 'ours', streams: { maxStreams: 4 * calls } }))
    }
    return { bare, ours }
  }

  const sdk = await weighAll('sdkStateless', Math.min(3, rounds))
  for (const [kind, label] of [
    ['heap', 'heap'],
    ['rss', 'RSS']
  ]) {
    const toBare = (weights, state) =>
      weights.map((each, i) => each[state][kind] / sdk.bare[i].connected[kind])
    printRow(`${label}, bare, connected`, {
      of: sdk.bare.map(each => each.connected[kind]),
      bytes: true
    })
    printRow(`${label}, bare, client gone: to that`, { of: toBare(sdk.bare, 'gone') })
    printRow(`${label}, ours, connected: to that`, { of: toBare(sdk.ours, 'connected') })
    printRow(`${label}, ours, client gone: to that`, { of: toBare(sdk.ours, 'gone'), atMost: 0.6 })
  }

  // This endpoint holds its response and nothing else, in both variants: between them are the
  // stream, its log and its capture.
  const raw = await weighAll('raw', rounds)
  for (const [state, label, atMost] of [
    ['connected', 'connected', 5120],
    ['gone', 'client gone', 4096]
  ]) {
    const bare = median(raw.bare.map(each => each[state].heap))
    const share = raw.ours.map(each => each[state].heap - bare)
    printRow(`our share of the heap, ${label}`, { of: share, bytes: true, atMost })
  }

  const beyond = []
  for (let round = 0; round < rounds; round++) {
    await withServers([{ endpoint: 'raw', variant: 'ours' }], async ([server]) => {
      const plan = {
        port: server.port,
        concurrent: 10,
        calls: EVENTS / EVENTS_PER_CALL / 10,
        size: SIZE
      }
      await load.call('events', { ...plan, count: 10 })
      const before = await server.call('memory')
      await load.call('events', { ...plan, count: EVENTS_PER_CALL })
      const after = await server.call('memory')
      beyond.push((after.heap - before.heap) / EVENTS - ownBytes())
    })
  }
  printRow('an event in the buffer, beyond its own bytes', { of: beyond, bytes: true, atMost: 150 })
  await load.stop()
}
