// Who can stream: what the endpoint's own answers are made to say, and what clients have declared;
// all else byte for byte.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import { resources, type ResourcesOptions } from '../../../lib/resources/index.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { callTool, headersFor, initialize, post, request, withEnvelope } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { answerJson, errorOf, serveResources, VERSION, whole } from './setup.js'

const OPEN: ResourcesOptions = { open: uri => ({ body: Buffer.from(uri) }), streamable: true }
const STREAM = { capabilities: { resources: { stream: true } } }

/** The ways in which endpoints write one JSON-RPC message. */
const WAYS: Record<string, (call: RawCall, text: string) => unknown> = {
  'JSON by end': ({ res }, text) => res.setHeader('Content-Type', 'application/json').end(text),
  'JSON with a head and its length': ({ res }, text) => {
    const headers = {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(text)
    }
    res.writeHead(200, headers).end(text)
  },
  'JSON in pieces': ({ res }, text) => {
    res.writeHead(200, 'Fine', ['Content-Type', 'application/json'])
    for (const byte of Buffer.from(text)) res.write(Buffer.of(byte))
    res.end()
  },
  'JSON by Express': ({ res }, text) => (res as Json).json(JSON.parse(text)),
  'an event': ({ write, res }, text) => {
    write(`event: message\ndata: ${text}\n\n`)
    res.end()
  },
  'an event whose head Node makes': ({ res }, text) => {
    res.setHeader('Content-Type', 'text/event-stream')
    res.end(`event: message\ndata: ${text}\n\n`)
  },
  'an event with a length': ({ res }, text) => {
    const body = `event: message\ndata: ${text}\n\n`
    res
      .writeHead(200, {
        'Content-Type': 'text/event-stream',
        'Content-Length': Buffer.byteLength(body)
      })
      .end(body)
  },
  'an event in pieces, with CRLF, between others': ({ write, res }, text) => {
    write(': first\r\n\r\n')
    for (const byte of Buffer.from(`event: message\r\ndata: ${text}\r\n\r\n`))
      write(Buffer.of(byte))
    write('event: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/x"}\r\n\r\n')
    res.end()
  }
}

/** The answer to a request, from an endpoint that writes its result in one of the ways. */
async function answerTo(
  message: Json,
  result: unknown,
  way: string,
  provider: ResourcesOptions = OPEN,
  headers: Record<string, string> = headersFor({ version: VERSION })
) {
  const endpoint = rawEndpoint(call =>
    WAYS[way]!(call, JSON.stringify({ jsonrpc: '2.0', id: call.message.id, result }))
  )
  const { url } = await serve(endpoint, { resources: resources(provider) })
  const response = await whole(post(url, message, headers))
  const isEvents = response.headers['content-type']!.startsWith('text/event-stream')
  const messages: Json[] = isEvents ? response.messages() : [JSON.parse(response.text)]
  return { response, answer: messages.find(({ id }) => id === message.id) as Json, messages }
}

describe.each(Object.keys(WAYS))('an answer as %s', way => {
  const lists: [method: string, result: Json, expected: Json][] = [
    ['initialize', { protocolVersion: VERSION, capabilities: { tools: {} } }, { ...STREAM }],
    [
      'initialize',
      { capabilities: { resources: { subscribe: true } } },
      { capabilities: { resources: { stream: true, subscribe: true } } }
    ],
    ['initialize', {}, STREAM],
    [
      'server/discover',
      { supportedVersions: ['2026-07-28'], capabilities: {} },
      { ...STREAM, supportedVersions: ['2026-07-28'] }
    ],
    [
      'resources/list',
      {
        resources: [{ uri: 'a:1', name: 'ä' }, { uri: 'a:2', streamable: false }, 7],
        nextCursor: 'n'
      },
      {
        resources: [
          { uri: 'a:1', name: 'ä', streamable: true },
          { uri: 'a:2', streamable: false },
          7
        ],
        nextCursor: 'n'
      }
    ],
    [
      'resources/templates/list',
      { resourceTemplates: [{ uriTemplate: 'a:{x}' }] },
      { resourceTemplates: [{ uriTemplate: 'a:{x}', streamable: true }] }
    ]
  ]

  it.each(lists)('to %s %j says what can be streamed', async (method, result, expected) => {
    const { response, answer } = await answerTo(request(3, method, {}), result, way)
    expect(response.ending).toBe('end')
    expect(answer).toMatchObject({ jsonrpc: '2.0', id: 3, result: expected })
    const length = response.headers['content-length']
    if (length !== undefined) expect(length).toBe(String(response.bytes.length))
  })

  it('keeps the messages beside it', async () => {
    const { messages } = await answerTo(request(3, 'resources/list'), { resources: [] }, way)
    if (way.includes('between others')) expect(messages).toHaveLength(2)
    else expect(messages).toHaveLength(1)
  })

  it.each(['tools/call', 'resources/read', 'tools/list'])('to %s is untouched', async method => {
    const endpoint = () =>
      rawEndpoint(call =>
        WAYS[way]!(call, JSON.stringify({ jsonrpc: '2.0', id: call.message.id, result: STREAM }))
      )
    const headers = headersFor({ version: '2026-07-28' })
    const answers = []
    for (const options of [{}, { resources: resources(OPEN) }]) {
      const { url } = await serve(endpoint(), options)
      const { status, text, headers: got } = await whole(post(url, request(3, method), headers))
      answers.push({ status, text, got: { ...got, date: undefined } })
    }
    expect(answers[1]).toEqual(answers[0])
  })
})

describe('an answer is left alone', () => {
  it.each([
    [
      'an error',
      200,
      'application/json',
      '{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"no"}}'
    ],
    [
      'a status that is no 200',
      404,
      'application/json',
      '{"jsonrpc":"2.0","id":3,"result":{"resources":[{"uri":"a:1"}]}}'
    ],
    ['JSON that is none', 200, 'application/json', '{"jsonrpc":"2.0","id":3,"result":'],
    [
      'another type',
      200,
      'text/plain',
      '{"jsonrpc":"2.0","id":3,"result":{"resources":[{"uri":"a:1"}]}}'
    ],
    [
      'another request’s',
      200,
      'application/json',
      '{ "jsonrpc":"2.0","id":"3","result":{"resources":[{"uri":"a:1"}]}}'
    ],
    [
      'nothing to mark',
      200,
      'application/json',
      '{ "jsonrpc" : "2.0", "id":3, "result":{"resources":[{"uri":7}, null]} }'
    ],
    [
      'an event without a result',
      200,
      'text/event-stream',
      'data: {"jsonrpc":"2.0",\r\ndata: "method":"x"}\r\n\r\n: c\r\rid'
    ]
  ])('where it is %s', async (_what, status, type, body) => {
    const endpoint = rawEndpoint(({ res }) => {
      res.writeHead(status, { 'Content-Type': type, ETag: '"e"' })
      for (const character of body) res.write(character)
      res.end()
    })
    const { url } = await serve(endpoint, { resources: resources(OPEN) })
    const response = await whole(
      post(url, request(3, 'resources/list'), headersFor({ version: '2026-07-28' }))
    )
    expect([response.status, response.text, response.headers.etag]).toEqual([status, body, '"e"'])
  })

  it('where it breaks off, and then it breaks off here', async () => {
    const endpoint = rawEndpoint(({ res }) => {
      res.writeHead(200, { 'Content-Type': 'application/json' })
      res.write('{"jsonrpc"')
      throw new Error('half-way')
    })
    const { url } = await serve(endpoint, { resources: resources(OPEN) })
    await expect(post(url, request(3, 'resources/list')).then(whole)).rejects.toThrow(
      'no complete response head'
    )
  })

  it('but for the added `streamable`, however deeply it is nested', async () => {
    const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
    const body = `{"jsonrpc":"2.0","id":3,"result":{"resources":[{"uri":"a:1","x":${deep}}]}}`
    const { url } = await serve(
      rawEndpoint(({ res }) => res.setHeader('Content-Type', 'application/json').end(body)),
      { resources: resources(OPEN) }
    )
    expect((await whole(post(url, request(3, 'resources/list')))).text).toBe(
      body.replace('}]}}', ',"streamable":true}]}}')
    )
  })

  it('where it is too large to be looked at', async () => {
    const body = JSON.stringify({
      jsonrpc: '2.0',
      id: 3,
      result: { resources: [{ uri: 'a:1', x: 'x'.repeat(17 << 20) }] }
    })
    const endpoint = rawEndpoint(({ res }) => {
      res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': body.length })
      for (let from = 0; from < body.length; from += 1 << 20)
        res.write(body.slice(from, from + (1 << 20)))
      res.end()
    })
    const { url } = await serve(endpoint, { resources: resources(OPEN) })
    const response = await whole(
      post(url, request(3, 'resources/list'), headersFor({ version: '2026-07-28' }))
    )
    expect(response.text === body).toBe(true)
  })
})

describe('a rewritten answer', () => {
  it('has no validator of the body that it was made of', async () => {
    const endpoint = rawEndpoint(call => {
      call.res.setHeader('ETag', '"old"').setHeader('Content-MD5', 'x')
      answerJson(call, { resources: [{ uri: 'a:1' }] })
    })
    const { url } = await serve(endpoint, { resources: resources(OPEN) })
    const { headers } = await whole(post(url, request(3, 'resources/list')))
    expect([headers.etag, headers['content-md5']]).toEqual([undefined, undefined])
  })

  it('is not compressed, neither behind the middleware nor in front', async () => {
    const { default: compression } = await import('compression')
    const behind = express()
      .use(compression({ threshold: 0 }))
      .use(
        (_req, res) =>
          void res.json({ jsonrpc: '2.0', id: 3, result: { resources: [{ uri: 'a:1' }] } })
      )
    const { url } = await serve(behind, { resources: resources(OPEN) }, [
      compression({ threshold: 0 })
    ])
    const response = await whole(
      post(url, request(3, 'resources/list'), { 'accept-encoding': 'gzip' })
    )
    expect(JSON.parse(response.text).result.resources).toEqual([{ uri: 'a:1', streamable: true }])
  })

  it('is rewritten in a batch, and only for those who asked for resources', async () => {
    const endpoint = rawEndpoint(({ res }) => {
      const result = { resources: [{ uri: 'a:1' }] }
      res.setHeader('Content-Type', 'application/json')
      res.end(JSON.stringify([1, 2].map(id => ({ jsonrpc: '2.0', id, result }))))
    })
    const { url } = await serve(endpoint, { resources: resources(OPEN) })
    const response = await whole(post(url, [callTool(1, 'x'), request(2, 'resources/list')]))
    expect(JSON.parse(response.text)).toMatchObject([
      { result: { resources: [{ uri: 'a:1' }] } },
      { result: { resources: [{ uri: 'a:1', streamable: true }] } }
    ])
    expect(JSON.parse(response.text)[0].result.resources[0].streamable).toBeUndefined()
  })

  it('is what a repetition under an Idempotency-Key gets too', async () => {
    const endpoint = rawEndpoint(call => answerJson(call, { resources: [{ uri: 'a:1' }] }))
    const { url } = await serve(endpoint, { resources: resources(OPEN) })
    const headers = { 'idempotency-key': 'a-key-of-sixteen-or-more' }
    const first = await whole(post(url, request(3, 'resources/list'), headers))
    const second = await whole(post(url, request(3, 'resources/list'), headers))
    expect(first.text).toContain('"streamable":true')
    expect([second.text, endpoint.calls.length]).toEqual([first.text, 1])
  })
})

describe('streamable', () => {
  const result = {
    resources: [
      { uri: 'a:1', size: 5 },
      { uri: 'b:1', size: 5_000_000 }
    ]
  }
  const marks = async (streamable: ResourcesOptions['streamable']) => {
    const { answer } = await answerTo(request(3, 'resources/list'), result, 'JSON by end', {
      ...OPEN,
      streamable
    })
    return answer.result.resources.map((entry: Json) => entry.streamable)
  }

  it('is off unless the provider says otherwise, which may be a function of the URI and the entry', async () => {
    for (const off of [false, undefined]) expect(await marks(off)).toEqual([undefined, undefined])
    expect(await marks(true)).toEqual([true, true])
    expect(await marks(uri => uri.startsWith('a:'))).toEqual([true, undefined])
    expect(await marks((_uri, { size }) => Number(size) > 1000)).toEqual([undefined, true])
  })

  it('that throws marks nothing, and onError hears of it', async () => {
    const { url, headers, errors } = await serveResources(
      {
        ...OPEN,
        streamable: () => {
          throw new Error('streamable')
        }
      },
      { script: call => answerJson(call, result) }
    )
    const response = await whole(post(url, request(3, 'resources/list'), headers))
    expect(JSON.parse(response.text).result).toEqual(result)
    expect(errors).toMatchObject([
      { code: 'resource-failed', cause: { message: 'streamable' } },
      {}
    ])
  })
})

describe('without the option', () => {
  it('nothing is declared, and resources/stream is the endpoint’s', async () => {
    const endpoint = rawEndpoint(call => answerJson(call, { capabilities: {} }))
    const { url } = await serve(endpoint)
    for (const message of [initialize(VERSION), request(1, 'resources/stream', { uri: 'a:1' })]) {
      const response = await whole(post(url, message))
      expect(JSON.parse(response.text).result).toEqual({ capabilities: {} })
    }
    expect(endpoint.calls).toHaveLength(2)
  })
})

describe('a client', () => {
  const ask = (url: string, headers: Record<string, string>, capabilities?: object) =>
    post(
      url,
      capabilities === undefined
        ? request(1, 'resources/stream', { uri: 'a:12345' })
        : withEnvelope(request(1, 'resources/stream', { uri: 'a:12345' }), capabilities),
      headers
    )

  it.each([
    [{}],
    [{ resourceStreaming: null }],
    [{ resourceStreaming: false }],
    [{ resources: {} }]
  ])('that has declared %j gets no bytes', async capabilities => {
    const { url, headers } = await serveResources(OPEN, { capabilities })
    const error = await errorOf(ask(url, headers))
    expect(error).toMatchObject({
      code: -32003,
      message: 'Stream not supported',
      data: { uri: 'a:12345', suggestion: expect.stringContaining('resourceStreaming') }
    })
  })

  it('declares itself when its session begins, whichever way initialize is answered', async () => {
    for (const initializeAs of ['json', 'sse'] as const) {
      const endpoint = rawEndpoint(call => answerJson(call), { session: 's1', initializeAs })
      const { url } = await serve(endpoint, { resources: resources(OPEN) })
      const response = await whole(
        post(url, initialize(VERSION, { resourceStreaming: { maxStreamSize: 7 } }))
      )
      expect(response.text).toContain('"resources":{"stream":true}')
      const headers = { ...headersFor({ session: 's1', version: VERSION }), accept: '*/*' }
      expect((await whole(ask(url, headers))).text).toBe('a:12345')
      expect(await errorOf(ask(url, { ...headers, 'mcp-session-id': 's2' }))).toMatchObject({
        code: -32003
      })
    }
  })

  it('declares itself anew when it initializes again', async () => {
    const { url, headers } = await serveResources(OPEN)
    await whole(post(url, initialize(VERSION, {}), {}))
    expect(await errorOf(ask(url, headers))).toMatchObject({ code: -32003 })
  })

  it('declares itself in the request, without a session or over what its session says', async () => {
    const endpoint = rawEndpoint(call => answerJson(call), { stateless: true })
    const { url } = await serve(endpoint, { resources: resources(OPEN) })
    const headers = { ...headersFor({ version: VERSION }), accept: '*/*' }
    expect((await whole(ask(url, headers, { resourceStreaming: {} }))).text).toBe('a:12345')
    expect(await errorOf(ask(url, headers, {}))).toMatchObject({ code: -32003 })
    const served = await serveResources(OPEN, {
      capabilities: { resourceStreaming: { maxStreamSize: 1 } }
    })
    expect((await whole(ask(served.url, served.headers, { resourceStreaming: {} }))).text).toBe(
      'a:12345'
    )
    expect(await errorOf(ask(served.url, served.headers))).toMatchObject({ code: -32004 })
  })

  it.each([
    [6, -32004],
    [0, -32004],
    [7, undefined],
    [1e12, undefined],
    [null, undefined],
    ['7', -32602],
    [-1, -32602],
    [{}, -32602]
  ])('that takes %j bytes of 7 gets %p', async (maxStreamSize, code) => {
    const { url, headers } = await serveResources(OPEN, {
      capabilities: { resourceStreaming: { maxStreamSize } }
    })
    const response = await whole(ask(url, headers))
    if (code === undefined) return expect(response.text).toBe('a:12345')
    const error = await errorOf(response)
    expect(error.code).toBe(code)
    if (code === -32004)
      expect(error).toMatchObject({
        message: 'Resource too large',
        data: { uri: 'a:12345', size: 7, maxStreamSize }
      })
  })

  it('that declares more than may be kept is refused', async () => {
    const { url, headers } = await serveResources(OPEN)
    const error = await errorOf(ask(url, headers, { resourceStreaming: {}, x: 'x'.repeat(20_000) }))
    expect(error).toMatchObject({ code: -32602, message: expect.stringContaining('_meta') })
  })

  it('that nests its declaration too deeply is refused', async () => {
    const { url, headers, errors } = await serveResources(OPEN)
    const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
    const params = `{"uri":"a:1","_meta":{"io.modelcontextprotocol/x":${deep}}}`
    const text = `{"jsonrpc":"2.0","id":1,"method":"resources/stream","params":${params}}`
    expect(await errorOf(post(url, text, headers))).toMatchObject({ code: -32602 })
    expect(errors).toEqual([])
  })

  it('of 2026-07-28 is told of a resource that does not exist as of an invalid parameter', async () => {
    const endpoint = rawEndpoint(call => answerJson(call, { capabilities: {} }))
    const { url } = await serve(endpoint, { resources: resources({ open: () => undefined }) })
    const headers = { ...headersFor({ version: '2026-07-28' }), accept: '*/*' }
    const error = await errorOf(ask(url, headers, { resourceStreaming: {} }))
    expect(error).toEqual({ code: -32602, message: 'Resource not found', data: { uri: 'a:12345' } })
    expect(endpoint.calls.map(({ message }) => message.method)).toEqual(['server/discover'])
  })
})
