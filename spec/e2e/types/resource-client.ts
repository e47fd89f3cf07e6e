// What must compile for users of `streamResource`, and, each under @ts-expect-error, what must not. Checked by `npm run types`, never run.
import * as v2 from '@modelcontextprotocol/client'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {
  ResourceStreamError,
  streamResource,
  type ResourceProgress,
  type ResourceReconnection,
  type ResourceStream,
  type ResourceStreamErrorCode,
  type ResourceTransport,
  type RpcError,
  type StreamResourceOptions
} from 'express-mcp-streams/client'
import { saveResource, type SavedResource } from 'express-mcp-streams/client/node'

const url = new URL('http://127.0.0.1/mcp')

// --- what it is asked with

const found: ResourceStream = await streamResource(url, 'file:///a')
await streamResource('http://127.0.0.1/mcp', 'file:///a', undefined)
await streamResource(new StreamableHTTPClientTransport(url), 'file:///a', {})
await streamResource(new v2.StreamableHTTPClientTransport(url), 'file:///a')
const transport: ResourceTransport = new v2.StreamableHTTPClientTransport(url)
// @ts-expect-error a client has a transport, and is none
await streamResource(new v2.Client({ name: 'a', version: '1' }), 'file:///a')
// @ts-expect-error a URI is a string
await streamResource(url, url)

// --- its options

const options: StreamResourceOptions = {
  maxStreamSize: 2 ** 30,
  signal: AbortSignal.timeout(1),
  headers: () => Promise.resolve({ Authorization: 'Bearer x' }),
  onProgress: ({ received, size }: ResourceProgress) => void (received / (size ?? NaN)),
  trustedOrigins: ['https://storage.example'],
  fetch: (input, init) => fetch(input, init),
  maxRetries: 5,
  minTimeout: 500,
  maxTimeout: 30_000,
  timeoutFactor: 2,
  idleTimeout: null,
  onReconnect: ({ attempt, delay, received, reason }: ResourceReconnection) =>
    void [attempt, delay, received, reason]
}
await streamResource(url, 'file:///a', {
  signal: undefined,
  maxStreamSize: undefined,
  fetch: undefined
})
// @ts-expect-error bytes
await streamResource(url, 'file:///a', { maxStreamSize: '1gb' })
// @ts-expect-error a list
await streamResource(url, 'file:///a', { trustedOrigins: '*' })
// @ts-expect-error no such option
await streamResource(url, 'file:///a', { retries: 1 })

// --- what comes of it

const facts: [string, string | undefined, number | undefined, string] = [
  found.mimeType,
  found.name,
  found.size,
  found.uri
]
const stream: ReadableStream<Uint8Array> = found.stream
// @ts-expect-error the server may not say
const size: number = found.size

const saved: SavedResource = await saveResource(
  transport,
  'file:///a',
  new URL('file:///tmp/a'),
  options
)
const path: string = (await saveResource(url, 'file:///a', 'a')).path

// --- and what goes wrong

try {
  void [facts, stream, size, saved, path]
} catch (error) {
  if (error instanceof ResourceStreamError) {
    const code: ResourceStreamErrorCode = error.code
    const status: number | undefined = error.status
    const said: RpcError | undefined = error.rpcError
    // @ts-expect-error no such code
    if (error.code === 'gone') void [code, status, said]
  }
}
