// A stream holds so much and no more, however slowly its client reads: the endpoint waits, or the
// call fails explicitly.

import { describe, expect, it, jest } from '@jest/globals'
import { once } from 'node:events'
import { getDefaultHighWaterMark } from 'node:stream'
import { currentStream } from '../../../lib/index.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { gate } from '../../helpers/gate.js'
import { ended } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'
import {
  call,
  fill,
  gist,
  leave,
  note,
  resume,
  resumeAtEndpoint,
  stopTheClock,
  turn,
  upTo
} from './setup.js'

const MAX_STREAM_BYTES = 256 * 1024
const EVENT = 8 * 1024
/**
 * What a stream may hold: its limit, the event that reached it, and what else is in its first
 * segment, of which a part has been read, and in its last one, of which a part is empty.
 */
const MOST_HELD = MAX_STREAM_BYTES + EVENT + 2 * 64 * 1024
/**
 * What a connection holds besides: a response and its socket queue as much as Node lets them, which
 * is four times as much from Node 22 on.
 */
const MOST_QUEUED = 2 * getDefaultHighWaterMark(false) + 16 * 1024

/**
 * Answers calls named `flood` with so many notes, once `start` is open; waits for `drain` whenever
 * it is told to.
 */
function politeEndpoint(total: number) {
  const progress = { start: gate(), written: 0, done: gate() }
  const endpoint = rawEndpoint(
    async rawCall => {
      if (rawCall.message.id !== 'flood') return rawCall.result()
      rawCall.open()
      await progress.start.opened
      for (let n = 1; n <= total && !rawCall.isClosed; n++) {
        progress.written = n
        if (!rawCall.emit(note(n, EVENT)))
          await Promise.race([once(rawCall.res, 'drain'), rawCall.closed])
      }
      rawCall.result()
      progress.done.open()
    },
    { stateless: true }
  )
  return { endpoint, progress }
}

/**
 * Waits until an endpoint writes no more: so many other calls go through meanwhile that it would
 * have had its turn.
 */
async function untilItWaits(url: string, progress: { written: number }): Promise<void> {
  for (let before = -1; before !== progress.written;) {
    before = progress.written
    for (let i = 0; i < 10; i++) {
      const other = await ended(call(url, `other ${i}`))
      expect(gist(other.messages())).toEqual([[`other ${i}`, 'result']])
    }
  }
}

describe('an endpoint that waits for `drain`', () => {
  it('is not told to wait while the client is away: what comes beyond the limit fails its call, and the client gets the rest', async () => {
    const { endpoint, progress } = politeEndpoint(200)
    const served = await serve(endpoint, { maxStreamBytes: MAX_STREAM_BYTES })
    const response = await call(served.url, 'flood')
    await leave(response, served)
    progress.start.open()
    await progress.done.opened
    const kept = Math.ceil(MAX_STREAM_BYTES / (EVENT + 150))
    expect(progress.written).toBe(kept + 1)
    expect(served.streams.stats()).toMatchObject({ live: 0, connections: 0 })
    expect(served.streams.stats().bytes).toBeLessThan(MOST_HELD + MOST_QUEUED)

    const rest = await ended(resume(streamUrl(response, served.url)))
    expect(gist(rest.messages())).toEqual([...upTo(kept), ['flood', 'overflow']])
    expect((await resume(streamUrl(response, served.url), rest.blocks.at(-1)!.id)).status).toBe(204)
  })

  it('goes on some time after its client has left while it waits', async () => {
    const { endpoint, progress } = politeEndpoint(3000)
    stopTheClock()
    const served = await serve(endpoint, { maxStreamBytes: MAX_STREAM_BYTES })
    const response = await call(served.url, 'flood')
    response.pause()
    progress.start.open()
    await untilItWaits(served.url, progress)
    const written = progress.written
    await leave(response, served)
    await untilItWaits(served.url, progress)
    expect(progress.written).toBe(written)
    expect(served.streams.stats()).toMatchObject({ live: 1 })
    jest.advanceTimersByTime(10_000)
    await progress.done.opened
    expect(progress.written).toBeLessThan(written + MAX_STREAM_BYTES / EVENT + 2)
    expect(served.streams.stats()).toMatchObject({ live: 0 })
  })

  it('waits for a slow client that is disconnected, and comes back for everything', async () => {
    const total = 3000
    const { endpoint, progress } = politeEndpoint(total)
    let stream = currentStream()
    const served = await serve(
      ((req, res) => {
        stream ??= currentStream()
        endpoint(req, res)
      }) as typeof endpoint,
      { maxStreamBytes: MAX_STREAM_BYTES, retry: 1 }
    )
    const response = await call(served.url, 'flood', { prefer: 'rel=stream' })
    response.pause()
    progress.start.open()
    await untilItWaits(served.url, progress)
    stream!.disconnect()
    await untilItWaits(served.url, progress)
    expect(progress.written).toBeLessThan(total)
    response.resume()
    expect(await response.ended).toBe('end')
    const rest = await ended(resume(streamUrl(response, served.url), response.blocks.at(-1)!.id))
    const all = [...response.messages(), ...rest.messages()]
    expect(gist(all)).toEqual([...upTo(total), ['flood', 'result']])
    expect(rest.messages().length).toBeGreaterThan(1)
  })

  it('waits at its limit when nobody has ever read, and the client then gets everything', async () => {
    const total = 3000
    const { endpoint, progress } = politeEndpoint(total)
    const served = await serve(endpoint, { maxStreamBytes: MAX_STREAM_BYTES })
    const response = await call(served.url, 'flood')
    response.pause()
    progress.start.open()
    await untilItWaits(served.url, progress)
    expect(progress.written).toBeLessThan(total)
    expect(served.streams.stats().bytes).toBeLessThan(MOST_HELD + MOST_QUEUED)
    response.resume()
    await response.ended
    expect(gist(response.messages())).toEqual([...upTo(total), ['flood', 'result']])
    await progress.done.opened
  })

  it('is let go when its client cancels while it waits', async () => {
    const { endpoint, progress } = politeEndpoint(100_000)
    const served = await serve(endpoint, { maxStreamBytes: MAX_STREAM_BYTES })
    const response = await call(served.url, 'flood')
    response.pause()
    progress.start.open()
    await untilItWaits(served.url, progress)
    const gone = await fetch(streamUrl(response, served.url), { method: 'DELETE' })
    expect(gone.status).toBe(204)
    await progress.done.opened
    expect(served.streams.stats()).toMatchObject({ live: 0, bytes: expect.any(Number) })
    response.destroy()
  })
})

describe('an endpoint that does not wait', () => {
  it('fails its call: the client gets what was kept, and an error for its request', async () => {
    const errors: unknown[] = []
    const endpoint = rawEndpoint(rawCall => rawCall.open(), { stateless: true })
    const served = await serve(endpoint, {
      maxStreamBytes: MAX_STREAM_BYTES,
      onError: (error, { streamId }) => errors.push([(error as { code?: string }).code, streamId])
    })
    const response = await call(served.url, 'flood')
    const rawCall = await endpoint.calls.nth(1)
    await leave(response, served)
    const kept = fill(rawCall, EVENT) - 1
    expect(kept).toBe(Math.ceil(MAX_STREAM_BYTES / (EVENT + 150)))
    await rawCall.closed
    expect(errors).toEqual([['overflow', streamId(response)]])
    expect(served.streams.stats()).toMatchObject({ live: 0, finished: 1 })
    expect(served.streams.stats().bytes).toBeLessThan(MOST_HELD)
    for (const n of upTo(100)) expect(rawCall.emit(note(n, EVENT))).toBe(false)
    rawCall.result()

    const rest = await ended(resume(streamUrl(response, served.url)))
    expect(gist(rest.messages())).toEqual([...upTo(kept), ['flood', 'overflow']])
    expect(rest.messages().at(-1)).toMatchObject({
      jsonrpc: '2.0',
      error: { code: -31000, message: expect.any(String) }
    })
    const stock = await ended(resumeAtEndpoint(served.url, `${streamId(response)}.${kept}`))
    expect(gist(stock.messages())).toEqual([['flood', 'overflow']])
  })

  it('fails it also while a client is connected that does not read, and the client finds the error when it does', async () => {
    const endpoint = rawEndpoint(rawCall => rawCall.open(), { stateless: true })
    const served = await serve(endpoint, { maxStreamBytes: MAX_STREAM_BYTES })
    const response = await call(served.url, 'flood')
    const rawCall = await endpoint.calls.nth(1)
    response.pause()
    let written = 0
    while (!rawCall.isClosed) {
      rawCall.emit(note(++written, EVENT))
      expect(served.streams.stats().bytes).toBeLessThan(2 * MOST_HELD)
      if (written % 8 === 0) await turn()
    }
    response.resume()
    await response.ended
    const messages = gist(response.messages())
    expect(messages.at(-1)).toEqual(['flood', 'overflow'])
    expect(messages.slice(0, -1)).toEqual(upTo(messages.length - 1))
  })

  it.each([
    ['twice that at once, and waits then', 15, true],
    ['more at once', 50, false]
  ])('writes %s', async (_what, events, isKept) => {
    const endpoint = rawEndpoint(rawCall => rawCall.open(), { stateless: true })
    const served = await serve(endpoint, { maxStreamBytes: 10_000 })
    const response = await call(served.url, 1)
    const rawCall = await endpoint.calls.nth(1)
    const burst = upTo(events).map(n => `data: ${JSON.stringify(note(n, 1000))}\n\n`)
    expect(rawCall.write(burst.join(''))).toBe(false)
    if (isKept) await new Promise(resolve => rawCall.res.once('drain', resolve))
    rawCall.result()
    await response.ended
    const messages = gist(response.messages())
    expect(messages.slice(0, -1)).toEqual(upTo(isKept ? events : messages.length - 1))
    expect(messages.at(-1)).toEqual([1, isKept ? 'result' : 'overflow'])
    expect(messages.length).toBeLessThan(22)
  })

  it('writes more at once while its client is away, and no more than the limit is held', async () => {
    const endpoint = rawEndpoint(rawCall => rawCall.open(), { stateless: true })
    const served = await serve(endpoint, { maxStreamBytes: MAX_STREAM_BYTES })
    const response = await call(served.url, 1)
    const rawCall = await endpoint.calls.nth(1)
    await leave(response, served)
    const burst = upTo(500).map(n => `data: ${JSON.stringify(note(n, EVENT))}\n\n`)
    expect(rawCall.write(burst.join(''))).toBe(false)
    await rawCall.closed
    expect(served.streams.stats()).toMatchObject({ live: 0 })
    expect(served.streams.stats().bytes).toBeLessThan(MOST_HELD)
  })

  it('may write with its head what a connection can take: it is about to follow', async () => {
    const endpoint = rawEndpoint(
      rawCall => {
        rawCall.open()
        const kept = fill(rawCall, 1000)
        expect(kept).toBeGreaterThan(5)
        rawCall.res.once('drain', () => rawCall.result())
      },
      { stateless: true }
    )
    const served = await serve(endpoint, { maxStreamBytes: 10_000 })
    const response = await ended(call(served.url, 1))
    expect(gist(response.messages()).at(-1)).toEqual([1, 'result'])
  })

  it('fails its call with an event that is larger than all memory, in one write or in many', async () => {
    const endpoint = rawEndpoint(rawCall => rawCall.open(), { stateless: true })
    const served = await serve(endpoint, { maxBytes: 1024 * 1024 })
    const open = async (id: number): Promise<[OpenStream, RawCall]> => [
      await call(served.url, id),
      await endpoint.calls.nth(id)
    ]
    const piece = 'x'.repeat(64 * 1024)
    const [first, firstCall] = await open(1)
    expect(firstCall.emit(note(1, 2 * 1024 * 1024))).toBe(false)
    const [second, secondCall] = await open(2)
    secondCall.write('data: ')
    let pieces = 0
    while (secondCall.write(piece)) pieces++
    expect(pieces).toBe(15)
    for (const response of [first, second]) await response.ended
    expect([...gist(first.messages()), ...gist(second.messages())]).toEqual([
      [1, 'event-too-large'],
      [2, 'event-too-large']
    ])
    await Promise.all([firstCall.closed, secondCall.closed])
  })
})

describe('a client that hardly reads', () => {
  /** Reads that many bytes, and no more. */
  const sip = (response: OpenStream, bytes: number) =>
    response.response.read(bytes) as Buffer | null

  it('one byte at a time, or none at all: what is held stays within its bounds, and the others go on', async () => {
    const total = 3000
    const { endpoint, progress } = politeEndpoint(total)
    const served = await serve(endpoint, { maxStreamBytes: MAX_STREAM_BYTES })
    const memory = () => process.memoryUsage().external + process.memoryUsage().arrayBuffers
    const before = memory()
    const never = await call(served.url, 'flood')
    never.pause()
    const crawler = await call(served.url, 'flood')
    crawler.response.removeAllListeners('data')
    crawler.pause()
    progress.start.open()
    await untilItWaits(served.url, progress)
    let bytesHeld = 0
    let memoryHeld = 0
    let bytesRead = 0
    for (let i = 0; i < 3000; i++) {
      if (sip(crawler, 1) !== null) bytesRead++
      if (i % 100 > 0) continue
      const other = await ended(call(served.url, i))
      expect(gist(other.messages())).toEqual([[i, 'result']])
      bytesHeld = Math.max(bytesHeld, served.streams.stats().bytes)
      memoryHeld = Math.max(memoryHeld, memory() - before)
    }
    expect(bytesRead).toBeGreaterThan(2000)
    expect(progress.written).toBeLessThan(total)
    // 24 MB would have been written.
    expect(bytesHeld).toBeLessThan(2 * (MOST_HELD + MOST_QUEUED))
    expect(memoryHeld).toBeLessThan(8 * 1024 * 1024)
    expect(served.streams.stats()).toMatchObject({ live: 2 })
    never.destroy()
    crawler.destroy()
    for (const response of [never, crawler])
      await fetch(streamUrl(response, served.url), { method: 'DELETE' })
  })

  it('is told when its stream had to go meanwhile', async () => {
    const total = 1000
    const { endpoint, progress } = politeEndpoint(total)
    const served = await serve(endpoint, { maxStreamBytes: 16 * 1024 * 1024, maxStreams: 1 })
    const response = await call(served.url, 'flood')
    response.pause()
    progress.start.open()
    await progress.done.opened
    while (served.streams.stats().finished < 1) await turn()
    await ended(call(served.url, 'other'))
    expect(served.streams.stats()).toMatchObject({ finished: 1, evictions: 1 })
    response.resume()
    // Not a clean end: that would look like the whole.
    expect(await response.ended).not.toBe('end')
    const received = gist(response.messages())
    expect(received).toEqual(upTo(received.length))
    const late = await ended(
      resumeAtEndpoint(served.url, `${streamId(response)}.${received.length}`)
    )
    expect(gist(late.messages())).toEqual([['flood', 'stream-expired']])
  })
})
