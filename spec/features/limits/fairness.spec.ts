// When one owner takes all that there is: what others have stays, and what others begin is kept as
// ever.

import { describe, expect, it } from '@jest/globals'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { del, headersFor } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { call, gist, isEvent, leave, note, resume, turn } from './setup.js'

const MAX_STREAMS = 18

async function world(options: Parameters<typeof serve>[1] = {}) {
  const endpoint = rawEndpoint(rawCall => rawCall.open(), { stateless: true })
  const served = await serve(endpoint, { maxStreams: MAX_STREAMS, ...options })
  const { url, streams } = served
  let calls = 0
  const start = async (auth: string | undefined): Promise<[OpenStream, RawCall]> => {
    const response = await call(url, ++calls, headersFor({ auth }))
    return [response, await endpoint.calls.nth(calls)]
  }
  /** A call that has ended: delivered, or with a note that its client was not there for. */
  const ended = async (
    auth: string | undefined,
    { isDelivered = true, size = 0 } = {}
  ): Promise<OpenStream> => {
    const [response, rawCall] = await start(auth)
    rawCall.emit(note(1, size))
    await response.take(1, isEvent)
    if (!isDelivered) await leave(response, served)
    rawCall.result()
    if (isDelivered) await response.ended
    while (streams.stats().connections > 0) await turn()
    return response
  }
  /** What a client hears that comes back with nothing. */
  const heard = async (response: OpenStream, auth: string | undefined): Promise<unknown> => {
    const again = await resume(streamUrl(response, url), undefined, headersFor({ auth }))
    if (again.status !== 200) return again.status
    await again.ended
    return gist(again.messages()).length
  }
  return { ...served, start, ended, heard }
}

const ALL = 2

describe('what one owner has', () => {
  it.each([
    ['another', 'a'],
    ['nobody in particular', undefined]
  ])('is not evicted by streams of %s, read or not', async (_name, flooder) => {
    const { streams, ended, heard } = await world()
    const mine = [await ended('b'), await ended('b', { isDelivered: false })]
    const first = await ended(flooder)
    for (let n = 0; n < MAX_STREAMS; n++) await ended(flooder, { isDelivered: n % 2 === 0 })
    expect(await heard(mine[0]!, 'b')).toBe(ALL)
    expect(await heard(mine[1]!, 'b')).toBe(ALL)
    expect(await heard(first, flooder)).toBe(410)
    expect(streams.stats()).toMatchObject({ finished: MAX_STREAMS, evictions: 3 })
  })

  it('is not evicted by bytes of another', async () => {
    const maxBytes = 400_000
    const { streams, ended, heard } = await world({ maxBytes, maxStreams: 1000 })
    const mine = await ended('b', { size: 20_000 })
    for (let n = 0; n < 10; n++) await ended('a', { size: 100_000, isDelivered: n % 2 === 0 })
    expect(streams.stats().bytes).toBeLessThanOrEqual(maxBytes)
    expect(streams.stats().evictions).toBeGreaterThan(0)
    expect(await heard(mine, 'b')).toBe(ALL)
  })

  it('is not evicted for what of another runs, nor for what that writes', async () => {
    const { streams, start, ended, heard } = await world({ maxBytes: 400_000 })
    const mine = await ended('b')
    let kept = 0
    for (;;) {
      const [response, rawCall] = await start('a')
      if (response.headers.link === undefined) break
      rawCall.emit(note(1, 20_000))
      await response.take(1, isEvent)
      kept++
    }
    expect(kept).toBeLessThan(MAX_STREAMS)
    expect(streams.stats()).toMatchObject({ live: kept, finished: 1, refusals: 1, evictions: 0 })
    expect(await heard(mine, 'b')).toBe(ALL)
  })

  it('is remembered, however much of another has ended', async () => {
    const { url, start, heard } = await world()
    const cancelled = async (auth: string): Promise<OpenStream> => {
      const [response] = await start(auth)
      expect((await del(streamUrl(response, url), headersFor({ auth }))).status).toBe(204)
      await response.ended
      return response
    }
    const mine = await cancelled('b')
    const first = await cancelled('a')
    for (let n = 0; n < MAX_STREAMS; n++) await cancelled('a')
    expect(await heard(mine, 'b')).toBe(204)
    expect(await heard(first, 'a')).toBe(404)
  })
})

describe('running calls of one owner', () => {
  it('leave room for others; those beyond its share pass as they would without us', async () => {
    const { streams, start } = await world()
    const running: RawCall[] = []
    for (let n = 0; n < 2 * MAX_STREAMS; n++) {
      const [response, rawCall] = await start('a')
      if (response.headers.link !== undefined) running.push(rawCall)
      else rawCall.result()
    }
    expect(running).toHaveLength(16)
    expect(streams.stats()).toMatchObject({
      live: 16,
      refusals: 2 * MAX_STREAMS - 16,
      evictions: 0
    })
    const [theirs, theirCall] = await start('b')
    expect(theirs.headers).toHaveProperty('link')
    theirCall.result()
    await theirs.ended
    // With one of its own ended, the owner gets another.
    running[0]!.result()
    const [again] = await start('a')
    expect(again.headers).toHaveProperty('link')
    expect(streams.stats()).toMatchObject({ live: 16, finished: 2 })
  })
})
