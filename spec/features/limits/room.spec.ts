// When there is no room: who makes way for whom, and that nobody who still needs a stream is robbed
// of it.

import { describe, expect, it } from '@jest/globals'
import { Awaitable } from '../../helpers/gate.js'
import { rawEndpoint, type RawCall, type RawEndpointOptions } from '../../helpers/endpoints/raw.js'
import { happenings } from '../../helpers/happenings.js'
import { del, get, initializeSession } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'
import { call, gist, isEvent, leave, note, resume, resumeAtEndpoint, turn, upTo } from './setup.js'

/** An endpoint whose calls are open until the spec ends them. */
function openCalls(options: RawEndpointOptions = { stateless: true }) {
  return rawEndpoint(rawCall => rawCall.open(), options)
}

async function world(options: Parameters<typeof serve>[1], endpointOptions?: RawEndpointOptions) {
  const endpoint = openCalls(endpointOptions)
  const served = await serve(endpoint, options)
  let calls = 0
  const start = async (headers?: Record<string, string>): Promise<[OpenStream, RawCall]> => {
    const response = await call(served.url, ++calls, headers)
    return [response, await endpoint.calls.nth(calls)]
  }
  /** A call that ended, with its client there or away. */
  const ended = async (isDelivered: boolean): Promise<OpenStream> => {
    const [response, rawCall] = await start()
    rawCall.emit(note(1))
    await response.take(1, isEvent)
    if (!isDelivered) await leave(response, served)
    rawCall.result()
    if (isDelivered) await response.ended
    while (served.streams.stats().connections > 0) await turn()
    return response
  }
  return { ...served, endpoint, start, ended }
}

describe('when there are too many streams', () => {
  it('those that were delivered go before those that were not, of each the one used longest ago', async () => {
    const { url, streams, start, ended } = await world({ maxStreams: 5 })
    const unread = [await ended(false), await ended(false)]
    const read = [await ended(true), await ended(true), await ended(true)]
    const name = (id: string | undefined) =>
      [...unread, ...read].map(streamId).indexOf(id ?? '') + 1
    const evicted = happenings('evicted')
    // A client asks for the oldest of each kind again, though without taking what was not
    // delivered.
    const again = await resume(streamUrl(read[0]!, url))
    await again.ended
    await (
      await resume(streamUrl(unread[0]!, url), `${streamId(unread[0]!)}.9`)
    ).ended
    while (streams.stats().connections > 0) await turn()

    for (let i = 1; i <= 5; i++) {
      await start()
      expect(streams.stats()).toMatchObject({ live: i, finished: 5 - i, evictions: i, refusals: 0 })
    }
    expect(evicted.map(({ streamId }) => name(streamId))).toEqual([4, 5, 3, 2, 1])
    expect((await resume(streamUrl(read[1]!, url))).status).toBe(410)
    expect((await resume(streamUrl(unread[1]!, url))).status).toBe(410)
    const stock = await resumeAtEndpoint(url, `${streamId(unread[1]!)}.1`)
    await stock.ended
    expect(gist(stock.messages())).toEqual([[2, 'stream-expired']])
  })

  it('and all of them run, a new response passes as it would without us, and is counted', async () => {
    const { streams, start, endpoint } = await world({ maxStreams: 2 })
    const refused = happenings('refused')
    const running = [await start(), await start()]
    const [response, rawCall] = await start()
    expect(response.headers).not.toHaveProperty('link')
    expect(response.headers['cache-control']).toBe('no-cache')
    rawCall.emit(note(1))
    rawCall.write(': as it is\r\n\r\n')
    rawCall.result()
    await response.ended
    expect(response.text).toBe(
      `event: message\ndata: ${JSON.stringify(note(1))}\n\n: as it is\r\n\r\n` +
        `event: message\ndata: {"jsonrpc":"2.0","id":3,"result":{}}\n\n`
    )
    expect(streams.stats()).toMatchObject({ live: 2, finished: 0, refusals: 1, evictions: 0 })
    expect(refused.map(({ reason }) => reason)).toEqual(['full'])

    // Its close is the socket's, as without us.
    const [lost, lostCall] = await start()
    lost.destroy()
    await lostCall.closed
    expect(streams.stats().refusals).toBe(2)

    // The running ones have not noticed.
    for (const [runningResponse, runningCall] of running) {
      runningCall.emit(note(1))
      await runningResponse.take(1, isEvent)
    }
    running[0]![1].result()
    await running[0]![0].ended
    const [taken] = await start()
    expect(taken.headers).toHaveProperty('link')
    expect(streams.stats()).toMatchObject({ live: 2, refusals: 2, evictions: 1 })
    expect(endpoint.calls).toHaveLength(5)
  })

  it('a parked listen channel with nothing to say gives way; its client opens a new one', async () => {
    const { url, streams, endpoint } = await world({ maxStreams: 2 }, { session: 'session' })
    const { headers } = await initializeSession(url, '2025-11-25')
    const listening = await get(url, headers)
    const channel = await endpoint.calls.nth(1)
    channel.emit(note(1))
    await listening.take(1, isEvent)
    await leave(listening, { streams })
    await call(url, 1, headers)
    await endpoint.calls.nth(2)
    expect(channel.isClosed).toBe(false)
    // One stream is the channel's, one the call's; what `initialize` was answered with has made way
    // already.
    expect(streams.stats()).toMatchObject({ live: 2, finished: 0 })
    const { evictions } = streams.stats()

    const second = await call(url, 2, headers)
    await channel.closed
    expect(second.headers).toHaveProperty('link')
    expect(streams.stats()).toMatchObject({ live: 2, evictions: evictions + 1, refusals: 0 })

    const again = await get(url, headers)
    const newChannel = await endpoint.calls.nth(4)
    expect(newChannel.req.method).toBe('GET')
    expect(again.headers).not.toHaveProperty('link')
    expect((await del(streamUrl(second, url), headers)).status).toBe(204)
  })

  it('a listen channel stays that is followed, or that has something to say', async () => {
    const { url, streams, endpoint } = await world({ maxStreams: 2 }, { session: 'session' })
    const { headers } = await initializeSession(url, '2025-11-25')
    const listening = await get(url, headers)
    const channel = await endpoint.calls.nth(1)
    const other = await call(url, 1, headers)
    expect((await call(url, 2, headers)).headers).not.toHaveProperty('link')
    await leave(listening, { streams })
    channel.emit(note(1))
    expect((await call(url, 3, headers)).headers).not.toHaveProperty('link')
    const again = await get(url, headers)
    await again.take(1, isEvent)
    expect(gist(again.messages())).toEqual([1])
    expect([channel.isClosed, streams.stats().refusals]).toEqual([false, 2])
    other.destroy()
  })
})

describe('when all streams together hold too much', () => {
  it('finished ones make room for running ones, and the limit holds at every moment', async () => {
    const maxBytes = 1024 * 1024
    const { url, streams, start } = await world({ maxBytes, maxStreamBytes: maxBytes })
    const old: OpenStream[] = []
    for (let i = 0; i < 20; i++) {
      const [response, rawCall] = await start()
      rawCall.emit(note(1, 100_000))
      rawCall.result()
      await response.ended
      old.push(response)
      expect(streams.stats().bytes).toBeLessThanOrEqual(maxBytes)
    }
    expect(streams.stats().finished).toBeLessThan(20)
    expect(streams.stats()).toMatchObject({ finished: 20 - streams.stats().evictions })
    const [response, rawCall] = await start()
    for (const n of upTo(8)) {
      rawCall.emit(note(n, 100_000))
      await response.take(1, isEvent)
      expect(streams.stats().bytes).toBeLessThanOrEqual(maxBytes)
    }
    rawCall.result()
    await response.ended
    expect(gist(response.messages())).toEqual([...upTo(8), [21, 'result']])
    expect((await resume(streamUrl(old[0]!, url))).status).toBe(410)
  })

  it('and all of them run, the one that needs more fails explicitly; the others and new ones are as they were', async () => {
    const maxBytes = 300_000
    const failures = new Awaitable<string>()
    const endpoint = openCalls()
    const { url, streams } = await serve(endpoint, {
      maxBytes,
      onError: error => failures.push((error as { code?: string }).code ?? '')
    })
    const greedy = await call(url, 'greedy')
    const greedyCall = await endpoint.calls.nth(1)
    const modest = await call(url, 'modest')
    const modestCall = await endpoint.calls.nth(2)
    await leave(greedy, { streams })
    expect(greedyCall.emit(note(1, 140_000))).toBe(true)
    expect(greedyCall.emit(note(2, 140_000))).toBe(true)
    expect(modestCall.emit(note(1, 50_000))).toBe(false)
    await modest.ended
    expect(gist(modest.messages())).toEqual([['modest', 'overflow']])
    expect(await failures.nth(1)).toBe('overflow')
    expect(streams.stats().bytes).toBeLessThanOrEqual(maxBytes + 1024)

    const small = await call(url, 'small')
    const smallCall = await endpoint.calls.nth(3)
    smallCall.result()
    await small.ended
    expect(gist(small.messages())).toEqual([['small', 'result']])

    const again = await resume(streamUrl(greedy, url))
    greedyCall.result()
    await again.ended
    expect(gist(again.messages())).toEqual([1, 2, ['greedy', 'result']])
  })
})
