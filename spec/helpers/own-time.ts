// Where no other process takes part, time passes only while this one runs: by a millisecond for
// each turn of its event loop, and faster while the loop has nothing to do, up to the next timer. A
// machine that is busy elsewhere makes nobody late, because server, client and proxy of a spec all
// live by these timers, and a spec that waits for seconds does not take them.

import { expect, jest } from '@jest/globals'
import { AsyncResource } from 'node:async_hooks'
import { performance } from 'node:perf_hooks'

const { testPath = '' } = expect.getState()
const isAlone = !/\/spec\/e2e\/(?!every-byte\/|sweeps\/)/.test(testPath)
// Milliseconds for a turn without work: what other threads do for us (files, zlib) is not seen.
const IDLE_STEP = 20

/** That of Jest's fake timers: `jest` itself may not be used between specs. */
interface Clock {
  tick(ms: number): void
}

const { clearInterval: clearRealInterval, setInterval: setRealInterval } = globalThis
let own: (typeof setTimeout & { clock: Clock }) | undefined
let ownDate: typeof Date | undefined
let hasFired = false
let last = performance.eventLoopUtilization()

/** Ends what a spec has done to time. */
export function resetTime(): void {
  // First, as a spy may stand in front of them.
  jest.restoreAllMocks()
  if (isRunning()) return
  jest.useRealTimers()
  if (!isAlone) return
  jest.useFakeTimers({
    doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate', 'clearImmediate', 'hrtime']
  })
  // In the async context of who set them, as Node's own timers are.
  for (const name of ['setTimeout', 'setInterval'] as const) {
    const set = globalThis[name] as (callback: () => void, ...rest: unknown[]) => unknown
    const bound: typeof set = (callback, ...rest) =>
      set(
        AsyncResource.bind((...args: []) => {
          hasFired = true
          callback(...args)
        }),
        ...rest
      )
    Object.assign(globalThis, { [name]: Object.assign(bound, set) })
  }
  own = globalThis.setTimeout as typeof own
  ownDate = Date
}

/** At the end of a file: what only waits for its time is not left open. */
export function passAnHour(): void {
  if (isRunning()) own?.clock.tick(3_600_000)
}

/** Ends time, at the end of a file. */
export function endTime(): void {
  clearRealInterval(turns)
}

function passTime(): void {
  if (own === undefined || !isRunning()) return
  const now = performance.eventLoopUtilization()
  const { idle } = performance.eventLoopUtilization(now, last)
  last = now
  const steps = idle > 0.5 && !readsFile() ? IDLE_STEP : 1
  hasFired = false
  for (let step = 0; step < steps && !hasFired; step++) own.clock.tick(1)
}

/** By the dates, as a spec may spy on timers. */
function isRunning(): boolean {
  return ownDate === Date
}

function readsFile(): boolean {
  return process.getActiveResourcesInfo().some(kind => /Req/.test(kind))
}

resetTime()
const turns = isAlone ? setRealInterval(passTime, 1) : undefined
// What takes minutes does not end by a limit, but by what it waits for.
if (testPath.includes('/spec/e2e/')) jest.setTimeout(600_000)
