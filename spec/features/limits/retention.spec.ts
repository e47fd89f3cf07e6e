// For how long events are kept, and what a client is told that comes later: never nothing.

import { beforeEach, describe, expect, it, jest } from '@jest/globals'
import { createCutProxy, type Cut } from '../../helpers/cut-proxy.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { get, headersFor, initializeSession } from '../../helpers/mcp.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'
import {
  call,
  gist,
  isEvent,
  leave,
  note,
  resume,
  resumeAtEndpoint,
  stopTheClock,
  upTo
} from './setup.js'

beforeEach(stopTheClock)
const WINDOW = 10_000
const LIFE = { min: 0, max: 60 }

/** A call that has written three notes, and its client. */
async function threeNotes(options = {}) {
  const endpoint = rawEndpoint(
    rawCall => {
      for (const n of upTo(3)) rawCall.emit(note(n))
    },
    { stateless: true }
  )
  const served = await serve(endpoint, { window: WINDOW, resumeInterval: LIFE, ...options })
  const response = await call(served.url, 'my call')
  await response.take(3, isEvent)
  const id = streamId(response)
  return {
    ...served,
    response,
    rawCall: await endpoint.calls.nth(1),
    id,
    link: streamUrl(response, served.url),
    endpoint
  }
}

describe('a call that has ended and was delivered', () => {
  const delivered = async () => {
    const world = await threeNotes()
    world.rawCall.result()
    await world.response.ended
    return world
  }

  it('can be read again within the window, from wherever', async () => {
    const { link, url, id } = await delivered()
    jest.advanceTimersByTime(WINDOW - 1)
    const all = await resume(link)
    await all.ended
    expect(gist(all.messages())).toEqual([1, 2, 3, ['my call', 'result']])
    const rest = await resumeAtEndpoint(url, `${id}.2`)
    await rest.ended
    expect(gist(rest.messages())).toEqual([3, ['my call', 'result']])
  })

  it('is gone after it: 410 on its URL, 204 for who has everything', async () => {
    const { link, id, streams } = await delivered()
    jest.advanceTimersByTime(1.5 * WINDOW)
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, bytes: 0, evictions: 0 })
    const late = await resume(link)
    expect(late.status).toBe(410)
    expect(await late.json()).toMatchObject({
      jsonrpc: '2.0',
      id: null,
      error: { code: -31000, data: { reason: 'stream-expired' } }
    })
    expect((await resume(link, `${id}.3`)).status).toBe(410)
    expect((await resume(link, `${id}.4`)).status).toBe(204)
  })

  it('is gone after it for stock clients too: an error for their call, then 204', async () => {
    const { url, id } = await delivered()
    jest.advanceTimersByTime(1.5 * WINDOW)
    const late = await resumeAtEndpoint(url, `${id}.3`)
    expect([late.status, late.headers['content-type']]).toEqual([200, 'text/event-stream'])
    expect(await late.ended).toBe('end')
    expect(late.messages()).toMatchObject([
      { jsonrpc: '2.0', id: 'my call', error: { code: -31000 } }
    ])
    expect(gist(late.messages())).toEqual([['my call', 'stream-expired']])
    expect((await resumeAtEndpoint(url, late.blocks.at(-1)!.id!)).status).toBe(204)
    expect((await resumeAtEndpoint(url, `${id}.4`)).status).toBe(204)
  })

  it('is told again to a stock client to which the wire did not bring it, wherever that was cut', async () => {
    const { url, id } = await delivered()
    jest.advanceTimersByTime(1.5 * WINDOW)
    const { port, hostname } = new URL(url)
    const cuts: Cut[] = []
    const proxy = await createCutProxy({ target: Number(port), plan: () => cuts.at(-1) })
    const throughProxy = () => resumeAtEndpoint(`http://${hostname}:${proxy.port}/mcp`, `${id}.3`)
    const whole = await throughProxy()
    await whole.ended
    const length = proxy.connections[0]!.bytes.response
    let told = 0
    // From the head's last bytes to the very end.
    for (let afterBytes = length - whole.bytes.length - 30; afterBytes <= length; afterBytes++) {
      cuts.push({ by: 'fin', afterBytes })
      const cut = await throughProxy().catch(() => undefined)
      await cut?.ended
      const again = await resumeAtEndpoint(url, cut?.blocks.at(-1)?.id ?? `${id}.3`)
      await again.ended
      const heard = [...(cut?.messages() ?? []), ...again.messages()]
      expect(gist(heard)).toEqual([['my call', 'stream-expired']])
      expect(again.status).toBe(cut?.messages().length ? 204 : 200)
      if (again.status === 204) told++
    }
    expect(told).toBeGreaterThan(0)
    expect(told).toBeLessThan(30)
  })

  it('is remembered for an hour; then it is as if it had never been', async () => {
    const { link, url, id, endpoint } = await delivered()
    jest.advanceTimersByTime(60 * 60_000)
    expect((await resume(link)).status).toBe(410)
    jest.advanceTimersByTime(2 * WINDOW)
    const [late, madeUp] = [await resume(link), await resume(`${url}?stream=${'x'.repeat(21)}`)]
    expect([late.status, madeUp.status]).toEqual([404, 404])
    expect(await late.json()).toEqual(await madeUp.json())
    // At the endpoint, the endpoint answers: it is an ordinary GET.
    const handled = endpoint.requests.length
    const plain = await resumeAtEndpoint(url, `${id}.3`)
    const { req } = await endpoint.requests.nth(handled + 1)
    expect([req.method, req.headers['last-event-id']]).toEqual(['GET', undefined])
    plain.destroy()
  })
})

describe('a call that has ended while its client was away', () => {
  const away = async () => {
    const world = await threeNotes()
    await leave(world.response, world)
    world.rawCall.result()
    return world
  }

  it('stays as long as a running one would have', async () => {
    const { link, id } = await away()
    jest.advanceTimersByTime(59_999)
    const rest = await resume(link, `${id}.2`)
    await rest.ended
    expect(gist(rest.messages())).toEqual([3, ['my call', 'result']])
  })

  it('and then goes, explicitly', async () => {
    const { link, url, id, streams } = await away()
    jest.advanceTimersByTime(66_000)
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, bytes: 0 })
    expect((await resume(link, `${id}.3`)).status).toBe(410)
    const late = await resumeAtEndpoint(url, `${id}.3`)
    await late.ended
    expect(gist(late.messages())).toEqual([['my call', 'stream-expired']])
  })
})

describe('a running call', () => {
  it('keeps what was written for the window, and what was not whatever its age', async () => {
    const world = await threeNotes()
    jest.advanceTimersByTime(WINDOW)
    const again = await resume(world.link)
    await again.take(3, isEvent)
    expect(gist(again.messages())).toEqual([1, 2, 3])
    await leave(again, world)
    jest.advanceTimersByTime(WINDOW - 1)
    world.rawCall.emit(note(4))
    jest.advanceTimersByTime(3 * WINDOW)
    const rest = await resume(world.link, `${world.id}.3`)
    await rest.take(1, isEvent)
    expect(gist(rest.messages())).toEqual([4])
  })

  it('tells a client that asks for what is gone', async () => {
    const world = await threeNotes()
    const { link, url, id, streams, rawCall } = world
    jest.advanceTimersByTime(1.5 * WINDOW)
    expect(streams.stats()).toMatchObject({ live: 1, bytes: 0 })
    const late = await resume(link, `${id}.2`)
    expect([late.status, (await late.json()).error.data.reason]).toEqual([410, 'events-evicted'])
    const stock = await resumeAtEndpoint(url, `${id}.2`)
    await stock.ended
    expect(gist(stock.messages())).toEqual([['my call', 'events-evicted']])
    expect((await resumeAtEndpoint(url, stock.blocks.at(-1)!.id!)).status).toBe(204)
    // Who has everything goes on.
    const current = await resume(link, `${id}.3`)
    rawCall.result()
    await current.ended
    expect(gist(current.messages())).toEqual([['my call', 'result']])
  })

  it('keeps a request that its client has not answered, and from there on all', async () => {
    const endpoint = rawEndpoint(
      rawCall => {
        rawCall.emit(note(1, 100_000))
        rawCall.emit({ jsonrpc: '2.0', id: 'ask', method: 'elicitation/create', params: {} })
        rawCall.emit(note(3, 100_000))
      },
      { session: 'session' }
    )
    const served = await serve(endpoint, { window: WINDOW, handoff: 'never' })
    const { headers } = await initializeSession(served.url, '2025-11-25')
    const response = await call(served.url, 1, headers)
    await response.take(3, isEvent)
    await leave(response, served)
    const link = streamUrl(response, served.url)
    const id = streamId(response)
    jest.advanceTimersByTime(3 * WINDOW)
    const again = await resume(link, `${id}.1`)
    await again.take(2, isEvent)
    expect(again.messages().map(message => message.id)).toEqual(['ask', undefined])
    await leave(again, served)
    const answer = await fetch(served.url, {
      method: 'POST',
      headers: {
        ...headers,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream'
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 'ask', result: { action: 'accept' } })
    })
    expect(answer.status).toBe(202)
    await answer.text()
    jest.advanceTimersByTime(3 * WINDOW)
    expect((await resume(link, `${id}.1`)).status).toBe(410)
  })
})

describe('a listen channel', () => {
  it('goes on after a hole, because nobody waits for a response on it', async () => {
    const endpoint = rawEndpoint(
      rawCall => {
        rawCall.open()
        for (const n of upTo(3)) rawCall.emit(note(n))
      },
      { session: 'session' }
    )
    const served = await serve(endpoint, { window: WINDOW })
    const { headers } = await initializeSession(served.url, '2025-11-25')
    const listening = await get(served.url, headers)
    await listening.take(3, isEvent)
    const rawCall = await endpoint.calls.nth(1)
    jest.advanceTimersByTime(1.5 * WINDOW)
    await leave(listening, served)
    rawCall.emit(note(4))
    const again = await get(served.url, {
      ...headers,
      ...headersFor({ lastEventId: `${streamId(listening)}.1` })
    })
    await again.take(1, isEvent)
    expect(gist(again.messages())).toEqual([4])
    expect(
      (await resume(streamUrl(listening, served.url), `${streamId(listening)}.1`)).status
    ).toBe(410)
    expect(endpoint.calls).toHaveLength(1)
  })
})
