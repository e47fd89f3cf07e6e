// What a client or an endpoint makes absurdly long is not remembered: the response passes as it
// would without us.

import { describe, expect, it } from '@jest/globals'
import { resources } from '../../../lib/resources/index.js'
import { tasks } from '../../../lib/features/tasks/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { callTool, get, headersFor, initialize, post, type RequestId } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { call, gist, MODERN } from './setup.js'

const JSON_TYPE = { 'Content-Type': 'application/json' }
const LONG = 'i'.repeat(1025)
const LONGEST = 'i'.repeat(1024)

const answering = () => rawEndpoint(rawCall => rawCall.result(), { stateless: true })

describe('an id of more than 1,024 characters', () => {
  it.each<[string, Record<string, string>, RequestId]>([
    ['of a session', { 'mcp-session-id': LONG }, 1],
    ['of a request', {}, LONG],
    ['of a request that may be sent again', { 'idempotency-key': '0123456789abcdef' }, LONG]
  ])('%s: the response passes, and nothing of it is kept', async (_what, headers, id) => {
    const { url, streams } = await serve(answering())
    const response = await call(url, id, headers)
    await response.ended
    expect(response.headers).not.toHaveProperty('link')
    expect(gist(response.messages())).toEqual([[id, 'result']])
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, bytes: 0 })
  })

  it('of a session that the endpoint has made: the same', async () => {
    const { url, streams } = await serve(rawEndpoint(() => undefined, { session: LONG }))
    const response = await post(url, initialize('2025-11-25'), MODERN)
    await response.ended
    expect([response.headers['mcp-session-id'], response.headers.link]).toEqual([LONG, undefined])
    expect(response.messages()).toHaveLength(1)
    expect(streams.stats()).toMatchObject({ finished: 0 })
  })

  it('of a session, on a listen channel: it reaches the endpoint as it is', async () => {
    const endpoint = rawEndpoint(rawCall => rawCall.open(), { stateless: true })
    const { url, streams } = await serve(endpoint)
    const response = await get(url, { ...MODERN, ...headersFor({ session: LONG }) })
    expect([response.status, response.headers.link]).toEqual([200, undefined])
    expect(streams.stats()).toMatchObject({ live: 0 })
    response.destroy()
  })
})

describe('a request id that JavaScript cannot hold', () => {
  const ask = async (id: string, headers: Record<string, string> = {}) => {
    const endpoint = rawEndpoint(
      ({ open, res, body }) => {
        open()
        res.end(`data: {"jsonrpc":"2.0","id":${/"id":([^,]+)/.exec(body!)![1]},"result":{}}\n\n`)
      },
      { stateless: true }
    )
    const { url, streams } = await serve(endpoint, { resumeTokens: { after: 0 } })
    const response = await openStream(url, {
      method: 'POST',
      headers: { ...MODERN, 'Content-Type': 'application/json', ...headers },
      body: `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"x"}}`
    })
    await response.ended
    return { response, streams }
  }

  it.each([
    ['9007199254740993', {}],
    ['-9007199254740993', {}],
    ['1e400', {}],
    ['9007199254740993', { 'idempotency-key': '0123456789abcdef' }],
    ['9007199254740993', { prefer: 'respond-async, wait=0' }]
  ])('%s: its answer passes byte for byte (%j)', async (id, headers) => {
    const { response, streams } = await ask(id, headers as Record<string, string>)
    expect(response.text).toBe(`data: {"jsonrpc":"2.0","id":${id},"result":{}}\n\n`)
    expect(response.headers).not.toHaveProperty('link')
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, calls: 0, keyed: 0, bytes: 0 })
  })

  it.each([
    ['stream/poll', '"streamId":"x"'],
    ['stream/resume', '"streamId":"x"'],
    ['stream/poll/all', ''],
    ['resources/stream', '"uri":"a:b"'],
    ['tasks/get', '"taskId":"x"']
  ])('is not answered under another one by %s either', async (method, params) => {
    const endpoint = rawEndpoint(
      ({ res, body }) => void res.writeHead(200, JSON_TYPE).end(`{"heard":${body}}`),
      { stateless: true }
    )
    const { url } = await serve(endpoint, {
      resources: resources({ open: () => undefined }),
      tasks: tasks({})
    })
    const body = `{"jsonrpc":"2.0","id":9007199254740993,"method":"${method}","params":{${params}}}`
    const headers = { ...MODERN, ...JSON_TYPE }
    const response = await openStream(url, { method: 'POST', headers, body })
    await response.ended
    expect(response.text).toBe(`{"heard":${body}}`)
  })

  it('begins beyond the largest that it can', async () => {
    const { response } = await ask('9007199254740991')
    expect(response.headers).toHaveProperty('link')
  })
})

it('an id of 1,024 characters is like any other', async () => {
  const { url, streams } = await serve(answering())
  const response = await call(url, LONGEST, { 'mcp-session-id': LONGEST })
  await response.ended
  expect(response.headers).toHaveProperty('link')
  expect(gist(response.messages())).toEqual([[LONGEST, 'result']])
  expect(streams.stats()).toMatchObject({ finished: 1 })
})

it.each([
  [100, true],
  [101, false]
])(
  'a batch of %d requests: kept %s, as a stream that fails keeps an error for each',
  async (n, isKept) => {
    const { url } = await serve(async (req, res) => {
      for await (const _chunk of req);
      res.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders()
    })
    const response = await post(
      url,
      Array.from({ length: n }, (_, i) => callTool(i, 'any')),
      headersFor({ version: '2025-03-26' })
    )
    expect(response.headers.link !== undefined).toBe(isKept)
    response.destroy()
  }
)

it('a comment of 200 KB passes', async () => {
  const endpoint = rawEndpoint(rawCall => rawCall.open(), { stateless: true })
  const { url, streams } = await serve(endpoint)
  const response = await call(url)
  const rawCall = await endpoint.calls.nth(1)
  await response.next()
  const comment = `: ${'c'.repeat(200_000)}\n`
  expect(rawCall.write(`${comment}\n`)).toBe(true)
  rawCall.result()
  await response.ended
  expect(response.text.includes(comment)).toBe(true)
  expect(gist(response.messages())).toEqual([[1, 'result']])
  expect(streams.stats().bytes).toBeLessThan(1000)
})
