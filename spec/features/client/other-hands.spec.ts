// `resumableFetch` in other hands than the official client's: in the place of the global fetch,
// with a `Request`, over another `fetch`, on the way to other services.

import { afterEach, describe, expect, it } from '@jest/globals'
import { Readable } from 'node:stream'
import { type FetchLike, resumableFetch, streamResource } from '../../../lib/client/index.js'
import { closeAll } from '../../helpers/listen.js'
import { result } from '../../helpers/mcp.js'
import {
  acquainted,
  cut,
  FAST,
  greeting,
  json,
  note,
  open,
  POST,
  readAll,
  reset,
  response,
  scripted,
  status,
  whole
} from './scripted.js'

const native = globalThis.fetch
afterEach(() => {
  globalThis.fetch = native
  return closeAll()
})

describe('in the place of the global fetch', () => {
  it('makes its requests with the one that was global before', async () => {
    const { url, requests } = await scripted(
      json('plain'),
      cut(note('1', 1)),
      whole(response('2')),
      status(202)
    )
    globalThis.fetch = resumableFetch(FAST)
    expect(await (await fetch(url)).json()).toBe('plain')
    expect((await readAll(await fetch(url, POST))).text).toBe(note('1', 1) + response('2'))
    // With what others have put there since, it has nothing to do.
    const lifted = globalThis.fetch
    globalThis.fetch = () => Promise.reject(new Error('not this one'))
    expect((await lifted(url, POST)).status).toBe(202)
    expect(requests.map(({ method }) => method)).toEqual(['GET', 'POST', 'GET', 'POST'])
  })

  it('may be there twice: a request has one key, and is sent again under it', async () => {
    const { url, requests } = await scripted(greeting, reset, reset, json('answer'))
    const inner = resumableFetch({ ...FAST, maxRetries: 1 })
    const fetch = await acquainted(url, { fetch: inner })
    expect(await (await fetch(url, POST)).json()).toBe('answer')
    const keys = requests.slice(1).map(({ headers }) => headers['idempotency-key'])
    expect([keys.length, new Set(keys).size]).toEqual([3, 1])
  })
})

describe('a `Request`', () => {
  it('is lifted: its stream is resumed, with its headers', async () => {
    const { url, requests } = await scripted(cut(note('1', 1)), whole(response('2')))
    const headers = { ...POST.headers, authorization: 'Bearer a' }
    const answer = await resumableFetch(FAST)(new Request(url, { ...POST, headers }))
    expect((await readAll(answer)).text).toBe(note('1', 1) + response('2'))
    expect(requests).toMatchObject([
      { method: 'POST', body: POST.body, headers: { prefer: 'rel=stream', ...headers } },
      { method: 'GET', url: '/mcp?stream=S', headers: { authorization: 'Bearer a' } }
    ])
  })

  it('is sent again if its answer is lost', async () => {
    const { url, requests } = await scripted(greeting, reset, json('answer'))
    const fetch = await acquainted(url)
    expect(await (await fetch(new Request(url, POST))).json()).toBe('answer')
    expect(requests.slice(1).map(({ body }) => body)).toEqual([POST.body, POST.body])
  })

  it('may have an init beside it, which goes before it', async () => {
    const { url, requests } = await scripted(status(202), status(202))
    const fetch = resumableFetch()
    const body = JSON.stringify(result(9, 'x'))
    await fetch(new Request(url, POST), { body })
    await fetch(new Request(url), POST)
    expect(requests).toMatchObject([
      { method: 'POST', body, headers: { prefer: 'rel=stream' } },
      { method: 'POST', body: POST.body, headers: { prefer: 'rel=stream' } }
    ])
  })

  it('that is aborted ends its stream on the server', async () => {
    const { url, requests } = await scripted(open(note('1', 1)), status(204))
    const controller = new AbortController()
    const body = readAll(
      await resumableFetch(FAST)(new Request(url, { ...POST, signal: controller.signal }))
    )
    controller.abort()
    expect((await body).error).toMatchObject({ name: 'AbortError' })
    expect(await requests.nth(2)).toMatchObject({ method: 'DELETE', url: '/mcp?stream=S' })
  })

  it('that asks for no events is given to the fetch underneath as it is', async () => {
    const given: unknown[] = []
    const through = resumableFetch({
      fetch: (...args) => (given.push(args), Promise.resolve(new Response()))
    })
    const request = new Request('http://127.0.0.1:9/', { method: 'POST', body: 'any' })
    await through(request)
    expect(given).toEqual([[request, {}]])
    expect(request.bodyUsed).toBe(false)
  })

  it('of which the body is no JSON keeps its bytes', async () => {
    const { url, requests } = await scripted(status(202))
    const body = new FormData()
    body.set('file', new Blob([Uint8Array.of(1, 200, 3)]))
    const headers = { accept: 'text/event-stream', 'mcp-protocol-version': '2025-11-25' }
    await resumableFetch()(new Request(url, { method: 'POST', body, headers }))
    expect(requests[0]!.headers['content-type']).toMatch(/^multipart\/form-data; boundary=/)
    expect(requests[0]!.body).toContain('name="file"')
  })
})

describe('over a fetch whose bodies are no web streams, such as node-fetch', () => {
  const foreign: FetchLike = () => {
    const body: unknown = Readable.from([response('1')])
    const headers = new Headers({ 'content-type': 'text/event-stream' })
    return Promise.resolve({ status: 200, headers, body, url: '' } as Response)
  }

  it.each(['tools/call', 'ping'])('resumableFetch says so, with a TypeError: %s', async method => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method })
    const called = resumableFetch({ fetch: foreign })('http://127.0.0.1:9/', { ...POST, body })
    await expect(called).rejects.toMatchObject({
      name: 'TypeError',
      message: expect.stringMatching(/^resumableFetch: option `fetch` must .*node-fetch/)
    })
  })

  it('streamResource says so, with a TypeError', async () => {
    const called = streamResource('http://127.0.0.1:9/mcp', 'file:///a', { fetch: foreign })
    await expect(called).rejects.toMatchObject({
      name: 'TypeError',
      message: expect.stringMatching(/^streamResource: option `fetch` must .*node-fetch/)
    })
  })
})

describe('a request to another service that streams events', () => {
  it.each<[string, RequestInit]>([
    ['GET', { headers: { accept: 'text/event-stream' } }],
    ['POST of JSON', { ...POST, body: JSON.stringify({ model: 'any', stream: true }) }],
    ['POST of a form', { ...POST, body: new URLSearchParams({ a: 'b' }) }]
  ])('%s goes out as it came', async (_name, init) => {
    const inits: unknown[] = []
    const answers: Response[] = []
    const fetch = resumableFetch({
      fetch: async (url, init) => {
        inits.push(init)
        answers.push(await native(url, init))
        return answers[0]!
      }
    })
    const { url } = await scripted(whole(note('1', 1)))
    expect(await fetch(url, init)).toBe(answers[0])
    expect(inits).toEqual([init])
  })
})
