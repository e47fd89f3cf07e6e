// The three ways in which a server delivers a resource, and what `streamResource` makes of each.

import { describe, expect, it } from '@jest/globals'
import { ResourceStreamError, streamResource, type FetchLike } from '../../../lib/client/index.js'
import { gate } from '../../helpers/gate.js'
import {
  bytesOf,
  direct,
  download,
  drain,
  HEAD,
  outcome,
  redirect,
  RESOURCE,
  rpcError,
  server,
  status,
  stream,
  type Answer
} from './resource-server.js'

const BYTES = bytesOf(100_000)
const NAMED = { 'Content-Disposition': 'attachment; filename="report.pdf"' }
const WHOLE = { uri: RESOURCE, mimeType: 'application/pdf', name: 'report.pdf', size: BYTES.length }

async function expectWhole(url: string, more: object = {}): Promise<void> {
  const { stream: body, ...facts } = await stream(url)
  expect(facts).toEqual({ ...WHOLE, ...more })
  const { bytes, error } = await drain({ ...facts, stream: body })
  expect(error).toBeUndefined()
  expect(bytes.equals(BYTES)).toBe(true)
}

describe('a resource that comes', () => {
  it('in the answer itself', async () => {
    const { url, requests } = await server(direct(BYTES, NAMED))
    await expectWhole(url)
    const { method, headers, message } = requests[0]!
    expect(method).toBe('POST')
    expect(headers).toMatchObject({
      accept: 'application/json, */*',
      'content-type': 'application/json'
    })
    expect(message).toMatchObject({
      jsonrpc: '2.0',
      method: 'resources/stream',
      params: { uri: RESOURCE }
    })
  })

  it('without a length', async () => {
    const { url } = await server(res => res.writeHead(200, { ...HEAD, ...NAMED }).end(BYTES))
    await expectWhole(url, { size: undefined })
  })

  it('empty', async () => {
    const { url } = await server(direct(Buffer.alloc(0)))
    const found = await stream(url)
    expect(found).toMatchObject({ size: 0, name: undefined })
    expect(await drain(found)).toEqual({ bytes: Buffer.alloc(0), error: undefined })
  })

  it.each([302, 307, 301, 303, 308])(
    'from another origin, by a redirect (%d), without credentials',
    async code => {
      const storage = await server(direct(BYTES, { ...NAMED, 'MCP-Resource-Uri': 'another:uri' }))
      const { url } = await server(redirect(`${storage.origin}/blob?sig=1`, code))
      const headers = {
        Authorization: 'Bearer secret',
        'Mcp-Session-Id': 's',
        'X-Api-Key': 'k',
        Cookie: 'c=1'
      }
      const found = await stream(url, { headers })
      expect(found).toMatchObject(WHOLE)
      expect((await drain(found)).bytes.equals(BYTES)).toBe(true)
      const [asked] = storage.requests
      expect(asked).toMatchObject({ method: 'GET', url: '/blob?sig=1', message: undefined })
      for (const name of Object.keys(headers))
        expect(asked!.headers).not.toHaveProperty(name.toLowerCase())
    }
  )

  it('from the same origin, by a redirect, with credentials', async () => {
    const { url, requests } = await server(redirect('/files/1'), direct(BYTES, NAMED))
    await drain(await stream(url, { headers: { Authorization: 'Bearer mine' } }))
    expect(requests[1]).toMatchObject({
      method: 'GET',
      url: '/files/1',
      headers: { authorization: 'Bearer mine' }
    })
  })

  it('from a download URL of the same origin, with credentials', async () => {
    const answers: Answer[] = []
    const { url, origin, requests } = await server(
      (...about) => answers[0]!(...about),
      direct(BYTES, NAMED)
    )
    answers.push(download(`${origin}/mcp?download=1`, { size: BYTES.length }))
    const headers = { Authorization: 'Bearer mine', 'Mcp-Session-Id': 's' }
    const found = await stream(url, { headers })
    expect(found).toMatchObject(WHOLE)
    expect((await drain(found)).bytes.equals(BYTES)).toBe(true)
    expect(requests[1]).toMatchObject({ method: 'GET', url: '/mcp?download=1' })
    expect(requests[1]!.headers).toMatchObject({
      authorization: 'Bearer mine',
      'mcp-session-id': 's',
      accept: '*/*'
    })
    expect(requests[1]!.headers).not.toHaveProperty('content-type')
  })

  it('from a download URL of a trusted origin, without credentials', async () => {
    const other = await server(direct(BYTES, NAMED), direct(BYTES, NAMED))
    for (const trusted of [other.origin, '*']) {
      const { url } = await server(download(`${other.origin}/1`))
      const found = await stream(url, {
        trustedOrigins: [trusted],
        headers: { Authorization: 'Bearer mine' }
      })
      expect((await drain(found)).bytes.equals(BYTES)).toBe(true)
      expect(other.requests.at(-1)!.headers).not.toHaveProperty('authorization')
    }
  })

  it('by a `fetch` that is no method of anything, as that of browsers is not', async () => {
    const other = await server(direct(BYTES, NAMED))
    const { url } = await server(redirect(`${other.origin}/1`))
    const bare = function (this: unknown, ...args: Parameters<FetchLike>) {
      if (this !== undefined) throw new TypeError('Illegal invocation')
      return fetch(...args)
    }
    expect(await outcome(url, { fetch: bare })).toBeUndefined()
  })

  it('from an endpoint that has moved within its origin', async () => {
    const moved =
      (code: number): Answer =>
      res =>
        res.writeHead(code, { Location: '/v2/mcp' }).end()
    const { url, requests } = await server(moved(307), moved(308), direct(BYTES, NAMED))
    await expectWhole(url)
    expect(requests.map(({ method, url, message }) => [method, url, message?.method])).toEqual([
      ['POST', '/mcp', 'resources/stream'],
      ['POST', '/v2/mcp', 'resources/stream'],
      ['POST', '/v2/mcp', 'resources/stream']
    ])
  })

  it.each([302, 307])(
    'from a redirect within its origin that names the resource, by GET, with %d',
    async code => {
      const { url, requests } = await server(redirect('/storage?sig=1', code), direct(BYTES, NAMED))
      await expectWhole(url)
      expect(requests.map(({ method, url }) => [method, url])).toEqual([
        ['POST', '/mcp'],
        ['GET', '/storage?sig=1']
      ])
    }
  )

  it.each(['application/json-patch+json', 'application/json-seq'])(
    'as %s, which is not JSON-RPC',
    async type => {
      const { url } = await server(direct(BYTES, { 'Content-Type': type }))
      const found = await stream(url)
      expect([found.mimeType, (await drain(found)).bytes.equals(BYTES)]).toEqual([type, true])
    }
  )

  it('as JSON from a redirect or a download URL; in the answer itself, JSON is never the resource', async () => {
    const json = Buffer.from('{"jsonrpc":"2.0","result":{}}')
    const typed = { 'Content-Type': 'application/json' }
    const storage = await server(direct(json, typed), direct(json, typed))
    const { url } = await server(
      redirect(`${storage.origin}/1`),
      download(`${storage.origin}/1`, { mimeType: 'application/json' }),
      direct(json, typed)
    )
    for (let i = 0; i < 2; i++) {
      const found = await stream(url, { trustedOrigins: ['*'] })
      expect(found.mimeType).toBe('application/json')
      expect((await drain(found)).bytes.equals(json)).toBe(true)
    }
    expect(await outcome(url)).toMatchObject({ code: 'unexpected-answer' })
  })

  it('with its first byte before the server has made the second', async () => {
    const more = gate()
    const { url } = await server(async res => {
      res.writeHead(200, { ...HEAD, 'Content-Length': 2 }).write('a')
      await more.opened
      res.end('b')
    })
    const { stream: body } = await stream(url)
    const reader = body.getReader()
    expect(Buffer.from((await reader.read()).value!).toString()).toBe('a')
    more.open()
    expect(Buffer.from((await reader.read()).value!).toString()).toBe('b')
    expect(await reader.read()).toEqual({ done: true, value: undefined })
  })
})

describe('what a request says', () => {
  const META = 'io.modelcontextprotocol/'

  it('is what its client can take', async () => {
    const { url, requests } = await server(direct(BYTES), direct(BYTES))
    await drain(await stream(url))
    await drain(await stream(url, { maxStreamSize: 1e6 }))
    expect(requests.map(({ message }) => message!.params._meta)).toEqual([
      { [`${META}clientCapabilities`]: { resourceStreaming: {} } },
      { [`${META}clientCapabilities`]: { resourceStreaming: { maxStreamSize: 1e6 } } }
    ])
  })

  it('is its revision as well, from 2026-07-28 on', async () => {
    const { url, requests } = await server(direct(BYTES), direct(BYTES))
    for (const version of ['2025-11-25', '2026-07-28'])
      await drain(await stream(url, { headers: { 'MCP-Protocol-Version': version } }))
    expect(requests.map(({ message }) => message!.params._meta[`${META}protocolVersion`])).toEqual([
      undefined,
      '2026-07-28'
    ])
    expect(requests.map(({ headers }) => headers['mcp-method'])).toEqual([
      undefined,
      'resources/stream'
    ])
  })

  it('has an id that nobody can guess', async () => {
    const { url, requests } = await server(direct(BYTES), direct(BYTES))
    for (let i = 0; i < 2; i++) await drain(await stream(url))
    const [one, other] = requests.map(({ message }) => message!.id)
    expect(one).toMatch(/^\d{8,}$/)
    expect(other).not.toBe(one)
  })
})

describe('progress', () => {
  it('is told with each chunk', async () => {
    const { url } = await server(direct(BYTES))
    const told: number[] = []
    await drain(
      await stream(url, {
        onProgress: ({ received, size }) => {
          expect(size).toBe(BYTES.length)
          told.push(received)
        }
      })
    )
    expect(told.at(-1)).toBe(BYTES.length)
    expect([...told].sort((a, b) => a - b)).toEqual(told)
  })
})

describe('an answer without bytes', () => {
  it.each([
    [-32002, 'not-found'],
    [-32602, 'not-found'],
    [-32003, 'not-streamable'],
    [-32601, 'not-streamable'],
    [-32004, 'too-large'],
    [-32603, 'refused'],
    [-31000, 'refused']
  ])('with the JSON-RPC error %d is %s', async (code, name) => {
    const { url } = await server(rpcError(code, 'for a reason', { uri: RESOURCE }))
    await expect(stream(url)).rejects.toMatchObject({
      name: 'ResourceStreamError',
      code: name,
      status: 200,
      rpcError: { code, message: 'for a reason', data: { uri: RESOURCE } },
      message: expect.stringContaining('for a reason')
    })
  })

  it.each([
    [400, 'refused'],
    [401, 'unauthorized'],
    [403, 'unauthorized'],
    [404, 'refused'],
    [406, 'not-streamable']
  ])('with the status %d is %s', async (code, name) => {
    const { url, requests } = await server(
      status(code),
      rpcError(-32001, 'because', undefined, code)
    )
    await expect(stream(url)).rejects.toMatchObject({
      code: name,
      status: code,
      rpcError: undefined
    })
    await expect(stream(url)).rejects.toMatchObject({
      code: name,
      status: code,
      rpcError: { code: -32001 }
    })
    expect(requests).toHaveLength(2)
  })

  it('comes as a rejection, never as a stream', async () => {
    const { url } = await server(rpcError(-32002))
    expect(await outcome(url)).toMatchObject({ code: 'not-found' })
  })
})

describe('a bad argument', () => {
  it.each([
    ['no URI', ['http://127.0.0.1:1/', '']],
    ['a URI that is none', ['http://127.0.0.1:1/', 1]],
    ['no absolute URL', ['/mcp', RESOURCE]],
    ['a URL of something else than HTTP', [new URL('ftp://127.0.0.1/'), RESOURCE]],
    ['something else in place of a transport', [{ send: () => Promise.resolve() }, RESOURCE]],
    ['nothing in place of a transport', [undefined, RESOURCE]]
  ])('such as %s is a TypeError', async (_name, args) => {
    await expect(streamResource(...(args as Parameters<typeof streamResource>))).rejects.toThrow(
      TypeError
    )
  })

  it.each([
    ['maxStreamSize', -1, 'must be a number, 0 or more'],
    ['maxStreamSize', '1', 'must be a number, 0 or more'],
    ['signal', {}, 'must be an AbortSignal'],
    ['signal', null, 'must be an AbortSignal'],
    ['headers', 1, 'must be headers, or a function'],
    ['onProgress', true, 'must be a function'],
    ['trustedOrigins', 'https://a.example', "must be a list of origins, or ['*']"],
    ['trustedOrigins', ['https://a.example/'], "must be a list of origins, or ['*']"],
    ['trustedOrigins', ['a.example'], "must be a list of origins, or ['*']"],
    ['trustedOrigins', [undefined], "must be a list of origins, or ['*']"],
    ['fetch', {}, 'must be a function'],
    ['maxRetries', NaN, 'must be a number, 0 or more'],
    ['minTimeout', null, 'must be a number, 0 or more'],
    ['idleTimeout', '1', 'must be a number, 0 or more, or null'],
    ['toString', () => '', undefined],
    ['retries', 1, undefined]
  ])('such as the option %s: %p is a TypeError that says why', async (name, value, fault) => {
    const why = fault === undefined ? `unknown option \`${name}\`` : `option \`${name}\` ${fault}`
    await expect(
      streamResource('http://127.0.0.1:1/', RESOURCE, { [name]: value })
    ).rejects.toThrow(new TypeError(`streamResource: ${why}`))
  })

  it('such as an empty URI is named', async () => {
    const error = new TypeError('streamResource: `uri` must be a string, and not empty')
    await expect(streamResource('http://127.0.0.1:1/', '')).rejects.toThrow(error)
  })
})

it('an error can be made of anything, as from JavaScript', () => {
  const { message, code } = new ResourceStreamError(undefined as never, 'nothing')
  expect([message, code]).toEqual([
    'The resource cannot be streamed: undefined: nothing',
    undefined
  ])
})
