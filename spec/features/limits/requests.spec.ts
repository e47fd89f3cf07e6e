// The request of a call that goes on without its client: it is held for the endpoint alone, so it
// counts, and makes room like all that is kept.

import { afterEach, describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { gzipSync } from 'node:zlib'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { happenings, until } from '../../helpers/happenings.js'
import { closeAll } from '../../helpers/listen.js'
import { callTool, del, ended, headersFor, post, postModern, request } from '../../helpers/mcp.js'
import { openStream, type OpenStream } from '../../helpers/open-stream.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { open, requestText } from '../hardening/wire.js'
import { gist, leave, MODERN, resume } from './setup.js'

afterEach(closeAll)

const KIB = 1024
const LARGE = 100 * KIB
const filler = (size: number) => ({ text: 'x'.repeat(size) })
const RUNS_ON = { stateless: true }

/** An endpoint whose calls hold their response until the spec ends them. */
async function world(options: McpStreamsOptions = {}, inFront: RequestHandler[] = []) {
  const endpoint = rawEndpoint(call => call.open(), RUNS_ON)
  const served = await serve(endpoint, options, inFront)
  let calls = 0
  const begin = async (
    size: number,
    headers: Record<string, string> = {}
  ): Promise<[OpenStream, RawCall]> => {
    const message = callTool(++calls, 'any', filler(size))
    const response = await post(served.url, message, { ...MODERN, ...headers })
    return [response, await endpoint.calls.nth(calls)]
  }
  const beginAndLeave = async (size: number, headers?: Record<string, string>) => {
    const [response, call] = await begin(size, headers)
    await leave(response, served)
    return { response, call, link: streamUrl(response, served.url) }
  }
  return { ...served, endpoint, begin, beginAndLeave }
}

describe('the request of a call', () => {
  it('does not count while its client is there, and counts from when it has gone', async () => {
    const { streams, begin } = await world()
    const [response] = await begin(LARGE)
    expect(streams.stats().bytes).toBeLessThan(KIB)
    await leave(response, { streams })
    expect(streams.stats().bytes).toBeGreaterThan(LARGE)
    expect(streams.stats().bytes).toBeLessThan(LARGE + 4 * KIB)
  })

  it('counts also when its client comes back: the endpoint still has it', async () => {
    const { streams, beginAndLeave } = await world()
    const { link } = await beginAndLeave(LARGE)
    await resume(link)
    expect(streams.stats()).toMatchObject({ live: 1, connections: 1 })
    expect(streams.stats().bytes).toBeGreaterThan(LARGE)
  })

  it.each<[string, (call: RawCall, link: string) => unknown]>([
    ['has a result', call => call.result()],
    ['breaks off', call => call.res.destroy()],
    ['is cancelled', (_call, link) => del(link, MODERN)]
  ])('is given back when the call %s', async (_how, end) => {
    const { streams, beginAndLeave } = await world()
    const { call, link } = await beginAndLeave(LARGE)
    await end(call, link)
    await until(() => streams.stats().live === 0)
    expect(streams.stats().bytes).toBeLessThan(2 * KIB)
  })

  it('counts with what it becomes when it is parsed, not with its bytes alone', async () => {
    const { url, streams } = await world()
    const body = JSON.stringify(callTool(1, 'any', { list: Array(10_000).fill([]) }))
    const response = await openStream(url, { method: 'POST', headers: MODERN, body })
    await leave(response, { streams })
    // An empty array takes some thirty bytes and its place, and two characters on the wire.
    expect(streams.stats().bytes).toBeGreaterThan(10 * body.length)
  })

  it('counts with what a parser has made of it, where it came compressed', async () => {
    const endpoint = rawEndpoint(call => call.open(), RUNS_ON)
    const parser = express.json({ limit: '1mb' })
    const { url, streams } = await serve(
      Object.assign(
        (...[req, res]: Parameters<typeof endpoint>) =>
          parser(req as never, res as never, () => void endpoint(req, res)),
        endpoint
      ) as never
    )
    const response = await openStream(url, {
      method: 'POST',
      headers: { ...MODERN, 'Content-Encoding': 'gzip' },
      body: gzipSync(JSON.stringify(callTool(1, 'any', filler(LARGE))))
    })
    await leave(response, { streams })
    expect(streams.stats().bytes).toBeGreaterThan(LARGE)
  })

  it('counts with its head', async () => {
    const { streams, beginAndLeave } = await world()
    await beginAndLeave(1, { 'x-large': 'x'.repeat(8 * KIB) })
    expect(streams.stats().bytes).toBeGreaterThan(8 * KIB)
  })
})

describe('a call that goes on, counted by its request,', () => {
  const SOON = 20

  it('because it was disconnected at will', async () => {
    const { streams, begin } = await world({ disconnectAfter: SOON, handoff: 'always' })
    const [response] = await begin(LARGE)
    await response.ended
    expect(streams.stats()).toMatchObject({ live: 1, connections: 0 })
    expect(streams.stats().bytes).toBeGreaterThan(LARGE)
  })

  /** Calls that are answered with something in the meantime, and the option that does it. */
  const INTERIM: [string, McpStreamsOptions, (url: string) => Promise<OpenStream>][] = [
    [
      'a resume token',
      { resumeTokens: { after: SOON } },
      url =>
        post(
          url,
          request(1, 'tools/call', {
            name: 'any',
            arguments: filler(LARGE),
            _meta: { resumeToken: null }
          }),
          MODERN
        )
    ],
    [
      'a state to come again by',
      { disconnectAfter: SOON },
      url => postModern(url, callTool(1, 'any', filler(LARGE)))
    ]
  ]

  it.each(INTERIM)('because it was answered with %s', async (_what, options, send) => {
    const endpoint = rawEndpoint(() => undefined, RUNS_ON)
    const { url, streams } = await serve(endpoint, options)
    await ended(send(url))
    const call = await endpoint.calls.nth(1)
    await until(() => streams.stats().bytes > LARGE)
    expect(streams.stats().calls).toBe(1)
    call.res.destroy()
    await until(() => streams.stats().bytes < 2 * KIB)
  })

  it('because it has a key', async () => {
    const endpoint = rawEndpoint(() => undefined, RUNS_ON)
    const { url, streams } = await serve(endpoint)
    const headers = { ...MODERN, 'idempotency-key': 'a-key-that-nobody-guesses' }
    const { socket } = open(Number(new URL(url).port))
    const head = { method: 'POST', path: '/mcp', headers }
    socket.write(requestText(head, callTool(1, 'any', filler(LARGE))))
    const call = await endpoint.calls.nth(1)
    expect(streams.stats().bytes).toBeLessThan(2 * KIB)
    socket.destroy()
    await until(() => streams.stats().bytes > LARGE)
    // Its stream, once there is one, has the request with it.
    call.open()
    await until(() => streams.stats().live === 1)
    expect(streams.stats().keyed).toBe(0)
    expect(streams.stats().bytes).toBeGreaterThan(LARGE)
    call.result()
    await until(() => streams.stats().bytes < 2 * KIB)
  })
})

describe('when the requests of calls without clients are too much', () => {
  const ROOM = { maxBytes: 1024 * KIB, maxStreamBytes: 1024 * KIB }

  it('the oldest makes room: its endpoint sees the close, and its client gets an error', async () => {
    const { streams, beginAndLeave } = await world(ROOM)
    const failed = happenings('failed')
    const calls = []
    for (let n = 0; n < 14; n++) {
      calls.push(await beginAndLeave(LARGE))
      expect(streams.stats().bytes).toBeLessThanOrEqual(ROOM.maxBytes)
    }
    await calls[0]!.call.closed
    const { live, evictions } = streams.stats()
    expect(live).toBeLessThan(11)
    expect(evictions).toBe(14 - live)
    expect(failed).toHaveLength(14 - live)
    expect(calls.map(({ call }) => call.isClosed)).toEqual(calls.map((_, n) => n < 14 - live))
    const lost = await ended(resume(calls[0]!.link))
    expect(gist(lost.messages())).toEqual([[1, 'request-evicted']])
    calls[13]!.call.result()
    const found = await ended(resume(calls[13]!.link))
    expect(gist(found.messages())).toEqual([[14, 'result']])
  })

  it('who has sent little stays, also among strangers', async () => {
    const { beginAndLeave } = await world(ROOM)
    const small = await beginAndLeave(10)
    for (let n = 0; n < 14; n++) await beginAndLeave(LARGE)
    expect(small.call.isClosed).toBe(false)
  })

  it('no owner takes the room of another', async () => {
    const { streams, beginAndLeave } = await world(ROOM)
    const mine = await beginAndLeave(2 * LARGE, headersFor({ auth: 'alice' }))
    for (let n = 0; n < 30; n++) await beginAndLeave(LARGE, headersFor({ auth: 'mallory' }))
    expect(mine.call.isClosed).toBe(false)
    expect(streams.stats().bytes).toBeLessThanOrEqual(ROOM.maxBytes)
    mine.call.result()
    const found = await ended(resume(mine.link, undefined, headersFor({ auth: 'alice' })))
    expect(gist(found.messages())).toEqual([[1, 'result']])
  })

  it('what was delivered goes first, and what has waited for its client last', async () => {
    const { streams, begin, beginAndLeave } = await world({ ...ROOM, window: 60_000 })
    const [delivered, one] = await begin(1)
    one.result(filler(2 * LARGE))
    await delivered.ended
    const unread = await beginAndLeave(1)
    unread.call.result(filler(2 * LARGE))
    const calls = []
    for (let n = 0; n < 8; n++) calls.push(await beginAndLeave(LARGE))
    expect(calls.some(({ call }) => call.isClosed)).toBe(false)
    expect(streams.stats().evictions).toBe(1)
    for (let n = 0; n < 4; n++) await beginAndLeave(LARGE)
    expect(calls[0]!.call.isClosed).toBe(true)
    const found = await ended(resume(unread.link))
    expect(gist(found.messages())).toEqual([[2, 'result']])
  })

  it('one that is larger than all that may be held ends when its client has gone', async () => {
    const { streams, beginAndLeave } = await world({ maxBytes: 50 * KIB, maxStreamBytes: 50 * KIB })
    const { call, link } = await beginAndLeave(LARGE)
    await call.closed
    const lost = await ended(resume(link))
    expect(gist(lost.messages())).toEqual([[1, 'request-evicted']])
    expect(streams.stats()).toMatchObject({ live: 0 })
    expect(streams.stats().bytes).toBeLessThan(KIB)
  })
})
