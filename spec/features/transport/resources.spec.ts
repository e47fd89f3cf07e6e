// `resources/stream` over WebSocket: a download URL on the wire, and the bytes by HTTP (SEP-2532,
// WebSocket Transport).

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { ListResourcesRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { describe, expect, it } from '@jest/globals'
import type { IncomingMessage } from 'node:http'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { WebSocketServer } from 'ws'
import { z } from 'zod'
import { mcpStreams, type McpStreamsOptions } from '../../../lib/index.js'
import {
  type OpenedResource,
  readThrough,
  type ResourceContext,
  resources,
  type ResourcesOptions
} from '../../../lib/resources/index.js'
import { resumableTransport, type TransportLike } from '../../../lib/wires/index.js'
import { closeLater } from '../../helpers/close-all.js'
import { Awaitable } from '../../helpers/gate.js'
import { listen } from '../../helpers/listen.js'
import { initialize, initialized, notification, request } from '../../helpers/mcp.js'
import { fetchUrl, whole } from '../resources/setup.js'
import { openWire, type RawWire } from './raw-wire.js'
import { WebSocketTransport } from './web-socket.js'

const PUBLIC = 'https://mcp.example/mcp'
const URI = 'test:///a.png'
const HangSchema = z.object({ method: z.literal('hang') })
const BYTES = Buffer.from('the bytes of a picture')

/** Its class has the name, and it is on no standard stream. */
class StdioServerTransport extends WebSocketTransport {}

/** The other way round. */
class Minified extends WebSocketTransport {
  readonly input = { fd: 0 }
}

interface Setup {
  resources?: Partial<ResourcesOptions>
  options?: McpStreamsOptions
  owner?: string
  capabilities?: object
  hasResources?: boolean
  newTransport?: (...args: ConstructorParameters<typeof WebSocketTransport>) => TransportLike
}

/**
 * A server of the SDK for each WebSocket, and the middleware at the same port over HTTP, with
 * nothing behind it.
 */
async function serveBoth(setup: Setup = {}) {
  const { resources: more, options, owner, newTransport, capabilities, hasResources } = setup
  const errors: Error[] = []
  const streams = mcpStreams({
    resources: resources({ ...readThrough(), publicUrl: PUBLIC, ...more }),
    onError: error => errors.push(error),
    ...options
  })
  const { server, port } = await listen((req, res) =>
    streams(req, res, () => res.writeHead(404).end())
  )
  const transports: TransportLike[] = []
  const servers: McpServer[] = []
  const wires = new WebSocketServer({ server, perMessageDeflate: false })
  closeLater(async () => {
    await streams.close({ drain: 0 })
    for (const transport of transports) await transport.close()
    for (const socket of wires.clients) socket.terminate()
    wires.close()
  })
  wires.on('connection', socket => {
    const mcp = new McpServer({ name: 'wire', version: '1.0.0' })
    mcp.registerResource('picture', URI, { mimeType: 'image/png' }, async uri => ({
      contents: [{ uri: uri.href, mimeType: 'image/png', blob: BYTES.toString('base64') }]
    }))
    servers.push(mcp)
    const inner = newTransport?.(socket) ?? new WebSocketTransport(socket)
    const transport = resumableTransport(inner, streams, { owner, resources: hasResources })
    transports.push(transport)
    void mcp.connect(transport as never)
  })
  const wire = await openWire(`ws://127.0.0.1:${port}`)
  wire.send(initialize('2025-11-25', capabilities ?? { resourceStreaming: {} }))
  const { result } = await wire.response('initialize')
  wire.send(initialized())
  const fetchDownload = (url: string, headers?: Record<string, string>) =>
    whole(fetchUrl(`http://127.0.0.1:${port}/mcp${new URL(url).search}`, headers))
  return { wire, result, errors, fetchDownload, streams, servers }
}

const streamIn = (wire: RawWire, id = 1, uri = URI) => wire.ask(id, 'resources/stream', { uri })

describe.each([
  ['does not know streams', { resourceStreaming: {} }],
  ['declares streams', { resourceStreaming: {}, experimental: { streams: {} } }]
])('a client that %s', (_who, capabilities) => {
  it('is told that there are streams, gets a download URL, and fetches it over HTTP', async () => {
    const { wire, result, fetchDownload } = await serveBoth({ capabilities })
    expect(result.capabilities.resources.stream).toBe(true)
    const { resources } = (await wire.ask('list', 'resources/list')).result
    expect(resources).toMatchObject([{ uri: URI, streamable: true }])
    const answer = await streamIn(wire)
    expect(answer.result).toMatchObject({
      uri: URI,
      mimeType: 'image/png',
      size: BYTES.length,
      downloadUrl: expect.stringMatching(/^https:\/\/mcp\.example\/mcp\?download=[\w-]{21}$/)
    })
    const response = await fetchDownload(answer.result.downloadUrl)
    expect([response.status, response.bytes.equals(BYTES)]).toEqual([200, true])
    expect(response.headers).toMatchObject({ 'content-type': 'image/png', 'mcp-resource-uri': URI })
    expect((await fetchDownload(answer.result.downloadUrl)).status).toBe(200)
    // The wire is free for what else there is.
    expect(await wire.ask('ping', 'ping')).toHaveProperty('result')
  })

  it('loses its download URLs with its session', async () => {
    const { wire, fetchDownload } = await serveBoth({
      capabilities,
      options: { resumeInterval: { min: 0, max: 0.02 } }
    })
    const { downloadUrl } = (await streamIn(wire)).result
    await wire.drop()
    const status = async () => (await fetchDownload(downloadUrl, { range: 'bytes=999-' })).status
    while ((await status()) !== 404) await new Promise(resolve => setTimeout(resolve, 5))
  })
})

describe('a download URL of a wire', () => {
  it('is its owner’s', async () => {
    const { wire, fetchDownload } = await serveBoth({
      owner: 'alice',
      options: { owner: (req: IncomingMessage) => req.headers.authorization }
    })
    const { downloadUrl } = (await streamIn(wire)).result
    expect((await fetchDownload(downloadUrl, { authorization: 'bob' })).status).toBe(404)
    expect((await fetchDownload(downloadUrl)).status).toBe(404)
    expect((await fetchDownload(downloadUrl, { authorization: 'alice' })).status).toBe(200)
  })

  it('keeps what its client says of itself in little more than is counted for it', async () => {
    setFlagsFromString('--expose-gc')
    const collectGarbage = runInNewContext('gc') as () => void
    const heap = () => {
      for (let i = 0; i < 4; i++) collectGarbage()
      return process.memoryUsage().heapUsed
    }
    const { wire, streams } = await serveBoth()
    const manyParts = Array.from({ length: 4000 }, () => [])
    const params = { uri: URI, _meta: { 'io.modelcontextprotocol/clientInfo': manyParts } }
    await wire.ask(0, 'resources/stream', params)
    const [before, remembered] = [heap(), streams.stats().remembered]
    for (let id = 1; id <= 100; id++) {
      expect((await wire.ask(id, 'resources/stream', params)).result).toHaveProperty('downloadUrl')
      wire.messages.length = 0
    }
    const counted = streams.stats().remembered - remembered
    expect(heap() - before).toBeLessThan(2 * counted)
  })

  it('leads to where a redirect does', async () => {
    const { wire, fetchDownload } = await serveBoth({
      resources: { open: () => ({ redirect: 'https://storage.example/x' }) }
    })
    const { downloadUrl } = (await streamIn(wire)).result
    expect((await fetchDownload(downloadUrl)).headers.location).toBe('https://storage.example/x')
  })
})

describe('a connection that accepts nothing', () => {
  class Broken extends WebSocketTransport {
    override send(...args: Parameters<WebSocketTransport['send']>): Promise<void> {
      const isAnswer = JSON.stringify(args[0]).includes('downloadUrl')
      return isAnswer ? Promise.reject(new Error('EPIPE')) : super.send(...args)
    }
  }

  it('is reported to `onerror`, and causes no unhandled rejection', async () => {
    const unhandled: unknown[] = []
    const listener = (reason: unknown): unknown => unhandled.push(reason)
    process.on('unhandledRejection', listener)
    closeLater(() => void process.off('unhandledRejection', listener))
    const { wire, servers } = await serveBoth({ newTransport: socket => new Broken(socket) })
    const error = new Promise(resolve => (servers[0]!.server.onerror = resolve))
    wire.send(request(1, 'resources/stream', { uri: URI }))
    expect(await error).toMatchObject({ message: 'EPIPE' })
    await wire.ask(2, 'ping')
    expect(unhandled).toEqual([])
  })
})

describe('an error on a wire', () => {
  it.each([
    ['a URI that is none', 'x', {}, -32602],
    ['a resource that does not exist', 'test:///none', {}, -32002],
    [
      'a resource that is too large',
      URI,
      { capabilities: { resourceStreaming: { maxStreamSize: 3 } } },
      -32004
    ],
    ['a client that has declared nothing', URI, { capabilities: {} }, -32003],
    [
      'a provider that fails',
      URI,
      { resources: { open: () => Promise.reject(new Error('why')) } },
      -32603
    ]
  ])('is JSON-RPC: %s', async (_what, uri, setup, code) => {
    const { wire, errors } = await serveBoth(setup)
    const { error, result } = await streamIn(wire, 1, uri)
    expect([result, error.code, error.message.includes('why')]).toEqual([undefined, code, false])
    expect(errors).toHaveLength(code === -32603 ? 1 : 0)
  })
})

it('an error of `askEndpoint` that the provider does not catch is the answer', async () => {
  const { wire, errors } = await serveBoth({
    resources: { open: (_uri, { askEndpoint }) => askEndpoint('none').then(() => undefined) }
  })
  expect((await streamIn(wire)).error).toMatchObject({ code: -32601, message: 'Method not found' })
  expect(errors).toEqual([])
})

describe('a request for a resource that is being opened', () => {
  /** Resources that open when the spec says so. */
  function opening() {
    const asked = new Awaitable<ResourceContext>()
    const opened = new Awaitable<() => void>()
    const open = (_uri: string, context: ResourceContext) => {
      asked.push(context)
      return new Promise<OpenedResource>(resolve =>
        opened.push(() => resolve({ body: BYTES, mimeType: 'image/png', size: BYTES.length }))
      )
    }
    return { asked, opened, resources: { open } }
  }

  it.each([
    ['does not know streams', { resourceStreaming: {} }],
    ['declares streams', { resourceStreaming: {}, experimental: { streams: {} } }]
  ])('ends when it is cancelled, for a client that %s', async (_who, capabilities) => {
    const { asked, resources } = opening()
    const { wire, errors } = await serveBoth({ resources, capabilities })
    wire.send(request(1, 'resources/stream', { uri: URI }))
    const { signal } = await asked.nth(1)
    wire.send(notification('notifications/cancelled', { requestId: 1 }))
    expect(await wire.ask(2, 'ping')).toHaveProperty('result')
    expect(signal.aborted).toBe(true)
    // The next question is answered behind what could have been an answer to the first.
    expect(wire.messages.some(({ id }) => id === 1)).toBe(false)
    expect(errors).toEqual([])
  })

  it('withdraws what it has asked the server', async () => {
    const { wire, servers } = await serveBoth({
      resources: { open: (_uri, { askEndpoint }) => askEndpoint('hang').then(() => undefined) }
    })
    const hung = new Promise<AbortSignal>(resolve =>
      servers[0]!.server.setRequestHandler(HangSchema, (_request, { signal }) => {
        resolve(signal)
        return new Promise(() => undefined)
      })
    )
    wire.send(request(1, 'resources/stream', { uri: URI }))
    const signal = await hung
    wire.send(notification('notifications/cancelled', { requestId: 1 }))
    expect(await wire.ask(2, 'ping')).toHaveProperty('result')
    expect(signal.aborted).toBe(true)
  })

  it('is refused where twenty others are being opened', async () => {
    const { opened, resources } = opening()
    const { wire } = await serveBoth({ resources })
    for (let id = 1; id <= 20; id++) wire.send(request(id, 'resources/stream', { uri: URI }))
    expect((await streamIn(wire, 21)).error).toMatchObject({
      data: { reason: 'too-many-requests' }
    })
    ;(await opened.nth(20))()
    expect((await wire.response(20)).result).toHaveProperty('downloadUrl')
    wire.send(request(22, 'resources/stream', { uri: URI }))
    ;(await opened.nth(21))()
    expect((await wire.response(22)).result).toHaveProperty('downloadUrl')
  })
})

it('streamable resources are marked in a list, however many lists were cancelled before', async () => {
  const { wire, servers } = await serveBoth()
  const { server } = servers[0]!
  let asked = 0
  server.setRequestHandler(ListResourcesRequestSchema, () =>
    asked++ < 100
      ? new Promise(() => undefined)
      : { resources: [{ uri: URI, name: 'picture', mimeType: 'image/png' }] }
  )
  for (let id = 1; id <= 100; id++) wire.send(request(id, 'resources/list'))
  for (let requestId = 1; requestId <= 100; requestId++)
    wire.send(notification('notifications/cancelled', { requestId }))
  const { resources } = (await wire.ask(101, 'resources/list')).result
  expect(resources).toMatchObject([{ uri: URI, streamable: true }])
})

it.each<[string, Setup]>([
  ['without a public URL', { resources: { publicUrl: undefined } }],
  ['on the standard streams of this process', { newTransport: socket => new Minified(socket) }],
  ['where the wire has none', { hasResources: false }]
])('%s nothing is declared, and the method is the server’s', async (_where, setup) => {
  const { wire, result } = await serveBoth(setup)
  expect(result.capabilities.resources.stream).toBeUndefined()
  expect((await streamIn(wire)).error.code).toBe(-32601)
})

it.each<[string, Setup]>([
  [
    'on a socket, whatever the class is called',
    { newTransport: socket => new StdioServerTransport(socket) }
  ],
  [
    'where the wire is said to have them',
    { newTransport: socket => new Minified(socket), hasResources: true }
  ]
])('%s they are declared', async (_where, setup) => {
  const { wire, result } = await serveBoth(setup)
  expect(result.capabilities.resources.stream).toBe(true)
  expect((await streamIn(wire)).result).toHaveProperty('downloadUrl')
})

it.each([
  ['`resources`', { resources: 1 }],
  ['`owner`', { owner: 1 }],
  ['`owners`', { owners: 'somebody' }],
  ['options', null],
  ['options', 'somebody']
])('bad %s are named by a TypeError: %j', (name, options) => {
  const transport = new Minified(undefined as never)
  const wrap = () => resumableTransport(transport, mcpStreams(), options as never)
  expect(wrap).toThrow(TypeError)
  expect(wrap).toThrow(name)
})
