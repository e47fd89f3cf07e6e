// A slow JSON answer under the official clients with `resumableFetch`, cut at every byte.

import { expect, it } from '@jest/globals'
import type { CutBy, Plan } from '../../helpers/cut-proxy.js'
import {
  keyIn,
  run,
  type Setup,
  V1,
  V1_JUNE,
  V1_STATELESS,
  V2,
  V2_MODERN
} from '../../features/client/setups.js'

const KINDS: CutBy[] = ['fin', 'rst', 'fin', 'rst', 'silence']
const AT_ONCE = 12
/** Milliseconds of silence after which a client gives a connection up. */
const IDLE = 100

/** The key names the byte behind which a call's own response is cut; whatever comes back passes. */
function planned(): Plan {
  const seen = new Set<string>()
  return ({ message }) => {
    const key = keyIn(message)
    if (key === undefined || seen.has(key)) return undefined
    seen.add(key)
    return { by: KINDS[Number(key) % KINDS.length]!, afterBytes: Number(key) }
  }
}

// Setups of one revision have their shares of the bytes: together, every one.
it.each<[string, Setup, number, number]>([
  [V1_JUNE.name, V1_JUNE, 0, 1],
  [V1.name, V1, 0, 3],
  [V1_STATELESS.name, V1_STATELESS, 1, 3],
  [V2.name, V2, 2, 3],
  [V2_MODERN.name, V2_MODERN, 0, 1]
])('arrives, wherever it is cut: %s', async (_, setup, rest, of) => {
  const { proxy, call, log, connected } = await run(setup, {
    json: true,
    server: { upgradeAfter: 0 },
    client: { idleTimeout: IDLE }
  })
  const ask = (offset: number) => call(String(offset).padStart(5, '0'), { n: 0, paced: true })
  // The head has left before the answer.
  proxy.on('head', ({ message }) => {
    const key = keyIn(message)
    if (key !== undefined) log.release(key)
  })
  await ask(99_999)
  const uncut = proxy.passages.find(({ message }) => keyIn(message) !== undefined)!
  expect(uncut.events).toBeGreaterThanOrEqual(2)
  // Request ids grow by a digit or two on the way.
  const bytes = uncut.bytes.response + 4
  proxy.plan = planned()
  const offsets = Array.from({ length: bytes }, (_, offset) => offset).filter(
    offset => offset % of === rest
  )
  const waiting = offsets.values()
  const worker = async (): Promise<void> => {
    for (const offset of waiting)
      expect({ offset, ...(await ask(offset)) }).toEqual({
        offset,
        text: 'counted to 0',
        steps: []
      })
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  const cut = proxy.cuts.filter(({ message }) => keyIn(message) !== undefined)
  expect(cut.length).toBeGreaterThan(offsets.length - 5)
  expect(log.calls).toHaveLength(offsets.length + 1)
  expect(new Set(log.calls.map(({ key }) => key)).size).toBe(offsets.length + 1)
  expect(connected.errors).toEqual([])
})
