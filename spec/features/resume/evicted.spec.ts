// A cursor behind the buffer is a hole, and a hole is said aloud: 410 on the stream URL, an error
// for the call of a stock client.

import { describe, expect, it } from '@jest/globals'
import { connectV1 } from '../../helpers/clients.js'
import { createCutProxy } from '../../helpers/cut-proxy.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { callTool, ended, eventId, get, post } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import {
  call,
  emitNotes,
  MODERN,
  mount,
  mountScript,
  note,
  numbers,
  resume,
  streamIdOf,
  streamUrlOf,
  upTo
} from './setup.js'

const SENT = 100
const FILLER = 'x'.repeat(200)

const resumeAtEndpoint = (url: string, lastEventId: string): Promise<OpenStream> =>
  get(url, { ...MODERN, 'last-event-id': lastEventId })

/** A live call of which the oldest events had to go, and that a client follows. */
async function evicted(id: string | number = 1) {
  const { url, calls, streams } = await mountScript(running => running.open(), {
    maxStreamBytes: 4096
  })
  const following = await call(url, {}, id)
  const running = await calls.nth(1)
  for (let n = 1; n <= SENT; n++) {
    running.emit(note(n, FILLER))
    await new Promise(setImmediate)
  }
  while (following.messages().length < SENT) await following.next()
  expect(streams.stats().evictions).toBeGreaterThan(0)
  return {
    url,
    streamUrl: streamUrlOf(url, following),
    id: streamIdOf(following),
    following,
    running
  }
}

/**
 * Finished calls of which the first had to make room; `last` is the cursor of who has all of it.
 */
async function expired() {
  const { url, streams } = await mountScript(
    running => {
      emitNotes(running, 1, 3)
      running.result()
    },
    { maxStreams: 2 }
  )
  const first = await ended(call(url, {}, 'first'))
  for (const n of [2, 3]) await (await call(url, {}, n)).ended
  expect(streams.stats()).toMatchObject({ finished: 2, evictions: 1 })
  return { url, streamUrl: streamUrlOf(url, first), id: streamIdOf(first), last: 4 }
}

describe('a cursor behind the events that are kept', () => {
  it('is 410 on the stream URL, with a JSON-RPC error; the cursors from there on resume without a gap', async () => {
    const { streamUrl, id } = await evicted()
    const statuses: number[] = []
    for (let cursor = 0; cursor <= SENT; cursor++) {
      const resumed = await resume(streamUrl, `${id}.${cursor}`)
      statuses.push(resumed.status)
      if (resumed.status === 410) {
        expect(await resumed.json()).toMatchObject({
          jsonrpc: '2.0',
          id: null,
          error: { code: -31000 }
        })
        continue
      }
      expect(await resumed.next()).toMatchObject({ data: '' })
      if (cursor < SENT) expect((await resumed.next()).id).toBe(eventId(id, cursor + 1))
    }
    const kept = statuses.indexOf(200)
    expect(kept).toBeGreaterThan(0)
    expect(SENT - kept).toBeGreaterThanOrEqual(5)
    expect(statuses).toEqual([
      ...upTo(kept).map(() => 410),
      ...upTo(SENT + 1 - kept).map(() => 200)
    ])
  })

  it('is 410 on the stream URL without Last-Event-ID too: the call cannot be given whole any more', async () => {
    const { streamUrl } = await evicted()
    expect((await resume(streamUrl)).status).toBe(410)
  })

  it.each(['text', 7])(
    'is an error for the request id %j on the endpoint, and then 204',
    async requestId => {
      const { url, id } = await evicted(requestId)
      const told = await resumeAtEndpoint(url, `${id}.2`)
      expect(told.status).toBe(200)
      expect(told.headers['content-type']).toContain('text/event-stream')
      expect(await told.ended).toBe('end')
      expect(told.messages()).toEqual([
        { jsonrpc: '2.0', id: requestId, error: expect.objectContaining({ code: -31000 }) }
      ])
      // Stock clients come back once more after an error: there is nothing more to say.
      for (const _ of upTo(2))
        expect((await resumeAtEndpoint(url, told.blocks.at(-1)!.id!)).status).toBe(204)
    }
  )

  it('gets its error again where the connection was cut while the error was sent', async () => {
    const { url, id } = await evicted('call')
    const lost = await resumeAtEndpoint(url, `${id}.2`)
    const primer = await lost.next()
    for (const lastEventId of [`${id}.2`, primer.id!]) {
      const told = await resumeAtEndpoint(url, lastEventId)
      expect(told.status).toBe(200)
      await told.ended
      expect(told.messages()).toEqual([
        expect.objectContaining({ id: 'call', error: expect.anything() })
      ])
    }
  })

  it('does not affect a client that is connected and has everything', async () => {
    const { streamUrl, url, id, following, running } = await evicted()
    await resume(streamUrl, `${id}.1`)
    await resumeAtEndpoint(url, `${id}.1`)
    running.emit(note(SENT + 1))
    while (numbers(following.messages()).at(-1) !== SENT + 1) await following.next()
    following.destroy()
    // Others have been told that their events are gone; these are not.
    const resumed = await resumeAtEndpoint(url, `${id}.${SENT + 1}`)
    expect(resumed.status).toBe(200)
    running.result()
    expect(await resumed.ended).toBe('end')
    expect(numbers(resumed.messages())).toEqual(['result'])
  })

  it('of a listen channel goes on with the events that are kept, as there is no call to fail', async () => {
    const { url, calls } = await mountScript(running => running.open(), { maxStreamBytes: 4096 })
    const listening = await get(url, MODERN)
    const running = await calls.nth(1)
    for (let n = 1; n <= SENT; n++) {
      running.emit(note(n, FILLER))
      await new Promise(setImmediate)
    }
    const resumed = await resumeAtEndpoint(url, `${streamIdOf(listening)}.1`)
    running.emit(note(SENT + 1))
    while (numbers(resumed.messages()).at(-1) !== SENT + 1) await resumed.next()
    const got = numbers(resumed.messages()) as number[]
    expect(got).toEqual(upTo(got.length).map(n => SENT + 1 - got.length + n))
    expect(got.length).toBeGreaterThan(5)
  })
})

describe('a stream whose time is over', () => {
  it('answers 410 on the stream URL where events are missing, and 204 where none is', async () => {
    const { streamUrl, id, last } = await expired()
    for (const cursor of [undefined, `${id}.0.1`, `${id}.${last - 1}`]) {
      const refused = await resume(streamUrl, cursor)
      expect(refused.status).toBe(410)
      expect(await refused.json()).toMatchObject({ id: null, error: { code: -31000 } })
    }
    expect((await resume(streamUrl, `${id}.${last}`)).status).toBe(204)
  })

  it('answers an error for the request id on the endpoint where events are missing, and then 204', async () => {
    const { url, id, last } = await expired()
    const told = await resumeAtEndpoint(url, `${id}.${last - 1}`)
    expect(told.status).toBe(200)
    await told.ended
    expect(told.messages()).toEqual([
      { jsonrpc: '2.0', id: 'first', error: expect.objectContaining({ code: -31000 }) }
    ])
    expect((await resumeAtEndpoint(url, told.blocks.at(-1)!.id!)).status).toBe(204)
    // Only who has got the error has it.
    expect((await resumeAtEndpoint(url, `${id}.${last - 1}`)).status).toBe(200)
  })

  it('answers 204 on the endpoint where no event is missing', async () => {
    const { url, id, last } = await expired()
    expect((await resumeAtEndpoint(url, `${id}.${last}`)).status).toBe(204)
  })

  it('answers an error for each request of a batch', async () => {
    const endpoint = rawEndpoint(running => {
      emitNotes(running, 1, 1)
      for (const { id } of running.message) running.emit({ jsonrpc: '2.0', id, result: {} })
      running.res.end()
    })
    const { url, streams } = await mount(endpoint, { maxStreams: 1 })
    const batch = await ended(post(url, [callTool('a', 'any'), callTool('b', 'any')], MODERN))
    await ended(post(url, [callTool('c', 'any')], MODERN))
    expect(streams.stats().evictions).toBe(1)
    const told = await ended(resumeAtEndpoint(url, `${streamIdOf(batch)}.1`))
    expect(told.messages().map(({ id, error }) => [id, error.code])).toEqual([
      ['a', -31000],
      ['b', -31000]
    ])
  })
})

describe('a stock client whose events are gone', () => {
  it('has its call rejected within a second', async () => {
    const endpoint = sdkV1Stateful()
    const { port } = await mount(endpoint, { maxStreamBytes: 4096 })
    const proxy = await createCutProxy({
      target: port,
      plan: ({ message }) =>
        message?.method === 'tools/call' ? { by: 'silence', afterEvents: 3 } : undefined
    })
    let lose: () => void = () => {}
    const lost = new Promise<void>(resolve => (lose = resolve))
    const { client } = await connectV1(`${proxy.url}/mcp`, {
      fetch: async (input, init) => {
        const response = await fetch(input, init)
        if (typeof init?.body !== 'string' || !init.body.includes('tools/call')) return response
        const end = new AbortController()
        void lost.then(() => end.abort())
        return new Response(
          response.body!.pipeThrough(new TransformStream(), { signal: end.signal }),
          response
        )
      }
    })
    const args = { key: 'k', n: 60, size: 200, paced: true }
    const progress: unknown[] = []
    const result = client.callTool({ name: 'count', arguments: args }, undefined, {
      onprogress: value => progress.push(value.progress),
      timeout: 60_000
    })
    const rejected = expect(result).rejects.toMatchObject({ code: -31000 })
    endpoint.log.release('k', 2)
    await proxy.nthCut(1)
    // The wire is dead, and the server has not noticed: what it writes goes there, and makes room
    // for what follows.
    for (const n of upTo(50)) {
      endpoint.log.release('k')
      while (endpoint.log.calls[0]!.sent < 2 + n) await new Promise(setImmediate)
    }
    lose()
    await rejected
    expect(progress).toEqual([1, 2])
    // The session goes on.
    await client.ping()
  })
})
