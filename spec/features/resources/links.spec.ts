// Links that a handler gives out: `link()` of the middleware and of `currentStream()`.

import { describe, expect, it } from '@jest/globals'
import { McpServer as ServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { nanoid } from 'nanoid'
import {
  currentStream,
  mcpStreams,
  type LinkOptions,
  type McpStreamsOptions,
  type ResourceLink
} from '../../../lib/index.js'
import { tasks } from '../../../lib/features/tasks/index.js'
import {
  type OpenResource,
  readThrough,
  type ResourceContext,
  resources,
  type ResourcesOptions
} from '../../../lib/resources/index.js'
import { cluster } from '../../helpers/backplane/cluster.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import {
  callTool,
  del,
  headersFor,
  initializeSession,
  post,
  withEnvelope
} from '../../helpers/mcp.js'
import { Awaitable } from '../../helpers/gate.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { sleep } from '../../helpers/sleep.js'
import { answer, answerOf, ask, begin, elicitation, inputRequired, until } from '../tasks/setup.js'
import { rawExchange } from '../who/raw-exchange.js'
import { answerJson, fetchUrl, later, testBytes, VERSION, whole } from './setup.js'

const SIZE = 200_000
const CONTENT = testBytes(SIZE)
const URI = 'db:reports/7.pdf'
const open: OpenResource = () => ({ body: CONTENT, etag: 'v1' })
const ALICE = { authorization: 'Bearer alice' }
const RELATIVE = /^\?download=[\w-]{21}$/

type Link = (uri: string, options?: LinkOptions) => ResourceLink

/** An endpoint with sessions, whose tools return what `use` makes of the middleware's `link`. */
async function serveLinks(
  provider: Partial<ResourcesOptions> | null = {},
  options: McpStreamsOptions = {},
  answers: (call: RawCall, value: unknown) => unknown = answerJson
) {
  let use: (link: Link) => unknown = () => undefined
  const endpoint = rawEndpoint(
    call => {
      if (call.req.method === 'DELETE') return call.res.writeHead(200).end()
      if (call.message?.method !== 'tools/call') return answerJson(call)
      return answers(call, { used: use((...args) => served.streams.link(...args)) })
    },
    { session: 's1', initializeAs: 'json' }
  )
  const served = await serve(endpoint, {
    ...(provider && { resources: resources({ open, ...provider }) }),
    ...options
  })
  const opened = await initializeSession(served.url, VERSION, ALICE)
  const inTool = async <T>(
    what: (link: Link) => T,
    headers: Record<string, string> = opened.headers,
    { url = served.url, message = callTool(1, 'report') } = {}
  ): Promise<T> => {
    use = what
    return (await answerOf(await post(url, message, headers))).result.used
  }
  const linkTo = async (
    uri = URI,
    options: LinkOptions = {},
    headers: Record<string, string> = opened.headers
  ) => {
    const link = await inTool(make => make(uri, options), headers)
    return { link, url: new URL(link.uri, served.url).href }
  }
  const { 'mcp-session-id': session } = opened.headers as Record<string, string>
  const mine = { ...ALICE, 'mcp-session-id': session! }
  return { ...served, endpoint, headers: opened.headers, mine, inTool, linkTo }
}

describe('what a handler gets', () => {
  it('is a resource_link whose URI is relative to the endpoint', async () => {
    const { linkTo } = await serveLinks()
    expect((await linkTo()).link).toEqual({
      type: 'resource_link',
      uri: expect.stringMatching(RELATIVE),
      name: '7.pdf',
      mimeType: 'application/pdf'
    })
  })

  it.each([
    ['db:r/7', {}, { name: '7' }],
    ['db:r/7', { filename: 'Über 7.csv' }, { name: 'Über 7.csv', mimeType: 'text/csv' }],
    ['db:r/7.pdf', { filename: 'a.bin' }, { name: 'a.bin', mimeType: 'application/pdf' }],
    ['db:r/7', { filename: '../a/b\\c\r\n.txt' }, { name: 'c__.txt', mimeType: 'text/plain' }],
    ['db:..', {}, { name: 'db:..' }]
  ])('for %s with %j has %j', async (uri, options, facts) => {
    const { linkTo } = await serveLinks()
    const { type: _type, uri: _uri, ...rest } = (await linkTo(uri, options)).link
    expect(rest).toEqual(facts)
  })

  it('keeps the rest of the query of its request, as `Link` does', async () => {
    const { inTool, headers, url } = await serveLinks()
    const link = await inTool(make => make(URI), headers, { url: `${url}?tenant=7&x=<>` })
    expect(link.uri).toMatch(/^\?tenant=7&x=%3C%3E&download=[\w-]{21}$/)
  })

  it('tells those for whom anyone may open it nothing of that query', async () => {
    const { inTool, headers, url } = await serveLinks()
    const link = await inTool(make => make(URI, { anyone: true }), headers, {
      url: `${url}?api_key=secret`
    })
    expect(link.uri).toMatch(/^\?download=[\w-]{21}$/)
  })

  it('is absolute with publicUrl', async () => {
    const { linkTo } = await serveLinks({ publicUrl: 'https://mcp.example/gateway/mcp?tenant=7' })
    expect((await linkTo()).link.uri).toMatch(
      /^https:\/\/mcp\.example\/gateway\/mcp\?tenant=7&download=[\w-]{21}$/
    )
  })

  it('does not need the resource to be opened', async () => {
    let opened = 0
    const { linkTo } = await serveLinks({ open: () => void opened++ })
    const { url } = await linkTo(URI, { anyone: true })
    expect(opened).toBe(0)
    const response = await whole(fetchUrl(url))
    expect([opened, response.status, reasonIn(response.text)]).toEqual([
      1,
      404,
      'resource-not-found'
    ])
  })

  it('is the same from currentStream()', async () => {
    const { inTool, url, mine } = await serveLinks()
    const link = await inTool(() => currentStream()!.link(URI))
    expect((await whole(fetchUrl(url + link.uri, mine))).bytes.equals(CONTENT)).toBe(true)
  })
})

describe('what it cannot be made of', () => {
  it.each([
    ['a URI that is relative', 'no/uri', {}, 'the URI must be an absolute URI of at most 4096'],
    ['one that is too long', `a:${'x'.repeat(4096)}`, {}, 'the URI must be an absolute URI'],
    ['one that is a number', 7, {}, 'the URI must be an absolute URI'],
    ['options that are none', URI, null, 'options must be an object'],
    ['an option that there is not', URI, { name: 'x' }, 'unknown option `name`'],
    ['no time', URI, { ttl: 0 }, '`ttl` must be a whole number of milliseconds, 1 to 2147483647'],
    ['too long a time', URI, { ttl: 2 ** 31 }, '`ttl` must be a whole number of milliseconds'],
    ['a time in words', URI, { ttl: '5' }, '`ttl` must be a whole number of milliseconds'],
    ['a number for anyone', URI, { anyone: 1 }, '`anyone` must be a boolean'],
    ['a name without a name', URI, { filename: '..' }, '`filename` must be the name of a file'],
    ['a name that is a number', URI, { filename: 7 }, '`filename` must be the name of a file']
  ])('%s is a TypeError', async (_what, uri, options, message) => {
    const { inTool } = await serveLinks()
    expect(await inTool(make => thrownBy(() => make(uri as never, options as never)))).toMatch(
      `TypeError: link: ${message}`
    )
  })

  it('of a request with an endless `_meta` is a TypeError', async () => {
    const { inTool, headers } = await serveLinks()
    const message = withEnvelope(callTool(1, 'report'), { x: 'y'.repeat(20_000) })
    expect(await inTool(make => thrownBy(() => make(URI)), headers, { message })).toBe(
      'TypeError: link: of the request, _meta must have at most 16384 characters'
    )
  })

  it('without the option `resources` is an error that names it', async () => {
    const { inTool } = await serveLinks(null)
    for (const make of [
      () => inTool(link => thrownBy(() => link(URI))),
      () => inTool(() => thrownBy(() => currentStream()!.link(URI)))
    ])
      expect(await make()).toBe(
        'Error: link: it needs the option `resources` of mcpStreams(), and a call that has come over HTTP'
      )
  })

  it('outside of a handler of this instance is an error', async () => {
    const { inTool, streams } = await serveLinks()
    const none = 'Error: link: no request of this mcpStreams() is being handled here'
    expect(thrownBy(() => streams.link(URI))).toBe(none)
    const other = mcpStreams({ resources: resources({ open }) })
    expect(await inTool(() => thrownBy(() => other.link(URI)))).toBe(none)
  })
})

describe('the bytes', () => {
  it('come to the owner of the call, in its session, under the name of the link', async () => {
    const { linkTo, mine } = await serveLinks()
    const { url } = await linkTo(URI, { filename: 'Report "7".pdf' })
    const head = await whole(fetchUrl(url, mine, 'HEAD'))
    expect([head.status, head.headers['content-length']]).toEqual([200, String(SIZE)])
    const response = await whole(fetchUrl(url, mine))
    expect([response.status, response.bytes.equals(CONTENT)]).toEqual([200, true])
    expect(response.headers).toMatchObject({
      'content-type': 'application/pdf',
      'content-disposition': 'attachment; filename="Report \\"7\\".pdf"',
      'mcp-resource-uri': URI,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'accept-ranges': 'bytes',
      etag: '"v1"'
    })
    later(11_000)
    expect((await whole(fetchUrl(url, mine))).status).toBe(404)
  })

  it('have their own name where the link has none', async () => {
    const { linkTo, mine } = await serveLinks({ open: () => ({ body: CONTENT, name: 'own.pdf' }) })
    const { headers } = await whole(fetchUrl((await linkTo()).url, mine))
    expect(headers['content-disposition']).toBe('attachment; filename="own.pdf"')
  })

  it('come in ranges', async () => {
    const { linkTo } = await serveLinks()
    const { url } = await linkTo(URI, { anyone: true })
    const parts: Buffer[] = []
    for (const range of ['bytes=0-99', 'bytes=100-']) {
      const { status, bytes } = await whole(fetchUrl(url, { range, 'if-range': '"v1"' }))
      expect(status).toBe(206)
      parts.push(bytes)
    }
    expect(Buffer.concat(parts).equals(CONTENT)).toBe(true)
  })

  it('may be somewhere else', async () => {
    const { linkTo } = await serveLinks({ open: () => ({ redirect: 'https://storage.example/x' }) })
    const { url } = await linkTo(URI, { anyone: true, filename: 'a' })
    expect((await whole(fetchUrl(url))).headers.location).toBe('https://storage.example/x')
  })

  it('are opened in the name of the owner, for the endpoint’s admission asked before', async () => {
    const contexts: ResourceContext[] = []
    const { linkTo, mine, endpoint } = await serveLinks({
      open: (uri, context) => (contexts.push(context), open(uri, context))
    })
    const { url } = await linkTo()
    const before = endpoint.requests.length
    await whole(fetchUrl(url, { ...mine, 'x-trace': 'abc' }))
    expect(contexts[0]!.owner).toMatch(/^authorization:/)
    expect([contexts[0]!.sessionId, contexts[0]!.headers['x-trace']]).toEqual(['s1', 'abc'])
    expect(endpoint.requests.slice(before).map(({ message }) => message.method)).toEqual(['ping'])
  })
})

describe('a link that is for its owner', () => {
  it('is to all others as one that was never given out', async () => {
    const { linkTo, mine, url } = await serveLinks()
    const { link, url: own } = await linkTo()
    const never = await rawExchange(`${url}?download=${nanoid()}`, 'GET', {})
    expect(never).toMatch(/^HTTP\/1\.1 404 /)
    for (const headers of [
      {},
      ALICE,
      { ...mine, authorization: 'Bearer bob' },
      { ...mine, 'mcp-session-id': 's2' }
    ])
      expect(await rawExchange(url + link.uri, 'GET', headers)).toBe(never)
    expect((await whole(fetchUrl(own, mine))).status).toBe(200)
    later(11_000)
    expect(await rawExchange(own, 'GET', mine)).toBe(never)
  })

  it('is refused once the endpoint refuses the owner', async () => {
    const { linkTo, mine, endpoint, url } = await serveLinks()
    const { url: own } = await linkTo()
    const { url: gone } = await linkTo()
    expect((await del(url, mine)).status).toBe(200)
    expect(endpoint.requests.at(-1)!.req.method).toBe('DELETE')
    for (const link of [own, gone])
      expect(reasonIn((await whole(fetchUrl(link, mine))).text)).toBe('download-unknown')
  })
})

describe('a link for anyone', () => {
  it.each([
    ['nobody', {}],
    ['somebody else', { authorization: 'Bearer bob', 'mcp-session-id': 's2' }]
  ])('is opened by %s, and the endpoint is not asked', async (_who, headers) => {
    const contexts: ResourceContext[] = []
    const { linkTo, endpoint } = await serveLinks({
      open: (uri, context) => (contexts.push(context), open(uri, context))
    })
    const { url } = await linkTo(URI, { anyone: true })
    const before = endpoint.requests.length
    const response = await whole(fetchUrl(url, headers))
    expect([response.status, response.bytes.equals(CONTENT)]).toEqual([200, true])
    expect(endpoint.requests.length).toBe(before)
    expect(contexts[0]!.owner).toMatch(/^authorization:/)
    expect(contexts[0]!.sessionId).toBe('s1')
    later(11_000)
    expect((await whole(fetchUrl(url, headers))).status).toBe(404)
  })

  it('is not for pages of other origins, nor for other methods', async () => {
    const { linkTo } = await serveLinks()
    const { url } = await linkTo(URI, { anyone: true })
    const foreign = await whole(fetchUrl(url, { origin: 'https://evil.example' }))
    expect([foreign.status, reasonIn(foreign.text)]).toEqual([403, 'foreign-origin'])
    expect((await whole(fetchUrl(url, {}, 'POST'))).status).toBe(405)
    expect((await whole(fetchUrl(url))).status).toBe(200)
  })

  it('ends with the session of the call', async () => {
    const { linkTo, mine, url } = await serveLinks()
    const { url: link } = await linkTo(URI, { anyone: true })
    await del(url, mine)
    expect((await whole(fetchUrl(link))).status).toBe(404)
  })

  it('shows with readThrough() what the endpoint shows in that session', async () => {
    const contents = [{ uri: URI, blob: CONTENT.toString('base64') }]
    const asked: (string | undefined)[] = []
    const endpoint = rawEndpoint(
      call => {
        if (call.message.method === 'tools/call')
          return answerJson(call, served.streams.link(URI, { anyone: true }))
        asked.push(call.req.headers['mcp-session-id']?.toString(), call.message.method)
        return answerJson(call, { contents })
      },
      { session: 's1', initializeAs: 'json' }
    )
    const served = await serve(endpoint, { resources: resources(readThrough()) })
    const { headers } = await initializeSession(served.url, VERSION)
    const { result } = await (await post(served.url, callTool(1, 'x'), headers)).json()
    const response = await whole(fetchUrl(served.url + result.uri))
    expect(response.bytes.equals(CONTENT)).toBe(true)
    expect(asked).toEqual(['s1', 'resources/read'])
  })
})

describe('its time', () => {
  it('is its own `ttl`, else that of all download URLs', async () => {
    const { linkTo, mine } = await serveLinks({ ticketTtl: 1 })
    const { url: short } = await linkTo(URI, { anyone: true })
    const { url: long } = await linkTo(URI, { ttl: 600_000 })
    await sleep(5)
    const expired = await whole(fetchUrl(short))
    expect([expired.status, reasonIn(expired.text)]).toEqual([410, 'download-expired'])
    expect((await whole(fetchUrl(long, mine))).status).toBe(200)
  })

  it('may be shorter than theirs', async () => {
    const { linkTo, mine } = await serveLinks()
    const { url } = await linkTo(URI, { ttl: 1 })
    await sleep(5)
    expect((await whole(fetchUrl(url, mine))).status).toBe(410)
    // Nobody else is told.
    expect((await whole(fetchUrl(url, { authorization: 'Bearer bob' }))).status).toBe(404)
  })
})

it('the owner that has most links makes room for those of others', async () => {
  const { linkTo, headers } = await serveLinks({}, { maxStreams: 3 })
  const of = (who: string) =>
    linkTo(URI, { anyone: true }, { ...headers, authorization: `Bearer ${who}` })
  const bob = await of('bob')
  const alice: string[] = []
  for (let i = 0; i < 4; i++) alice.push((await of('alice')).url)
  const statuses: (number | undefined)[] = []
  for (const url of [bob.url, ...alice]) statuses.push((await whole(fetchUrl(url))).status)
  expect(statuses).toEqual([200, 404, 404, 200, 200])
})

describe('it is there', () => {
  it('at 2026-07-28, where there is no stream, with what the client has said of itself', async () => {
    const { inTool, url, endpoint } = await serveLinks()
    const message = withEnvelope(callTool(1, 'report'), { sampling: {} })
    const headers = { ...ALICE, ...headersFor({ version: '2026-07-28', message }) }
    const [hasStream, link] = await inTool(
      make => [currentStream() !== undefined, make(URI)] as const,
      headers,
      { message }
    )
    expect(hasStream).toBe(false)
    const response = await whole(fetchUrl(url + link.uri, ALICE))
    expect([response.status, response.bytes.equals(CONTENT)]).toEqual([200, true])
    const probe = endpoint.requests.at(-1)!
    expect(probe.message).toMatchObject({
      method: 'server/discover',
      params: { _meta: (message.params as Json)._meta }
    })
    expect(probe.req.url).not.toContain('download')
  })

  it('in an event stream', async () => {
    const { linkTo, mine } = await serveLinks({}, {}, ({ result }, value) => result(value))
    expect((await whole(fetchUrl((await linkTo()).url, mine))).status).toBe(200)
  })

  it('after what the client has got a resume token for', async () => {
    const { inTool, headers, url, mine } = await serveLinks({}, { resumeTokens: { after: 0 } })
    const link = await inTool(make => make(URI), { ...headers, prefer: 'respond-async, wait=10' })
    expect((await whole(fetchUrl(url + link.uri, mine))).bytes.equals(CONTENT)).toBe(true)
  })

  it('in each round of a task', async () => {
    const links: ResourceLink[] = []
    const running = new Awaitable<RawCall>()
    const endpoint = rawEndpoint(call => {
      if (call.message?.method === 'server/discover')
        return answer(call, { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } })
      links.push(served.streams.link(URI))
      return running.push(call)
    })
    const served = await serve(endpoint, {
      resources: resources({ open }),
      tasks: tasks({ after: 0 })
    })
    const { url } = served
    const taskId = await begin(url)
    answer(await running.nth(1), inputRequired({ q: elicitation('who?') }, 's'))
    await until(url, taskId, 'input_required')
    const inputResponses = { 'r1.q': { action: 'accept', content: {} } }
    await ask(url, 'tasks/update', { taskId, inputResponses })
    answer(await running.nth(2))
    await until(url, taskId, 'completed')
    expect(links).toHaveLength(2)
    for (const { uri } of links)
      expect((await whole(fetchUrl(url + uri))).bytes.equals(CONTENT)).toBe(true)
  })

  it('at another instance, as download URLs are', async () => {
    const endpoints = [0, 1].map(i =>
      rawEndpoint(
        call =>
          answerJson(
            call,
            call.message?.method === 'tools/call'
              ? members[i]!.streams.link(URI, { anyone: true })
              : {}
          ),
        { stateless: true }
      )
    )
    const { members } = await cluster(i => endpoints[i]!, { resources: resources({ open }) }, {}, 2)
    const [home, away] = members.map(({ url }) => url) as [string, string]
    const headers = headersFor({ version: VERSION })
    const { result } = await (await post(home, callTool(1, 'x'), headers)).json()
    const response = await whole(fetchUrl(away + result.uri))
    expect([response.status, response.bytes.equals(CONTENT)]).toEqual([200, true])
    later(11_000)
    expect((await whole(fetchUrl(home + result.uri))).status).toBe(404)
  })
})

it.each([
  ['v1', connectV1],
  ['v2', (url: string) => connectV2(url, { era: '2025-11-25' })]
])('the official client %s takes it in a result of the official server', async (_name, connect) => {
  const streams = mcpStreams({ resources: resources({ open }) })
  const { url } = await serve(
    async (req, res) => {
      const server = new ServerV1({ name: 'spec', version: '1.0.0' })
      server.registerTool('report', {}, async () => ({
        content: [
          streams.link(URI, { anyone: true }),
          currentStream()!.link(URI, { anyone: true, filename: 'a.pdf' })
        ]
      }))
      const transport = new StreamableHTTPServerTransport({})
      res.on('close', () => void server.close())
      await server.connect(transport as Parameters<ServerV1['connect']>[0])
      await transport.handleRequest(req, res)
    },
    {},
    [streams]
  )
  const { client, errors } = await connect(url)
  const { content } = (await client.callTool({ name: 'report' })) as { content: ResourceLink[] }
  expect(content.map(({ type, name }) => [type, name])).toEqual([
    ['resource_link', '7.pdf'],
    ['resource_link', 'a.pdf']
  ])
  for (const { uri } of content)
    expect((await whole(fetchUrl(new URL(uri, url).href))).bytes.equals(CONTENT)).toBe(true)
  expect(errors).toEqual([])
})

function thrownBy(work: () => unknown): string {
  try {
    work()
    return ''
  } catch (error) {
    return String(error)
  }
}

const reasonIn = (text: string): unknown => JSON.parse(text).error.data.reason
