// The official SDK's server and client over WebSocket, wrapped or as they are, with a proxy between
// them that cuts the wire.

import * as v2client from '@modelcontextprotocol/client'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { WebSocket, WebSocketServer } from 'ws'
import {
  reconnectingTransport,
  type ReconnectingTransport,
  type ReconnectingTransportOptions
} from '../../../lib/client/index.js'
import { mcpStreams, type McpStreams, type McpStreamsOptions } from '../../../lib/index.js'
import { resumableTransport, type TransportLike } from '../../../lib/wires/index.js'
import { closeLater } from '../../helpers/close-all.js'
import { createCutProxy, type CutProxy } from '../../helpers/cut-proxy.js'
import { createServer as createV1, ToolLog } from '../../helpers/endpoints/sdk-v1.js'
import { createServer as createV2 } from '../../helpers/endpoints/sdk-v2.js'
import { Awaitable } from '../../helpers/gate.js'
import { listen } from '../../helpers/listen.js'

/**
 * A WebSocket as a transport of the SDK, of either side and either version: all that the SDK's own
 * does, and its errors.
 */
export class WebSocketTransport implements TransportLike {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  onmessage?: ((message: any) => void) | undefined
  readonly socket: WebSocket

  constructor(socket: WebSocket) {
    this.socket = socket
  }

  async start(): Promise<void> {
    const { socket } = this
    socket.on('message', data => this.onmessage?.(JSON.parse(String(data))))
    socket.on('close', () => this.onclose?.())
    socket.on('error', error => this.onerror?.(error))
    if (socket.readyState === WebSocket.OPEN) return
    await new Promise<void>((resolve, reject) => {
      socket.once('open', resolve)
      socket.once('error', reject)
      socket.once('close', () => reject(new Error('closed')))
    })
  }

  send(message: object): Promise<void> {
    return new Promise((resolve, reject) => {
      this.socket.send(JSON.stringify(message), error => (error ? reject(error) : resolve()))
    })
  }

  async close(): Promise<void> {
    this.socket.terminate()
  }
}

export type Setup = 'v1' | 'v2' | 'v2 at 2026-07-28'
export const SETUPS: Setup[] = ['v1', 'v2', 'v2 at 2026-07-28']

export interface ServedWires {
  streams: McpStreams
  log: ToolLog
  proxy: CutProxy
  /** Through the proxy. */
  url: string
  /** What the SDK's servers hold, in the order in which their wires came. */
  transports: Awaitable<TransportLike>
  /** Those of them that have closed, as their servers hear it. */
  closed: Awaitable<TransportLike>
  /** The sockets themselves. */
  sockets: Awaitable<WebSocket>
  /** Servers of v1, for what a tool does not do. */
  servers: Awaitable<ReturnType<typeof createV1>>
}

/** An SDK server for each WebSocket that comes, all on the same streams. */
export async function serveWires(
  setup: Setup,
  options: McpStreamsOptions = {},
  ownerOf: (url: string) => string | undefined = () => undefined
): Promise<ServedWires> {
  const streams = mcpStreams({ resumeInterval: { min: 0.005, max: 60 }, ...options })
  const log = new ToolLog()
  const transports = new Awaitable<TransportLike>()
  const closed = new Awaitable<TransportLike>()
  const sockets = new Awaitable<WebSocket>()
  const servers = new Awaitable<ReturnType<typeof createV1>>()
  const { server, port } = await listen((_req, res) => res.writeHead(426).end())
  const wires = new WebSocketServer({ server, perMessageDeflate: false })
  closeLater(async () => {
    await streams.close({ drain: 0 })
    for (const transport of transports) await transport.close()
    for (const socket of wires.clients) socket.terminate()
    wires.close()
  })
  wires.on('connection', (socket, req) => {
    const transport = resumableTransport(new WebSocketTransport(socket), streams, {
      owner: ownerOf(req.url ?? '')
    })
    sockets.push(socket)
    transports.push(transport)
    if (setup === 'v1') {
      const mcp = createV1(log, {})
      servers.push(mcp)
      void mcp.connect(transport)
    } else if (setup === 'v2') void createV2(log, undefined, 'legacy').connect(transport)
    else serveStdio(({ era }) => createV2(log, undefined, era), { transport })
    const heard = transport.onclose
    transport.onclose = () => {
      closed.push(transport)
      heard?.()
    }
  })
  const proxy = await createCutProxy({ target: port, hold: 'head' })
  return {
    streams,
    log,
    proxy,
    url: proxy.url.replace('http', 'ws'),
    transports,
    closed,
    sockets,
    servers
  }
}

export interface ConnectedWire {
  transport: ReconnectingTransport
  errors: Error[]
  /** The sockets that it has opened. */
  sockets: WebSocket[]
  call(name: string, args: object): Promise<{ text: string; steps: number[] }>
  client: Client | v2client.Client
  close(): Promise<void>
}

const FAST = { minTimeout: 1, maxTimeout: 20, maxRetries: 20, idleTimeout: 5000 }
const INFO = { name: 'spec', version: '1.0.0' }

export interface ConnectOptions extends ReconnectingTransportOptions {
  onElicit?: (message: string) => Promise<string> | string
  /** Bytes that a message may have: a longer one closes the wire. */
  maxPayload?: number
  /** What comes in between the transport and its wires. */
  wrap?: (transport: WebSocketTransport) => TransportLike
}

/** The official client on a transport that comes back. Closed by `closeAll`. */
export async function connectWire(
  setup: Setup,
  url: string,
  options: ConnectOptions = {}
): Promise<ConnectedWire> {
  const { onElicit, wrap, maxPayload, ...others } = options
  const sockets: WebSocket[] = []
  const transport = reconnectingTransport(
    () => {
      const socket = new WebSocket(url, {
        perMessageDeflate: false,
        ...(maxPayload !== undefined && { maxPayload })
      })
      socket.on('error', () => undefined)
      sockets.push(socket)
      const wire = new WebSocketTransport(socket)
      return wrap?.(wire) ?? wire
    },
    { ...FAST, ...others }
  )
  const errors: Error[] = []
  const capabilities = onElicit === undefined ? {} : { elicitation: {} }
  const answer = async (message: string) => ({
    action: 'accept' as const,
    content: { answer: (await onElicit?.(message)) ?? '' }
  })
  let connect: () => Promise<void>
  let client: Client | v2client.Client
  if (setup === 'v1') {
    const v1 = new Client(INFO, { capabilities })
    if (onElicit) v1.setRequestHandler(ElicitRequestSchema, ({ params }) => answer(params.message))
    connect = () => v1.connect(transport)
    client = v1
  } else {
    const modern = { versionNegotiation: { mode: { pin: '2026-07-28' } } }
    const v2 = new v2client.Client(INFO, { capabilities, ...(setup !== 'v2' && modern) })
    if (onElicit) v2.setRequestHandler('elicitation/create', ({ params }) => answer(params.message))
    connect = () => v2.connect(transport)
    client = v2
  }
  client.onerror = error => errors.push(error)
  const close = closeLater(() => client.close())
  await connect()
  const call = async (name: string, args: object) => {
    const steps: number[] = []
    const onprogress = ({ progress }: { progress: number }) => void steps.push(progress)
    const params = { name, arguments: args as Record<string, unknown> }
    const result =
      client instanceof Client
        ? await client.callTool(params, undefined, { onprogress, timeout: 20_000 })
        : await client.callTool(params, { onprogress, timeout: 20_000 })
    const [content] = result.content as { text: string }[]
    return { text: content?.text ?? '', steps }
  }
  return { transport, errors, sockets, call, client, close }
}
