// The wire is cut behind every byte of a call, in either direction, and again while the client
// comes back: no call notices.

import { describe, expect, it } from '@jest/globals'
import type { CutBy, Direction } from '../../helpers/cut-proxy.js'
import { closeAll } from '../../helpers/listen.js'
import { connectWire, serveWires, SETUPS, type Setup } from '../../features/transport/web-socket.js'

const KINDS = ['fin', 'rst'] as const
const STEPS = [1, 2]
/** Milliseconds of silence after which a wire is given up. */
const IDLE = 200
/** Each of the setups tries every sixth byte, and not the same. */
const SHARES = SETUPS.length * 2
const AT_ONCE = 24
/** Silence takes its time: every so many bytes, and all at once. */
const SILENT_EVERY = 300

/** How the first wire is cut, and the second: each kind behind each. */
function kindsAt(offset: number): [CutBy, CutBy] {
  const n = Math.floor(offset / SHARES)
  return [KINDS[n % 2]!, KINDS[Math.floor(n / 2) % 2]!]
}

/** Bytes that pass in a direction: of the upgrade, and from there to the end of one call. */
async function bytesOf(
  setup: Setup,
  direction: Direction
): Promise<{ upgrade: number; all: number }> {
  const { url, proxy } = await serveWires(setup)
  let upgrade = 0
  const { call } = await connectWire(setup, url, {
    wrap: wire => {
      wire.socket.once('open', () => (upgrade = proxy.passages[0]!.bytes[direction]))
      return wire
    }
  })
  await call('count', { key: 'x', n: STEPS.length })
  const all = proxy.passages[0]!.bytes[direction]
  await closeAll()
  return { upgrade, all }
}

/**
 * Where a first wire may be cut. One that does not open is the caller's to hear of, as it is
 * without us.
 */
async function offsetsOf(setup: Setup, direction: Direction): Promise<number[]> {
  const { upgrade, all } = await bytesOf(setup, direction)
  expect(all - upgrade).toBeGreaterThan(300)
  return Array.from({ length: all - upgrade }, (_, i) => upgrade + i + 1)
}

interface Cutting {
  direction: Direction
  offset: number
  kinds: [CutBy, CutBy]
  idleTimeout: number | null
}

/**
 * What comes of the call of a client whose first wire is cut at an offset, and whose second
 * somewhere in what it replays.
 */
async function cutAt(setup: Setup, { direction, offset, kinds, idleTimeout }: Cutting) {
  const { url, proxy, log } = await serveWires(setup)
  proxy.plan = ({ index }) => {
    if (index === 0) return { by: kinds[0], direction, afterBytes: offset }
    return index === 1 ? { by: kinds[1], afterBytes: 130 + ((offset * 37) % 900) } : undefined
  }
  const { call, errors } = await connectWire(setup, url, { idleTimeout })
  const result = await call('count', { key: 'x', n: STEPS.length })
  return { offset, ...result, executions: log.executions('x'), errors: errors.map(String) }
}

const wanted = (offset: number) => ({
  offset,
  text: `counted to ${STEPS.length}`,
  steps: STEPS,
  executions: 1,
  errors: []
})

describe.each(SETUPS)('over WebSocket, with the official SDK, %s', setup => {
  it.each<Direction>(['response', 'request'])(
    'a cut in the %s is never noticed',
    async direction => {
      const offsets = await offsetsOf(setup, direction)
      const chosen = offsets.filter(offset => offset % SHARES === SETUPS.indexOf(setup))
      for (let i = 0; i < chosen.length; i += AT_ONCE) {
        const cuttings = chosen
          .slice(i, i + AT_ONCE)
          .map(offset => ({ direction, offset, kinds: kindsAt(offset), idleTimeout: null }))
        const outcomes = await Promise.all(cuttings.map(cutting => cutAt(setup, cutting)))
        for (const outcome of outcomes) expect(outcome).toEqual(wanted(outcome.offset))
        await closeAll()
      }
    }
  )
})

it('silence in either direction is never noticed', async () => {
  const cuttings: [Setup, Cutting][] = []
  for (const [share, setup] of SETUPS.entries())
    for (const direction of ['response', 'request'] as const) {
      const offsets = await offsetsOf(setup, direction)
      for (
        let i = 1 + (share * SILENT_EVERY) / SETUPS.length;
        i < offsets.length;
        i += SILENT_EVERY
      )
        cuttings.push([
          setup,
          { direction, offset: offsets[i]!, kinds: ['silence', 'silence'], idleTimeout: IDLE }
        ])
    }
  const outcomes = await Promise.all(cuttings.map(([setup, cutting]) => cutAt(setup, cutting)))
  for (const outcome of outcomes) expect(outcome).toEqual(wanted(outcome.offset))
})
