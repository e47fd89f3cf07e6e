// `close()`: for a rolling restart. Every client is told when to come back, or that its call is lost; then nothing is held.

import { afterEach, describe, expect, it } from '@jest/globals'
import type { Server } from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import { currentStream, mcpStreams, type McpStreamsOptions } from '../../lib/index.js'
import { rawEndpoint, type RawScript } from '../helpers/endpoints/raw.js'
import { sdkV1Stateful } from '../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler } from '../helpers/endpoints/sdk-v2.js'
import { happenings, until } from '../helpers/happenings.js'
import { closeAll } from '../helpers/listen.js'
import { callTool, get, headersFor, initializeSession, notification, post, postModern } from '../helpers/mcp.js'
import type { OpenStream } from '../helpers/open-stream.js'
import { serve, streamId, streamUrl, type Served } from '../helpers/serve.js'

afterEach(closeAll)

const POLLING = headersFor({ version: '2025-11-25' })
const OLDER = headersFor({ version: '2025-06-18' })
const NEWS = notification('notifications/message', { level: 'info', data: 'news' })

const hold: RawScript = ({ emit }) => emit(NEWS)
const held = (options?: McpStreamsOptions) => serve(rawEndpoint(hold, { session: 's' }), options)

/** As on SIGTERM: resolves when the server has let go of its last socket, with the milliseconds that it took. */
async function shutDown({ streams, server }: Pick<Served, 'streams' | 'server'>): Promise<number> {
  const start = performance.now()
  await Promise.all([streams.close(), closed(server)])
  return performance.now() - start
}

const closed = (server: Server) => new Promise<void>(resolve => server.close(() => resolve()))

async function opened(count: number, open: (n: number) => Promise<OpenStream>): Promise<OpenStream[]> {
  const responses: OpenStream[] = []
  for (let n = 1; n <= count; n++) {
    const response = await open(n)
    await response.nextMessage()
    responses.push(response)
  }
  return responses
}

describe('close', () => {
  it('disconnects all clients that come back, each at a moment of its own; the server closes at once', async () => {
    const served = await held({ retry: 1000 })
    const responses = await opened(200, n => post(served.url, callTool(n, 'x'), POLLING))
    expect(served.streams.stats()).toMatchObject({ live: 200, connections: 200 })
    expect(await shutDown(served)).toBeLessThan(1000)
    expect(served.streams.stats()).toMatchObject({ connections: 0 })
    const retries = new Set<number>()
    for (const response of responses) {
      expect(await response.ended).toBe('end')
      const { raw, retry } = response.blocks.at(-1)!
      expect(raw).toBe(`id: ${streamId(response)}.1.2\nretry: ${retry}\ndata:\n\n`)
      expect(response.blocks).toHaveLength(3)
      retries.add(retry!)
    }
    expect(Math.min(...retries)).toBeGreaterThanOrEqual(800)
    expect(Math.max(...retries)).toBeLessThanOrEqual(1200)
    // A herd that comes back as one would be a second outage.
    expect(retries.size).toBeGreaterThan(50)
  })

  it('tells all others that their call is lost', async () => {
    const errors: unknown[] = []
    const failed = happenings('failed')
    const onError: McpStreamsOptions['onError'] = (error, { streamId }) => errors.push([error, streamId])
    const served = await held({ onError })
    const responses = await opened(20, n => post(served.url, callTool(n, 'x'), n % 2 ? OLDER : {}))
    expect(await shutDown(served)).toBeLessThan(1000)
    for (const [index, response] of responses.entries()) {
      expect(await response.ended).toBe('end')
      expect(response.messages()).toEqual([
        NEWS,
        {
          jsonrpc: '2.0',
          id: index + 1,
          error: { code: -32000, message: 'The server is shutting down', data: { reason: 'closing' } }
        }
      ])
    }
    expect(errors).toEqual(
      responses.map(response => [expect.objectContaining({ code: 'closing' }), streamId(response)])
    )
    expect(failed.map(({ reason }) => reason)).toEqual(Array(20).fill('closing'))
  })

  it.each<[client: string, send: (served: Served) => Promise<OpenStream>, comesBack: boolean]>([
    ['of 2025-03-26', ({ url }) => post(url, callTool(1, 'x'), headersFor({ version: '2025-03-26' })), false],
    ['of 2025-06-18', ({ url }) => post(url, callTool(1, 'x'), OLDER), false],
    ['of 2025-11-25', ({ url }) => post(url, callTool(1, 'x'), POLLING), true],
    [
      'of 2025-06-18 that has announced itself',
      ({ url }) => post(url, callTool(1, 'x'), headersFor({ version: '2025-06-18', prefer: 'rel=stream' })),
      true
    ],
    [
      'of 2025-06-18 that has followed a link',
      async ({ url }) => get(streamUrl(await post(url, callTool(1, 'x'), OLDER), url), OLDER),
      true
    ],
    [
      'of 2026-07-28 that has announced itself',
      ({ url }) => postModern(url, callTool(1, 'x'), { prefer: 'rel=stream' }),
      true
    ]
  ])('knows whether a client comes back: one %s', async (_client, send, comesBack) => {
    const served = await held()
    const response = await send(served)
    await response.nextMessage()
    await shutDown(served)
    expect(await response.ended).toBe('end')
    const messages = response.messages().filter(({ error }) => error)
    expect(messages).toHaveLength(comesBack ? 0 : 1)
    expect(response.blocks.at(-1)!.retry !== undefined).toBe(comesBack)
  })

  it('closes the listen channels of sessions, with an id to come back with', async () => {
    const endpoint = sdkV1Stateful()
    const served = await serve(endpoint)
    const sessions = [
      await initializeSession(served.url, '2025-11-25'),
      await initializeSession(served.url, '2025-06-18')
    ]
    const channels = await Promise.all(sessions.map(({ headers }) => get(served.url, headers)))
    await Promise.all(channels.map(channel => channel.next()))
    expect(await shutDown(served)).toBeLessThan(1000)
    for (const channel of channels) {
      expect(await channel.ended).toBe('end')
      // Nobody has asked for a response: there is none that an error could take the place of.
      expect(channel.messages()).toEqual([])
    }
    expect(channels[0]!.blocks.at(-1)!.raw).toMatch(/^id: [\w-]{21}\.0\.2\nretry: \d+\ndata:\n\n$/)
  })

  it('delivers what there is before it says goodbye', async () => {
    const endpoint = rawEndpoint(({ emit }) => {
      for (let i = 0; i < 100; i++) emit(NEWS)
      void served.streams.close()
    })
    const served = await serve(endpoint)
    const response = await post(served.url, callTool(1, 'x'), POLLING)
    expect(await response.ended).toBe('end')
    expect(response.messages()).toHaveLength(100)
    expect(response.blocks.at(-1)!.id).toBe(`${streamId(response)}.100.2`)
  })

  it('does not forget a stream whose first connection is still on its way', async () => {
    const served = await serve(
      rawEndpoint(({ open }) => {
        open()
        void served.streams.close()
      })
    )
    const response = await post(served.url, callTool(1, 'x'), POLLING)
    expect(await response.ended).toBe('end')
    expect(response.blocks.at(-1)!.retry).toBeGreaterThanOrEqual(2400)
    const start = performance.now()
    await closed(served.server)
    expect(performance.now() - start).toBeLessThan(500)
  })

  it('is done at once where nothing is open, and as often as anybody likes', async () => {
    const streams = mcpStreams()
    await streams.close()
    const served = await held()
    const response = await post(served.url, callTool(1, 'x'), POLLING)
    const both = [served.streams.close(), served.streams.close()]
    await Promise.all(both)
    await served.streams.close()
    expect(await response.ended).toBe('end')
    expect(response.blocks.filter(({ data }) => data === '')).toHaveLength(2)
  })
})

describe('a client that never reads', () => {
  const flood: RawScript = async ({ open, write }) => {
    open()
    const data = `data: {"data":"${'x'.repeat(64 * 1024)}"}\n\n`
    // More than all the buffers on the way take.
    for (let i = 0; i < 128; i++) write(data)
  }

  it.each([
    ['that comes back', POLLING],
    ['that does not', OLDER]
  ])('and %s holds up nobody', async (_name, headers) => {
    const served = await serve(rawEndpoint(flood))
    const response = await post(served.url, callTool(1, 'x'), headers)
    response.pause()
    await until(() => served.streams.stats().bytes > 128 * 64 * 1024)
    const reader = await post(served.url, callTool(2, 'x'), headers)
    expect(await shutDown(served)).toBeLessThan(1000)
    // One that reads is not cut off because another does not: it hears what it is to do now.
    expect(await reader.ended).toBe('end')
    if (headers === POLLING) expect(reader.blocks.at(-1)!.retry).toBeGreaterThanOrEqual(2400)
    else expect(reader.messages().at(-1)).toMatchObject({ id: 2, error: { data: { reason: 'closing' } } })
  })

  it('nor does one that has been disconnected at will before', async () => {
    const served = await serve(
      rawEndpoint(async call => {
        const stream = currentStream()!
        await flood(call)
        await turn()
        stream.disconnect()
      })
    )
    const response = await post(served.url, callTool(1, 'x'), POLLING)
    response.pause()
    await until(() => served.streams.stats().bytes > 128 * 64 * 1024)
    await turn()
    expect(await shutDown(served)).toBeLessThan(1000)
  })

  it('nor does one whose stream has been taken over, or has ended', async () => {
    const served = await serve(rawEndpoint(flood))
    const first = await post(served.url, callTool(1, 'x'), POLLING)
    first.pause()
    const second = await get(streamUrl(first, served.url))
    second.pause()
    const third = await post(served.url, callTool(2, 'x'), POLLING)
    third.pause()
    await until(() => served.streams.stats().live === 2)
    expect(await shutDown(served)).toBeLessThan(1000)
  })
})

describe('after close', () => {
  it('what is kept can still be fetched, and what is said meanwhile; nobody is held', async () => {
    const endpoint = rawEndpoint(hold)
    const served = await serve(endpoint, { retry: 30 })
    const response = await post(served.url, callTool(1, 'x'), POLLING)
    await response.nextMessage()
    await served.streams.close()

    const empty = await get(streamUrl(response, served.url), {
      ...POLLING,
      'last-event-id': response.blocks.at(-1)!.id!
    })
    expect(await empty.ended).toBe('end')
    expect(empty.messages()).toEqual([])
    const id = empty.blocks.at(-1)!.id!
    expect(id).toMatch(/\.1\.4$/)

    endpoint.calls[0]!.result()
    const last = await get(served.url, { ...POLLING, 'last-event-id': id })
    expect(await last.ended).toBe('end')
    expect(last.messages()).toEqual([{ jsonrpc: '2.0', id: 1, result: {} }])
  })

  it('responses pass as they would without the middleware', async () => {
    const endpoint = rawEndpoint(({ emit, result }) => {
      emit(NEWS)
      expect(currentStream()).toBeUndefined()
      result({})
    })
    const { url, streams } = await serve(endpoint)
    await streams.close()
    const response = await post(url, callTool(1, 'x'), POLLING)
    expect(await response.ended).toBe('end')
    expect(response.headers.link).toBeUndefined()
    expect(response.blocks.every(({ id, retry }) => id === undefined && retry === undefined)).toBe(true)
    expect(response.messages()).toHaveLength(2)
  })

  it.each([
    ['nobody comes back for', false],
    ['was without a client even before', true]
  ])('a stream that %s is abandoned soon, so that its handler does not hold the process', async (_name, isGone) => {
    const abandoned = happenings('abandoned')
    const endpoint = rawEndpoint(hold)
    const { url, streams } = await serve(endpoint, { retry: 10 })
    const response = await post(url, callTool(1, 'x'), POLLING)
    await response.nextMessage()
    if (isGone) response.destroy()
    await until(() => streams.stats().connections === (isGone ? 0 : 1))
    const call = await endpoint.calls.nth(1)
    const start = performance.now()
    await streams.close()
    expect(call.isClosed).toBe(false)
    await call.closed
    // Twice the reconnection time, as clients try, and a second on top.
    expect(performance.now() - start).toBeGreaterThan(1000)
    expect((await abandoned.nth(1)).streamId).toBe(streamId(response))
  })
})

describe('a handler', () => {
  it.each([
    ['goes on for a client that comes back', POLLING, 'live', false],
    ['is told that nobody reads what it makes for any other', OLDER, 'failed', true]
  ])('%s', async (_name, headers, state, aborted) => {
    const seen: unknown[] = []
    const endpoint = rawEndpoint(async ({ emit }) => {
      const stream = currentStream()!
      emit(NEWS)
      await turn()
      await served.streams.close()
      seen.push(stream.state, stream.signal.aborted)
    })
    const served = await serve(endpoint)
    await (
      await post(served.url, callTool(1, 'x'), headers)
    ).ended
    await until(() => seen.length > 0)
    expect(seen).toEqual([state, aborted])
  })

  it('of SDK v2 at 2026-07-28 goes on, too, where its client has announced itself', async () => {
    const endpoint = sdkV2Handler({ responseMode: 'sse' })
    const { url, streams } = await serve(endpoint, { retry: 20 })
    const call = callTool(1, 'count', { key: 'k', n: 1, paced: true }, 'token')
    const response = await postModern(url, call, { prefer: 'rel=stream' })
    await response.next()
    await streams.close()
    expect(await response.ended).toBe('end')
    endpoint.log.release('k', 2)
    expect((await endpoint.log.ended.nth(1)).state).toBe('returned')
    const resumed = await get(streamUrl(response, url), { prefer: 'rel=stream' })
    expect(await resumed.ended).toBe('end')
    expect(resumed.messages()).toMatchObject([{ params: { message: '1' } }, { id: 1, result: {} }])
  })
})
