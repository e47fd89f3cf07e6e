// The central test, second half: the official client with `resumableFetch`, cut at every byte of a call, never notices.
//
// Each byte of a call's request and of its response is cut once, by FIN, RST and silence in turn; every other connection that
// comes back is cut as well. Each call must give its result and all its steps, each once, in order, from one execution.

import { afterEach, describe, expect, it } from '@jest/globals'
import type { CutBy, Direction, Plan } from '../helpers/cut-proxy.js'
import { closeAll } from '../helpers/listen.js'
import { keyIn, run, type Running, type Setup } from './setups.js'

const KINDS: CutBy[] = ['fin', 'rst', 'silence']
const AT_ONCE = 12
/** Silence after which a connection is given up: longer than a busy machine is silent by itself, most of the time. */
const IDLE = 250

const keyOf = (direction: Direction, offset: number): string => `${direction} ${String(offset).padStart(5, '0')}`

/** Cuts the first request of each call where its key says, and every other reconnection somewhere. */
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
async function sizeOf({ proxy, call }: Running): Promise<Record<Direction, number>> {
  await call(keyOf('request', 99_999))
  return { ...proxy.passages.find(({ message }) => keyIn(message) !== undefined)!.bytes }
}

async function callAtEveryByte(running: Running, direction: Direction, json: boolean): Promise<void> {
  const { proxy, log, call } = running
  // Request ids grow by a digit or two on the way.
  const bytes = (await sizeOf(running))[direction] + 4
  expect(bytes).toBeGreaterThan(300)
  proxy.plan = planned()
  const offsets = Array.from({ length: bytes }, (_, offset) => offset).values()
  const worker = async (): Promise<void> => {
    for (const offset of offsets) {
      const key = keyOf(direction, offset)
      expect({ key, ...(await call(key)) }).toEqual({ key, text: 'counted to 2', steps: json ? [] : [1, 2] })
      expect({ key, executions: log.executions(key) }).toEqual({ key, executions: 1 })
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  const cutCalls = proxy.cuts.filter(({ message }) => keyIn(message) !== undefined)
  expect(cutCalls.length).toBeGreaterThan(bytes - 20)
  expect(log.calls.length).toBe(bytes + 1)
}

export function describeEveryByte(setup: Setup, kinds: ('sse' | 'json')[] = ['sse', 'json']): void {
  afterEach(closeAll)

  describe.each(kinds)(`${setup.name}, answered by %s`, kind => {
    const json = kind === 'json'

    it.each<Direction>(['request', 'response'])('never notices a cut in the %s', async direction => {
      const running = await run(setup, { json, client: { idleTimeout: IDLE } })
      await callAtEveryByte(running, direction, json)
      expect(running.connected.errors).toEqual([])
    }, 60_000)
  })
}
