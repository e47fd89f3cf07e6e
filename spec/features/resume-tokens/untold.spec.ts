// What is said while nobody listens: the newest notifications and all requests, within bounds.

import { describe, expect, it } from '@jest/globals'
import { PendingMessages } from '../../../lib/calls/pending-messages.js'

const told = (n: number, isRequest = false, size = 200_000) => {
  const message = { method: 'x', params: n, ...(isRequest && { id: n }) }
  return { message, text: 'x'.repeat(size) }
}

function untoldOf(most = Infinity) {
  let bytes = 0
  const grow = (more: number): boolean => {
    if (more > 0 && bytes + more > most) return false
    bytes += more
    return true
  }
  const pending = new PendingMessages(grow)
  return {
    pending,
    bytes: () => bytes,
    numbers: () => pending.take().map(({ message }) => message.params)
  }
}

describe('Untold', () => {
  it('gives all of it once, in order, and counts what it keeps', () => {
    const { pending, bytes, numbers } = untoldOf()
    for (const n of [1, 2, 3]) expect(pending.add(told(n, n === 2))).toBe(true)
    expect(bytes()).toBe(600_000)
    expect(numbers()).toEqual([1, 2, 3])
    expect(bytes()).toBe(0)
    expect(numbers()).toEqual([])
  })

  it.each([Infinity, 1_000_000])(
    'drops the oldest notifications for newer ones, never a request (room for %d)',
    most => {
      const { pending, bytes, numbers } = untoldOf(most)
      for (let n = 1; n <= 9; n++) expect(pending.add(told(n, n <= 2))).toBe(true)
      expect(bytes()).toBe(1_000_000)
      expect(numbers()).toEqual([1, 2, 7, 8, 9])
    }
  )

  it('says where there is no room for a request; a notification is dropped', () => {
    const { pending, numbers } = untoldOf()
    for (let n = 1; n <= 5; n++) expect(pending.add(told(n, true))).toBe(true)
    expect(pending.add(told(6))).toBe(true)
    expect(pending.add(told(7, true))).toBe(false)
    expect(numbers()).toEqual([1, 2, 3, 4, 5])
  })
})
