// Where no other process takes part, time passes only while this one runs: by a millisecond at the
// most for each turn of its event loop. A machine that is busy elsewhere makes nobody late, because
// server, client and proxy of a spec all live by these timers.

import { expect, jest } from '@jest/globals'
import { AsyncResource } from 'node:async_hooks'

const { testPath = '' } = expect.getState()
const isAlone = !/\/spec\/e2e\/(?!every-byte\/)/.test(testPath)
let own: typeof setTimeout | undefined

/** Ends what a spec has done to time. */
export function resetTime(): void {
  // First, as a spy may stand in front of them.
  jest.restoreAllMocks()
  if (own !== undefined && globalThis.setTimeout === own) return
  jest.useRealTimers()
  if (!isAlone) return
  jest.useFakeTimers({
    advanceTimers: 1,
    doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate', 'clearImmediate', 'hrtime']
  })
  // In the async context of who set them, as Node's own timers are.
  for (const name of ['setTimeout', 'setInterval'] as const) {
    const set = globalThis[name] as (callback: () => void, ...rest: unknown[]) => unknown
    const bound: typeof set = (callback, ...rest) => set(AsyncResource.bind(callback), ...rest)
    Object.assign(globalThis, { [name]: Object.assign(bound, set) })
  }
  own = globalThis.setTimeout
}

resetTime()
// What takes minutes does not end by a limit, but by what it waits for.
if (testPath.includes('/spec/e2e/')) jest.setTimeout(600_000)
