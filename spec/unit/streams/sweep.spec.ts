// Looks at what ends by time, and the deadline of what is awaited.
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { Deadline, Sweep, sweepPeriod } from '../../../lib/streams/timer.js'

beforeEach(() => {
  jest.useFakeTimers()
})
afterEach(() => {
  jest.useRealTimers()
})

describe('a sweep', () => {
  it('looks again as long as something is left, and keeps no timer when nothing is', () => {
    let left = 3
    const sweep = new Sweep(100, () => --left > 0)
    expect(jest.getTimerCount()).toBe(0)
    sweep.start()
    jest.advanceTimersByTime(250)
    expect(left).toBe(1)
    jest.advanceTimersByTime(1000)
    expect([left, jest.getTimerCount()]).toEqual([0, 0])
  })

  it('has one timer, whatever begins meanwhile, and does not put its look off', () => {
    const look = jest.fn(() => false)
    const sweep = new Sweep(100, look)
    sweep.start()
    jest.advanceTimersByTime(99)
    sweep.start()
    expect(jest.getTimerCount()).toBe(1)
    jest.advanceTimersByTime(1)
    expect(look).toHaveBeenCalledTimes(1)
  })

  it('goes on with what begins while it looks', () => {
    let looks = 0
    const sweep = new Sweep(100, () => {
      if (++looks === 1) sweep.start()
      return false
    })
    sweep.start()
    jest.advanceTimersByTime(1000)
    expect([looks, jest.getTimerCount()]).toEqual([2, 0])
  })

  it('may be begun again once it was stopped, and not once it was closed', () => {
    const look = jest.fn(() => true)
    const sweep = new Sweep(100, look)
    sweep.start()
    sweep.stop()
    expect(jest.getTimerCount()).toBe(0)
    sweep.start()
    jest.advanceTimersByTime(100)
    expect(look).toHaveBeenCalledTimes(1)
    sweep.close()
    sweep.start()
    expect(jest.getTimerCount()).toBe(0)
  })

  it.each([
    [0, 1000],
    [4000, 1000],
    [40_000, 10_000],
    [Infinity, 30_000]
  ])('of what is kept for %d ms comes every %d ms', (lifetime, period) => {
    expect(sweepPeriod(lifetime)).toBe(period)
  })
})

describe('a deadline', () => {
  it('aborts when its time is over', () => {
    const { signal } = new Deadline(100)
    jest.advanceTimersByTime(99)
    expect(signal.aborted).toBe(false)
    jest.advanceTimersByTime(1)
    expect(signal.aborted).toBe(true)
  })

  it('leaves no timer behind once what it was for has come, or is not wanted', () => {
    const come = new Deadline(100)
    come.clear()
    expect(jest.getTimerCount()).toBe(0)
    const unwanted = new Deadline(100)
    unwanted.abort()
    expect([unwanted.signal.aborted, jest.getTimerCount()]).toEqual([true, 0])
    jest.advanceTimersByTime(1000)
    expect(come.signal.aborted).toBe(false)
  })
})
