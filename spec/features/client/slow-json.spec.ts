// A slow JSON answer under the official clients with `resumableFetch`: cut at every byte, and
// before its first one.

import { describe, expect, it } from '@jest/globals'
import type { CutBy, Plan } from '../../helpers/cut-proxy.js'
import {
  keyIn,
  run,
  type Running,
  type Setup,
  V1,
  V1_JUNE,
  V1_STATELESS,
  V2,
  V2_MODERN
} from './setups.js'

/** Silence takes the longest to be noticed, so there is little of it. */
const kindAt = (offset: number): CutBy =>
  offset % 23 === 22 ? 'silence' : offset % 2 === 0 ? 'fin' : 'rst'
const AT_ONCE = 12
/** Longer than a busy machine is silent by itself. */
const IDLE = 2_500

const server = { upgradeAfter: 0 }

/** The key names the byte behind which a call's own response is cut; whatever comes back passes. */
function planned(): Plan {
  const seen = new Set<string>()
  return ({ message }) => {
    const key = keyIn(message)
    if (key === undefined || seen.has(key)) return undefined
    seen.add(key)
    return { by: kindAt(Number(key)), afterBytes: Number(key) }
  }
}

async function callAtEveryByte(
  { proxy, call, log }: Running,
  rest: number,
  of: number
): Promise<void> {
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
}

describe('a slow JSON answer', () => {
  // Setups of one revision have their shares of the bytes: together, every one.
  it.each<[string, Setup, number, number]>([
    [V1_JUNE.name, V1_JUNE, 0, 1],
    [V1.name, V1, 0, 3],
    [V1_STATELESS.name, V1_STATELESS, 1, 3],
    [V2.name, V2, 2, 3],
    [V2_MODERN.name, V2_MODERN, 0, 1]
  ])(
    'arrives, wherever it is cut: %s',
    async (_, setup, rest, of) => {
      const running = await run(setup, { json: true, server, client: { idleTimeout: IDLE } })
      await callAtEveryByte(running, rest, of)
      expect(running.connected.errors).toEqual([])
    },
    120_000
  )

  it.each<[string, Setup, number]>([
    ['JSON in the end', V1, 60_000],
    ['an event stream in the end', V1, 150],
    ['an event stream in the end', V1_STATELESS, 150],
    ['an event stream in the end', V2_MODERN, 150]
  ])(
    'arrives, where the wire was cut while nothing had come of it: %s, %#',
    async (_, setup, upgradeAfter) => {
      const running = await run(setup, { json: true, server: { upgradeAfter } })
      const { proxy, log, call } = running
      const result = call('k', { n: 0, paced: true })
      await log.calls.nth(1)
      const posts = () => proxy.passages.filter(({ message }) => keyIn(message) === 'k')
      expect(posts()).toMatchObject([{ status: undefined, bytes: { response: 0 } }])
      proxy.cutNow('rst')
      while (posts().length < 2) await new Promise(resolve => proxy.once('request', resolve))
      if (upgradeAfter < 1_000)
        while (posts()[1]!.events < 1) await new Promise(resolve => setTimeout(resolve, 5))
      log.release('k')
      expect(await result).toEqual({ text: 'counted to 0', steps: [] })
      expect(log.executions('k')).toBe(1)
    }
  )
})
