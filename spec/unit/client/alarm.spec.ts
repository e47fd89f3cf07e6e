// Timers of the client: they go by time that passes, not by the time of day.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { leastDelay } from '../../../lib/client/retrying.js'
import { alarm } from '../../../lib/client/waiting.js'
import { now } from '../../../lib/protocol/clock.js'

afterEach(() => {
  jest.useRealTimers()
  jest.restoreAllMocks()
})

describe('the time of day, set', () => {
  it.each([-3_600_000, 3_600_000])('by %d ms, makes no alarm late', by => {
    jest.useFakeTimers({ doNotFake: ['performance'] })
    const ring = jest.fn()
    alarm(20, ring)
    jest.setSystemTime(Date.now() + by)
    // One that was late would ring as long after again.
    jest.advanceTimersByTime(20)
    expect(ring).toHaveBeenCalledTimes(1)
  })

  it.each([-3_600_000, 3_600_000])('by %d ms, makes no wait longer or shorter', by => {
    const openedAt = now()
    const time = Date.now()
    jest.spyOn(performance, 'now').mockReturnValue(performance.now() + 10)
    jest.spyOn(Date, 'now').mockReturnValue(time + by)
    const times = { minTimeout: 10_000, maxTimeout: 30_000, timeoutFactor: 2 }
    const delay = leastDelay(openedAt, 0, times as never)
    expect(delay).toBeGreaterThan(900)
    expect(delay).toBeLessThanOrEqual(990)
  })
})
