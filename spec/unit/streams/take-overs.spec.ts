// Readers that keep taking each other's place are told later and later, and come back no sooner.

import { afterEach, beforeEach, expect, it, jest } from '@jest/globals'
import { stopTheClock } from '../../features/limits/setup.js'
import { FakeReader, newTable, open } from './fakes.js'

beforeEach(stopTheClock)
afterEach(() => {
  jest.useRealTimers()
})

it('two clients that come back whenever they are ended are served ever more seldom, but never not at all', () => {
  const { stream } = open(newTable().table)
  const times: number[] = []
  class Client extends FakeReader {
    override takeOver(): void {
      setTimeout(come, 10)
    }
  }
  const come = () => {
    times.push(performance.now())
    stream.attach(new Client(), 0)
  }
  come()
  come()
  jest.advanceTimersByTime(60_000)
  expect(times.length).toBeGreaterThan(8)
  expect(times.length).toBeLessThan(20)
  jest.advanceTimersByTime(600_000)
  const gaps = times.slice(1).map((time, i) => time - times[i]!)
  expect(Math.max(...gaps)).toBeLessThan(31_000)
  expect(gaps.at(-1)).toBeGreaterThan(29_000)
  stream.cancel()
})

it('one that comes back seldom is followed at once, however often', () => {
  const { stream } = open(newTable().table)
  const readers = Array.from({ length: 50 }, () => new FakeReader())
  for (const reader of readers) {
    stream.attach(reader, 0)
    jest.advanceTimersByTime(6000)
  }
  const last = readers.pop()!
  expect(readers.every(({ takeOvers, waysGiven }) => takeOvers === 1 && waysGiven === 0)).toBe(true)
  expect(last.takeOvers).toBe(0)
})

it('five in a row are ended at once, and five again behind one that has lived for long', () => {
  const { stream } = open(newTable().table)
  const endedAtOnce = (): number => {
    const readers = Array.from({ length: 8 }, () => new FakeReader())
    for (const reader of readers) stream.attach(reader, 0)
    return readers.filter(({ takeOvers }) => takeOvers === 1).length
  }
  expect(endedAtOnce()).toBe(5)
  jest.advanceTimersByTime(60_000)
  // The first of the five is the one that has lived.
  expect(endedAtOnce()).toBe(4)
  stream.cancel()
})

it('a flood of them leaves a few at the most that wait for their end, and the end of the stream ends them', () => {
  const { stream } = open(newTable().table)
  const timers = jest.getTimerCount()
  const readers = Array.from({ length: 200 }, () => new FakeReader())
  for (const reader of readers) stream.attach(reader, 0)
  const waiting = () => readers.filter(({ waysGiven, takeOvers }) => waysGiven > takeOvers).length
  expect(waiting()).toBe(4)
  stream.cancel()
  expect(waiting()).toBe(0)
  expect(readers.map(({ takeOvers }) => takeOvers)).toEqual([...Array(199).fill(1), 0])
  expect(jest.getTimerCount()).toBe(timers)
})
