// The central test, second half: the official client with `resumableFetch`, cut at every byte of a
// call, never notices.
//
// Each byte of a call's request and of its response is cut once, by FIN, RST or silence in turn;
// every other connection that comes back is cut as well. Each call must give its result and all its
// steps, each once, in order, from one execution.

import { describe, expect, it } from '@jest/globals'
import type { CutBy, Direction, Plan } from '../../helpers/cut-proxy.js'
import { keyIn, run, type Running, type Setup } from '../../features/client/setups.js'

const KINDS: CutBy[] = ['fin', 'rst', 'fin', 'rst', 'silence']
const AT_ONCE = 16
/** Milliseconds of silence after which a connection is given up. */
const IDLE = 100

const keyOf = (direction: Direction, offset: number): string =>
  `${direction} ${String(offset).padStart(5, '0')}`

/**
 * Cuts the first request of each call where its key says, and every other reconnection somewhere.
 */
function planned(): Plan {
  const seen = new Set<string>()
  let reconnections = 0
  return ({ method, url, message }) => {
    const key = keyIn(message)
    if (key !== undefined && !seen.has(key)) {
      seen.add(key)
      const [direction, digits] = key.split(' ') as [Direction, string]
      return { by: KINDS[Number(digits) % KINDS.length]!, direction, afterBytes: Number(digits) }
    }
    if (method !== 'GET' || !url.includes('stream=') || reconnections++ % 2 === 0) return undefined
    return { by: KINDS[reconnections % KINDS.length]!, afterBytes: (reconnections * 37) % 900 }
  }
}

/** Bytes of an uncut call with such a key, request and response. */
async function sizeOf({ proxy, call }: Running, n: number): Promise<Record<Direction, number>> {
  await call(keyOf('request', 99_999), { n })
  return { ...proxy.passages.find(({ message }) => keyIn(message) !== undefined)!.bytes }
}

/** Which part of the offsets: those that leave `rest` when divided by `of`. */
export interface Share {
  rest: number
  of: number
}

async function callAtEveryByte(
  running: Running,
  direction: Direction,
  n: number,
  share: Share
): Promise<void> {
  const { proxy, log, call } = running
  // Request ids grow by a digit or two on the way.
  const bytes = (await sizeOf(running, n))[direction] + 4
  expect(bytes).toBeGreaterThan(250)
  proxy.plan = planned()
  const all = Array.from({ length: bytes }, (_, offset) => offset)
  const chosen = all.filter(offset => offset % share.of === share.rest)
  const offsets = chosen.values()
  const steps = Array.from({ length: n }, (_, i) => i + 1)
  const worker = async (): Promise<void> => {
    for (const offset of offsets) {
      const key = keyOf(direction, offset)
      expect({ key, ...(await call(key, { n })) }).toEqual({ key, text: `counted to ${n}`, steps })
      expect({ key, executions: log.executions(key) }).toEqual({ key, executions: 1 })
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  const cutCalls = proxy.cuts.filter(({ message }) => keyIn(message) !== undefined)
  expect(cutCalls.length).toBeGreaterThan(chosen.length - 20)
  expect(log.calls.length).toBe(chosen.length + 1)
}

export function describeEveryByte(setup: Setup, share: Share = { rest: 0, of: 1 }): void {
  describe.each(['sse', 'json'])(`${setup.name}, answered by %s`, kind => {
    const json = kind === 'json'

    it.each<Direction>(['request', 'response'])(
      'never notices a cut in the %s',
      async direction => {
        const running = await run(setup, { json, client: { idleTimeout: IDLE } })
        // An endpoint that has something to say before its result may not answer by JSON.
        await callAtEveryByte(running, direction, json ? 0 : 2, share)
        expect(running.connected.errors).toEqual([])
      }
    )
  })
}
