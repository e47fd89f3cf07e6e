// The arithmetic of waiting.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { leastDelay, retryAfterOf, retryDelay } from '../../../lib/client/retrying.js'
import { within } from '../../../lib/client/waiting.js'

afterEach(() => {
  jest.restoreAllMocks()
})

const TIMES = { minTimeout: 500, maxTimeout: 30_000, timeoutFactor: 2 }

describe('the delay before an attempt', () => {
  // attempt, the stream's `retry`, `Retry-After`, and the delay without and with the whole of the
  // jitter
  it.each<[number, number | undefined, number | undefined, number, number]>([
    // Without a word of the server it grows.
    [1, undefined, undefined, 500, 625],
    [2, undefined, undefined, 1000, 1250],
    [3, undefined, undefined, 2000, 2500],
    [6, undefined, undefined, 16_000, 20_000],
    [7, undefined, undefined, 30_000, 30_000],
    [5000, undefined, undefined, 30_000, 30_000],
    // The reconnection time is kept to the millisecond, once; then it is the least.
    [1, 3000, undefined, 3000, 3000],
    [1, 0, undefined, 0, 0],
    [2, 3000, undefined, 3000, 3750],
    [2, 0, undefined, 1000, 1250],
    [4, 3000, undefined, 4000, 5000],
    // `Retry-After` goes before both.
    [1, 3000, 7000, 7000, 7000],
    [4, 3000, 0, 0, 0],
    // Nothing goes beyond `maxTimeout`.
    [1, 1e12, undefined, 30_000, 30_000],
    [2, 1e12, undefined, 30_000, 30_000],
    [1, Number('9'.repeat(400)), undefined, 30_000, 30_000],
    [1, undefined, 1e12, 30_000, 30_000]
  ])(
    'attempt %d, retry %p, Retry-After %p: %d to %d ms',
    (attempt, retry, retryAfter, least, most) => {
      const random = jest.spyOn(Math, 'random')
      random.mockReturnValue(0)
      expect(retryDelay(attempt, retry, retryAfter, TIMES)).toBe(least)
      random.mockReturnValue(1)
      expect(retryDelay(attempt, retry, retryAfter, TIMES)).toBe(most)
    }
  )

  it('differs from client to client', () => {
    const delays = Array.from({ length: 100 }, () => retryDelay(1, undefined, undefined, TIMES))
    expect(new Set(delays).size).toBeGreaterThan(50)
  })

  it('stays a finite number after thousands of attempts', () => {
    const times = { ...TIMES, minTimeout: 0 }
    expect(retryDelay(5000, undefined, undefined, times)).toBe(0)
    expect(retryDelay(1, undefined, undefined, { ...times, timeoutFactor: Infinity })).toBe(0)
    expect(leastDelay(0, 5000, times)).toBe(0)
  })

  it('stays the same with a factor of 1', () => {
    jest.spyOn(Math, 'random').mockReturnValue(0)
    const delays = [1, 2, 3, 100].map(attempt =>
      retryDelay(attempt, undefined, undefined, { ...TIMES, timeoutFactor: 1 })
    )
    expect(delays).toEqual([500, 500, 500, 500])
  })
})

describe('Retry-After', () => {
  it.each<[string, number | undefined]>([
    ['0', 0],
    ['120', 120_000],
    ['999999999999', 999_999_999_999_000],
    ['', undefined],
    ['-1', undefined],
    ['1.5', undefined],
    ['soon', undefined],
    ['1e3', undefined],
    ['Wed, 21 Oct 2015 07:28:00 GMT', undefined],
    ['Fri, 01 Jan 2027 00:00:10 GMT', 10_000]
  ])('%j is %p ms', (value, delay) => {
    jest.spyOn(Date, 'now').mockReturnValue(Date.UTC(2027, 0, 1))
    expect(retryAfterOf(new Response(null, { headers: { 'Retry-After': value } }))).toBe(delay)
  })

  it('may be missing', () => {
    expect(retryAfterOf(new Response())).toBeUndefined()
  })
})

describe('the time limit of `within`', () => {
  it.each([0, 1, 2 ** 31 - 1, 2 ** 31, Infinity, null])(
    'of %p ms does nothing where the result is there already',
    async patience => {
      const giveUp = jest.fn()
      expect(await within(patience, Promise.resolve('there'), giveUp)).toBe('there')
      await new Promise(resolve => setTimeout(resolve, 5))
      expect(giveUp).not.toHaveBeenCalled()
    }
  )

  it.each([2 ** 31, Infinity, null])('of %p ms does not end at once', async patience => {
    const giveUp = jest.fn()
    await within(patience, new Promise(resolve => setTimeout(resolve, 20)), giveUp)
    expect(giveUp).not.toHaveBeenCalled()
  })

  it('calls back once when it ends', async () => {
    const giveUp = jest.fn()
    let fail!: (error: Error) => void
    const work = new Promise((_resolve, reject) => (fail = reject))
    giveUp.mockImplementation(() => fail(new Error('given up')))
    await expect(within(5, work, giveUp)).rejects.toThrow('given up')
    expect(giveUp).toHaveBeenCalledTimes(1)
  })
})
