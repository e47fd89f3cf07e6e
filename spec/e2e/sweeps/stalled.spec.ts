// A client that stops reading: what its socket holds counts until it is given back, and a
// connection that takes nothing is cut.

import { describe, expect, it, jest } from '@jest/globals'
import { once } from 'node:events'
import type { RequestHandler } from 'express'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import {
  callTool,
  del,
  ended,
  headersFor,
  post,
  postModern,
  request,
  result
} from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'
import { call, gist, note, resume, stopTheClock, turn, upTo } from '../../features/limits/setup.js'

const MEBIBYTE = 1024 * 1024
const TOTAL = 1000
const FLOOD = [...upTo(TOTAL), ['flood', 'result']]
const LIFE = { min: 0, max: 60 }
const BOTH = 'application/json, text/event-stream'

/**
 * 8 MiB for a call named `flood`, five times that for `long`, and one event that no socket takes at
 * once for any other.
 */
function endpoint() {
  return rawEndpoint(
    async rawCall => {
      const { id } = rawCall.message
      const total = id === 'flood' ? TOTAL : 5 * TOTAL
      if (id !== 'flood' && id !== 'long') rawCall.emit(note(1, 12 * MEBIBYTE))
      else
        for (const n of upTo(total))
          if (!rawCall.emit(note(n, 8192))) await once(rawCall.res, 'drain')
      if (id !== 'open') rawCall.result()
    },
    { stateless: true }
  )
}

/** A call that has ended, and its client, which has stopped reading. */
async function unread(options: object, id = 'flood', inFront: RequestHandler[] = []) {
  stopTheClock()
  const served = await serve(
    endpoint(),
    { window: 1000, resumeInterval: LIFE, ...options },
    inFront
  )
  const response = await call(served.url, id)
  response.pause()
  if (id !== 'open') while (served.streams.stats().finished < 1) await turn()
  for (let i = 0; i < 20; i++) await turn()
  return { ...served, response }
}

/** Waits until the server has noticed that so many connections are left. */
async function connections(
  n: number,
  { streams }: { streams: { stats(): { connections: number } } }
): Promise<void> {
  while (streams.stats().connections !== n) await turn()
}

describe('a connection that takes nothing for `resumeInterval.max`', () => {
  it('is cut, and its client resumes where it was', async () => {
    const served = await unread({})
    jest.advanceTimersByTime(59_000)
    await turn()
    expect(served.streams.stats()).toMatchObject({ live: 0, finished: 1, connections: 1 })
    jest.advanceTimersByTime(20_000)
    await connections(0, served)
    const { response, url, streams } = served
    response.resume()
    expect(await response.ended).not.toBe('end')
    const received = gist(response.messages())
    expect(received.length).toBeLessThan(TOTAL)
    const rest = await ended(
      resume(streamUrl(response, url), `${streamId(response)}.${received.length}`)
    )
    expect([...received, ...gist(rest.messages())]).toEqual(FLOOD)
    await connections(0, served)
    jest.advanceTimersByTime(3000)
    expect(streams.stats()).toMatchObject({ finished: 0, bytes: 0 })
  })

  it('is cut also when it was disconnected at will meanwhile, and its goodbye waits', async () => {
    const served = await unread({ disconnectAfter: 5000 }, 'open')
    jest.advanceTimersByTime(5000)
    expect(served.streams.stats()).toMatchObject({ live: 1, connections: 1 })
    jest.advanceTimersByTime(55_000)
    await turn()
    expect(served.streams.stats()).toMatchObject({ connections: 1 })
    jest.advanceTimersByTime(20_000)
    await connections(0, served)
    served.response.resume()
    expect(await served.response.ended).not.toBe('end')
  })

  it('is not cut while it takes anything at all', async () => {
    const served = await unread({ maxStreamBytes: 64 * MEBIBYTE }, 'long')
    const { response } = served
    response.response.removeAllListeners('data')
    response.resume()
    response.pause()
    for (let i = 0; i < 5; i++) {
      // More than the buffers of both sides would take.
      for (let taken = 0; taken < 4 * MEBIBYTE && served.streams.stats().connections > 0;) {
        taken += (response.response.read() as Buffer | null)?.length ?? 0
        await turn()
      }
      jest.advanceTimersByTime(40_000)
      await turn()
      expect(served.streams.stats().connections).toBe(1)
    }
    response.destroy()
    await connections(0, served)
  })
})

describe('what a socket has not taken', () => {
  const inFront: [string, RequestHandler[]][] = [
    ['', []],
    [
      'and somebody in front keeps what passes',
      [
        (_req, res, next) => {
          const { write } = res
          res.write = ((...args: Parameters<typeof write>) =>
            write.apply(res, args)) as typeof write
          next()
        }
      ]
    ]
  ]

  it.each(inFront)(
    'counts while the client of a stream that has ended reads nothing, and no more when it has read %s',
    async (_name, middleware) => {
      const { streams, response } = await unread({}, 'large', middleware)
      jest.advanceTimersByTime(10_000)
      expect(streams.stats().bytes).toBeGreaterThan(12 * MEBIBYTE)
      response.resume()
      expect(await response.ended).toBe('end')
      expect(gist(response.messages())).toEqual([1, ['large', 'result']])
      // What does not say when it has written is looked at by the sweep.
      for (let i = 0; streams.stats().bytes > 0 && i < 100; i++) {
        jest.advanceTimersByTime(1000)
        await turn()
      }
      expect(streams.stats()).toMatchObject({ finished: 0, bytes: 0 })
    }
  )

  it('is given back at once when the client cancels', async () => {
    const { streams, response, url } = await unread({}, 'open')
    expect(streams.stats().bytes).toBeGreaterThan(12 * MEBIBYTE)
    expect((await del(streamUrl(response, url))).status).toBe(204)
    await connections(0, { streams })
    expect(streams.stats()).toMatchObject({ live: 0, bytes: 0 })
    response.resume()
    expect(await response.ended).not.toBe('end')
  })

  it('makes room where memory is short: no number of stalled clients holds more than `maxBytes`', async () => {
    const maxBytes = 32 * MEBIBYTE
    const { streams, url, response } = await unread({ maxBytes }, 'large')
    const stalled: OpenStream[] = [response]
    for (let i = 0; i < 5; i++) {
      const more = await call(url, `large ${i}`)
      more.pause()
      stalled.push(more)
      while (streams.stats().live > 0) await turn()
      jest.advanceTimersByTime(5000)
      expect(streams.stats().bytes).toBeLessThanOrEqual(maxBytes)
    }
    // The oldest have gone; the newest are untouched.
    const newest = stalled.pop()!
    newest.resume()
    expect(await newest.ended).toBe('end')
    stalled[0]!.resume()
    expect(await stalled[0]!.ended).not.toBe('end')
    for (const each of stalled) each.destroy()
  })
})

describe('an answer to a call at 2026-07-28 that nobody could come back to', () => {
  it.each([
    ['JSON, with tokens', 'json', { resumeToken: null }, null],
    ['an event stream, with tokens', 'events', { resumeToken: null }, null],
    ['JSON, with a state to come again by', 'json', {}, 60_000],
    ['an event stream, with a state to come again by', 'events', {}, 60_000]
  ])('is cut where its client takes nothing: %s', async (_name, how, meta, disconnectAfter) => {
    stopTheClock()
    const large = { content: [{ type: 'text', text: 'x'.repeat(12 * MEBIBYTE) }] }
    const raw = rawEndpoint(({ res, message, emit, result }) => {
      if (how === 'events') {
        emit(note(1, 1))
        return result(large)
      }
      return res
        .writeHead(200, { 'Content-Type': 'application/json' })
        .end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result: large }))
    })
    const { url, streams } = await serve(raw, { resumeInterval: LIFE, disconnectAfter })
    const message = request(1, 'tools/call', { name: 'large', arguments: {}, _meta: meta })
    const response = await postModern(url, message, { accept: BOTH })
    response.pause()
    for (let i = 0; i < 20; i++) await turn()
    jest.advanceTimersByTime(59_000)
    for (let i = 0; i < 20; i++) await turn()
    expect(response.ending).toBeUndefined()
    expect(streams.stats().bytes).toBeGreaterThan(4 * MEBIBYTE)
    jest.advanceTimersByTime(20_000)
    for (let i = 0; i < 20; i++) await turn()
    expect(streams.stats().bytes).toBe(0)
    response.resume()
    expect(await response.ended).not.toBe('end')
  })
})

describe('an answer in JSON behind white space', () => {
  it('is cut where its client takes nothing', async () => {
    const raw = rawEndpoint(() => undefined, { stateless: true })
    const { url, streams } = await serve(raw, { resumeInterval: LIFE, jsonKeepAlive: 10 })
    const headers = headersFor({ version: '2025-11-25', accept: 'application/json' })
    const response = await post(url, callTool(1, 'large'), headers)
    response.pause()
    stopTheClock()
    const large = { content: [{ type: 'text', text: 'x'.repeat(12 * MEBIBYTE) }] }
    raw.calls[0]!.res.writeHead(200, { 'Content-Type': 'application/json' }).end(
      JSON.stringify(result(1, large))
    )
    for (let i = 0; i < 20; i++) await turn()
    jest.advanceTimersByTime(59_000)
    for (let i = 0; i < 20; i++) await turn()
    expect(response.ending).toBeUndefined()
    expect(streams.stats().bytes).toBeGreaterThan(4 * MEBIBYTE)
    jest.advanceTimersByTime(20_000)
    for (let i = 0; i < 20; i++) await turn()
    expect(streams.stats().bytes).toBe(0)
    response.resume()
    expect(await response.ended).not.toBe('end')
  })
})
