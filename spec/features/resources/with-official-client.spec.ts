// The official SDKs on both sides, unmodified: what they see of streams, and what they do not.

import { describe, expect, it } from '@jest/globals'
import { readThrough, resources, type ResourcesOptions } from '../../../lib/resources/index.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { type Handler } from '../../helpers/listen.js'
import {
  headersFor,
  initializeSession,
  post,
  postModern,
  request,
  withEnvelope
} from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { BYTES, resourcesModern, resourcesV1, resourcesV2, URI } from './sdk-endpoints.js'
import { DECLARED, errorOf, VERSION, whole } from './setup.js'

const ENDPOINTS: [name: string, endpoint: () => Handler][] = [
  ['v1 in JSON', () => resourcesV1(true)],
  ['v1 in event streams', () => resourcesV1(false)],
  ['v2 in JSON', () => resourcesV2(true)],
  ['v2 in event streams', () => resourcesV2(false)]
]
const asked = request(1, 'resources/stream', { uri: URI })

describe.each(ENDPOINTS)('a session of SDK %s', (_name, endpoint) => {
  it('gains resources/stream by one word of configuration', async () => {
    const { url } = await serve(endpoint(), { resources: resources(readThrough()) })
    const { headers, result } = await initializeSession(url, VERSION, {}, DECLARED)
    expect(result.capabilities.resources).toMatchObject({ stream: true, listChanged: true })
    const response = await whole(post(url, asked, { ...headers, accept: 'application/json, */*' }))
    expect(response.headers).toMatchObject({
      'content-type': 'image/png',
      'content-length': String(BYTES.length),
      'content-disposition': 'attachment; filename="picture.png"',
      'mcp-resource-uri': URI
    })
    expect(response.bytes.equals(BYTES)).toBe(true)
    const gone = request(2, 'resources/stream', { uri: 'test:///nowhere' })
    expect(await errorOf(post(url, gone, { ...headers, accept: '*/*' }))).toMatchObject({
      code: -32002
    })
  })

  it('refuses a session that it does not know, and one that is missing, in its own words', async () => {
    const { url } = await serve(endpoint(), { resources: resources(readThrough()) })
    const headers = { ...headersFor({ version: VERSION }), accept: '*/*' }
    const direct = await serve(endpoint())
    for (const session of [{}, { 'mcp-session-id': 'unknown' }] as Record<string, string>[]) {
      const refused = await whole(
        post(url, withEnvelope(asked, DECLARED), { ...headers, ...session })
      )
      const own = await whole(
        post(direct.url, request(1, 'ping'), { ...headersFor({ version: VERSION }), ...session })
      )
      expect(refused.status).toBeGreaterThanOrEqual(400)
      expect([refused.status, refused.text]).toEqual([own.status, own.text])
    }
  })

  it.each([
    ['v1', connectV1],
    ['v2', (url: string) => connectV2(url, { era: '2025-11-25' })]
  ])('serves the official client %s as before, and says more', async (_client, connect) => {
    const { url } = await serve(endpoint(), { resources: resources(readThrough()) })
    const { client, errors } = await connect(url)
    const listed = (await client.listResources()) as { resources: Json[] }
    expect(listed.resources).toMatchObject([{ uri: URI, name: 'picture' }])
    const { contents } = (await client.readResource({ uri: URI })) as { contents: Json[] }
    expect(Buffer.from(contents[0]!.blob, 'base64').equals(BYTES)).toBe(true)
    expect(errors).toEqual([])
  })
})

describe('SDK v2 at 2026-07-28', () => {
  it('declares streams in server/discover and in lists, and serves them', async () => {
    const { url } = await serve(resourcesModern(), { resources: resources(readThrough()) })
    const messageOf = async (method: string) => {
      const response = await whole(postModern(url, request(1, method)))
      return response.headers['content-type']!.startsWith('text/event-stream')
        ? response.messages().at(-1)
        : JSON.parse(response.text)
    }
    expect((await messageOf('server/discover')).result.capabilities.resources).toMatchObject({
      stream: true
    })
    expect((await messageOf('resources/list')).result.resources).toMatchObject([
      { uri: URI, streamable: true }
    ])
    const message = withEnvelope(asked, DECLARED)
    const headers = { ...headersFor({ version: '2026-07-28', message }), accept: '*/*' }
    const response = await whole(post(url, message, headers))
    expect([response.headers['content-type'], response.bytes.equals(BYTES)]).toEqual([
      'image/png',
      true
    ])
    const gone = withEnvelope(request(1, 'resources/stream', { uri: 'test:///ü' }), DECLARED)
    expect(await errorOf(post(url, gone, headers))).toMatchObject({
      code: -32602,
      message: 'Resource not found'
    })
  })

  it('refuses a request that it would refuse itself, in its own words', async () => {
    const { url } = await serve(resourcesModern(), { resources: resources(readThrough()) })
    const response = await whole(
      post(url, asked, { ...headersFor({ version: '2026-07-28' }), accept: '*/*' })
    )
    expect(response.status).toBe(400)
    expect(JSON.parse(response.text).error.code).toEqual(expect.any(Number))
  })

  it('serves the official client as before', async () => {
    const { url } = await serve(resourcesModern(), { resources: resources(readThrough()) })
    const { client, errors } = await connectV2(url)
    expect((await client.listResources()).resources).toMatchObject([{ uri: URI }])
    const { contents } = (await client.readResource({ uri: URI })) as { contents: Json[] }
    expect(Buffer.from(contents[0]!.blob, 'base64').equals(BYTES)).toBe(true)
    expect(errors).toEqual([])
  })
})

describe('the official client v1', () => {
  const connect = async (options: ResourcesOptions) => {
    const { url } = await serve(resourcesV1(false), { resources: resources(options) })
    const connected = await connectV1(url, { capabilities: DECLARED as object })
    const ask = () =>
      connected.client.request(
        { method: 'resources/stream', params: { uri: URI } } as never,
        {
          parse: (value: unknown) => value,
          safeParse: (data: unknown) => ({ success: true, data })
        } as never
      ) as Promise<Json>
    return { ...connected, url, ask }
  }

  it('gets a download URL through its own transport, and fetches it with its credentials', async () => {
    const { ask, url, transport } = await connect({
      ...readThrough(),
      mode: 'download',
      publicUrl: 'http://127.0.0.1:3000/mcp'
    })
    const result = await ask()
    expect(result).toMatchObject({ uri: URI, mimeType: 'image/png', size: BYTES.length })
    const { search } = new URL(result.downloadUrl)
    const response = await fetch(url + search, {
      headers: { 'mcp-session-id': transport.sessionId! }
    })
    expect(Buffer.from(await response.arrayBuffer()).equals(BYTES)).toBe(true)
  })

  it('is told that it must accept bytes, where there is no download URL', async () => {
    const { ask } = await connect(readThrough())
    await expect(ask()).rejects.toMatchObject({ code: -32003 })
  })
})
