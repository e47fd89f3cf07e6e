// The Origin rule: pages of elsewhere get nothing of a stream URL, not even whether there is a
// stream.

import { beforeEach, describe, expect, it } from '@jest/globals'
import { nanoid } from 'nanoid'
import type { IncomingMessage } from 'node:http'
import supertest from 'supertest'
import { isForeignOrigin } from '../../../lib/access/guards.js'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { callTool, eventId, get, headersFor, post } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'
import { rawExchange } from './raw-exchange.js'

const SECRET = { jsonrpc: '2.0', method: 'notifications/message', params: { data: 'secret' } }
const version = '2025-11-25'

async function streamOf(options?: McpStreamsOptions, session?: string) {
  const endpoint = rawEndpoint(({ req, res, emit, open }) => {
    if (req.method === 'OPTIONS') res.writeHead(204, { 'Access-Control-Allow-Origin': '*' }).end()
    else if (req.method === 'POST') emit(SECRET)
    else open()
  })
  const served = await serve(endpoint, options)
  const response = await post(served.url, callTool(1, 'x'), headersFor({ version, session }))
  await response.nextMessage()
  return {
    ...served,
    endpoint,
    response,
    own: streamUrl(response, served.url),
    id: streamId(response)
  }
}

const FOREIGN = [
  'https://evil.example',
  'null',
  '',
  'rubbish',
  'file://',
  'http://127.0.0.1:1',
  'http://localhost'
]

describe('a stream URL', () => {
  it.each(FOREIGN)(
    'is forbidden to a page of origin %p, whether there is a stream or not',
    async origin => {
      const { url, own, response, streams } = await streamOf()
      for (const method of ['GET', 'HEAD', 'DELETE', 'PUT', 'POST']) {
        const headers = { Origin: origin, 'Content-Length': '0' }
        const real = await rawExchange(own, method, headers)
        const madeUp = await rawExchange(`${url}?stream=${nanoid()}`, method, headers)
        const rubbish = await rawExchange(`${url}?stream=${nanoid()}&stream=1`, method, headers)
        expect(real).toMatch(/^HTTP\/1\.1 403 /)
        expect([madeUp, rubbish]).toEqual([real, real])
      }
      expect(response.ending).toBeUndefined()
      expect(streams.stats()).toMatchObject({ resumes: 0, refusals: 15, live: 1 })
    }
  )

  it('says so as JSON-RPC clients understand it', async () => {
    const { own } = await streamOf()
    await supertest(own)
      .get('')
      .set(headersFor({ origin: 'https://evil.example' }))
      .expect(403, {
        jsonrpc: '2.0',
        id: null,
        error: {
          code: -31000,
          message: 'Origin not allowed: the option allowedOrigins of the server does not name it',
          data: { reason: 'foreign-origin' }
        }
      })
  })

  it('is open to what is no page, and to pages of its own origin', async () => {
    const { url, own } = await streamOf()
    for (const origin of [undefined, new URL(url).origin]) {
      const resumed = await get(own, headersFor({ origin }))
      expect(await resumed.nextMessage()).toEqual(SECRET)
    }
  })

  it.each<[allowed: string[], origin: string, status: number]>([
    [['https://app.example'], 'https://app.example', 200],
    [['https://App.example'], 'https://app.example', 200],
    [['https://other.example', 'https://app.example'], 'https://app.example', 200],
    [['chrome-extension://abcdefgh'], 'chrome-extension://abcdefgh', 200],
    [['*'], 'https://anything.example', 200],
    [['*'], 'null', 200],
    [['https://app.example'], 'http://app.example', 403],
    [['https://app.example'], 'https://app.example:8443', 403],
    [['https://app.example'], 'https://app.example.evil.example', 403],
    [['https://app.example'], 'https://sub.app.example', 403],
    [['https://app.example'], 'null', 403]
  ])('with allowedOrigins %j, a page of %s gets %i', async (allowedOrigins, origin, status) => {
    const { own } = await streamOf({ allowedOrigins })
    expect((await get(own, headersFor({ origin }))).status).toBe(status)
  })

  it('does not trust a Host that agrees with the Origin, on a loopback socket: that is what DNS rebinding looks like', async () => {
    const { own, url } = await streamOf()
    const { port } = new URL(url)
    const status = async (name: string) => {
      const host = `${name}:${port}`
      return (await get(own, { origin: `http://${host}`, host })).status
    }
    expect(await status('evil.example')).toBe(403)
    expect(await status('127.0.0.1.evil.example')).toBe(403)
    expect(await status('localhost.evil.example')).toBe(403)
    expect(await status('10.0.0.1')).toBe(403)
    expect(await status('localhost')).toBe(200)
    expect(await status('127.0.0.1')).toBe(200)
    expect(await status('[::1]')).toBe(200)
    const allowed = await streamOf({ allowedOrigins: ['http://evil.example'] })
    expect(
      (await get(allowed.own, { origin: 'http://evil.example', host: 'evil.example' })).status
    ).toBe(200)
  })

  it('leaves OPTIONS to the CORS of the app', async () => {
    const { own, endpoint } = await streamOf()
    const headers = headersFor({ origin: 'https://evil.example' })
    const preflight = await openStream(own, { method: 'OPTIONS', headers })
    expect(preflight.status).toBe(204)
    expect(preflight.headers['access-control-allow-origin']).toBe('*')
    expect(endpoint.calls).toHaveLength(2)
  })
})

describe('the endpoint itself, asked by a page of elsewhere,', () => {
  let served: Awaited<ReturnType<typeof streamOf>>
  const origin = 'https://evil.example'

  beforeEach(async () => {
    served = await streamOf({}, 's')
  })

  it('does not replay a stream by an event id, nor say whether there is one', async () => {
    const { url, id, endpoint, response } = served
    for (const lastEventId of [`${id}.0.1`, eventId(id, '0.1'), eventId('x'.repeat(21), '0.1')]) {
      const refused = await get(url, headersFor({ version, session: 's', origin, lastEventId }))
      expect(refused.status).toBe(403)
      expect(await refused.json()).toMatchObject({ error: { data: { reason: 'foreign-origin' } } })
    }
    expect(endpoint.calls).toHaveLength(1)
    expect(response.ending).toBeUndefined()
  })

  it('does not give away the listen channel of a session', async () => {
    const { url, endpoint } = served
    const channel = await get(url, headersFor({ version, session: 's' }))
    const foreign = await get(url, headersFor({ version, session: 's', origin }))
    expect(streamId(foreign)).not.toBe(streamId(channel))
    expect(channel.ending).toBeUndefined()
    expect(endpoint.calls).toHaveLength(3)
  })

  it('does not repeat what a key stands for, neither a stream nor an answer', async () => {
    const json = { jsonrpc: '2.0', id: 2, result: {} }
    const endpoint = rawEndpoint(({ res, message, emit }) => {
      if (message.params.name === 'stream') emit(SECRET)
      else res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(json))
    })
    const { url } = await serve(endpoint)
    for (const name of ['stream', 'json']) {
      const headers = { ...headersFor({ version }), 'idempotency-key': `key-of-a-${name}-call` }
      const own = await post(url, callTool(2, name), headers)
      expect(name === 'json' ? await own.json() : await own.nextMessage()).toEqual(
        name === 'json' ? json : SECRET
      )
      for (const repeated of [name, 'another']) {
        const refused = await post(url, callTool(2, repeated), { ...headers, origin })
        expect(refused.status).toBe(403)
        expect(await refused.json()).toMatchObject({
          error: { data: { reason: 'foreign-origin' } }
        })
      }
      if (name === 'stream') expect(own.ending).toBeUndefined()
    }
    expect(endpoint.calls).toHaveLength(2)
  })

  it('answers a POST as it does without the middleware', async () => {
    const { url } = served
    const response = await post(
      url,
      callTool(2, 'x'),
      headersFor({ version, session: 's', origin })
    )
    expect(await response.nextMessage()).toEqual(SECRET)
  })
})

describe('on a socket that is not a loopback one', () => {
  const foreign = (host: string, origin: string) =>
    isForeignOrigin(
      {
        headers: { host, origin },
        socket: { localAddress: '192.0.2.1' }
      } as unknown as IncomingMessage,
      new Set()
    )

  it.each([
    ['app.example', 'https://app.example'],
    ['app.example', 'http://app.example'],
    ['APP.example', 'https://app.example'],
    ['app.example:443', 'https://app.example'],
    ['app.example:8080', 'http://app.example:8080'],
    ['[2001:db8::1]:8080', 'http://[2001:db8::1]:8080']
  ])('Host %s is the origin %s', (host, origin) => {
    expect(foreign(host, origin)).toBe(false)
  })

  it.each([
    ['app.example', 'https://evil.example'],
    ['app.example', 'https://app.example:8443'],
    ['app.example:8080', 'http://app.example'],
    ['app.example', 'null'],
    ['', 'https://app.example'],
    ['app.example/', 'https://evil.example'],
    ['user@app.example', 'https://user']
  ])('Host %p is not the origin %s', (host, origin) => {
    expect(foreign(host, origin)).toBe(true)
  })
})
