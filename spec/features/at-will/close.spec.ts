// `close()`: for a restart. Calls that run are finished where they are; who listens goes elsewhere;
// what takes too long is told so.

import { describe, expect, it } from '@jest/globals'
import type { Server } from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import {
  type CloseOptions,
  currentStream,
  mcpStreams,
  type McpStreamsOptions
} from '../../../lib/index.js'
import { rawEndpoint, type RawScript } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler } from '../../helpers/endpoints/sdk-v2.js'
import { gate } from '../../helpers/gate.js'
import { arrival, happenings, until } from '../../helpers/happenings.js'
import {
  callTool,
  ended,
  get,
  headersFor,
  initializeSession,
  notification,
  post,
  postModern
} from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { open, requestText } from '../hardening/wire.js'
import { serve, streamId, streamUrl, type Served } from '../../helpers/serve.js'
import { ANNOUNCED, askingEndpoint, QUICK, yes } from '../hand-off/asking.js'

const POLLING = headersFor({ version: '2025-11-25' })
const OLDER = headersFor({ version: '2025-06-18' })
const NEWS = notification('notifications/message', { level: 'info', data: 'news' })

const hold: RawScript = ({ emit }) => emit(NEWS)
const held = (options?: McpStreamsOptions) => serve(rawEndpoint(hold, { session: 's' }), options)

/**
 * As on SIGTERM: resolves when the server has let go of its last socket, with the milliseconds that
 * it took.
 */
async function shutDown(
  { streams, server }: Pick<Served, 'streams' | 'server'>,
  options?: CloseOptions
) {
  const start = performance.now()
  await Promise.all([closed(server), streams.close(options)])
  return performance.now() - start
}

const closing = (id: number) => ({
  jsonrpc: '2.0',
  id,
  error: { code: -31000, message: 'The server is shutting down', data: { reason: 'closing' } }
})
const answered = (id: number) => ({ jsonrpc: '2.0', id, result: {} })
/**
 * Longer than the grace of half a second for sockets, shorter than the time for which calls are
 * waited for.
 */
const SOON = 15_000

const closed = (server: Server) => new Promise<void>(resolve => server.close(() => resolve()))

async function opened(
  count: number,
  open: (n: number) => Promise<OpenStream>
): Promise<OpenStream[]> {
  const responses: OpenStream[] = []
  for (let n = 1; n <= count; n++) {
    const response = await open(n)
    await response.nextMessage()
    responses.push(response)
  }
  return responses
}

describe('close(): running calls', () => {
  it.each<[client: string, send: (served: Served) => Promise<OpenStream>]>([
    [
      'of 2025-03-26',
      ({ url }) => post(url, callTool(1, 'x'), headersFor({ version: '2025-03-26' }))
    ],
    ['of 2025-06-18', ({ url }) => post(url, callTool(1, 'x'), OLDER)],
    ['of 2025-11-25', ({ url }) => post(url, callTool(1, 'x'), POLLING)],
    [
      'of 2026-07-28 that has announced itself',
      ({ url }) => postModern(url, callTool(1, 'x'), { prefer: 'rel=stream' })
    ],
    [
      'that has come back before',
      async ({ url }) => get(streamUrl(await post(url, callTool(1, 'x'), POLLING), url), POLLING)
    ]
  ])('are finished on their connection: one %s', async (_client, send) => {
    const endpoint = rawEndpoint(hold)
    const served = await serve(endpoint)
    const response = await send(served)
    await response.nextMessage()
    const down = shutDown(served)
    for (let n = 0; n < 3; n++) await turn()
    const call = endpoint.calls[0]!
    expect([call.isClosed, response.ending]).toEqual([false, undefined])
    call.emit(NEWS)
    call.result()
    expect(await down).toBeLessThan(SOON)
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([NEWS, NEWS, answered(1)])
    // Not one reconnection time more than the first, and no end but that.
    expect(response.blocks.filter(({ retry }) => retry !== undefined).length).toBeLessThan(2)
  })

  it('are finished, also a hundred of them', async () => {
    const endpoint = rawEndpoint(hold)
    const served = await serve(endpoint)
    const responses = await opened(100, n =>
      post(served.url, callTool(n, 'x'), n % 2 ? OLDER : POLLING)
    )
    const down = shutDown(served)
    for (const { result } of endpoint.calls) result()
    await down
    for (const response of responses) expect(await response.ended).toBe('end')
    expect(responses.map(response => response.messages().at(-1))).toEqual(
      responses.map((_, i) => answered(i + 1))
    )
    expect(served.streams.stats()).toMatchObject({ live: 0, connections: 0, finished: 100 })
  })

  it('are not disconnected at will, neither by their handler nor by their age', async () => {
    let stream = currentStream()
    const endpoint = rawEndpoint(({ emit }) => {
      stream = currentStream()
      emit(NEWS)
    })
    const served = await serve(endpoint, { disconnectAfter: 150 })
    const response = await post(served.url, callTool(1, 'x'), POLLING)
    await response.nextMessage()
    const down = shutDown(served)
    stream!.disconnect()
    await new Promise(resolve => setTimeout(resolve, 200))
    expect(response.ending).toBeUndefined()
    endpoint.calls[0]!.result()
    await down
    expect(response.messages()).toEqual([NEWS, answered(1)])
  })

  it('that ask their clients something are not handed off: the connection stays until the answer is there', async () => {
    const notices = happenings('waiting')
    const isClosing = gate()
    const endpoint = askingEndpoint(async (rawCall, ask) => {
      await isClosing.opened
      await ask('who')
      rawCall.result()
    })
    const served = await serve(endpoint, { ...QUICK, upgradeAfter: 50 })
    const response = await post(served.url, callTool(1, 'any'), ANNOUNCED)
    const down = served.streams.close()
    isClosing.open()
    await response.nextMessage()
    // Much longer than it has to be quiet.
    await new Promise(resolve => setTimeout(resolve, 50))
    expect([response.ending, notices.length]).toEqual([undefined, 0])
    await post(served.url, yes('who'), ANNOUNCED)
    await response.ended
    await down
    expect(response.messages().at(-1)).toEqual(answered(1))
    expect(notices).toHaveLength(0)
  })

  it('can still be resumed meanwhile', async () => {
    const endpoint = rawEndpoint(hold)
    const { url, streams } = await serve(endpoint)
    const response = await post(url, callTool(1, 'x'), POLLING)
    await response.nextMessage()
    const down = streams.close()
    response.destroy()
    await until(() => streams.stats().connections === 0)
    const again = await get(url, { ...POLLING, 'last-event-id': response.blocks.at(-1)!.id! })
    await again.next()
    expect(again.ending).toBeUndefined()
    endpoint.calls[0]!.result()
    expect(await again.ended).toBe('end')
    expect(again.messages()).toEqual([answered(1)])
    await down
  })

  it('are waited for where they share a socket with one that has been answered', async () => {
    const endpoint = rawEndpoint(hold)
    const served = await serve(endpoint)
    const wire = open(Number(new URL(served.url).port))
    for (const id of [1, 2]) wire.socket.write(requestText({ headers: POLLING }, callTool(id, 'x')))
    await endpoint.calls.nth(2)
    const down = shutDown(served)
    endpoint.calls[0]!.result()
    for (let n = 0; n < 5; n++) await turn()
    expect(wire.socket.destroyed).toBe(false)
    endpoint.calls[1]!.result()
    expect(await down).toBeLessThan(SOON)
  })

  it('under a key are waited for, and answer repetitions', async () => {
    const endpoint = rawEndpoint(() => undefined)
    const served = await serve(endpoint)
    const send = () =>
      post(served.url, callTool(1, 'x'), { ...POLLING, 'idempotency-key': 'a-key-of-its-own-4711' })
    const responses = [send(), send()]
    const { res } = await endpoint.calls.nth(1)
    await until(() => served.streams.stats().keyed === 1)
    const down = served.streams.close()
    res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(answered(1)))
    for (const response of responses) {
      await ended(response)
      expect(JSON.parse((await response).text)).toEqual(answered(1))
    }
    await down
    expect(endpoint.calls).toHaveLength(1)
  })
})

describe('close(): when the time is up', () => {
  it('each client is told that its call is lost', async () => {
    const errors: unknown[] = []
    const failed = happenings('failed')
    const onError: McpStreamsOptions['onError'] = (error, { streamId }) =>
      errors.push([error, streamId])
    const endpoint = rawEndpoint(hold)
    const served = await serve(endpoint, { onError })
    const headers = [OLDER, POLLING, {}]
    const responses = await opened(21, n => post(served.url, callTool(n, 'x'), headers[n % 3]))
    expect(await shutDown(served, { drain: 20 })).toBeLessThan(SOON)
    for (const [index, response] of responses.entries()) {
      expect(await response.ended).toBe('end')
      expect(response.messages()).toEqual([NEWS, closing(index + 1)])
    }
    expect(errors).toEqual(
      responses.map(response => [expect.objectContaining({ code: 'closing' }), streamId(response)])
    )
    expect(failed.map(({ reason }) => reason)).toEqual(Array(21).fill('closing'))
    await Promise.all(endpoint.calls.map(call => call.closed))
  })

  it('a call under a key is answered to its own client alone', async () => {
    const endpoint = rawEndpoint(() => undefined)
    const { url, streams, server } = await serve(endpoint)
    const send = () =>
      post(url, callTool(1, 'x'), { ...POLLING, 'idempotency-key': 'a-key-of-its-own-4711' })
    const first = send()
    const { res, closed: gone, ...call } = await endpoint.calls.nth(1)
    const arrived = arrival(server)
    const again = send()
    await arrived
    await streams.close({ drain: 0 })
    // Whoever would run it elsewhere must not: it runs here.
    expect((await again).status).toBe(409)
    await ended(again)
    expect(JSON.parse((await again).text).error.data).toEqual({ reason: 'answer-lost' })
    expect(call.isClosed).toBe(false)
    res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(answered(1)))
    await ended(first)
    expect(JSON.parse((await first).text)).toEqual(answered(1))
    await gone
  })

  it('a second call of close() may shorten the time, and never lengthens it', async () => {
    const served = await held()
    const response = await post(served.url, callTool(1, 'x'), POLLING)
    await response.nextMessage()
    const all = [
      served.streams.close({ drain: 60_000 }),
      served.streams.close({ drain: 0 }),
      served.streams.close()
    ]
    await Promise.all(all)
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([NEWS, closing(1)])
  })
})

describe('close', () => {
  it.each<[options: unknown, fault: string]>([
    [null, 'close: options must be an object'],
    [20, 'close: options must be an object'],
    [{ wait: 1 }, 'close: unknown option `wait`'],
    [{ drain: -1 }, 'close: option `drain` must be a whole number of milliseconds, 0 or more'],
    [{ drain: '20 s' }, 'close: option `drain` must be a whole number of milliseconds, 0 or more'],
    [{ drain: 0.5 }, 'close: option `drain` must be a whole number of milliseconds, 0 or more'],
    [{ drain: Infinity }, 'close: option `drain` must be a whole number of milliseconds, 0 or more']
  ])('throws for %j', async (options, fault) => {
    const streams = mcpStreams()
    expect(() => streams.close(options as CloseOptions)).toThrow(new TypeError(fault))
    await streams.close({ drain: undefined })
  })

  it('disconnects listen channels at once, each with another `retry`', async () => {
    const served = await serve(
      rawEndpoint(({ open }) => open()),
      { retry: 1000 }
    )
    const session = (n: number) => headersFor({ version: '2025-11-25', session: `session ${n}` })
    const channels: OpenStream[] = []
    for (let n = 1; n <= 200; n++) channels.push(await get(served.url, session(n)))
    await Promise.all(channels.map(channel => channel.next()))
    expect(served.streams.stats()).toMatchObject({
      live: 200,
      listening: 200,
      answering: 0,
      connections: 200
    })
    expect(await shutDown(served)).toBeLessThan(SOON)
    expect(served.streams.stats()).toMatchObject({ connections: 0 })
    const retries = new Set<number>()
    for (const channel of channels) {
      expect(await channel.ended).toBe('end')
      const { raw, retry } = channel.blocks.at(-1)!
      expect(raw).toBe(`id: ${streamId(channel)}.0.2\nretry: ${retry}\ndata:\n\n`)
      expect(channel.blocks).toHaveLength(2)
      retries.add(retry!)
    }
    expect(Math.min(...retries)).toBeGreaterThanOrEqual(800)
    expect(Math.max(...retries)).toBeLessThanOrEqual(1200)
    // A herd that comes back as one would be a second outage.
    expect(retries.size).toBeGreaterThan(50)
  })

  it('tells calls from listen channels', async () => {
    const endpoint = rawEndpoint(({ open }) => open())
    const served = await serve(endpoint)
    const channel = await get(served.url, headersFor({ version: '2025-11-25', session: 's' }))
    const response = await post(served.url, callTool(1, 'x'), POLLING)
    expect(served.streams.stats()).toMatchObject({ live: 2, answering: 1, listening: 1 })
    const down = served.streams.close()
    expect(await channel.ended).toBe('end')
    expect(response.ending).toBeUndefined()
    endpoint.calls.at(-1)!.result()
    expect(await response.ended).toBe('end')
    await down
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
    expect(await shutDown(served)).toBeLessThan(SOON)
    for (const channel of channels) {
      expect(await channel.ended).toBe('end')
      // Nobody has asked for a response: there is none that an error could take the place of.
      expect(channel.messages()).toEqual([])
    }
    expect(channels[0]!.blocks.at(-1)!.raw).toMatch(/^id: [\w-]{21}\.0\.2\nretry: \d+\ndata:\n\n$/)
  })

  it('delivers pending events before it disconnects', async () => {
    const endpoint = rawEndpoint(({ emit }) => {
      for (let i = 0; i < 100; i++) emit(NEWS)
      void served.streams.close({ drain: 0 })
    })
    const served = await serve(endpoint)
    const response = await post(served.url, callTool(1, 'x'), POLLING)
    expect(await response.ended).toBe('end')
    expect(response.messages()).toHaveLength(101)
    expect(response.messages().at(-1)).toEqual(closing(1))
  })

  it('does not forget a stream whose first connection is still on its way', async () => {
    const served = await serve(
      rawEndpoint(({ open }) => {
        open()
        void served.streams.close({ drain: 0 })
      })
    )
    const response = await post(served.url, callTool(1, 'x'), POLLING)
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([closing(1)])
    const start = performance.now()
    await closed(served.server)
    expect(performance.now() - start).toBeLessThan(SOON)
  })

  it('resolves at once where nothing is open, and may be called any number of times', async () => {
    const streams = mcpStreams()
    await streams.close()
    const served = await held()
    const response = await post(served.url, callTool(1, 'x'), POLLING)
    const both = [served.streams.close({ drain: 0 }), served.streams.close({ drain: 0 })]
    await Promise.all(both)
    await served.streams.close()
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([NEWS, closing(1)])
  })
})

describe('close(): a client that never reads', () => {
  const flood: RawScript = async ({ open, write }) => {
    open()
    const data = `data: {"data":"${'x'.repeat(64 * 1024)}"}\n\n`
    // More than all the buffers on the way take.
    for (let i = 0; i < 128; i++) write(data)
  }

  it.each([
    ['that comes back', POLLING],
    ['that does not', OLDER]
  ])('%s does not delay it', async (_name, headers) => {
    const served = await serve(rawEndpoint(flood))
    const response = await post(served.url, callTool(1, 'x'), headers)
    response.pause()
    await until(() => served.streams.stats().bytes > 128 * 64 * 1024)
    const reader = await post(served.url, callTool(2, 'x'), headers)
    for (let i = 0; i < 128; i++) await reader.nextMessage()
    expect(await shutDown(served, { drain: 0 })).toBeLessThan(SOON)
    // One that reads is not cut off because another does not: it hears what it is to do now.
    expect(await reader.ended).toBe('end')
    expect(reader.messages().at(-1)).toEqual(closing(2))
  })

  it('that has been disconnected at will before does not delay it', async () => {
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
    expect(await shutDown(served, { drain: 0 })).toBeLessThan(SOON)
  })

  it('whose stream has been taken over or has ended does not delay it', async () => {
    const served = await serve(rawEndpoint(flood))
    const first = await post(served.url, callTool(1, 'x'), POLLING)
    first.pause()
    const second = await get(streamUrl(first, served.url))
    second.pause()
    const third = await post(served.url, callTool(2, 'x'), POLLING)
    third.pause()
    await until(() => served.streams.stats().live === 2)
    expect(await shutDown(served, { drain: 0 })).toBeLessThan(SOON)
  })
})

describe('after close', () => {
  it('kept events can still be fetched, and connections end at once', async () => {
    const endpoint = rawEndpoint(hold)
    const served = await serve(endpoint)
    const response = await post(served.url, callTool(1, 'x'), POLLING)
    await response.nextMessage()
    const down = served.streams.close()
    const id = response.blocks.at(-1)!.id!
    response.destroy()
    await until(() => served.streams.stats().connections === 0)
    endpoint.calls[0]!.result()
    await down
    const last = await get(served.url, { ...POLLING, 'last-event-id': id })
    expect(await last.ended).toBe('end')
    expect(last.messages()).toEqual([answered(1)])
    expect(
      last.socket.destroyed ||
        (await new Promise(resolve => last.socket.once('close', () => resolve(true))))
    ).toBe(true)
  })

  it('responses pass as they would without the middleware', async () => {
    const endpoint = rawEndpoint(({ emit, result }) => {
      emit(NEWS)
      expect(currentStream()).toBeUndefined()
      result({})
    })
    const { url, streams } = await serve(endpoint)
    await streams.close({ drain: 0 })
    const response = await post(url, callTool(1, 'x'), POLLING)
    expect(await response.ended).toBe('end')
    expect(response.headers.link).toBeUndefined()
    expect(response.blocks.every(({ id, retry }) => id === undefined && retry === undefined)).toBe(
      true
    )
    expect(response.messages()).toHaveLength(2)
  })

  it('a stream without a client is abandoned soon, so that its handler does not hold the process', async () => {
    const abandoned = happenings('abandoned')
    const endpoint = rawEndpoint(hold)
    const { url, streams } = await serve(endpoint, { retry: 10 })
    const response = await post(url, callTool(1, 'x'), POLLING)
    await response.nextMessage()
    response.destroy()
    await until(() => streams.stats().connections === 0)
    const call = await endpoint.calls.nth(1)
    const start = performance.now()
    // Which is waited for, too.
    await streams.close()
    expect(call.isClosed).toBe(true)
    // Twice the reconnection time, as clients try, and a second on top.
    expect(performance.now() - start).toBeGreaterThan(1000)
    expect((await abandoned.nth(1)).streamId).toBe(streamId(response))
  })
})

describe('a handler', () => {
  it.each([
    ['goes on', undefined, 'live', false],
    ['is told when the time is up that nobody reads what it makes', 0, 'failed', true]
  ])('%s', async (_name, drain, state, aborted) => {
    const seen: unknown[] = []
    const endpoint = rawEndpoint(async ({ emit, result }) => {
      const stream = currentStream()!
      emit(NEWS)
      await turn()
      void served.streams.close({ drain })
      seen.push(stream.state, stream.signal.aborted)
      result()
    })
    const served = await serve(endpoint)
    await ended(post(served.url, callTool(1, 'x'), POLLING))
    expect(seen).toEqual([state, aborted])
  })

  it('of SDK v2 at 2026-07-28 goes on, too, where its client has announced itself', async () => {
    const endpoint = sdkV2Handler({ responseMode: 'sse' })
    const { url, streams } = await serve(endpoint)
    const call = callTool(1, 'count', { key: 'k', n: 1, paced: true }, 'token')
    const response = await postModern(url, call, { prefer: 'rel=stream' })
    await response.next()
    const down = streams.close()
    endpoint.log.release('k', 2)
    expect((await endpoint.log.ended.nth(1)).state).toBe('returned')
    expect(await response.ended).toBe('end')
    expect(response.messages()).toMatchObject([{ params: { message: '1' } }, { id: 1, result: {} }])
    await down
  })
})
