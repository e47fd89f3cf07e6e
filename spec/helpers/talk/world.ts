// A world, and a client in it that knows what it has read: what words of a conversation work on.

import type { RequestHandler } from 'express'
import type { Server } from 'node:http'
import { jest } from '@jest/globals'
import {
  mcpStreams,
  type McpStreams,
  type McpStreamsOptions,
  type McpStreamsStats
} from '../../../lib/index.js'
import { cluster, type ClusterMember } from '../backplane/cluster.js'
import { isMessage, type Block } from '../blocks.js'
import { rawEndpoint, type RawCall, type RawEndpoint, type RawScript } from '../endpoints/raw.js'
import { sdkV1Stateful, sdkV1Stateless } from '../endpoints/sdk-v1.js'
import { sdkV2Handler, sdkV2Stateful } from '../endpoints/sdk-v2.js'
import type { ToolContext } from '../endpoints/tools.js'
import { Awaitable } from '../gate.js'
import { until } from '../happenings.js'
import { closeLater, listen, type Handler } from '../listen.js'
import * as mcp from '../mcp.js'
import { openStream, type Json, type OpenStream, type OpenStreamOptions } from '../open-stream.js'
import { linkIn, serve, type Served } from '../serve.js'
import { json, Run, type Script } from './endpoint.js'

const SDKS = {
  'SDK v1': sdkV1Stateful,
  'SDK v1 stateless': sdkV1Stateless,
  'SDK v2': sdkV2Stateful,
  'SDK v2 handler': (options: object) => sdkV2Handler({ ...options, responseMode: 'sse' })
}

/** What the client sends with each request; what is not given here is not sent. */
export interface Client extends mcp.HeaderOptions {
  headers?: Record<string, string | undefined> | undefined
}

export interface World extends Client {
  /** Its revision. Default: 2025-11-25; `''`: it names none. */
  version?: string
  /** Begins a session before it calls. */
  session?: string
  /** What it declares there. */
  capabilities?: object
  /** Who has written the endpoint: we, by hand (default); an SDK; a spec, to `answer` in between. */
  server?: 'by hand' | keyof typeof SDKS | ((answer: RawScript) => Handler | RawEndpoint)
  /** What the endpoint does with each request; with a list of lists, with the nth. */
  endpoint?: Script | readonly Script[]
  /** What a GET of the endpoint gets. Default: the same. */
  channel?: Script
  /** What a `ping` gets, by which it is asked for its verdict on a client. Default: a result. */
  ping?: Script
  /** What answers get, and notifications but for the first. Default: 202. */
  accepts?: Script
  options?: McpStreamsOptions
  inFront?: RequestHandler[]
  /** How it is mounted. Default: as the README does it, at `/mcp`. */
  app?: (streams: McpStreams, endpoint: Handler) => Handler
  /** Of the endpoint, with a query where it has one. Default: `/mcp`. */
  path?: string
  /** How many, on one backplane. Default: one, without. */
  instances?: number
  /** Time stands still but for `pass`. */
  clock?: 'stopped'
  /** Words of its own for messages that the client sees; `undefined`: as ever. */
  word?: (message: Json, talk: Talk) => string | undefined
}

/** A request of the client's. */
export interface Sent extends Client {
  url?: string
  method?: string
  body?: unknown
  /** Which instance. */
  at?: number
}

/** A request, and its response, of which the client has read so many events. */
export class Wire {
  /** `undefined` until its head is here. */
  response!: OpenStream
  /** Resolves with its head. */
  readonly opened: Promise<void>
  read = 0
  /** The client has left, or hears nothing any more: what still comes is not its to see. */
  isLost = false
  /** Its client goes away before its response begins. */
  readonly leaving = new AbortController()

  constructor(url: string, options: OpenStreamOptions) {
    this.opened = openStream(url, { ...options, signal: this.leaving.signal }).then(
      response => void (this.response = response)
    )
    // It may be the client that has left.
    this.opened.catch(() => undefined)
  }

  /** How it ended, as far as its client can tell. */
  get ending(): string | undefined {
    return this.isLost ? undefined : this.response?.ending
  }

  /** What the client has read: all, once it has ended. */
  get blocks(): Block[] {
    const events = this.response?.events ?? []
    return this.ending === undefined ? events.slice(0, this.read) : events
  }

  get messages(): Json[] {
    return this.blocks.filter(isMessage).flatMap(({ data }) => JSON.parse(data!))
  }
}

export class Talk {
  urls!: string[]
  streams!: McpStreams
  server!: Server
  /** All instances. */
  members!: (Served & Partial<ClusterMember>)[]
  /** Requests that the endpoint's script runs for, in order. */
  readonly runs = new Awaitable<Run>()
  /** All requests that have come to the endpoint, or to that of the first instance. */
  readonly requests: Awaitable<RawCall>
  readonly wires: Wire[] = []
  readonly world: World
  /** What `onError` was told, by its code, and of which stream. */
  readonly errors: [code: string, stream: string | undefined][] = []
  /** Which wire the words work on. Default: the newest. */
  on: number | undefined
  /** The words of the client that have begun. */
  readonly done: string[] = []
  /** The spec is over, or one of its words has failed. */
  isOver = false
  /** What it sends with everything. */
  headers: Record<string, string>
  /** Of each instance. */
  readonly endpoints: Endpoint[]

  constructor(world: World) {
    const { version = '2025-11-25', session: _, headers: own, instances = 1, ...client } = world
    this.world = world
    this.endpoints = Array.from({ length: instances }, () => endpointOf(world, this.runs))
    this.requests = this.endpoint.requests
    this.headers = headersOf({ ...client, version, headers: own })
  }

  /** Its process, and those of other instances. */
  async start(): Promise<void> {
    const { instances, inFront = [], app, path = '/mcp' } = this.world
    const onError = (error: Error & { code?: string }, context: { streamId: string | undefined }) =>
      void this.errors.push([`${error.code}`, context.streamId])
    const options = { onError, ...this.world.options }
    const { handler } = this.endpoint
    const mounted = async (build: NonNullable<World['app']>) => {
      const streams = mcpStreams(options)
      return { ...(await listen(build(streams, handler))), streams }
    }
    const members =
      instances !== undefined
        ? (await cluster(i => this.endpoints[i]!.handler, options, {}, instances)).members
        : [await (app === undefined ? serve(handler, options, inFront) : mounted(app))]
    this.members = [...members]
    this.urls = members.map(({ url }) => new URL(path, url).href)
    this.streams = members[0]!.streams
    this.server = members[0]!.server
    // Before their servers are: all that is open then has to let go of them.
    closeLater(() => {
      this.isOver = true
      return Promise.all(members.map(({ streams }) => streams.close({ drain: 0 })))
    })
  }

  get endpoint(): Endpoint {
    return this.endpoints[0]!
  }

  get url(): string {
    return this.urls[0]!
  }

  get wire(): Wire {
    const wire = this.wires.at(this.on ?? -1)
    if (wire === undefined) throw new Error('nothing has been asked yet')
    return wire
  }

  get response(): OpenStream {
    return this.wire.response
  }

  /** The newest request that the endpoint's script runs for. */
  get run(): Run {
    return this.runs.at(-1)!
  }

  get call(): RawCall {
    return this.run.call
  }

  /** Of the newest wire that has a stream, up to where the words work. */
  get #link(): { target: string; id: string } {
    const links = this.#heard.flatMap(({ response }) => (response && linkIn(response)) ?? [])
    if (links.length === 0) throw new Error('no response has a stream link')
    return links.at(-1)!
  }

  get #heard(): Wire[] {
    return this.wires.slice(0, this.on === undefined ? undefined : this.on + 1)
  }

  get stream(): string {
    return this.#link.id
  }

  /** The stream URL, as a client resolves it. */
  get link(): string {
    return new URL(this.#link.target, this.url).href
  }

  /** The last event id that the client has read of the present stream. */
  get cursor(): string | undefined {
    const { stream } = this
    const ids = this.#heard.flatMap(({ blocks }) => blocks.map(({ id }) => id))
    return ids.findLast(id => id?.startsWith(stream))
  }

  /** By its sequence, or as a text in which ID is the stream's. */
  cursorAt(after: number | string | null = this.cursor ?? null): string | undefined {
    if (typeof after === 'number') return `${this.stream}.${after}`
    return after?.replace(/^ID(?=\.)/, () => this.stream)
  }

  stats(): McpStreamsStats {
    return this.streams.stats()
  }

  /** Sends a request, on a connection of its own, and waits for its head. */
  async send({ url, method, body, at = 0, ...more }: Sent): Promise<Wire> {
    const options: OpenStreamOptions = { headers: { ...this.headers, ...headersOf(more) } }
    if (method !== undefined) options.method = method
    if (body !== undefined) options.body = body
    const origin = new URL(this.urls[at]!).origin
    const wire = new Wire((url ?? this.url).replace(/^http:..[^/]*/, origin), options)
    this.wires.push(wire)
    await wire.opened
    return wire
  }

  /** Goes on, word by word. */
  async plays(...words: ((talk: Talk) => unknown)[]): Promise<void> {
    for (const word of words) {
      this.done.push(word.name || String(word).replace(/\s+/g, ' '))
      try {
        await word(this)
      } catch (error) {
        this.isOver = true
        throw error
      }
    }
  }

  readonly until = (condition: () => boolean): Promise<void> =>
    until(() => {
      const isSo = condition()
      if (!isSo && this.isOver) throw new Error('what was waited for has not come')
      return isSo
    })

  /** What the client has seen, wire by wire: messages, and words for all else. */
  sees(): unknown[] {
    return this.wires.flatMap(seenOn)
  }

  /** The same with a word for each message. */
  words(): unknown[] {
    return this.sees().map(one => this.world.word?.(one, this) ?? wordFor(one))
  }

  /** The ids of all events that it has read, behind their streams'. */
  ids(): (string | undefined)[] {
    return this.wires.flatMap(({ blocks }) =>
      blocks.map(({ id }) => id?.replace(/^[\w-]{21}\./, ''))
    )
  }

  /** What has come to the endpoint, and which of its responses were closed before it had ended them. */
  hears(): string[] {
    return this.requests.flatMap(call => {
      const { req, message } = call
      const name = message?.method ?? (message === undefined ? req.method! : `answer ${message.id}`)
      return this.runs.some(run => run.call === call && run.wasCut) ? [name, 'close'] : [name]
    })
  }
}

function headersOf({ headers, ...options }: Client): Record<string, string> {
  return { ...mcp.headersFor(options), ...(headers as Record<string, string>) }
}

/** The event that begins a connection, or ends one at will. */
export const primer = 'primer'

/** One word for what has come on a wire, and for each message in it. */
function seenOn({ response, blocks, ending }: Wire): unknown[] {
  if (response === undefined) return []
  const type = String(response.headers['content-type'])
  if (type.startsWith('text/event-stream')) {
    const seen = blocks.flatMap(block => (isMessage(block) ? JSON.parse(block.data!) : primer))
    return ending === undefined ? seen : [...seen, ending]
  }
  const body = ending === 'end' && type.startsWith('application/json') && response.text
  const parsed: Json[] = body ? [JSON.parse(body)].flat() : []
  if (response.status === 200) return type === 'undefined' ? ['empty'] : ['json', ...parsed]
  const reason = parsed[0]?.error?.data?.reason
  return [reason === undefined ? `${response.status}` : `${response.status} ${reason}`]
}

/** A message in one word: the number of a note, `result`, `error no-response`, `asks a`. */
function wordFor(message: Json): unknown {
  if (typeof message !== 'object' || message === null) return message
  const { id, method, params, result, error } = message
  const of = id === 1 ? '' : ` of ${id}`
  if (result !== undefined) return `result${of}`
  if (error !== undefined) {
    const parts = [error.code === -31000 ? undefined : error.code, error.data?.reason]
    return `error ${parts.filter(part => part !== undefined).join(' ')}${of}`
  }
  if (method === 'notifications/message') {
    const n = Number.parseInt(params?.data, 10)
    return Number.isNaN(n) ? params?.data : n
  }
  if (method === 'notifications/progress') return `progress ${params?.progress}`
  if (method === 'ping') return 'ping'
  return id === undefined ? method?.replace('notifications/', '') : `asks ${id}`
}

interface Endpoint {
  handler: Handler
  requests: Awaitable<RawCall>
}

/** The endpoint of a world, and what it notes. */
function endpointOf(world: World, runs: Awaitable<Run>): Endpoint {
  const { endpoint = [], server = 'by hand' } = world
  const scripts = (Array.isArray(endpoint[0]) ? endpoint : [endpoint]) as Script[]
  const begin = (run: Run, script = scripts[runs.length] ?? scripts.at(-1)!): Promise<void> => {
    runs.push(run)
    return run.perform(script)
  }
  if (typeof server === 'string' && server !== 'by hand') {
    const onContext = async (_args: unknown, _context: unknown, tool: ToolContext) => {
      const run = new Run(undefined, tool)
      await begin(run)
      return run.outcome
    }
    return { requests: new Awaitable(), handler: SDKS[server]({ onContext }) }
  }
  const answer = (call: RawCall, script?: Script) => begin(new Run(call), script)
  const raw = server === 'by hand' ? byHand(world, runs, answer) : server(answer)
  const { requests = new Awaitable<RawCall>() } = raw as Partial<RawEndpoint>
  return { requests, handler: raw }
}

function byHand(
  { session, channel, ping, accepts = [] }: World,
  runs: readonly Run[],
  answer: (call: RawCall, script?: Script) => unknown
): RawEndpoint {
  return rawEndpoint(async call => {
    const { message, req, res } = call
    if (message?.method === 'initialize' && session !== undefined) {
      const { protocolVersion } = message.params
      const serverInfo = { name: 'talk', version: '1.0.0' }
      res.setHeader('Mcp-Session-Id', session)
      return json({ protocolVersion, capabilities: {}, serverInfo })(call, new Run(call))
    }
    if (message?.method === 'ping') return ping === undefined ? call.result() : answer(call, ping)
    const messages: Json[] = message === undefined ? [] : [message].flat()
    if (messages.length > 0 && !messages.some(({ id, method }) => id !== undefined && method)) {
      if (message.method !== 'notifications/initialized') await new Run(call).perform(accepts)
      if (!res.headersSent && !res.destroyed) res.writeHead(202).end()
      if (res.statusCode === 202) for (const run of runs) messages.forEach(run.answered)
      return
    }
    if (req.method === 'DELETE') return res.writeHead(200).end()
    return answer(call, req.method === 'GET' ? channel : undefined)
  })
}

/** A world with nobody in it but its client, who has begun its session where it has one. */
export async function talk(world: World = {}): Promise<Talk> {
  const { version = '2025-11-25', session } = world
  if (world.clock === 'stopped')
    jest.useFakeTimers({
      doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate', 'clearImmediate', 'hrtime']
    })
  const talk = new Talk(world)
  await talk.start()
  if (session !== undefined) {
    const begun = await mcp.initializeSession(talk.url, version, talk.headers, world.capabilities)
    talk.headers = begun.headers
    talk.requests.length = 0
  }
  return talk
}
