// The wire is cut behind every byte of a call, in either direction, and again while the client comes back: no call notices.

import { afterEach, describe, expect, it } from '@jest/globals'
import type { CutBy, Direction } from '../helpers/cut-proxy.js'
import { closeAll } from '../helpers/listen.js'
import { connectWire, serveWires, SETUPS, type Setup } from './web-socket.js'

afterEach(closeAll)

const KINDS: CutBy[] = ['fin', 'rst']
const STEPS = [1, 2]
/** Silence after which a wire is given up: longer than a busy machine is silent by itself. */
const IDLE = 1200
/** Each of the setups tries every sixth byte, and not the same. */
const SHARES = SETUPS.length * 2
const AT_ONCE = 24

const kindOf = (offset: number): CutBy =>
  Math.floor(offset / SHARES) % 75 === 0 ? 'silence' : KINDS[offset % KINDS.length]!

/** Bytes that pass in a direction: of the upgrade, and from there to the end of one call. */
async function bytesOf(setup: Setup, direction: Direction): Promise<{ upgrade: number; all: number }> {
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

/** What comes of the call of a client whose first wire is cut at an offset, and whose second somewhere in what it replays. */
async function cutAt(setup: Setup, direction: Direction, offset: number) {
  const { url, proxy, log } = await serveWires(setup)
  proxy.plan = ({ index }) => {
    if (index === 0) return { by: kindOf(offset), direction, afterBytes: offset }
    return index === 1 ? { by: kindOf(offset + 1), afterBytes: 130 + ((offset * 37) % 900) } : undefined
  }
  const { call, errors } = await connectWire(setup, url, { idleTimeout: IDLE })
  const result = await call('count', { key: 'x', n: STEPS.length })
  return { offset, ...result, executions: log.executions('x'), errors: errors.map(String) }
}

describe.each(SETUPS)('over WebSocket, with the official SDK, %s', setup => {
  it.each<Direction>(['response', 'request'])(
    'a cut in the %s is never noticed',
    async direction => {
      const { upgrade, all } = await bytesOf(setup, direction)
      expect(all - upgrade).toBeGreaterThan(300)
      // A first wire that does not open is the caller's to hear of, as it is without us.
      const offsets = Array.from({ length: all - upgrade }, (_, i) => upgrade + i + 1)
      const chosen = offsets.filter(offset => offset % SHARES === SETUPS.indexOf(setup))
      for (let i = 0; i < chosen.length; i += AT_ONCE) {
        const outcomes = await Promise.all(chosen.slice(i, i + AT_ONCE).map(offset => cutAt(setup, direction, offset)))
        const wanted = { text: `counted to ${STEPS.length}`, steps: STEPS, executions: 1, errors: [] }
        for (const outcome of outcomes) expect(outcome).toEqual({ offset: outcome.offset, ...wanted })
        await closeAll()
      }
    },
    120_000
  )
})
