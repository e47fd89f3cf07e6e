// Who may poll and resume: the endpoint has the first word on token and session, then the stream's
// owner and session count.

import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js'
import { describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import { once } from 'node:events'
import { sdkV1Stateful, sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler, sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import {
  callTool,
  del,
  headersFor,
  initializeSession,
  post,
  postModern,
  request
} from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { client, draftEndpoint, note, STREAMS, streamId, UNKNOWN, world } from './setup.js'

const METHODS = ['stream/resume', 'stream/poll']

describe('a stream that is not there for the caller', () => {
  it.each(METHODS)(
    'is the same for %s, byte for byte: unknown, of another owner, of another session, gone',
    async method => {
      const endpoint = draftEndpoint(({ emit }) => emit(note(1)), { stateless: true })
      const { url, streams } = await serve(endpoint)
      const as = (auth: string, session = 's') =>
        client(url, headersFor({ version: '2025-11-25', auth, session }))
      const me = as('me')
      const [mine, gone] = [streamId(await me.call(1)), streamId(await me.call(2))]
      await del(`${url}?stream=${gone}`, me.headers)
      const texts = await Promise.all(
        [
          me.ask(method, { streamId: 'x'.repeat(21) }),
          as('you').ask(method, { streamId: mine }),
          as('me', 'other').ask(method, { streamId: mine }),
          me.ask(method, { streamId: gone })
        ].map(async asked => {
          const response = await asked
          await response.ended
          const head = response.rawHeaders.filter(text => !/GMT$/.test(text))
          return JSON.stringify([response.status, head, response.text])
        })
      )
      expect(new Set(texts).size).toBe(1)
      expect(JSON.parse(JSON.parse(texts[0]!)[2])).toEqual({
        jsonrpc: '2.0',
        id: 'ask',
        error: UNKNOWN
      })
      expect(streams.stats().refusals).toBe(4)
      // The owner is served.
      expect((await me.answer('stream/poll', { streamId: mine })).result).toMatchObject({
        status: 'live'
      })
    }
  )

  it('stays as it was after a stranger has asked', async () => {
    const endpoint = draftEndpoint(({ emit }) => emit(note(1)), { stateless: true })
    const { url, streams } = await serve(endpoint)
    const me = client(url, headersFor({ version: '2025-11-25', auth: 'me' }))
    const response = await me.call()
    await response.next()
    const you = client(url, headersFor({ version: '2025-11-25', auth: 'you' }))
    await you.answer('stream/resume', { streamId: streamId(response) })
    expect(response.ending).toBeUndefined()
    expect(streams.stats()).toMatchObject({ live: 1, connections: 1, resumes: 0 })
  })
})

describe("the endpoint's verdict", () => {
  it.each([...METHODS, 'stream/poll/all'])(
    'on an unknown session is the answer to %s',
    async method => {
      const { url } = await serve(sdkV1Stateful())
      const { headers } = await initializeSession(url, '2025-11-25', {}, STREAMS)
      const response = await post(url, callTool(1, 'hang'), headers)
      const ask = (session: string | undefined) =>
        client(url, { ...headers }).ask(
          method,
          { streamId: streamId(response) },
          { headers: { 'mcp-session-id': session } }
        )
      const [unknown, none] = [await ask('nobody'), await ask(undefined)]
      expect([unknown.status, (await unknown.json()).error.message]).toEqual([
        404,
        'Session not found'
      ])
      expect([none.status, (await none.json()).error.message]).toEqual([
        400,
        expect.stringMatching(/not initialized/)
      ])
      expect((await ask(headers['mcp-session-id'])).status).toBe(200)
    }
  )

  it('that a session is over ends its streams, and is the answer', async () => {
    const endpoint = sdkV1Stateful()
    const { url, streams } = await serve(endpoint)
    const { headers, sessionId } = await initializeSession(url, '2025-11-25', {}, STREAMS)
    const response = await post(url, callTool(1, 'hang'), headers)
    await response.nextMessage()
    await endpoint.sessions.get(sessionId!)!.transport.close()
    endpoint.sessions.delete(sessionId!)
    const poll = await client(url, headers).ask('stream/poll', { streamId: streamId(response) })
    expect(poll.status).toBe(404)
    await response.ended
    expect(streams.stats().live).toBe(0)
  })

  it('of a DELETE of the session: nothing of it is there any more', async () => {
    const { url, headers, call, ask } = await world(({ message, emit, res }) =>
      message === undefined ? res.writeHead(200).end() : emit(note(1))
    )
    const response = await call()
    await response.nextMessage()
    await del(url, headers)
    expect(await (await ask('stream/poll', { streamId: streamId(response) })).json()).toMatchObject(
      { error: UNKNOWN }
    )
  })

  it('of a guard in front of it is the answer, with its headers', async () => {
    const verifier = {
      verifyAccessToken: async (token: string) => {
        if (!token.startsWith('good'))
          throw Object.assign(new Error('no'), { errorCode: 'invalid_token' })
        return {
          token,
          clientId: 'c',
          scopes: [],
          expiresAt: Date.now() / 1000 + 60,
          extra: { sub: token.slice(-1) }
        }
      }
    }
    const guard: RequestHandler = (req, res, next) => {
      if (req.headers.authorization === 'Bearer revoked')
        return void res
          .status(401)
          .set('WWW-Authenticate', 'Bearer error="invalid_token"')
          .json({ revoked: true })
      return next()
    }
    const endpoint = draftEndpoint(({ emit }) => emit(note(1)), { stateless: true })
    const { url } = await serve(endpoint, {}, [guard, requireBearerAuth({ verifier })])
    const as = (auth: string) => client(url, headersFor({ version: '2025-11-25', auth }))
    const response = await as('good1').call()
    const streamId_ = streamId(response)
    const refused = await as('revoked').ask('stream/poll', { streamId: streamId_ })
    expect([refused.status, refused.headers['www-authenticate'], await refused.json()]).toEqual([
      401,
      'Bearer error="invalid_token"',
      { revoked: true }
    ])
    // A refreshed token of the same subject, and one of another.
    expect(
      (await as('good-and-new-1').answer('stream/poll', { streamId: streamId_ })).result
    ).toBeDefined()
    expect((await as('good2').answer('stream/poll', { streamId: streamId_ })).error).toEqual(
      UNKNOWN
    )
  })

  it('of a guard behind us counts as well', async () => {
    let isOpen = true
    const endpoint = draftEndpoint(({ emit }) => emit(note(1)))
    const handler = Object.assign(
      async (req: Parameters<typeof endpoint>[0], res: Parameters<typeof endpoint>[1]) => {
        if (isOpen) return endpoint(req, res)
        res.writeHead(403, { 'Content-Type': 'application/json' }).end('{"forbidden":true}')
      },
      { requests: endpoint.requests, calls: endpoint.calls }
    )
    const { url } = await serve(handler)
    const anyone = client(url, headersFor({ version: '2025-11-25' }))
    const response = await anyone.call()
    isOpen = false
    const refused = await anyone.ask('stream/resume', { streamId: streamId(response) })
    expect([refused.status, await refused.json()]).toEqual([403, { forbidden: true }])
  })

  it.each([...METHODS, 'stream/poll/all'])(
    'by a JSON-RPC error refuses %s like one by a status',
    async method => {
      let isRevoked = false
      const endpoint = rawEndpoint(
        ({ message, emit, result, error }) => {
          if (message.method !== 'ping') return void emit(note(1))
          if (isRevoked) error(-32001, 'Unauthorized')
          else result()
        },
        { stateless: true }
      )
      const { url, streams } = await serve(endpoint)
      const anyone = client(url, headersFor({ version: '2025-11-25' }))
      const response = await anyone.call()
      const params = { streamId: streamId(response) }
      isRevoked = true
      const refused = await anyone.ask(method, params)
      expect([refused.status, await refused.json()]).toEqual([
        200,
        { jsonrpc: '2.0', id: 'ask', error: { code: -32001, message: 'Unauthorized' } }
      ])
      expect(response.ending).toBeUndefined()
      expect(streams.stats()).toMatchObject({ connections: 1, resumes: 0 })
      // As a notification, as the draft has it in its example, it has no response to carry that.
      if (method === 'stream/resume')
        expect((await anyone.ask(method, params, { id: null })).status).toBe(400)
      isRevoked = false
      expect((await anyone.answer('stream/poll', params)).result).toBeDefined()
    }
  )

  it('of an endpoint that does not know the question is no refusal', async () => {
    const endpoint = rawEndpoint(({ message, emit, error }) =>
      message.method === 'ping' ? error(-32601, 'Method not found') : void emit(note(1))
    )
    const { url } = await serve(endpoint)
    const anyone = client(url, headersFor({ version: '2025-11-25' }))
    const params = { streamId: streamId(await anyone.call()) }
    expect((await anyone.answer('stream/poll', params)).result).toBeDefined()
  })

  it('that never comes is a 502, and a client that does not wait for it leaves nothing open', async () => {
    const endpoint = draftEndpoint(({ emit }) => emit(note(1)), { stateless: true })
    let isSilent = false
    const held: Parameters<typeof endpoint>[1][] = []
    const closed = gate()
    const { url } = await serve(
      Object.assign(
        async (req: Parameters<typeof endpoint>[0], res: Parameters<typeof endpoint>[1]) => {
          if (!isSilent) return endpoint(req, res)
          held.push(res)
          res.on('close', closed.open)
          if (held.length === 2) res.destroy()
        },
        { requests: endpoint.requests, calls: endpoint.calls }
      )
    )
    const anyone = client(url, headersFor({ version: '2025-11-25' }))
    const id = streamId(await anyone.call())
    isSilent = true
    const leaving = new AbortController()
    const left = fetch(url, {
      method: 'POST',
      signal: leaving.signal,
      headers: {
        ...anyone.headers,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream'
      },
      body: JSON.stringify(request(1, 'stream/poll', { streamId: id }))
    }).catch((error: Error) => error.name)
    while (held.length < 1) await new Promise(resolve => setImmediate(resolve))
    leaving.abort()
    expect(await left).toBe('AbortError')
    await closed.opened
    const refused = await anyone.ask('stream/poll', { streamId: id })
    expect([refused.status, (await refused.json()).error.data]).toEqual([
      502,
      { reason: 'endpoint-failed' }
    ])
    // Less than we wait for a verdict that nobody waits for.
  })

  it.each([
    ['SDK v1, stateful', () => sdkV1Stateful()],
    ['SDK v1, stateful, JSON', () => sdkV1Stateful({ enableJsonResponse: true })],
    ['SDK v1, stateless', () => sdkV1Stateless()],
    ['SDK v2, stateful', () => sdkV2Stateful()],
    ['SDK v2, stateful, JSON', () => sdkV2Stateful({ enableJsonResponse: true })]
  ])(
    'is given by the official endpoints, and they have nothing to complain about: %s',
    async (_name, newEndpoint) => {
      const endpoint = newEndpoint()
      const { url } = await serve(endpoint)
      const { headers } = await initializeSession(
        url,
        '2025-11-25',
        { authorization: 'Bearer me' },
        STREAMS
      )
      const complaints: unknown[] = []
      for (const { server, transport } of endpoint.sessions.values()) {
        server.server.onerror = error => complaints.push(error)
        const { onerror } = transport
        transport.onerror = error => {
          complaints.push(error)
          onerror?.(error)
        }
      }
      const me = client(url, headers)
      for (let i = 0; i < 10; i++) {
        expect((await me.answer('stream/poll', { streamId: 'x'.repeat(21) })).error).toEqual(
          UNKNOWN
        )
        expect((await me.answer('stream/poll/all')).result).toEqual({ streams: [] })
      }
      await endpoint.close()
      expect(complaints).toEqual([])
    }
  )

  it('is heard to its end, however long it is', async () => {
    const endings: boolean[] = []
    const endpoint = rawEndpoint(async ({ message, emit, res, result }) => {
      if (message.method !== 'ping') return void emit(note(1))
      res.on('close', () => endings.push(res.writableFinished))
      for (let n = 1; n <= 50; n++) if (!emit(note(n, 50_000))) await once(res, 'drain')
      result()
    })
    const { url } = await serve(endpoint)
    const anyone = client(url, headersFor({ version: '2025-11-25' }))
    expect(
      (await anyone.answer('stream/poll', { streamId: streamId(await anyone.call()) })).result
    ).toBeDefined()
    await until(() => endings.length > 0)
    expect(endings).toEqual([true])
  })

  it('at 2026-07-28 is asked by server/discover, with what the client says of itself', async () => {
    const { url } = await serve(sdkV2Handler({ responseMode: 'sse' }))
    const asked = await postModern(url, request(1, 'stream/poll', { streamId: 'x'.repeat(21) }))
    expect([asked.status, (await asked.json()).error]).toEqual([200, UNKNOWN])
    const bad = await post(
      url,
      request(1, 'stream/poll', { streamId: 'x'.repeat(21) }),
      headersFor({ version: '2026-07-28', message: { method: 'stream/poll' } })
    )
    expect(bad.status).toBe(400)
  })
})

describe('a page', () => {
  it('of a foreign origin gets nothing, before any look-up', async () => {
    const w = await world()
    const before = w.endpoint.requests.length
    const response = await w.ask(
      'stream/poll/all',
      {},
      { headers: { origin: 'https://evil.example' } }
    )
    expect([response.status, (await response.json()).error.data]).toEqual([
      403,
      { reason: 'foreign-origin' }
    ])
    expect(w.endpoint.requests).toHaveLength(before)
  })
})
