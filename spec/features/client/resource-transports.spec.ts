// The official transports: `streamResource` asks as they would, with their URL, session,
// credentials and fetch.

import * as v2 from '@modelcontextprotocol/client'
import * as v1 from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { describe, expect, it } from '@jest/globals'
import { streamResource, type ResourceTransport } from '../../../lib/client/index.js'
import { getEventListeners } from 'node:events'
import {
  broken,
  bytesOf,
  direct,
  download,
  drain,
  FAST,
  ranged,
  RESOURCE,
  server,
  type Answer
} from './resource-server.js'

const BYTES = bytesOf(30_000)

type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>
interface Made {
  sessionId?: string
  requestInit?: RequestInit
  fetch?: Fetch
  /** What `tokens()` gives; `login` makes the next ones. */
  tokens?: string[]
}
type Transport = ResourceTransport & {
  onerror?: ((error: Error) => void) | undefined
  setProtocolVersion(version: string): void
  start(): Promise<void>
  close(): Promise<void>
}

const kinds: [string, (url: string, options?: Made) => Transport][] = [
  [
    'v1',
    (url, { tokens, ...options } = {}) =>
      new v1.StreamableHTTPClientTransport(new URL(url), {
        ...options,
        ...(tokens && { authProvider: oauth(tokens) as never })
      }) as unknown as Transport
  ],
  [
    'v2',
    (url, { tokens, ...options } = {}) =>
      new v2.StreamableHTTPClientTransport(new URL(url), {
        ...options,
        ...(tokens && {
          authProvider: {
            token: () => Promise.resolve(tokens[0]),
            onUnauthorized: () => Promise.resolve(void tokens.shift())
          }
        })
      }) as unknown as Transport
  ]
]

/** As much of an OAuth provider as it takes to have a token, and to fail to get another. */
const oauth = (tokens: string[]) => ({
  tokens: () => ({ access_token: tokens[0], token_type: 'Bearer' }),
  clientMetadata: { redirect_uris: [] },
  clientInformation: () => undefined,
  redirectUrl: 'http://127.0.0.1:1/'
})

async function whole(transport: Transport, options = {}): Promise<boolean> {
  const { bytes, error } = await drain(
    await streamResource(transport, RESOURCE, { ...FAST, ...options })
  )
  if (error !== undefined) throw error
  return bytes.equals(BYTES)
}

describe.each(kinds)('the transport of SDK %s', (_name, transportTo) => {
  it('gives its URL, session, protocol version and headers, to a later range as well', async () => {
    const { url, requests } = await server(broken(BYTES, 100), ranged(BYTES))
    const transport = transportTo(`${url}?tenant=1`, {
      sessionId: 's-1',
      requestInit: { headers: { Authorization: 'Bearer mine', 'X-Api-Key': 'k' } }
    })
    transport.setProtocolVersion('2025-11-25')
    expect(await whole(transport)).toBe(true)
    expect(requests).toHaveLength(2)
    for (const { url: path, headers } of requests) {
      expect(path).toBe('/mcp?tenant=1')
      expect(headers).toMatchObject({
        authorization: 'Bearer mine',
        'x-api-key': 'k',
        'mcp-session-id': 's-1',
        'mcp-protocol-version': '2025-11-25',
        accept: 'application/json, */*'
      })
    }
  })

  it('at 2026-07-28 says so in the message and in the head', async () => {
    const { url, requests } = await server(direct(BYTES))
    const transport = transportTo(url)
    transport.setProtocolVersion('2026-07-28')
    expect(await whole(transport)).toBe(true)
    const { headers, message } = requests[0]!
    expect(headers).toMatchObject({
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'resources/stream'
    })
    expect(message!.params._meta).toMatchObject({
      'io.modelcontextprotocol/protocolVersion': '2026-07-28'
    })
  })

  it('goes behind the headers of the option', async () => {
    const { url, requests } = await server(direct(BYTES))
    const transport = transportTo(url, {
      requestInit: { headers: { Authorization: 'Bearer old', 'X-Kept': 'yes' } }
    })
    expect(await whole(transport, { headers: { Authorization: 'Bearer new' } })).toBe(true)
    expect(requests[0]!.headers).toMatchObject({ authorization: 'Bearer new', 'x-kept': 'yes' })
  })

  it('fetches for its own origin, and for no other', async () => {
    const storage = await server(direct(BYTES))
    const answers: Answer[] = []
    const { url, origin } = await server(
      (...about) => answers[0]!(...about),
      (...about) => answers[1]!(...about)
    )
    answers.push(download(`${origin}/1`), res =>
      res.writeHead(302, { Location: `${storage.origin}/2` }).end()
    )
    const fetched: string[] = []
    const careless: Fetch = (input, init) => {
      fetched.push(`${init?.method ?? 'GET'} ${new URL(input).pathname}`)
      const headers = new Headers(init?.headers)
      headers.set('Authorization', 'Bearer everywhere')
      return fetch(input, { ...init, headers })
    }
    expect(await whole(transportTo(url, { fetch: careless }))).toBe(true)
    expect(fetched).toEqual(['POST /mcp', 'GET /1'])
    expect(storage.requests[0]!.headers).not.toHaveProperty('authorization')
  })

  it('sends its token', async () => {
    const { url, requests } = await server(direct(BYTES))
    expect(await whole(transportTo(url, { tokens: ['t-1'] }))).toBe(true)
    expect(requests[0]!.headers.authorization).toBe('Bearer t-1')
  })

  it('that is refused is unauthorized, and hears of no error that is not its own', async () => {
    const refuse: Answer = res => res.writeHead(401).end()
    const { url } = await server(refuse, refuse)
    const transport = transportTo(url)
    const errors: Error[] = []
    transport.onerror = error => errors.push(error)
    const failing = streamResource(transport, RESOURCE, FAST)
    await expect(failing).rejects.toMatchObject({
      name: 'ResourceStreamError',
      code: 'unauthorized',
      status: 401,
      cause: { message: expect.any(String) }
    })
    expect(errors).toEqual([])
  })

  it('ends a transfer when it is closed', async () => {
    const { url, requests } = await server(res => {
      res.writeHead(200, { 'Content-Type': 'a/b', 'MCP-Resource-Uri': RESOURCE }).write('half')
    })
    const transport = transportTo(url)
    await transport.start()
    const { stream } = await streamResource(transport, RESOURCE, FAST)
    const reader = stream.getReader()
    await reader.read()
    await transport.close()
    await expect(reader.read()).rejects.toMatchObject({ name: 'AbortError' })
    await requests[0]!.closed
    await expect(streamResource(transport, RESOURCE, FAST)).rejects.toMatchObject({
      name: 'AbortError'
    })
  })

  it('is left without listeners', async () => {
    const { url } = await server(broken(BYTES, 5), ranged(BYTES))
    const transport = transportTo(url)
    await transport.start()
    expect(await whole(transport)).toBe(true)
    const { _abortController: controller } = transport as unknown as {
      _abortController: AbortController
    }
    expect(getEventListeners(controller.signal, 'abort')).toEqual([])
  })

  it('has one listener of a transfer, however many requests it takes', async () => {
    const { url } = await server(
      ...Array.from({ length: 14 }, () => broken(BYTES, 5)),
      ranged(BYTES)
    )
    const transport = transportTo(url)
    await transport.start()
    const { _abortController: controller } = transport as unknown as {
      _abortController: AbortController
    }
    const counts: number[] = []
    const onReconnect = () => counts.push(getEventListeners(controller.signal, 'abort').length)
    expect(await whole(transport, { onReconnect })).toBe(true)
    expect(counts).toEqual(Array(14).fill(1))
  })

  it('tells of an error of the network, and is asked again', async () => {
    const { url } = await server(
      (_res, { req }) => void req.socket.resetAndDestroy(),
      broken(BYTES, 5),
      (_res, { req }) => void req.socket.resetAndDestroy(),
      ranged(BYTES)
    )
    const transport = transportTo(url)
    const errors: Error[] = []
    transport.onerror = error => errors.push(error)
    expect(await whole(transport)).toBe(true)
    expect(errors).toEqual([])
  })
})

describe('a transport of SDK v2', () => {
  it('has its token renewed, and sends again', async () => {
    const { url, requests } = await server(
      res => res.writeHead(401).end(),
      broken(BYTES, 5),
      res => res.writeHead(401).end(),
      ranged(BYTES)
    )
    const [, [, v2To]] = kinds as [(typeof kinds)[0], (typeof kinds)[0]]
    expect(await whole(v2To(url, { tokens: ['t-1', 't-2', 't-3'] }))).toBe(true)
    expect(requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer t-1',
      'Bearer t-2',
      'Bearer t-2',
      'Bearer t-3'
    ])
  })
})

describe('what only looks like a transport', () => {
  it.each([
    ['an older one, without a fetch of its own', { send: () => Promise.resolve() }],
    ['one that does not send', { send: () => Promise.resolve(), _fetch: undefined }]
  ])('such as %s is told from a server that does not answer', async (_name, transport) => {
    await expect(streamResource(transport, RESOURCE, FAST)).rejects.toThrow(
      /pass the URL and `headers`/
    )
  })
})
