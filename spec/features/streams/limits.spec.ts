// What a disconnected stream may retain unsent: so many messages and bytes (Security
// Considerations).

import { describe, expect, it } from '@jest/globals'
import { ended } from '../../helpers/mcp.js'
import { create, cutAfter, end, finish, INTERVAL, note, world, type World } from './setup.js'

const OVERFLOW = {
  jsonrpc: '2.0',
  id: 'call',
  error: {
    code: -31000,
    message: 'The stream outgrew its buffer before a client read it',
    data: { reason: 'overflow' }
  }
}

/**
 * Writes notes until one is not taken, and has failed its stream. Returns how many were written.
 */
function fill({ endpoint }: Pick<World, 'endpoint'>, n: number, size = 0): number {
  let count = 1
  while (endpoint.own[n]!.emit(note(count, size)))
    if (++count > 10_000) throw new Error('there is no end')
  return count
}

describe('of one stream', () => {
  it('messages: what the endpoint writes beyond them fails the stream, and its client is told', async () => {
    const errors: unknown[] = []
    const w = await world(({ open }) => open(), {
      maxUnsent: { messages: 10 },
      onError: (error, context) =>
        errors.push([(error as { code?: string }).code, context.streamId])
    })
    const id = await cutAfter(1, await w.call(), w)
    expect(fill(w, 0)).toBe(11)
    expect(w.streams.stats()).toMatchObject({ live: 0, finished: 2 })
    expect(errors).toEqual([['overflow', id]])
    const resumed = await ended(w.ask('stream/resume', { streamId: id, cursor: 1 }, { id: null }))
    const messages = resumed.messages()
    expect(messages.slice(0, 10)).toEqual(Array.from({ length: 10 }, (_, i) => note(i + 1)))
    expect(messages.slice(10)).toEqual([OVERFLOW, end(id)])
  })

  it('messages: a client that comes back in time makes room, and the endpoint goes on', async () => {
    const w = await world(({ open }) => open(), { maxUnsent: { messages: 10 } })
    const id = await cutAfter(1, await w.call(), w)
    for (let n = 1; n <= 10; n++) expect(w.endpoint.own[0]!.emit(note(n))).toBe(true)
    const resumed = await w.ask('stream/resume', { streamId: id, cursor: 1 })
    for (let n = 1; n <= 10; n++) await resumed.nextMessage()
    expect(w.endpoint.own[0]!.emit(note(11))).toBe(true)
    finish(w.endpoint)
    await resumed.ended
    expect(resumed.messages()).toHaveLength(11 + 3)
  })

  it('bytes', async () => {
    const w = await world(({ open }) => open(), { maxUnsent: { bytes: 5000 } })
    await cutAfter(1, await w.call(), w)
    expect(fill(w, 0, 900)).toBe(6)
    expect(w.streams.stats().live).toBe(0)
  })
})

it('never keeps the beginning and the end of a stream from its client', async () => {
  const w = await world(({ open }) => open(), {
    maxUnsent: { messages: 1 }
  })
  const id = await cutAfter(1, await w.call(), w)
  w.endpoint.own[0]!.emit(note(1))
  finish(w.endpoint)
  const resumed = await ended(w.ask('stream/resume', { streamId: id, cursor: 0 }, { id: null }))
  expect(resumed.messages()).toEqual([create(id, INTERVAL), note(1), OVERFLOW, end(id)])
})
