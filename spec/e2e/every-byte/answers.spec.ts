// The POST of the answers to what a tool asks, cut at every byte.

import { expect, it } from '@jest/globals'
import type { CutBy, Direction } from '../../helpers/cut-proxy.js'
import { booked, isAnswer, running } from '../../features/client/bookings.js'

const KINDS: CutBy[] = ['fin', 'rst']

it.each<Direction>(['request', 'response'])(
  'at every byte of the %s: each question is asked and answered once',
  async direction => {
    const { book, proxy, runs, asked } = await running()
    await book('measure')
    const sizes = proxy.passages.filter(isAnswer).map(({ bytes }) => bytes[direction])
    asked.length = 0
    const largest = Math.min(Math.max(...sizes), 2500)
    let offset = 0
    const turns = new Set<string>()
    // The POST of each turn is cut once.
    proxy.plan = request => {
      if (!isAnswer(request) || turns.has(request.url) || offset >= largest) return undefined
      turns.add(request.url)
      const afterBytes = offset++
      return { by: KINDS[afterBytes % 2]!, direction, afterBytes }
    }
    let n = 0
    while (offset < largest) {
      const keys = Array.from({ length: 8 }, () => `call ${n++}`)
      expect(await Promise.all(keys.map(book))).toEqual(keys.map(booked))
    }
    expect([...runs.values()].every(count => count === 1)).toBe(true)
    expect(new Set(asked).size).toBe(asked.length)
  }
)
