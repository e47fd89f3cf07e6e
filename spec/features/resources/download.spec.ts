// Download URLs: unguessable, bound to an owner and a session, good for a time or until shortly after
// they have been delivered whole.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { nanoid } from 'nanoid'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import {
  type Resource,
  type ResourceContext,
  resources,
  type ResourcesOptions
} from '../../../lib/resources/index.js'
import { type RawCall, rawEndpoint } from '../../helpers/endpoints/raw.js'
import { until } from '../../helpers/happenings.js'
import { callTool, del, headersFor, post, request, withEnvelope } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { sleep } from '../../helpers/sleep.js'
import { rawExchange } from '../who/raw-exchange.js'
import {
  answerJson,
  DECLARED,
  fetchUrl,
  later,
  serveResources,
  testBytes,
  whole,
  type SetupOptions
} from './setup.js'

const SIZE = 500_000
const CONTENT = testBytes(SIZE)
const PUBLIC = 'https://mcp.example/gateway/mcp?tenant=7'
let folder: string
let file: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mcp-resources-'))
  file = join(folder, 'file.pdf')
  await writeFile(file, CONTENT)
})
afterAll(() => rm(folder, { recursive: true }))

const SOURCES: [kind: string, resource: () => Resource, hasRanges: boolean][] = [
  ['a file', () => ({ path: file, etag: 'v1' }), true],
  ['bytes', () => ({ body: CONTENT, etag: 'v1', name: 'file.pdf' }), true],
  [
    'a range',
    () => ({
      size: SIZE,
      etag: 'v1',
      name: 'file.pdf',
      range: (a, b) => CONTENT.subarray(a, b + 1)
    }),
    true
  ],
  [
    'a stream',
    () => ({ body: () => Readable.from([CONTENT]), etag: 'v1', name: 'file.pdf' }),
    false
  ]
]

/**
 * A server in download mode, and a URL for one of its resources, as it is reached here and not at
 * its public name.
 */
async function download(
  resources: Partial<ResourcesOptions> & { open?: ResourcesOptions['open'] } = {},
  options: SetupOptions = {}
) {
  const all: ResourcesOptions = {
    open: () => ({ path: file, etag: 'v1' }),
    mode: 'download',
    publicUrl: PUBLIC,
    ...resources
  }
  const server = await serveResources(all, { auth: 'alice', ...options })
  const issue = async () => {
    const { result } = await (await server.ask('a:1')).json()
    const { search } = new URL(result.downloadUrl)
    return { result, local: server.url + search }
  }
  const { accept: _accept, ...credentials } = server.headers
  return { ...server, issue, credentials, ...(await issue()) }
}

describe('the answer to the POST', () => {
  it('names the resource and a URL of its own, made from publicUrl and nothing else', async () => {
    const { result } = await download()
    expect(result).toEqual({
      uri: 'a:1',
      mimeType: 'application/pdf',
      size: SIZE,
      downloadUrl: expect.stringMatching(
        /^https:\/\/mcp\.example\/gateway\/mcp\?tenant=7&download=[\w-]{21}$/
      )
    })
  })

  it('is another URL each time, and says no size where none is known', async () => {
    const { issue } = await download({ open: () => ({ body: () => Readable.from([CONTENT]) }) })
    const [one, two] = [await issue(), await issue()]
    expect(one.local).not.toBe(two.local)
    expect('size' in one.result).toBe(false)
  })

  it('opens nothing, and destroys what was opened', async () => {
    const opened = Readable.from([CONTENT])
    let calls = 0
    await download({ open: () => ({ body: opened }) })
    expect(opened.destroyed).toBe(true)
    await download({ open: () => ({ body: () => (calls++, Readable.from([CONTENT])) }) })
    expect(calls).toBe(0)
  })
})

describe.each(SOURCES)('a download of %s', (_kind, resource, hasRanges) => {
  it('has the headers of a direct answer', async () => {
    const { local, credentials } = await download({ open: resource })
    const response = await whole(fetchUrl(local, credentials))
    expect([response.status, response.ending, response.bytes.equals(CONTENT)]).toEqual([
      200,
      'end',
      true
    ])
    expect(response.headers).toMatchObject({
      'content-type': 'application/pdf',
      'content-disposition': 'attachment; filename="file.pdf"',
      'mcp-resource-uri': 'a:1',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'accept-ranges': hasRanges ? 'bytes' : 'none',
      etag: '"v1"'
    })
  })

  it('names a URL that HEAD does not use up', async () => {
    const { local, credentials } = await download({ open: resource })
    for (let i = 0; i < 3; i++) {
      const response = await whole(fetchUrl(local, credentials, 'HEAD'))
      expect([response.status, response.bytes.length, response.headers.etag]).toEqual([
        200,
        0,
        '"v1"'
      ])
      if (hasRanges) expect(response.headers['content-length']).toBe(String(SIZE))
    }
    expect((await whole(fetchUrl(local, credentials))).bytes.length).toBe(SIZE)
  })

  it('names a URL whose HEAD ignores ranges', async () => {
    const { local, credentials } = await download({ open: resource })
    for (const range of ['bytes=5-9', `bytes=${SIZE}-`]) {
      const { status, headers } = await whole(fetchUrl(local, { ...credentials, range }, 'HEAD'))
      expect([status, headers['content-range']]).toEqual([200, undefined])
      if (hasRanges) expect(headers['content-length']).toBe(String(SIZE))
    }
  })

  it('names a URL that ends ten seconds after it was first delivered whole', async () => {
    const { local, credentials } = await download({ open: resource })
    await whole(fetchUrl(local, credentials))
    later(9000)
    expect((await whole(fetchUrl(local, credentials))).bytes.equals(CONTENT)).toBe(true)
    later(11_000)
    const again = await whole(fetchUrl(local, credentials))
    expect([again.status, JSON.parse(again.text).error.data]).toEqual([
      404,
      { reason: 'download-unknown' }
    ])
    expect((await whole(fetchUrl(local, credentials, 'HEAD'))).status).toBe(404)
  })

  it('names a URL that a 304 does not end', async () => {
    const { local, credentials } = await download({ open: resource })
    for (let i = 0; i < 2; i++) {
      const response = await whole(fetchUrl(local, { ...credentials, 'if-none-match': '"v1"' }))
      expect([response.status, response.text, response.headers['content-length']]).toEqual([
        304,
        '',
        undefined
      ])
    }
    // As `fetch` asks.
    const asked = { ...credentials, 'if-none-match': '"v1"', 'cache-control': 'no-cache' }
    expect((await whole(fetchUrl(local, asked))).status).toBe(304)
    expect((await whole(fetchUrl(local, credentials))).status).toBe(200)
  })
})

describe('a download in parts', () => {
  it('comes in any order, as often as is asked, until the URL expires', async () => {
    const { local, credentials } = await download()
    const part = (range: string) => whole(fetchUrl(local, { ...credentials, range }))
    for (const [range, from, end] of [
      ['bytes=300000-', 300_000, SIZE],
      ['bytes=-500', SIZE - 500, SIZE],
      ['bytes=100000-299999', 100_000, 300_000],
      ['bytes=0-', 0, SIZE],
      ['bytes=0-99999', 0, 100_000],
      ['bytes=0-', 0, SIZE]
    ] as const) {
      const { status, bytes } = await part(range)
      expect([status, bytes.equals(CONTENT.subarray(from, end))]).toEqual([206, true])
    }
    later(299_000)
    expect((await part('bytes=0-')).status).toBe(206)
    later(301_000)
    expect((await part('bytes=0-')).status).toBe(410)
  })

  it.each([
    ['Safari', ['bytes=0-1', 'bytes=0-', 'bytes=0-']],
    ['Chromium', ['bytes=0-', 'bytes=499000-', 'bytes=32000-', 'bytes=0-']]
  ])('is what a media player asks for: %s', async (_player, ranges) => {
    const { local, credentials } = await download()
    const ask = (range: string) => fetchUrl(local, { ...credentials, range })
    for (const range of ranges) {
      // It has its first bytes, and breaks off to ask for others.
      const begun = await ask(range)
      expect(begun.status).toBe(206)
      await until(() => begun.bytes.length > 0)
      begun.destroy()
    }
    const played = await whole(ask('bytes=0-'))
    expect(played.bytes.equals(CONTENT)).toBe(true)
    // Played to its end, it is looked at again.
    later(200_000)
    const again = await whole(ask('bytes=1000-'))
    expect([again.status, again.bytes.equals(CONTENT.subarray(1000))]).toEqual([206, true])
  })

  it('goes on after a cut, also behind a delivery that the server takes for complete', async () => {
    const { local, credentials } = await download()
    const cut = await fetchUrl(local, credentials)
    cut.destroy()
    await cut.ended
    const rest = await whole(
      fetchUrl(local, { ...credentials, range: 'bytes=1000-', 'if-range': '"v1"' })
    )
    expect([rest.status, rest.bytes.equals(CONTENT.subarray(1000))]).toEqual([206, true])
    await whole(fetchUrl(local, credentials))
    const tail = () => whole(fetchUrl(local, { ...credentials, range: `bytes=${SIZE - 10}-` }))
    expect((await tail()).bytes.equals(CONTENT.subarray(SIZE - 10))).toBe(true)
    later(11_000)
    expect((await tail()).status).toBe(404)
  })

  it('answers 416 for a range that does not exist, and does not use up the URL', async () => {
    const { local, credentials } = await download()
    const response = await whole(fetchUrl(local, { ...credentials, range: `bytes=${SIZE}-` }))
    expect([response.status, response.headers['content-range']]).toEqual([416, `bytes */${SIZE}`])
    expect(response.headers['mcp-resource-uri']).toBeUndefined()
    expect((await whole(fetchUrl(local, { ...credentials, 'if-match': '"v2"' }))).status).toBe(412)
    expect((await whole(fetchUrl(local, credentials))).status).toBe(200)
  })

  it('can be repeated where it was broken off', async () => {
    let fails = true
    const open = () => ({
      size: SIZE,
      body: () => Readable.from(fails ? [CONTENT.subarray(0, 100_000)] : [CONTENT])
    })
    const { local, credentials } = await download({ open })
    expect((await whole(fetchUrl(local, credentials))).ending).not.toBe('end')
    fails = false
    expect((await whole(fetchUrl(local, credentials))).bytes.equals(CONTENT)).toBe(true)
  })

  it('comes in as many parts as cuts need, each from where the client was', async () => {
    const { local, credentials } = await download()
    const pieces: Buffer[] = []
    let from = 0
    while (from < SIZE) {
      const response = await fetchUrl(local, {
        ...credentials,
        range: `bytes=${from}-`,
        'if-range': '"v1"'
      })
      expect(response.status).toBe(206)
      await until(() => response.bytes.length > 0 || response.ending !== undefined)
      response.destroy()
      await response.ended
      pieces.push(response.bytes.subarray(0, 20_011))
      from += pieces.at(-1)!.length
    }
    expect(pieces.length).toBeGreaterThan(20)
    expect(Buffer.concat(pieces).equals(CONTENT)).toBe(true)
  })
})

describe('a download URL', () => {
  it('expires, and its owner is told so', async () => {
    const { local, credentials } = await download({ ticketTtl: 1 })
    await sleep(5)
    const response = await whole(fetchUrl(local, credentials))
    expect([response.status, JSON.parse(response.text).error.data]).toEqual([
      410,
      { reason: 'download-expired' }
    ])
    // Nobody else is.
    expect((await whole(fetchUrl(local, { authorization: 'Bearer bob' }))).status).toBe(404)
  })

  it('of another owner is answered like an unknown one', async () => {
    const { local, url, credentials, errors } = await download()
    const bob = { Authorization: 'Bearer bob', 'Mcp-Session-Id': 's1' }
    const ask = (id: string, headers: Record<string, string>) =>
      rawExchange(`${url}?tenant=7&download=${id}`, 'GET', headers)
    const id = new URL(local).searchParams.get('download')!
    const never = await ask(nanoid(), bob)
    expect(never).toMatch(/^HTTP\/1\.1 404 /)
    for (const headers of [
      bob,
      { 'Mcp-Session-Id': 's1' },
      { Authorization: 'Bearer alice', 'Mcp-Session-Id': 's2' }
    ])
      expect(await ask(id, headers as Record<string, string>)).toBe(never)
    for (const name of [nanoid(), `${id}&download=${id}`, `${id}&download=`])
      expect(await ask(name, { Authorization: 'Bearer alice' })).toBe(never)
    expect((await whole(fetchUrl(local, credentials))).status).toBe(200)
    expect(errors).toEqual([])
  })

  it('without its session is answered like an unknown one', async () => {
    const { local, url, credentials } = await download()
    const without = await whole(fetchUrl(local, { authorization: 'Bearer alice' }))
    const never = await whole(
      fetchUrl(`${url}?tenant=7&download=${nanoid()}`, { authorization: 'Bearer alice' })
    )
    expect([without.status, without.text]).toEqual([404, never.text])
    expect(without.rawHeaders.filter(text => !/GMT$/.test(text))).toEqual(
      never.rawHeaders.filter(text => !/GMT$/.test(text))
    )
    expect((await whole(fetchUrl(local, credentials))).status).toBe(200)
  })

  it('ends with its session', async () => {
    const { local, url, credentials } = await download(
      {},
      {
        script: call =>
          call.req.method === 'DELETE' ? call.res.writeHead(200).end() : answerJson(call)
      }
    )
    expect((await del(url, credentials)).status).toBe(200)
    expect((await whole(fetchUrl(local, credentials))).status).toBe(404)
  })

  it('is refused to pages of other origins, before any look-up', async () => {
    const { local, url, credentials } = await download()
    for (const target of [local, `${url}?download=${nanoid()}`]) {
      const response = await whole(
        fetchUrl(target, { ...credentials, origin: 'https://evil.example' })
      )
      expect([response.status, JSON.parse(response.text).error.data]).toEqual([
        403,
        { reason: 'foreign-origin' }
      ])
    }
  })

  it.each(['POST', 'PUT', 'DELETE', 'PATCH'])('is not for %s', async method => {
    const { local, credentials, endpoint } = await download()
    const before = endpoint.requests.length
    const response = await whole(fetchUrl(local, credentials, method))
    expect([response.status, response.headers.allow]).toEqual([405, 'GET, HEAD, OPTIONS'])
    expect(endpoint.requests.length).toBe(before)
  })

  it('passes OPTIONS on to the application', async () => {
    const { local } = await download(
      {},
      {
        script: call =>
          call.req.method === 'OPTIONS' ? call.res.writeHead(204).end() : answerJson(call)
      }
    )
    expect((await whole(fetchUrl(local, {}, 'OPTIONS'))).status).toBe(204)
  })

  it('makes the middleware ask the endpoint for permission again, in the session of the POST', async () => {
    let isRevoked = false
    const { local, endpoint, credentials } = await download(
      {},
      {
        script: call =>
          isRevoked
            ? call.res.writeHead(401, { 'WWW-Authenticate': 'Bearer' }).end()
            : answerJson(call)
      }
    )
    const before = endpoint.requests.length
    isRevoked = true
    const response = await whole(fetchUrl(local, credentials))
    expect([response.status, response.headers['www-authenticate']]).toEqual([401, 'Bearer'])
    const [probe, ...others] = endpoint.requests.slice(before)
    expect(others).toEqual([])
    expect(probe!.message.method).toBe('ping')
    expect(probe!.req.url).not.toContain('download')
    expect(probe!.req.url).toContain('tenant=7')
    expect(probe!.req.headers).toMatchObject({
      'mcp-session-id': 's1',
      authorization: 'Bearer alice'
    })
  })

  it('is refused with 403 where the endpoint refuses by a JSON-RPC error', async () => {
    let isRevoked = false
    const { local, credentials } = await download(
      {},
      { script: call => (isRevoked ? call.error(-32001, 'Unauthorized') : answerJson(call)) }
    )
    isRevoked = true
    const response = await whole(fetchUrl(local, credentials))
    const error = { code: -32001, message: 'Unauthorized' }
    expect([response.status, JSON.parse(response.text)]).toEqual([
      403,
      { jsonrpc: '2.0', id: null, error }
    ])
  })

  it('of a POST at 2026-07-28 makes it ask as that revision does', async () => {
    const endpoint = rawEndpoint(call => answerJson(call, { capabilities: {} }))
    const { url } = await serve(endpoint, {
      resources: resources({ open: () => ({ path: file }), mode: 'download', publicUrl: PUBLIC })
    })
    const message = withEnvelope(request(1, 'resources/stream', { uri: 'a:1' }), DECLARED)
    const { result } = await (
      await post(url, message, headersFor({ version: '2026-07-28', message }))
    ).json()
    expect(
      (await whole(fetchUrl(url + new URL(result.downloadUrl).search))).bytes.equals(CONTENT)
    ).toBe(true)
    const probe = endpoint.requests.at(-1)!
    expect(probe.message).toMatchObject({
      method: 'server/discover',
      params: { _meta: message.params!['_meta' as never] }
    })
    expect(probe.req.headers).toMatchObject({
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'server/discover'
    })
  })

  it('tells the provider of the request that the bytes go to', async () => {
    const contexts: ResourceContext[] = []
    const open: ResourcesOptions['open'] = (_uri, context) => (
      contexts.push(context),
      { path: file }
    )
    const { local, credentials } = await download(
      { open },
      { capabilities: { resourceStreaming: { maxStreamSize: 1e6 } } }
    )
    await whole(fetchUrl(local, { ...credentials, 'x-trace': 'abc' }))
    const [asked, fetched] = contexts as [ResourceContext, ResourceContext]
    expect(asked.owner).toMatch(/^authorization:/)
    expect([fetched.owner, fetched.sessionId, fetched.maxStreamSize]).toEqual([
      asked.owner,
      's1',
      1e6
    ])
    expect([asked.headers['x-trace'], fetched.headers['x-trace']]).toEqual([undefined, 'abc'])
  })

  it('of what is gone since is 404, and of what fails is 500', async () => {
    let opened: () => Resource | undefined = () => ({ path: file })
    const { issue, credentials, errors } = await download({ open: () => opened() })
    const one = await issue()
    opened = () => undefined
    expect(JSON.parse((await whole(fetchUrl(one.local, credentials))).text).error.data.reason).toBe(
      'resource-not-found'
    )
    opened = () => {
      throw new Error('of the provider')
    }
    const response = await whole(fetchUrl(one.local, credentials))
    expect([response.status, JSON.parse(response.text).error.data]).toEqual([
      500,
      { reason: 'resource-failed' }
    ])
    expect(errors).toMatchObject([
      { code: 'resource-failed', cause: { message: 'of the provider' } }
    ])
    opened = () => ({ redirect: 'https://storage.example/x' })
    expect((await whole(fetchUrl(one.local, credentials))).headers.location).toBe(
      'https://storage.example/x'
    )
  })

  it('gives a resource of type JSON as it is', async () => {
    const { local, result, credentials } = await download({
      open: () => ({ body: Buffer.from('{}'), mimeType: 'application/json' })
    })
    expect(result.mimeType).toBe('application/json')
    expect((await whole(fetchUrl(local, credentials))).headers['content-type']).toBe(
      'application/json'
    )
  })
})

it('a parameter of that name with a value that is no id of ours is the application’s', async () => {
  const { url, headers, endpoint } = await serveResources(() => ({ path: file }))
  const before = endpoint.requests.length
  await whole(fetchUrl(`${url}?download=1`, headers, 'PUT'))
  expect(endpoint.requests.length).toBe(before + 1)
})

it('is none where a URL names a stream as well', async () => {
  const script = (call: RawCall) =>
    call.message?.method === 'tools/call' ? call.open() : answerJson(call)
  const { url, headers } = await serveResources(() => null, { script })
  const stream = streamUrl(await post(url, callTool(1, 'x'), headers), url)
  const both = `${stream}&download=${nanoid()}`
  const followed = await fetchUrl(both, { ...headers, accept: 'text/event-stream' })
  expect(followed.headers['content-type']).toBe('text/event-stream')
  expect((await del(both, headers)).status).toBe(204)
})
