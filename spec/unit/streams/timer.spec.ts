// A timer that can be started over and stopped, and that keeps no process alive.

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { Timer } from '../../../lib/streams/timer.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

describe('a countdown', () => {
  let due: ReturnType<typeof jest.fn>
  let timer: Timer
  beforeEach(() => {
    due = jest.fn()
    timer = new Timer(due)
  })

  it('does nothing before it is started', () => {
    jest.advanceTimersByTime(1e9)
    expect(due).not.toHaveBeenCalled()
  })

  it('begins its time anew when it is refreshed, and only while it runs', () => {
    timer.refresh()
    expect(jest.getTimerCount()).toBe(0)
    timer.start(10)
    jest.advanceTimersByTime(9)
    timer.refresh()
    jest.advanceTimersByTime(9)
    expect(due).not.toHaveBeenCalled()
    jest.advanceTimersByTime(1)
    expect(due).toHaveBeenCalledTimes(1)
  })

  it('is due once, when its time is up', () => {
    timer.start(10)
    jest.advanceTimersByTime(9)
    expect(due).not.toHaveBeenCalled()
    jest.advanceTimersByTime(1)
    expect(due).toHaveBeenCalledTimes(1)
    jest.advanceTimersByTime(1e9)
    expect(due).toHaveBeenCalledTimes(1)
  })

  it('starts over: the earlier time does not count any more', () => {
    timer.start(10)
    jest.advanceTimersByTime(9)
    timer.start(10)
    jest.advanceTimersByTime(9)
    expect(due).not.toHaveBeenCalled()
    jest.advanceTimersByTime(1)
    expect(due).toHaveBeenCalledTimes(1)
  })

  it('stops, and may be stopped again, and started', () => {
    timer.start(10)
    timer.stop()
    timer.stop()
    jest.advanceTimersByTime(100)
    expect([due.mock.calls.length, jest.getTimerCount()]).toEqual([0, 0])
    timer.start(1)
    jest.advanceTimersByTime(1)
    expect(due).toHaveBeenCalledTimes(1)
  })

  it('may be started by what is due', () => {
    let n = 0
    const again = new Timer(() => {
      if (++n < 3) again.start(10)
    })
    again.start(10)
    jest.advanceTimersByTime(1000)
    expect(n).toBe(3)
  })

  it('takes longer times than timers do, without being due at once', () => {
    timer.start(2 ** 40)
    jest.advanceTimersByTime(2 ** 31 - 2)
    expect(due).not.toHaveBeenCalled()
    timer.stop()
  })

  it('keeps no process alive', () => {
    jest.useRealTimers()
    const set = jest.spyOn(globalThis, 'setTimeout')
    timer.start(60_000)
    expect((set.mock.results[0]!.value as NodeJS.Timeout).hasRef()).toBe(false)
    set.mockRestore()
    timer.stop()
  })
})
