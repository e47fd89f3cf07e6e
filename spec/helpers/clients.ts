// The official clients, unmodified, at a protocol revision of the spec's choice.

import * as v2 from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import {
  StreamableHTTPClientTransport,
  type StreamableHTTPReconnectionOptions
} from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema, type ClientCapabilities } from '@modelcontextprotocol/sdk/types.js'
import { closeLater } from './close-all.js'
import type { Revision } from './mcp.js'

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>
type Elicit = (params: { message: string }) => Answer | Promise<Answer>
interface Answer {
  action: 'accept' | 'decline' | 'cancel'
  content?: Record<string, string>
}

interface Common {
  fetch?: Fetch
  headers?: Record<string, string>
  /**
   * Over the fast defaults: 10 ms between tries, and the stock two tries. The server's `retry`
   * overrides the pause.
   */
  reconnection?: Partial<StreamableHTTPReconnectionOptions>
  /** Answers elicitations; the capability is announced only when it is given. */
  onElicit?: Elicit
}

export interface ConnectV1Options extends Common {
  /** Revision to negotiate. Default: 2025-11-25. */
  version?: Exclude<Revision, '2026-07-28'>
  capabilities?: ClientCapabilities
}

export interface ConnectV2Options extends Common {
  /**
   * 2026-07-28 pins the modern era; the others are the 2025 handshake at that revision. Default:
   * 2026-07-28.
   */
  era?: Revision
}

const FAST = {
  initialReconnectionDelay: 10,
  maxReconnectionDelay: 10,
  reconnectionDelayGrowFactor: 1,
  maxRetries: 2
}

export interface ConnectedV1 {
  client: Client
  transport: StreamableHTTPClientTransport
  /** What `client.onerror` was told. */
  errors: Error[]
  close(): Promise<void>
}

/** Client 1.x, connected. Closed by `closeAll`. */
export async function connectV1(
  url: string | URL,
  options: ConnectV1Options = {}
): Promise<ConnectedV1> {
  const { version = '2025-11-25', onElicit } = options
  const capabilities = { ...(onElicit && { elicitation: {} }), ...options.capabilities }
  const client = new Client({ name: 'spec-v1', version: '1.0.0' }, { capabilities })
  if (onElicit)
    client.setRequestHandler(ElicitRequestSchema, async ({ params }) => ({
      ...(await onElicit(params))
    }))
  const errors: Error[] = []
  client.onerror = error => errors.push(error)
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    fetch: askFor(version, options.fetch ?? fetch),
    requestInit: { headers: options.headers ?? {} },
    reconnectionOptions: { ...FAST, ...options.reconnection }
  })
  const close = closeLater(() => client.close())
  await client.connect(transport as Parameters<Client['connect']>[0])
  return { client, transport, errors, close }
}

/**
 * Client 1.x always asks for its newest revision, and takes any older one: so ask for an older one
 * on the wire.
 */
function askFor(version: string, fetch: Fetch): Fetch {
  return (url, init) => {
    if (typeof init?.body !== 'string' || !init.body.includes('"initialize"'))
      return fetch(url, init)
    const message = JSON.parse(init.body)
    if (message.method === 'initialize') message.params.protocolVersion = version
    return fetch(url, { ...init, body: JSON.stringify(message) })
  }
}

export interface ConnectedV2 {
  client: v2.Client
  transport: v2.StreamableHTTPClientTransport
  /** What `client.onerror` was told. */
  errors: Error[]
  close(): Promise<void>
}

/** Client 2.x, connected. Closed by `closeAll`. */
export async function connectV2(
  url: string | URL,
  options: ConnectV2Options = {}
): Promise<ConnectedV2> {
  const { era = '2026-07-28', onElicit } = options
  const client = new v2.Client(
    { name: 'spec-v2', version: '1.0.0' },
    {
      capabilities: { ...(onElicit && { elicitation: {} }) },
      ...(era === '2026-07-28'
        ? { versionNegotiation: { mode: { pin: era } } }
        : { supportedProtocolVersions: [era] })
    }
  )
  if (onElicit) {
    client.setRequestHandler('elicitation/create', async ({ params }) => ({
      ...(await onElicit(params))
    }))
  }
  const errors: Error[] = []
  client.onerror = error => errors.push(error)
  const transport = new v2.StreamableHTTPClientTransport(new URL(url), {
    fetch: options.fetch ?? fetch,
    requestInit: { headers: options.headers ?? {} },
    reconnectionOptions: { ...FAST, ...options.reconnection }
  })
  const close = closeLater(() => client.close())
  await client.connect(transport)
  return { client, transport, errors, close }
}
