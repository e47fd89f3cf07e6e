// What a disconnected stream may retain unsent: so many messages and bytes, for itself, for its
// session, for its owner (Security Considerations).

import { describe, expect, it } from '@jest/globals'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { ended, headersFor } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import {
  client,
  cutAfter,
  draftEndpoint,
  end,
  finish,
  INTERVAL,
  create,
  note,
  streamId,
  world,
  type World
} from './setup.js'

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

/** A client of its own, of an endpoint without sessions. */
async function owners(options: McpStreamsOptions) {
  const endpoint = draftEndpoint(({ open }) => open(), { stateless: true })
  const served = await serve(endpoint, { retry: 10, ...options })
  const as = (auth?: string, session?: string) =>
    client(served.url, headersFor({ version: '2025-11-25', auth, session }))
  return { ...served, endpoint, as }
}

describe('of one stream', () => {
  it('messages: what the endpoint writes beyond them fails the stream, and its client is told', async () => {
    const errors: unknown[] = []
    const w = await world(({ open }) => open(), {
      maxUnsent: { stream: { messages: 10 } },
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
    const w = await world(({ open }) => open(), { maxUnsent: { stream: { messages: 10 } } })
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
    const w = await world(({ open }) => open(), { maxUnsent: { stream: { bytes: 5000 } } })
    await cutAfter(1, await w.call(), w)
    expect(fill(w, 0, 900)).toBe(6)
    expect(w.streams.stats().live).toBe(0)
  })
})

describe.each([
  [
    'session',
    (w: Awaited<ReturnType<typeof owners>>) =>
      [w.as('me', 's'), w.as('me', 's'), w.as('me', 't')] as const
  ],
  [
    'owner',
    (w: Awaited<ReturnType<typeof owners>>) =>
      [w.as('me', 's'), w.as('me', 't'), w.as('you', 's')] as const
  ]
])('of one %s', (whose, clients) => {
  it.each([
    ['messages', { messages: 10 }, 0],
    ['bytes', { bytes: 10_000 }, 900]
  ])('%s: counted over all its streams, and no others', async (_what, limit, size) => {
    const w = await owners({ maxUnsent: { [whose]: limit } })
    const [one, two, other] = clients(w)
    for (const [i, each] of [one, two, other].entries()) {
      const response = await each.call()
      expect(await w.endpoint.calls.nth(i + 1)).toBeDefined()
      await response.next()
      await cutAfter(0, response, w)
    }
    const first = w.endpoint.own[0]!
    for (let n = 1; n <= 4; n++) expect(first.emit(note(n, size))).toBe(true)
    const written = fill(w, 1, size)
    expect(written).toBeGreaterThanOrEqual(6)
    expect(written).toBeLessThanOrEqual(7)
    expect(w.streams.stats()).toMatchObject({ live: 2 })
    // Another's are not counted with them.
    expect(fill(w, 2, size)).toBeGreaterThanOrEqual(10)
    expect(w.streams.stats()).toMatchObject({ live: 1 })
    expect(first.emit(note(5))).toBe(false)
    expect(w.streams.stats()).toMatchObject({ live: 0 })
  })

  it('does not stop a stream that is being read', async () => {
    const w = await owners({ maxUnsent: { [whose]: { messages: 10 } } })
    const [one, two] = clients(w)
    const parked = await one.call()
    await parked.next()
    await cutAfter(0, parked, w)
    const read = await two.call()
    await w.endpoint.calls.nth(2)
    fill(w, 0)
    for (let n = 1; n <= 50; n++) expect(w.endpoint.own[1]!.emit(note(n))).toBe(true)
    finish(w.endpoint, 1)
    await read.ended
    expect(read.messages()).toHaveLength(51)
  })

  it('has room again when they are read, or gone', async () => {
    const w = await owners({ maxUnsent: { [whose]: { messages: 10 } } })
    const [one, two] = clients(w)
    const parked = await one.call()
    await parked.next()
    await cutAfter(0, parked, w)
    for (let n = 1; n <= 9; n++) expect(w.endpoint.own[0]!.emit(note(n))).toBe(true)
    const id = streamId(parked)
    const second = await two.call()
    await second.next()
    await cutAfter(0, second, w)
    const call = w.endpoint.own[1]!
    // With the tenth they have what they may.
    expect(call.emit(note(1))).toBe(true)
    const resumed = await one.ask('stream/resume', { streamId: id, cursor: 0 })
    for (let n = 0; n < 9; n++) await resumed.nextMessage()
    expect(call.emit(note(2))).toBe(true)
  })
})

it('of nobody in particular, strangers do not share a limit', async () => {
  const w = await owners({ maxUnsent: { owner: { messages: 3 } } })
  for (let i = 0; i < 3; i++) {
    const response = await w.as().call()
    await response.next()
    await cutAfter(0, response, w)
  }
  for (const call of w.endpoint.own)
    for (let n = 0; n < 5; n++) expect(call.emit(note(n))).toBe(true)
})

it('never keeps the beginning and the end of a stream from its client', async () => {
  const w = await world(({ open }) => open(), {
    maxUnsent: { stream: { messages: 1 }, session: { messages: 1 } }
  })
  const id = await cutAfter(1, await w.call(), w)
  w.endpoint.own[0]!.emit(note(1))
  finish(w.endpoint)
  const resumed = await ended(w.ask('stream/resume', { streamId: id, cursor: 0 }, { id: null }))
  expect(resumed.messages()).toEqual([create(id, INTERVAL), note(1), OVERFLOW, end(id)])
})
