// Notifications go to clients that declare the draft, and to nobody else; the server declares it to
// the same clients.

import * as v2 from '@modelcontextprotocol/client'
import { describe, expect, it } from '@jest/globals'
import express from 'express'
import type { AddressInfo } from 'node:net'
import { currentStream, type McpStreamsOptions } from '../../../lib/index.js'
import { resumableFetch } from '../../../lib/client/index.js'
import { connectV1 } from '../../helpers/clients.js'
import { createCutProxy } from '../../helpers/cut-proxy.js'
import { sdkV1Stateful, sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler, sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { Awaitable } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { closeLater, listen } from '../../helpers/listen.js'
import {
  callTool,
  ended,
  get,
  headersFor,
  initialize,
  initializeSession,
  post,
  postModern,
  request,
  withEnvelope
} from '../../helpers/mcp.js'
import type { Json, OpenStream } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import {
  create,
  draftEndpoint,
  end,
  finish,
  INTERVAL,
  note,
  STREAMS,
  streamId,
  toolResult,
  world
} from './setup.js'

const methods = (messages: Json[]): unknown[] => messages.map(({ method }) => method ?? 'response')

describe('a client that declares nothing', () => {
  it('is not told of its stream', async () => {
    const { call, endpoint } = await world(undefined, {}, { elicitation: {} })
    const response = await call()
    finish(endpoint)
    await response.ended
    expect(response.messages()).toEqual([note(1), toolResult()])
  })

  it.each(['sse', 'json'] as const)(
    'gets the answer to initialize byte for byte, as %s',
    async initializeAs => {
      const endpoint = draftEndpoint(() => undefined, { session: 's', initializeAs })
      const bare = await post((await listen(endpoint)).url, initialize('2025-11-25'))
      const ours = await post((await serve(endpoint)).url, initialize('2025-11-25'))
      await Promise.all([bare.ended, ours.ended])
      const data = (response: OpenStream): unknown =>
        initializeAs === 'json' ? response.text : response.events.at(-1)!.data
      expect(data(ours)).toBe(data(bare))
    }
  )

  it('is told of it with notifications: always, but not on the response to initialize', async () => {
    const { url, headers, endpoint } = await world(undefined, { notifications: 'always' }, {})
    const opened = await ended(post(url, initialize('2025-11-25', {})))
    expect(opened.messages()).toEqual([expect.objectContaining({ id: 'initialize' })])
    expect(opened.messages()[0].result.capabilities).not.toHaveProperty('experimental')
    const response = await post(url, callTool('call', 'any'), headers)
    finish(endpoint)
    await response.ended
    const id = streamId(response)
    expect(response.messages()).toEqual([create(id, INTERVAL), note(1), toolResult(), end(id)])
  })

  it('of a stateless endpoint is told of it with notifications: always', async () => {
    const { url } = await serve(sdkV1Stateless(), { notifications: 'always' })
    const response = await ended(
      post(url, callTool(1, 'count', { n: 1 }), headersFor({ version: '2025-11-25' }))
    )
    expect(methods(response.messages())).toEqual([
      'notifications/stream/create',
      'notifications/message',
      'response',
      'notifications/stream/end'
    ])
  })
})

describe('a client that declares the draft in initialize', () => {
  it.each(['sse', 'json'] as const)(
    'is told that the server has it, in an answer as %s',
    async initializeAs => {
      const endpoint = draftEndpoint(() => undefined, { session: 's', initializeAs })
      const { url } = await serve(endpoint)
      const { result } = await initializeSession(url, '2025-11-25', {}, STREAMS)
      expect(result).toEqual({
        protocolVersion: '2025-11-25',
        capabilities: { tools: {}, logging: {}, experimental: { streams: {} } },
        serverInfo: { name: 'raw', version: '1.0.0' }
      })
    }
  )

  it('is told of its listen channel too', async () => {
    const { url, headers } = await world(({ emit }) => emit(note(1)))
    const channel = await get(url, headers)
    expect(await channel.nextMessage()).toEqual(create(streamId(channel), INTERVAL))
    expect(await channel.nextMessage()).toEqual(note(1))
  })

  it('is told nothing with notifications: never, and is answered all the same', async () => {
    const { url, call, answer, endpoint, headers } = await world(undefined, {
      notifications: 'never'
    })
    const opened = await ended(post(url, initialize('2025-11-25', STREAMS)))
    expect(opened.messages()[0].result.capabilities).not.toHaveProperty('experimental')
    const response = await call()
    expect(await response.nextMessage()).toEqual(note(1))
    const id = streamId(response)
    expect((await answer('stream/poll', { streamId: id })).result).toMatchObject({ status: 'live' })
    finish(endpoint)
    await response.ended
    expect(response.messages()).toEqual([note(1), toolResult()])
    const resumed = await ended(
      post(url, request('r', 'stream/resume', { streamId: id, cursor: `${id}.1` }), headers)
    )
    // What is in no log is said at the end of the response all the same.
    expect(resumed.messages()).toEqual([
      toolResult(),
      end(id),
      { jsonrpc: '2.0', id: 'r', result: { streamId: id, status: 'completed' } }
    ])
  })

  it('of a session that negotiates again without it is not told any more', async () => {
    const { url, call } = await world()
    await ended(post(url, initialize('2025-11-25', {})))
    expect(await (await call()).nextMessage()).toEqual(note(1))
  })

  it.each([
    ['a capability of another kind', { experimental: { stream: {} } }],
    ['no object', { experimental: { streams: true } }],
    ['an experiment that is none', { experimental: [] }]
  ])('is not one with %s', async (_name, capabilities) => {
    const { call } = await world(undefined, {}, capabilities)
    expect(await (await call()).nextMessage()).toEqual(note(1))
  })
})

describe.each([
  ['SDK v1', () => sdkV1Stateful()],
  ['SDK v1, JSON', () => sdkV1Stateful({ enableJsonResponse: true })],
  ['SDK v2', () => sdkV2Stateful()]
])('the official client, in front of %s', (name, newEndpoint) => {
  const call = { name: 'count', arguments: { n: 3 } }

  it('sees no difference without the capability', async () => {
    const { url } = await serve(newEndpoint())
    const { client, errors } = await connectV1(url)
    const seen: unknown[] = []
    client.fallbackNotificationHandler = async ({ method }) => void seen.push(method)
    await client.callTool(call)
    expect(client.getServerCapabilities()).not.toHaveProperty('experimental')
    expect(seen.filter(method => String(method).includes('stream'))).toEqual([])
    expect(errors).toEqual([])
  })

  it('gets both notifications with it, and its result', async () => {
    const { url } = await serve(newEndpoint())
    const { client, errors } = await connectV1(url, { capabilities: STREAMS })
    const seen = new Awaitable<string>()
    client.fallbackNotificationHandler = async ({ method, params }) => {
      const { stream, streamId = (stream as Json)?.streamId } = params as Json
      if (method.startsWith('notifications/stream/')) seen.push(`${method} ${streamId}`)
    }
    expect(client.getServerCapabilities()).toMatchObject({ tools: expect.anything(), ...STREAMS })
    expect(await client.callTool(call)).toMatchObject({ content: [{ text: 'counted to 3' }] })
    // One is the beginning of its listen channel.
    if (!name.endsWith('JSON')) {
      const all = [await seen.nth(1), await seen.nth(2), await seen.nth(3)]
      const [, id] = all.find(text => text.startsWith('notifications/stream/end'))!.split(' ')
      expect(all.filter(text => text.endsWith(id!))).toEqual([
        `notifications/stream/create ${id}`,
        `notifications/stream/end ${id}`
      ])
    }
    expect(errors).toEqual([])
  })
})

it('the official client with resumableFetch, on a wire that is cut, hears of each beginning and end once', async () => {
  const { url, server } = await serve(sdkV1Stateful(), { retry: 10 })
  const proxy = await createCutProxy({
    target: (server.address() as AddressInfo).port,
    plan: ({ message }) =>
      message?.method === 'tools/call' ? { by: 'rst', afterEvents: 4 } : undefined
  })
  const { client, errors } = await connectV1(url.replace(/:\d+/, `:${proxy.port}`), {
    capabilities: STREAMS,
    fetch: resumableFetch()
  })
  const seen: string[] = []
  client.fallbackNotificationHandler = async ({ method, params }) => {
    const { stream, streamId = stream?.streamId, data = streamId } = params as Json
    seen.push(`${method} ${data}`)
  }
  const result = await client.callTool({ name: 'count', arguments: { n: 5 } })
  expect(result).toMatchObject({ content: [{ text: 'counted to 5' }] })
  await until(() => seen.some(text => text.startsWith('notifications/stream/end')))
  const id = seen.find(text => text.startsWith('notifications/stream/end'))!.split(' ')[1]!
  expect(proxy.cuts).toHaveLength(1)
  expect(
    seen.filter(text => text.endsWith(id) || text.startsWith('notifications/message'))
  ).toEqual([
    `notifications/stream/create ${id}`,
    ...[1, 2, 3, 4, 5].map(n => `notifications/message ${n}`),
    `notifications/stream/end ${id}`
  ])
  expect(errors).toEqual([])
})

describe('at 2026-07-28', () => {
  const modern = (
    url: string,
    message: { method: string; params?: object | undefined },
    capabilities: object
  ): Promise<OpenStream> =>
    post(url, withEnvelope(message, capabilities), headersFor({ version: '2026-07-28', message }))

  async function modernWorld(options: McpStreamsOptions = {}) {
    const endpoint = sdkV2Handler({ responseMode: 'sse', onContext: () => currentStream() })
    return { endpoint, ...(await serve(endpoint, { retry: 10, ...options })) }
  }

  it('a request that declares the draft gets a stream that outlives its connection', async () => {
    const { url, endpoint, streams } = await modernWorld()
    const response = await modern(
      url,
      callTool(1, 'count', { key: 'k', n: 2, paced: true }, 'p'),
      STREAMS
    )
    const id = streamId(response)
    expect(await response.nextMessage()).toEqual(create(id, INTERVAL))
    endpoint.log.release('k')
    const first = await response.nextMessage()
    response.destroy()
    while (streams.stats().connections > 0) await new Promise(resolve => setImmediate(resolve))
    const { signal } = await endpoint.log.calls.nth(1)
    expect(signal.aborted).toBe(false)

    const poll = await modern(url, request(2, 'stream/poll', { streamId: id }), STREAMS)
    expect((await poll.json()).result).toMatchObject({ status: 'live', pendingMessages: false })
    const resumed = await modern(
      url,
      request(3, 'stream/resume', { streamId: id, cursor: `${id}.1` }),
      STREAMS
    )
    expect(await resumed.nextMessage()).toEqual(first)
    endpoint.log.release('k', 2)
    await resumed.ended
    expect(methods(resumed.messages())).toEqual([
      'notifications/progress',
      'notifications/progress',
      'response',
      'notifications/stream/end',
      'response'
    ])
    expect(resumed.messages().at(-1)).toEqual({
      jsonrpc: '2.0',
      id: 3,
      result: { streamId: id, status: 'completed' }
    })
    expect(endpoint.log.executions('k')).toBe(1)
  })

  it.each(['never', 'always', 'auto'] as const)(
    'one that declares nothing is untouched, notifications: %s',
    async way => {
      const { url } = await modernWorld({ notifications: way })
      const response = await ended(postModern(url, callTool(1, 'count', { n: 1 }, 'p')))
      expect(response.headers.link).toBeUndefined()
      expect(methods(response.messages())).toEqual(['notifications/progress', 'response'])
    }
  )

  it('and neither is one that does, with notifications: never', async () => {
    const { url } = await modernWorld({ notifications: 'never' })
    const response = await ended(modern(url, callTool(1, 'count', { n: 1 }, 'p'), STREAMS))
    expect(response.headers.link).toBeUndefined()
    expect(methods(response.messages())).toEqual(['notifications/progress', 'response'])
  })

  it('server/discover declares it in return', async () => {
    const { url } = await modernWorld()
    const discover = async (capabilities: object): Promise<Json> => {
      const response = await ended(modern(url, request(1, 'server/discover'), capabilities))
      const isSse = response.headers['content-type']?.startsWith('text/event-stream')
      const messages: Json[] = isSse ? response.messages() : [JSON.parse(response.text)]
      return messages.find(({ id }) => id === 1)!.result
    }
    const plain = await discover({})
    expect(plain.capabilities).not.toHaveProperty('experimental')
    expect(await discover(STREAMS)).toEqual({
      ...plain,
      capabilities: { ...plain.capabilities, ...STREAMS }
    })
  })

  it('the official client can declare it, and works', async () => {
    const { url } = await modernWorld()
    const client = new v2.Client(
      { name: 'declares', version: '1.0.0' },
      { capabilities: STREAMS, versionNegotiation: { mode: { pin: '2026-07-28' } } }
    )
    closeLater(() => client.close())
    const errors: Error[] = []
    client.onerror = error => errors.push(error)
    await client.connect(new v2.StreamableHTTPClientTransport(new URL(url)))
    expect(client.getServerCapabilities()).toMatchObject(STREAMS)
    const result = await client.callTool({ name: 'count', arguments: { n: 2 } })
    expect(result).toMatchObject({ content: [{ text: 'counted to 2' }] })
    expect(errors).toEqual([])
  })
})

it('the capability is added to what the endpoint itself declares as experimental', async () => {
  const app = express().use(express.json(), (req, res) => {
    const capabilities = { experimental: { streams: { of: 'its own' }, other: {} } }
    res.json({
      jsonrpc: '2.0',
      id: req.body.id,
      result: { protocolVersion: '2025-11-25', capabilities }
    })
  })
  const { url } = await serve(app)
  const response = await post(url, initialize('2025-11-25', STREAMS))
  expect((await response.json()).result.capabilities.experimental).toEqual({
    streams: { of: 'its own' },
    other: {}
  })
})
