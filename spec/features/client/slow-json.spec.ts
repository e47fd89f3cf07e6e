// A slow JSON answer under the official clients with `resumableFetch`: cut before its first byte,
// in its head, behind it, and in the answer. `spec/e2e/every-byte` cuts at every byte.

import { describe, expect, it } from '@jest/globals'
import { keyIn, run, type Setup, SETUPS, V1, V1_STATELESS, V2_MODERN } from './setups.js'

describe('a slow JSON answer', () => {
  it.each(SETUPS.map(setup => [setup.name, setup] as const))(
    'arrives, wherever it is cut: %s',
    async (_, setup) => {
      const running = await run(setup, { json: true, server: { upgradeAfter: 0 } })
      const { proxy, log, call, connected } = running
      // The head has left before the answer.
      proxy.on('head', ({ message }) => {
        const key = keyIn(message)
        if (key !== undefined) log.release(key)
      })
      const cuts = [
        { by: 'fin', afterBytes: 20 },
        { by: 'rst', afterEvents: 0 },
        { by: 'fin', afterEvents: 1 },
        { by: 'rst', afterEvents: 2 }
      ] as const
      for (const [i, cut] of cuts.entries()) {
        let isCut = false
        proxy.plan = ({ message }) => {
          if (isCut || keyIn(message) === undefined) return undefined
          isCut = true
          return cut
        }
        const result = await call(`${i}`, { n: 0, paced: true })
        expect({ cut, ...result }).toEqual({ cut, text: 'counted to 0', steps: [] })
        expect(log.executions(`${i}`)).toBe(1)
        await proxy.nthCut(i + 1)
      }
      expect(connected.errors).toEqual([])
    }
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
