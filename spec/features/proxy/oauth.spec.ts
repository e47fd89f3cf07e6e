// OAuth through the command `proxy`: a stock client logs in at its address, by the auth classes of
// the official SDKs on both sides.

import { describe, expect, it } from '@jest/globals'
import * as v2 from '@modelcontextprotocol/client'
import type { OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { DemoInMemoryAuthProvider } from '@modelcontextprotocol/sdk/examples/server/demoInMemoryOAuthProvider.js'
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js'
import {
  createOAuthMetadata,
  getOAuthProtectedResourceMetadataUrl,
  mcpAuthMetadataRouter,
  mcpAuthRouter
} from '@modelcontextprotocol/sdk/server/auth/router.js'
import type { OAuthTokens } from '@modelcontextprotocol/sdk/shared/auth.js'
import express, { type RequestHandler } from 'express'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { freePort } from '../../helpers/free-port.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { callTool, ended, get, headersFor, post } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { startProxy } from './start-proxy.js'

const WELL_KNOWN = '/.well-known/oauth-protected-resource'
const CALLBACK = 'http://127.0.0.1/callback'
const HEADERS = headersFor({ version: '2025-11-25' })

/** A client's side of OAuth, whose user agrees to all. */
class Agreeing implements OAuthClientProvider {
  readonly redirectUrl = CALLBACK
  readonly clientMetadata = {
    redirect_uris: [CALLBACK],
    token_endpoint_auth_method: 'none',
    client_name: 'a client'
  }
  readonly #kept: Record<string, unknown> = {}
  /** Where the user has been sent. */
  sentTo: URL | undefined

  clientInformation = (): Json => this.#kept['client']
  saveClientInformation = (client: unknown): void => void (this.#kept['client'] = client)
  tokens = (): OAuthTokens | undefined => this.#kept['tokens'] as OAuthTokens | undefined
  saveTokens = (tokens: unknown): void => void (this.#kept['tokens'] = tokens)
  codeVerifier = (): string => this.#kept['verifier'] as string
  saveCodeVerifier = (verifier: string): void => void (this.#kept['verifier'] = verifier)
  discoveryState = (): Json => this.#kept['discovery']
  saveDiscoveryState = (state: unknown): void => void (this.#kept['discovery'] = state)
  redirectToAuthorization = (url: URL): void => void (this.sentTo = url)

  async code(): Promise<URLSearchParams> {
    const { headers } = await fetch(this.sentTo!, { redirect: 'manual' })
    return new URL(headers.get('location')!).searchParams
  }
}

/** An MCP server that wants tokens, and the server that gives them, both of the SDK. */
async function guarded(named?: (target: URL) => string) {
  const provider = new DemoInMemoryAuthProvider()
  const issuerUrl = new URL(`http://127.0.0.1:${await freePort()}`)
  // Their limits on rates have timers that nobody stops.
  const free = { rateLimit: false } as const
  const router = mcpAuthRouter({
    provider,
    issuerUrl,
    authorizationOptions: free,
    tokenOptions: free,
    clientRegistrationOptions: free
  })
  const authorization = express().use(router as RequestHandler)
  const server = authorization.listen(Number(issuerUrl.port), '127.0.0.1')
  closeLater(() => {
    server.closeAllConnections()
    server.close()
  })
  const app = express()
  const { url, port } = await listen(app)
  const target = new URL(`${url}/mcp`)
  const oauthMetadata = createOAuthMetadata({ provider, issuerUrl })
  app.use(mcpAuthMetadataRouter({ oauthMetadata, resourceServerUrl: target }) as RequestHandler)
  const resourceMetadataUrl = named?.(target) ?? getOAuthProtectedResourceMetadataUrl(target)
  const bearer = requireBearerAuth({ verifier: provider, resourceMetadataUrl }) as RequestHandler
  app.use('/mcp', bearer, sdkV1Stateful())
  return { app, target, port, issuerUrl }
}

const CLIENTS: Record<string, (url: URL, authProvider: Agreeing) => [Json, Json]> = {
  'SDK v1': (url, authProvider) => [
    new Client({ name: 'a', version: '1' }),
    new StreamableHTTPClientTransport(url, { authProvider })
  ],
  'SDK v2': (url, authProvider) => [
    new v2.Client({ name: 'a', version: '1' }),
    new v2.StreamableHTTPClientTransport(url, { authProvider: authProvider as Json })
  ]
}

/** Connects as applications do, and returns what the client has asked for a token for. */
async function logIn(url: string, connect: (typeof CLIENTS)[string]): Promise<string | null> {
  const agreeing = new Agreeing()
  const [first, before] = connect(new URL(url), agreeing)
  await expect(first.connect(before)).rejects.toThrow(/unauthorized/i)
  await before.finishAuth(await agreeing.code().then(code => code.get('code')))
  await first.close()
  const [client, transport] = connect(new URL(url), agreeing)
  await client.connect(transport)
  closeLater(() => client.close())
  expect((await client.listTools()).tools).not.toEqual([])
  return agreeing.sentTo!.searchParams.get('resource')
}

describe.each(Object.entries(CLIENTS))('%s', (_, connect) => {
  it('logs in at the address of the proxy', async () => {
    const { target } = await guarded()
    const { url, port } = await startProxy(target.href)
    expect(await logIn(url, connect)).toBe(url)
    const other = url.replace('127.0.0.1', 'localhost')
    expect(await logIn(other, connect)).toBe(`http://localhost:${port}/mcp`)
  })
})

describe('the challenge of a target', () => {
  it('names the metadata at the proxy, and keeps what else it says', async () => {
    const { target } = await guarded()
    const { url, port } = await startProxy(target.href)
    const { status, headers } = await ended(post(url, callTool(1, 'any'), HEADERS))
    expect(status).toBe(401)
    expect(headers['www-authenticate']).toBe(
      'Bearer error="invalid_token", error_description="Missing Authorization header", ' +
        `resource_metadata="http://127.0.0.1:${port}${WELL_KNOWN}/mcp"`
    )
  })

  it.each([
    ['none that it is told', { host: 'mcp.example' }, [], 'http://mcp.example', '/mcp'],
    [
      'https where TLS ends in front',
      { host: 'mcp.example', 'x-forwarded-proto': 'https, http' },
      [],
      'https://mcp.example',
      '/mcp'
    ],
    [
      'its public URL',
      {},
      ['--public-url', 'https://mcp.example/team/mcp/'],
      'https://mcp.example',
      '/team/mcp/'
    ]
  ])('is of %s', async (_, headers, args, origin, path) => {
    const { target } = await guarded()
    const { url } = await startProxy(target.href, ['--allowed-hosts', 'mcp.example', ...args])
    const challenged = await ended(post(url, callTool(1, 'any'), { ...HEADERS, ...headers }))
    const named = /resource_metadata="(.*?)"/.exec(challenged.headers['www-authenticate']!)![1]!
    expect(named).toBe(origin + WELL_KNOWN + path.replace(/\/$/, ''))
    const metadata = await ended(get(new URL(new URL(named).pathname, url), headers))
    expect(await metadata.json()).toMatchObject({ resource: origin + path })
  })
})

describe('the metadata', () => {
  it('are those of the target, but for the resource', async () => {
    const { target, issuerUrl } = await guarded()
    const { url } = await startProxy(target.href)
    for (const path of [WELL_KNOWN, `${WELL_KNOWN}/mcp`, `${WELL_KNOWN}/mcp/`]) {
      const metadata = await ended(get(new URL(path, url)))
      expect(await metadata.json()).toEqual({
        resource: url,
        authorization_servers: [issuerUrl.href]
      })
    }
  })

  it('are found where the target says that they are, at its own address', async () => {
    const { app, target } = await guarded(() => 'https://known-as.example/meta?of=mcp')
    app.get('/meta', ({ query }, res) => {
      res.json({ resource: 'https://known-as.example/mcp', ...query, signed_metadata: 'a.b.c' })
    })
    const { url } = await startProxy(target.href)
    await ended(post(url, callTool(1, 'any'), HEADERS))
    const metadata = await ended(get(new URL(WELL_KNOWN, url)))
    expect(await metadata.json()).toEqual({ resource: url, of: 'mcp' })
  })

  it('are of a root for an endpoint that is at a root', async () => {
    const { url: target } = await listen((req, res) => {
      const isThere = req.url === WELL_KNOWN
      res.writeHead(isThere ? 200 : 404).end(isThere ? `{"resource":"${target}/"}` : '')
    })
    const { port } = await startProxy(target)
    const metadata = await ended(get(`http://127.0.0.1:${port}${WELL_KNOWN}`))
    expect(await metadata.json()).toEqual({ resource: `http://127.0.0.1:${port}/` })
  })

  it.each<[string, RequestHandler]>([
    ['there are none', (_, res) => void res.status(404).end()],
    ['they are elsewhere', (_, res) => res.redirect('http://127.0.0.1:1/')],
    ['they are no JSON', (_, res) => void res.send('<p>{"resource":1}</p>')],
    ['they are of nothing', (_, res) => void res.json({ resource: 1 })],
    ['they are endless', (_, res) => void res.write(' '.repeat(1_000_000))],
    ['their target breaks off', req => void req.socket.destroy()]
  ])('are a 404 where %s', async (_, handler) => {
    const { url: target } = await listen(express().use(handler))
    const { url } = await startProxy(`${target}/mcp`)
    const { status, text } = await ended(get(new URL(`${WELL_KNOWN}/mcp`, url)))
    expect([status, text]).toEqual([
      404,
      'Not found: the target has no metadata of a protected resource\n'
    ])
  })
})
