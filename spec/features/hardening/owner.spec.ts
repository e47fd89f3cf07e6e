// An owner that is late, wrong or of no use: it never answers twice, and never takes a stream from
// a client that lives.

import { describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request as httpRequest, type ServerResponse } from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { Awaitable, gate } from '../../helpers/gate.js'
import { listen } from '../../helpers/listen.js'
import { callTool, get, headersFor, post, result } from '../../helpers/mcp.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'
import { HEADERS } from '../endpoint/setup.js'
import { createStreams } from '../mounting/frameworks.js'
import { open, requestText } from './wire.js'

const portOf = (url: string) => Number(new URL(url).port)

/** Keeps the responses that pass, so that a spec can answer them, or wait for their close. */
function noting() {
  const responses = new Awaitable<ServerResponse & { gone: Promise<void> }>()
  const middleware: RequestHandler = (_req, res, next) => {
    const gone = new Promise<void>(resolve => res.once('close', resolve))
    responses.push(Object.assign(res, { gone }))
    next()
  }
  return { responses, middleware }
}

/** Expects that what these refer to is kept by nobody, some turns later. */
async function expectCollected(refs: WeakRef<object>[]): Promise<void> {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const kept = () => refs.filter(ref => ref.deref() !== undefined).length
  for (let turns = 0; turns < 50 && kept() > 0; turns++) {
    await turn()
    collectGarbage()
  }
  expect(kept()).toBe(0)
}

describe.each([
  ['is known', () => 'me'],
  [
    'fails',
    () => {
      throw new Error('the database is down')
    }
  ]
])('when an owner %s', (_name, settle) => {
  it.each(['GET', 'POST'])(
    'after somebody in front has answered a %s, nothing more happens',
    async method => {
      const go = gate()
      const streams = createStreams({
        owner: () => go.opened.then(settle),
        onError: () => undefined
      })
      const nexts: unknown[][] = []
      const { url } = await listen((req, res) => {
        streams(req, res, (...args) => nexts.push(args))
        res.writeHead(503).end('too late')
      })
      const response = await (method === 'GET'
        ? get(url, HEADERS)
        : post(url, callTool(1, 'any'), HEADERS))
      await response.ended
      go.open()
      await turn()
      await turn()
      expect([response.status, response.text]).toEqual([503, 'too late'])
      expect(nexts).toEqual([])
    }
  )

  it.each(['GET', 'POST'])(
    'after the client of a %s has left, nothing more happens',
    async method => {
      const go = gate()
      const streams = createStreams({
        owner: () => go.opened.then(settle),
        onError: () => undefined
      })
      const nexts: unknown[][] = []
      const asked = gate()
      const gone = gate()
      const { port } = await listen((req, res) => {
        res.once('close', () => gone.open())
        streams(req, res, (...args) => nexts.push(args))
        asked.open()
      })
      const wire = open(port)
      wire.socket.write(
        requestText({ method, headers: HEADERS }, method === 'GET' ? undefined : callTool(1, 'any'))
      )
      await asked.opened
      await wire.leave()
      await gone.opened
      go.open()
      await turn()
      await turn()
      expect(nexts).toEqual([])
      expect(streams.stats()).toMatchObject({ live: 0, connections: 0 })
    }
  )
})

describe('an owner that never comes', () => {
  it.each(['keeps', 'does not keep'])(
    'keeps nothing of requests whose clients have left, if the application %s its promise',
    async what => {
      const never = new Promise<string>(() => undefined)
      const kept: WeakRef<object>[] = []
      const asked = gate()
      const gone = gate()
      const streams = createStreams({
        owner: () => (what === 'keeps' ? never : new Promise<string>(() => undefined))
      })
      const { port } = await listen((req, res) => {
        kept.push(new WeakRef(req), new WeakRef(res), new WeakRef(req.socket))
        req.socket.once('close', () => gone.open())
        streams(req, res, () => undefined)
        if (kept.length === 6) asked.open()
      })
      const wire = open(port)
      const text = requestText({ headers: HEADERS }, callTool(1, 'any'))
      wire.socket.write(text + text) // The second one never has its turn on the connection.
      await asked.opened
      await wire.leave()
      await gone.opened
      await expectCollected(kept)
    }
  )

  it('keeps nothing of a request that somebody in front has answered', async () => {
    const never = new Promise<string>(() => undefined)
    const kept: WeakRef<object>[] = []
    const streams = createStreams({ owner: () => never })
    const { url } = await listen((req, res) => {
      kept.push(new WeakRef(req), new WeakRef(res))
      if (kept.length === 2) streams(req, res, () => undefined)
      res.writeHead(503).end()
    })
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    for (let i = 0; i < 2; i++) {
      const sent = httpRequest(url, { agent, method: 'POST', headers: HEADERS })
      sent.end(JSON.stringify(callTool(1, 'any')))
      const [response] = (await once(sent, 'response')) as [IncomingMessage]
      response.resume()
      await once(response, 'close')
    }
    // The last one may be in the hands of the socket.
    await expectCollected(kept.slice(0, 2))
    agent.destroy()
  })

  it('is not waited for by close()', async () => {
    const asked = gate()
    const streams = createStreams({
      owner: () => {
        asked.open()
        return new Promise<string>(() => undefined)
      }
    })
    const { port } = await listen((req, res) => streams(req, res, () => undefined))
    const wire = open(port)
    wire.socket.write(requestText({ headers: HEADERS }, callTool(1, 'any')))
    await asked.opened
    await streams.close()
    await wire.leave()
  })
})

describe('an owner that is no string', () => {
  it.each<[what: string, owner: () => unknown]>([
    ['an object', () => ({ id: 1 })],
    ['the promise of an object', async () => ({ id: 1 })],
    ['a function', () => () => 'me']
  ])('but %s is refused, and reported', async (_what, owner) => {
    const errors: Error[] = []
    const options = { owner, onError: error => errors.push(error) } as McpStreamsOptions
    const endpoint = rawEndpoint(({ result }) => result())
    const { url } = await serve(endpoint, options)
    const response = await post(url, callTool(1, 'any'), HEADERS)
    expect(await response.json()).toMatchObject({
      error: { code: -31000, data: { reason: 'owner-failed' } }
    })
    expect(response.status).toBe(500)
    expect(errors).toMatchObject([{ code: 'owner-failed', cause: { name: 'TypeError' } }])
    expect(endpoint.requests).toHaveLength(0)
  })
})

describe('a client that leaves while its owner is looked up', () => {
  it.each<
    [
      how: string,
      late: (url: string, id: string) => { path?: string; headers?: Record<string, string> }
    ]
  >([
    ['by the URL', (url, id) => ({ path: `${new URL(url).pathname}?stream=${id}` })],
    [
      'by an event id',
      (_url, id) => ({ headers: headersFor({ session: 'mine', lastEventId: `${id}.0` }) })
    ]
  ])('does not take a stream over (%s) from a connection that lives', async (_how, late) => {
    const go = gate()
    const endpoint = rawEndpoint(({ open }) => open({ 'Mcp-Session-Id': 'mine' }))
    const { responses, middleware } = noting()
    const owner = async ({ headers }: { headers: object }) => {
      if ('x-late' in headers) await go.opened
      return 'me'
    }
    const { url, streams } = await serve(endpoint, { owner }, [middleware])
    const session = headersFor({ session: 'mine', version: '2025-11-25' })
    const living = await post(url, callTool(1, 'any'), session)
    const { path = '/mcp', headers = {} } = late(url, streamId(living))
    const wire = open(portOf(url))
    wire.socket.write(requestText({ method: 'GET', path, headers: { ...headers, 'x-late': '1' } }))
    const { gone } = await responses.nth(2)
    await wire.leave()
    await gone
    go.open()
    await turn()
    await turn()
    expect(streams.stats()).toMatchObject({ live: 1, connections: 1, resumes: 0 })
    endpoint.requests[0]!.result()
    expect(await living.ended).toBe('end')
    expect(living.messages()).toEqual([result(1, {})])
  })

  it('does not take a listen channel over from a connection that lives', async () => {
    const go = gate()
    const endpoint = rawEndpoint(({ open }) => open())
    const { responses, middleware } = noting()
    const owner = async ({ headers }: { headers: object }) => {
      if ('x-late' in headers) await go.opened
      return 'me'
    }
    const { url, streams } = await serve(endpoint, { owner }, [middleware])
    const headers = headersFor({
      session: 'mine',
      version: '2025-11-25',
      accept: 'text/event-stream'
    })
    const living = await get(url, headers)
    const wire = open(portOf(url))
    wire.socket.write(requestText({ method: 'GET', headers: { ...headers, 'x-late': '1' } }))
    const { gone } = await responses.nth(2)
    await wire.leave()
    await gone
    go.open()
    await turn()
    await turn()
    expect(streams.stats()).toMatchObject({ live: 1, connections: 1, resumes: 0 })
    expect(living.ending).toBeUndefined()
  })
})

describe('a stream without a session', () => {
  it.each(['GET', 'DELETE'])('accepts a %s by its URL that names one', async method => {
    const endpoint = rawEndpoint(({ open }) => open())
    const { url } = await serve(endpoint)
    const response = await post(url, callTool(1, 'any'), HEADERS)
    const { status } = await fetch(streamUrl(response, url), {
      method,
      headers: headersFor({ session: 'of mine' })
    })
    expect(status).toBe(method === 'GET' ? 200 : 204)
  })
})
