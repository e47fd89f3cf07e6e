// One timer for all that waits the same time.

import { afterEach, beforeEach, expect, it, jest } from '@jest/globals'
import { DueQueue, Waiting } from '../../../lib/streams/due-queue.js'
import { stopTheClock } from '../../features/limits/setup.js'

beforeEach(stopTheClock)
afterEach(() => {
  jest.useRealTimers()
})

it('tells each when its time is up, in their order, with one timer', () => {
  const queue = new DueQueue(100)
  const due: number[] = []
  const all = [0, 1, 2].map(n => new Waiting(() => due.push(n)))
  for (const waiting of all) {
    queue.add(waiting)
    jest.advanceTimersByTime(10)
  }
  expect(jest.getTimerCount()).toBe(1)
  all[1]!.stop()
  jest.advanceTimersByTime(70)
  expect(due).toEqual([0])
  jest.advanceTimersByTime(20)
  expect([due, queue.isEmpty, jest.getTimerCount()]).toEqual([[0, 2], true, 0])
})

it('keeps one timer, whatever waits begins anew or stops, and none once nothing waits', () => {
  const queue = new DueQueue(100)
  const due: number[] = []
  const [one, two] = [1, 2].map(n => new Waiting(() => due.push(n))) as [Waiting, Waiting]
  queue.add(one)
  const set = jest.spyOn(globalThis, 'setTimeout')
  jest.advanceTimersByTime(50)
  queue.add(one)
  expect(set).not.toHaveBeenCalled()
  queue.add(two)
  one.stop()
  expect(jest.getTimerCount()).toBe(1)
  two.stop()
  queue.add(one)
  expect(jest.getTimerCount()).toBe(1)
  jest.advanceTimersByTime(99)
  expect(due).toEqual([])
  jest.advanceTimersByTime(1)
  expect([due, jest.getTimerCount()]).toEqual([[1], 0])
  queue.add(two)
  two.stop()
  jest.advanceTimersByTime(100)
  expect([due, jest.getTimerCount()]).toEqual([[1], 0])
})

it('something that waits in one leaves another', () => {
  const [first, second] = [new DueQueue(100), new DueQueue(200)]
  const due: string[] = []
  const waiting = new Waiting(() => due.push('due'))
  first.add(waiting)
  second.add(waiting)
  expect(first.isEmpty).toBe(true)
  jest.advanceTimersByTime(199)
  expect(due).toEqual([])
  jest.advanceTimersByTime(1)
  expect(due).toEqual(['due'])
})

it('holds no timer once it is closed, whatever is added', () => {
  const queue = new DueQueue(100)
  queue.add(new Waiting(() => undefined))
  queue.close()
  queue.add(new Waiting(() => undefined))
  const other = new DueQueue(100)
  other.close()
  other.add(new Waiting(() => undefined))
  expect([jest.getTimerCount(), queue.isEmpty, other.isEmpty]).toEqual([0, true, true])
})

it('keeps the time of those that wait where a callback adds its own again', () => {
  const queue = new DueQueue(100)
  const due: [string, number][] = []
  const start = Date.now()
  const note = (name: string): void => void due.push([name, Date.now() - start])
  const again = new Waiting(() => {
    note('again')
    queue.add(again)
  })
  queue.add(again)
  jest.advanceTimersByTime(50)
  queue.add(new Waiting(() => note('other')))
  jest.advanceTimersByTime(150)
  expect(due).toEqual([
    ['again', 100],
    ['other', 150],
    ['again', 200]
  ])
  expect(jest.getTimerCount()).toBe(1)
})

it('tells the others when a callback throws', () => {
  const queue = new DueQueue(100)
  const due: number[] = []
  const fail = (): void => {
    throw new Error('of the callback')
  }
  queue.add(new Waiting(fail))
  queue.add(new Waiting(() => due.push(1)))
  expect(() => jest.advanceTimersByTime(100)).toThrow('of the callback')
  jest.advanceTimersByTime(1)
  expect([due, queue.isEmpty, jest.getTimerCount()]).toEqual([[1], true, 0])
})

it('with a delay of 0, tells one that is added again once for each timer', () => {
  const queue = new DueQueue(0)
  let due = 0
  const again = new Waiting(() => {
    due++
    if (due < 1000) queue.add(again)
  })
  queue.add(again)
  jest.advanceTimersByTime(2)
  expect(due).toBe(2)
  queue.close()
})
