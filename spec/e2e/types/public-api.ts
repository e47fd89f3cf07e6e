// What must compile for users, and, each under @ts-expect-error, what must not. Checked by `npm run types`, never run.
import { Client as ClientV2 } from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { CallToolResultSchema, type CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { WebSocketClientTransport } from '@modelcontextprotocol/sdk/client/websocket.js'
import { McpServer as ServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport as StdioV1 } from '@modelcontextprotocol/sdk/server/stdio.js'
import { McpServer as ServerV2 } from '@modelcontextprotocol/server'
import { StdioServerTransport as StdioV2, serveStdio } from '@modelcontextprotocol/server/stdio'
import bodyParser from 'body-parser'
import connect from 'connect'
import express, { Router } from 'express'
import {
  currentStream,
  mcpStreams,
  StreamError,
  type CloseOptions,
  type CurrentStream,
  type DiagnosticName,
  type McpStreams,
  type McpStreamsChannels,
  type McpStreamsOptions,
  type McpStreamsStats,
  type DurationHint,
  type LinkOptions,
  type OwnerFunction,
  type ResourceLink,
  type ResumeTokenFault,
  type ResumeTokensOptions,
  type StreamFault,
  type StreamMessage,
  type StreamState,
  type StreamStats
} from 'express-mcp-streams'
import { inspector } from 'express-mcp-streams/inspector'
import {
  fileResources,
  NOT_STREAMABLE,
  type OpenResource,
  readThrough,
  type Resource,
  type ResourceContext,
  type ResourceEntry,
  resources
} from 'express-mcp-streams/resources'
import {
  resumableTransport,
  type ResumableTransportOptions,
  type TransportLike
} from 'express-mcp-streams/wires'
import {
  callResumable,
  type CallResumableOptions,
  callTask,
  reconnectingTransport,
  type ReconnectingTransport,
  type ReconnectingTransportOptions,
  type ResumableResult
} from 'express-mcp-streams/client'
import { backplane, type Backplane } from 'express-mcp-streams/backplane'
import { ownerCookie } from 'express-mcp-streams/cookie'
import { sessions } from 'express-mcp-streams/sessions'
import { tasks, type TasksOptions } from 'express-mcp-streams/tasks'
import { subscribe } from 'node:diagnostics_channel'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { z } from 'zod'

// --- the factory and its options

mcpStreams()
mcpStreams({})
mcpStreams({
  window: 120_000,
  maxStreamBytes: 16 * 1024 * 1024,
  maxBytes: 256 * 1024 * 1024,
  maxStreams: 10_000
})
mcpStreams({ retry: 3000, keepAlive: 15_000, disconnectAfter: 60_000 })
mcpStreams({ retry: null, keepAlive: null, disconnectAfter: null })
mcpStreams({ resumeInterval: { min: 1, max: 600 } })
mcpStreams({ resumeInterval: { max: 60 } })
mcpStreams({ owner: req => req.headers.authorization, allowedOrigins: ['https://example.com'] })
mcpStreams({ owner: async () => undefined })
mcpStreams({ owner: (req: express.Request) => req.get('x-tenant') })
mcpStreams({ owner: async (req: express.Request) => req.ip })
// @ts-expect-error not a request
mcpStreams({ owner: (req: string) => req })
mcpStreams({ primer: 'auto' })
mcpStreams({ primer: 'always' })
mcpStreams({ primer: 'never' })
mcpStreams({ resumeTokens: false })
mcpStreams({ resumeTokens: {} })
const tokens: ResumeTokensOptions = {
  after: 4000,
  methods: ['tools/call'],
  hints: { report: { typical: 30_000 } }
}
mcpStreams({ resumeTokens: tokens })
const tasksOptions: TasksOptions = { ttl: { default: 60_000 }, tools: { report: 'always' } }
mcpStreams({ tasks: tasks(tasksOptions) })
mcpStreams({ tasks: tasks() })
mcpStreams({ tasks: false })
// @ts-expect-error the function makes the value
mcpStreams({ tasks: {} })
// @ts-expect-error the value of another option
mcpStreams({ tasks: ownerCookie({ secret: 'x'.repeat(16) }) })
declare const ownBackplane: Backplane
mcpStreams({ backplane: backplane(ownBackplane) })
// @ts-expect-error the function makes the value
mcpStreams({ backplane: ownBackplane })
mcpStreams({ cookie: ownerCookie({ secret: ['x'], name: 'y' }) })
mcpStreams({ sessions: sessions({ secret: ['x'], lifetime: 1000 }) })
// @ts-expect-error the function makes the value
mcpStreams({ sessions: { secret: 'x' } })
// @ts-expect-error a secret is wanted
sessions({ lifetime: 1000 })
// @ts-expect-error a secret is wanted
ownerCookie({ name: 'y' })
// @ts-expect-error not a policy
mcpStreams({ tasks: tasks({ tools: { report: 'sometimes' } }) })
mcpStreams({
  onError: (error, { streamId }) => {
    const fault: StreamFault | undefined = error instanceof StreamError ? error.code : undefined
    const id: string | undefined = streamId
    void [error.message, fault, id]
  }
})

const byTenant: OwnerFunction = req => req.headers['x-tenant']?.toString()
mcpStreams({ owner: byTenant })

// `undefined` means absent, as a caller that passes on its own options needs.
mcpStreams(undefined)
mcpStreams({ retry: undefined, owner: undefined, resumeInterval: undefined })

const options: McpStreamsOptions = { retry: 1000 }
const streams: McpStreams = mcpStreams(options)

// @ts-expect-error durations are numbers
mcpStreams({ window: '2m' })
// @ts-expect-error sizes are numbers
mcpStreams({ maxBytes: '256mb' })
// @ts-expect-error a bound cannot be switched off
mcpStreams({ maxStreams: null })
// @ts-expect-error the primer is one of three words
mcpStreams({ primer: true })
// @ts-expect-error the primer is one of three words
mcpStreams({ primer: 'sometimes' })
// @ts-expect-error seconds, min and max: not one number
mcpStreams({ resumeInterval: 600 })
// @ts-expect-error an owner is a string
mcpStreams({ owner: () => 42 })
// @ts-expect-error origins are a list
mcpStreams({ allowedOrigins: 'https://example.com' })
// @ts-expect-error they are on where nothing is said
mcpStreams({ resumeTokens: true })
// @ts-expect-error a hint says what it is
mcpStreams({ resumeTokens: { hints: { report: 30_000 } } })
// @ts-expect-error no such option
mcpStreams({ ttl: 1000 })
// @ts-expect-error options are an object
mcpStreams(1000)

// --- resources

mcpStreams({ resources: resources(readThrough()) })
mcpStreams({ resources: resources(fileResources('.', { baseUri: 'files:///' })) })
mcpStreams({
  resources: resources({
    ...readThrough(),
    mode: 'download',
    publicUrl: 'https://mcp.example/mcp',
    ticketTtl: 1000
  })
})
mcpStreams({
  resources: resources({
    open: async () => undefined,
    timeout: null,
    streamable: (uri, { size }) => uri !== `${size}`
  })
})
mcpStreams({ resources: resources({ open: () => NOT_STREAMABLE }) })

const openRow: OpenResource = async (
  uri,
  { owner, sessionId, headers, maxStreamSize, signal, askEndpoint }
) => {
  const { contents } = await askEndpoint('resources/read', { uri })
  const facts: (string | undefined)[] = [
    owner,
    sessionId,
    headers['user-agent'],
    `${maxStreamSize}`,
    `${contents}`
  ]
  if (facts.length === 0)
    return { path: '/a', mimeType: 'text/plain', name: 'a', etag: 'x', lastModified: new Date() }
  if (facts.length === 1) return { redirect: new URL('https://storage.example'), size: 1 }
  if (facts.length === 2) return { body: new Uint8Array(1) }
  if (facts.length === 3) return { body: new ReadableStream<Uint8Array>() }
  if (facts.length === 4) return { body: async () => Readable.from(['x'], { signal }) }
  return { size: 5, range: (start, end) => Readable.from([start, end].map(String)) }
}
const entries: Promise<readonly ResourceEntry[]> = fileResources('.', {
  baseUri: 'files:///'
}).list()
const context = {} as ResourceContext
const opened: Resource = { size: undefined, path: '/a' }

// @ts-expect-error a resource is what `open` returns
mcpStreams({ resources: resources({ open: () => 'text' }) })
// @ts-expect-error there is no default for it
mcpStreams({ resources: resources({}) })
// @ts-expect-error one of two words
mcpStreams({ resources: resources({ ...readThrough(), mode: 'redirect' }) })
// @ts-expect-error a folder needs a base for its URIs
fileResources('.')
// @ts-expect-error who asks is what it is
context.owner = 'me'

// --- the middleware, where users mount it

express().use('/mcp', streams)
express().use('/mcp', express.json(), streams)
express().all('/mcp', streams, (_req, res) => void res.end())
Router().use(streams)
connect().use('/mcp', bodyParser.json()).use('/mcp', streams)
express().use('/mcp-streams', inspector(streams))
connect().use(
  '/mcp-streams',
  inspector(streams, { allow: ({ socket }) => socket.remotePort === 1 })
)
// @ts-expect-error: it takes what mcpStreams() returns
inspector(express())
createServer((req, res) => {
  streams(req, res, () => res.end())
  streams(req, res, (error?: unknown) => res.destroy(error instanceof Error ? error : undefined))
})

const middleware: (
  req: IncomingMessage,
  res: ServerResponse,
  next: (error?: unknown) => void
) => void = streams

// @ts-expect-error it is a middleware: there is always a next
createServer((req, res) => streams(req, res))

// --- what hangs on it

const closed: Promise<void> = streams.close()
const drained: Promise<void> = streams.close({ drain: 0 } satisfies CloseOptions)
// @ts-expect-error no such option
void streams.close({ wait: 1 })
const stats: McpStreamsStats = streams.stats()
const listed: readonly StreamStats[] = streams.stats({ streams: 1 }).streams
const figures: number[] = [
  listed[0]?.age ?? 0,
  stats.live,
  stats.answering,
  stats.listening,
  stats.waiting,
  stats.finished,
  stats.calls,
  stats.transfers,
  stats.connections,
  stats.bytes,
  stats.resumes,
  stats.evictions,
  stats.refusals
]
// @ts-expect-error no such figure
void stats.hits
// @ts-expect-error a snapshot, not a door to the inside
stats.live = 0

// --- inside a handler

const current: CurrentStream | undefined = currentStream()
const same: CurrentStream | undefined = streams.current()
// @ts-expect-error outside a handler there is none
void currentStream().id
const inLink: LinkOptions = { ttl: 60_000, filename: 'a.pdf', anyone: true }
const link: ResourceLink | undefined = current?.link('db:7', inLink)
void [link?.uri, link?.name, link?.mimeType]
// @ts-expect-error a duration is a number
streams.link('db:7', { ttl: '1m' })
// @ts-expect-error a URI is a string
streams.link(new URL('db:7'))

if (current !== undefined) {
  const id: string = current.id
  const signal: AbortSignal = current.signal
  const state: 'live' | 'waiting' | 'completed' | 'failed' | 'cancelled' | 'abandoned' =
    current.state
  const named: StreamState = state
  current.disconnect()
  current.disconnect({ retry: 500 })
  // @ts-expect-error milliseconds
  current.disconnect({ retry: '1s' })
  const isCollected: boolean = current.partial({ content: [] })
  // @ts-expect-error a result is an object
  current.partial('page 1')
  // @ts-expect-error the middleware gives ids out
  current.id = 'mine'
  // @ts-expect-error only the stream changes its state
  current.state = 'completed'
  // @ts-expect-error six states, and no other
  if (current.state === 'open') void 0
  void [id, signal, named, isCollected]
}

// --- resume tokens, on both sides

const hint: DurationHint = { max: 1 }
const reason: ResumeTokenFault = 'token-expired'
// @ts-expect-error no such reason
const noReason: ResumeTokenFault = 'token-lost'

declare const clientV1: ClientV1
declare const clientV2: ClientV2
const call = { method: 'tools/call', params: { name: 'report' } }
const collected: Promise<ResumableResult>[] = [
  callResumable(clientV1, call),
  callResumable(clientV2, call, {
    wait: 4000,
    onPartial: ({ content }) => void content,
    onprogress: () => undefined
  })
]
const options2: CallResumableOptions = {
  maxRetries: 3,
  signal: AbortSignal.timeout(1000),
  resultSchema: undefined
}
const schemaed: Promise<{ sum: number }> = callResumable(clientV1, call, {
  resultSchema: z.object({ sum: z.number() })
})
void callTask<CallToolResult>(clientV2, { name: 'report' }).then(({ content }) => content[0]?.type)
void callTask(clientV1, { name: 'report' }, { resultSchema: CallToolResultSchema }).then(
  ({ content, isError }) => [content[0]?.type, isError satisfies boolean | undefined]
)
void callTask(
  clientV1,
  { name: 'report' },
  {
    timeout: 1000,
    onprogress: ({ progress, message }) => [progress.toFixed(), message?.trim()],
    onStatus: ({ status, statusMessage }) => {
      if (status === 'failed') return statusMessage?.trim()
      // @ts-expect-error five statuses, and no other
      return status === 'complete'
    }
  }
)
// @ts-expect-error no such option
void callTask(clientV1, { name: 'report' }, { onstatus: () => undefined })
// @ts-expect-error no such option
void callResumable(clientV1, call, { onProgress: () => undefined })
// @ts-expect-error a request has a method
void callResumable(clientV1, { params: {} })
// @ts-expect-error milliseconds
void callResumable(clientV1, call, { wait: '4s' })
// @ts-expect-error a client makes requests
void callResumable({}, call)

// --- what diagnostics_channel carries

subscribe('mcp-streams:resumed' satisfies `mcp-streams:${DiagnosticName}`, message => {
  const { streamId, state, sessionId, reason } = message as StreamMessage
  void [streamId, state, sessionId, reason]
})
subscribe('mcp-streams:failed', message => {
  const { kind, reason } = message as McpStreamsChannels['mcp-streams:failed']
  const why: StreamFault = reason
  const of: 'request' | 'listen' | undefined = kind
  void [why, of]
})
subscribe('mcp-streams:backplane', message => {
  const { state, instance } = message as McpStreamsChannels['mcp-streams:backplane']
  const of: 'up' | 'degraded' | 'down' = state
  void [of, instance]
})
// @ts-expect-error no such channel
void ({} as McpStreamsChannels['mcp-streams:deleted'])
// @ts-expect-error no such channel
void ('mcp-streams:deleted' satisfies `mcp-streams:${DiagnosticName}`)

void [
  middleware,
  closed,
  drained,
  figures,
  same,
  openRow,
  entries,
  opened,
  hint,
  schemaed,
  reason,
  noReason,
  collected,
  options2
]

// --- other transports

const INFO = { name: 'types', version: '1.0.0' }
const shared = mcpStreams()
const wrapped: TransportLike = resumableTransport(new StdioV1(), shared)
new ServerV1(INFO).registerTool('report', {}, () => ({ content: [streams.link('db:7')] }))
new ServerV2(INFO).registerTool('report', {}, () => ({ content: [streams.link('db:7')] }))
void new ServerV1(INFO).connect(wrapped)
void new ServerV2(INFO).connect(resumableTransport(new StdioV2(), shared, { owner: 'ann' }))
serveStdio(() => new ServerV2(INFO), {
  transport: resumableTransport(new StdioV2(), shared, { owner: undefined })
})
const whose: ResumableTransportOptions = {}
resumableTransport(new StdioV1(), shared, whose)
// @ts-expect-error not a transport
resumableTransport({}, shared)
// @ts-expect-error an owner is a string
resumableTransport(new StdioV1(), shared, { owner: 7 })
// @ts-expect-error streams are what mcpStreams() returns
resumableTransport(new StdioV1(), {})

const comingBack: ReconnectingTransport = reconnectingTransport(
  () => new WebSocketClientTransport(new URL('ws://x'))
)
void new ClientV1(INFO).connect(comingBack)
void new ClientV2(INFO).connect(
  reconnectingTransport(async () => new WebSocketClientTransport(new URL('ws://x')))
)
const attempts: ReconnectingTransportOptions = { maxRetries: 3, idleTimeout: null }
reconnectingTransport(() => new StdioV2(), attempts)
void comingBack.resume('id', ({ method }) => void method).then((result: unknown) => result)
// @ts-expect-error fetch is for HTTP
reconnectingTransport(() => new StdioV2(), { fetch })
