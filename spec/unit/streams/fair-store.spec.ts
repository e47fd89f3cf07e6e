// What is kept within bounds: who has most makes room.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { FairStore } from '../../../lib/streams/fair-store.js'

afterEach(() => void jest.restoreAllMocks())

describe('a fair store', () => {
  const filled = (owners: Record<string, number>, maxSize: number) => {
    const evicted: string[] = []
    const store = new FairStore<{ size: number }>({
      maxSize,
      sizeOf: ({ size }) => size,
      onEvict: (_value, key) => evicted.push(key)
    })
    for (const [owner, count] of Object.entries(owners))
      for (let n = 0; n < count; n++) store.set(`${owner}${n}`, owner, { size: 1 })
    return { store, evicted }
  }

  it('makes room where most is, the least used first', () => {
    const { store, evicted } = filled({ a: 2, b: 8 }, 10)
    store.get('b0')
    store.set('c0', 'c', { size: 1 })
    expect(evicted).toEqual(['b1'])
    store.set('c1', 'c', { size: 3 })
    expect(evicted).toEqual(['b1', 'b2', 'b3', 'b4'])
    expect(['a0', 'a1', 'b0', 'c0', 'c1'].filter(key => store.get(key) === undefined)).toEqual([])
    expect([store.size, store.count]).toEqual([10, 8])
  })

  it('keeps nothing that is larger than all may be, and replaces what has the same key', () => {
    const { store, evicted } = filled({ a: 2 }, 4)
    expect(store.set('b', 'b', { size: 5 })).toBe(false)
    expect(store.set('a0', 'b', { size: 3 })).toBe(true)
    expect([store.size, store.count, evicted]).toEqual([4, 2, []])
    store.delete('a0')
    expect([store.size, store.count]).toEqual([1, 1])
  })

  it('finds who has most without a look at all: one owner more costs no more', () => {
    const { store } = filled(
      Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`o${n} `, 1])),
      5000
    )
    for (let n = 0; n < 20_000; n++) store.set(`x${n}`, 'x', { size: 1 })
    expect(store.size).toBe(5000)
    expect(store.get('o4999 0')).toBeDefined()
  }, 5000)
})

it('tells what was set or used lately, the latest first', () => {
  let time = 1000
  jest.spyOn(performance, 'now').mockImplementation(() => time)
  const store = new FairStore<object>({ maxSize: 10, ttl: 60_000, updateAgeOnGet: true })
  for (const key of ['a', 'b', 'c', 'd']) {
    time += 1000
    store.set(key, 'owner', { key })
  }
  time += 1000
  store.get('a')
  time += 1000
  expect([...store.since(2500)]).toEqual([
    ['a', { key: 'a' }],
    ['d', { key: 'd' }]
  ])
  expect([...store.since(500)]).toEqual([])
})

describe('an entry whose time is over', () => {
  it('is not found, however soon after another look', () => {
    let time = 1000
    jest.spyOn(performance, 'now').mockImplementation(() => time)
    const store = new FairStore<object>({ maxSize: 10, ttl: 60_000 })
    store.set('a', 'owner', {})
    time += 59_000
    expect(store.get('a')).toEqual({})
    time += 2000
    expect(store.get('a')).toBeUndefined()
    expect(store.count).toBe(0)
  })
})
