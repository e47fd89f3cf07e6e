// A session goes on in a process that has not begun it: with the same secret, and an endpoint that
// knows nothing of it.

import { describe, expect, it } from '@jest/globals'
import { sessions } from '../../../lib/features/sessions/index.js'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { type OpenResource, resources } from '../../../lib/resources/index.js'
import type { RequestHandler } from 'express'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful, type SdkV1Endpoint } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import {
  callTool,
  del,
  ended,
  get,
  headersFor,
  initializeSession,
  notification,
  post,
  request
} from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'

const SECRET = 'a secret of this spec'
const SURVIVING: McpStreamsOptions = { sessions: sessions({ secret: SECRET }) }
const VERSION = '2025-11-25'

const begun = async (endpoint = sdkV1Stateful(), options = SURVIVING, auth?: string) => {
  const { url, streams } = await serve(endpoint, options)
  const session = await initializeSession(url, VERSION, headersFor({ auth }))
  return {
    url,
    streams,
    endpoint,
    ...session,
    headers: { ...session.headers, ...headersFor({ auth }) }
  }
}
/** Another process: nothing of the first one is left but its secret. */
const restarted = async (endpoint: SdkV1Endpoint = sdkV1Stateful(), options = SURVIVING) => ({
  ...(await serve(endpoint, options)),
  endpoint
})
const count = (id: number) => callTool(id, 'count', { n: 2 })

describe.each([
  ['SDK 1.x', sdkV1Stateful],
  ['SDK 1.x, JSON', () => sdkV1Stateful({ enableJsonResponse: true })],
  ['SDK 2.x', sdkV2Stateful as unknown as typeof sdkV1Stateful]
])('a session of %s', (_name, make) => {
  it('goes on after a restart, under the id that its client has', async () => {
    const { sessionId, headers, endpoint } = await begun(make())
    expect(endpoint.sessions.has(sessionId as string)).toBe(false)
    const { url, endpoint: next } = await restarted(make())
    for (const id of [1, 2]) {
      const answer = await ended(post(url, count(id), headers))
      expect([answer.status, answer.headers['mcp-session-id'] ?? sessionId]).toEqual([
        200,
        sessionId
      ])
      expect(answer.text).toContain(`"id":${id}`)
      expect(answer.text).toContain('result')
    }
    expect(next.sessions.size).toBe(1)
  })
})

describe('a session that has outlived its process', () => {
  it('is begun again once, for all requests that wait', async () => {
    const { headers } = await begun()
    const { url, endpoint, streams } = await restarted()
    const answers = await Promise.all([1, 2, 3].map(id => ended(post(url, count(id), headers))))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
    expect([endpoint.sessions.size, streams.stats().revivals]).toEqual([1, 1])
  })

  it('has its streams under their URLs', async () => {
    const { headers } = await begun()
    const { url } = await restarted()
    const answer = await ended(post(url, count(1), headers))
    const again = await ended(get(streamUrl(answer, url), headers))
    expect(again.messages().at(-1)).toMatchObject({ id: 1 })
    expect(again.headers['mcp-session-id']).toBe(headers['mcp-session-id'])
  })

  it('listens again, and hears that lists may have changed', async () => {
    const { headers } = await begun()
    const { url } = await restarted()
    const channel = await get(url, headers)
    expect(await channel.nextMessage()).toMatchObject({
      method: 'notifications/tools/list_changed'
    })
    channel.destroy()
  })

  it('ends by DELETE in its new process, and stays ended', async () => {
    const { headers } = await begun()
    const { url, endpoint, streams } = await restarted()
    await ended(post(url, count(1), headers))
    expect((await ended(del(url, headers))).status).toBe(200)
    expect((await ended(post(url, count(2), headers))).status).toBe(404)
    expect([endpoint.sessions.size, streams.stats().revivals]).toEqual([0, 1])
  })

  it('is known by its own id in front, and by that of the endpoint behind', async () => {
    const { headers, sessionId } = await begun()
    const front = new Set<unknown>()
    const guard: RequestHandler = (req, _res, next) => {
      front.add(req.headers['mcp-session-id'])
      next()
    }
    const endpoint = sdkV1Stateful()
    const behind = new Set<unknown>()
    const { url } = await serve(
      (req, res) => {
        behind.add(req.headers['mcp-session-id'])
        behind.add(req.rawHeaders.find((_, i, all) => /^mcp-session-id$/i.test(all[i - 1] ?? '')))
        return endpoint(req, res)
      },
      SURVIVING,
      [guard]
    )
    await ended(post(url, count(1), headers))
    expect([...front]).toEqual([sessionId])
    const [dead, none, now, ...others] = behind
    expect([none, now, others]).toEqual([undefined, [...endpoint.sessions.keys()][0], []])
    expect(dead).not.toBe(sessionId)
  })

  it('waits in a line with the others of its process', async () => {
    const rounds: number[] = []
    const held: (() => void)[] = []
    /** Holds each `initialize` until 32 are there, and as many more as may come. */
    const hold = () =>
      new Promise<void>(resolve => {
        if (held.push(resolve) !== 32) return
        setTimeout(() => {
          rounds.push(held.length)
          for (const go of held.splice(0)) go()
        }, 50)
      })
    const make = (prefix: string, wait: () => unknown) => {
      let sessions = 0
      return rawEndpoint(async ({ message, req, res, result: respond }) => {
        const isKnown = req.headers['mcp-session-id']?.toString().startsWith(prefix)
        if (message.id === undefined) return void res.writeHead(202).end()
        if (message.method !== 'initialize')
          return isKnown ? respond() : void res.writeHead(404).end()
        await wait()
        res.setHeader('Mcp-Session-Id', `${prefix}${sessions++}`)
        respond({ protocolVersion: VERSION, capabilities: {} })
      })
    }
    const { url: first } = await serve(
      make('one', () => undefined),
      SURVIVING
    )
    const all = await Promise.all(
      Array.from({ length: 96 }, () => initializeSession(first, VERSION))
    )
    const { url, streams } = await serve(make('two', hold), SURVIVING)
    const answers = await Promise.all(all.map(({ headers }) => ended(post(url, count(1), headers))))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect([rounds, streams.stats().revivals]).toEqual([[32, 32, 32], 96])
  })

  it('answers a batch', async () => {
    const { url: first } = await serve(sdkV1Stateful(), SURVIVING)
    const { headers } = await initializeSession(first, '2025-03-26')
    const { url } = await restarted()
    const answer = await ended(post(url, [request(1, 'ping'), request(2, 'tools/list')], headers))
    expect(answer.messages().map(({ id, method }) => id ?? method)).toEqual([
      'notifications/tools/list_changed',
      1,
      2
    ])
  })

  it('gives bytes to a client that has declared that it takes them', async () => {
    const given: unknown[] = []
    const open: OpenResource = (uri, { sessionId }) => {
      given.push(sessionId)
      return { body: Buffer.from(uri) }
    }
    const options = { ...SURVIVING, resources: resources({ open }) }
    const { url: first } = await serve(sdkV1Stateful(), options)
    const declared = { resourceStreaming: {} }
    const { headers } = await initializeSession(first, VERSION, {}, declared)
    const { url, endpoint } = await restarted(sdkV1Stateful(), options)
    const wanted = request(1, 'resources/stream', { uri: 'a:1' })
    const accept = 'application/json, text/event-stream, */*'
    const bytes = await ended(post(url, wanted, { ...headers, accept }))
    expect(bytes.text).toBe('a:1')
    expect(given).toEqual([...endpoint.sessions.keys()])
  })

  it('gives them to it before as well', async () => {
    const options = {
      ...SURVIVING,
      resources: resources({ open: uri => ({ body: Buffer.from(uri) }) })
    }
    for (const endpoint of [sdkV1Stateful(), sdkV1Stateful({ enableJsonResponse: true })]) {
      const { url } = await serve(endpoint, options)
      const { headers } = await initializeSession(url, VERSION, {}, { resourceStreaming: {} })
      const accept = 'application/json, text/event-stream, */*'
      const wanted = request(1, 'resources/stream', { uri: 'a:1' })
      expect((await ended(post(url, wanted, { ...headers, accept }))).text).toBe('a:1')
    }
  })

  it('is begun again where the endpoint has ended it while it ran', async () => {
    const { url, headers, endpoint, streams } = await begun()
    await ended(post(url, count(1), headers))
    await endpoint.close()
    for (const id of [2, 3]) expect((await ended(post(url, count(id), headers))).status).toBe(200)
    expect([endpoint.sessions.size, streams.stats().revivals]).toEqual([1, 1])
  })

  it('is not begun again when its time is over', async () => {
    const options = { sessions: sessions({ secret: SECRET, lifetime: 1 }) }
    const { headers } = await begun(sdkV1Stateful(), options)
    const { url, endpoint } = await restarted(sdkV1Stateful(), options)
    await new Promise(resolve => setTimeout(resolve, 10))
    expect((await ended(post(url, count(1), headers))).status).toBe(404)
    expect(endpoint.sessions.size).toBe(0)
  })

  it('goes on where the endpoint still knows it', async () => {
    const { headers, endpoint } = await begun()
    const { url, streams } = await restarted(endpoint)
    expect((await ended(post(url, count(1), headers))).status).toBe(200)
    expect([endpoint.sessions.size, streams.stats().revivals]).toEqual([1, 0])
  })

  it('is known under a newer secret, as long as the older one is accepted', async () => {
    const { headers } = await begun()
    const newer = 'a newer secret of this spec'
    const change = (...secret: string[]) => ({ sessions: sessions({ secret }) })
    const { url } = await restarted(sdkV1Stateful(), change(newer, SECRET))
    expect((await ended(post(url, count(1), headers))).status).toBe(200)
    const { url: later } = await restarted(sdkV1Stateful(), change(newer))
    expect((await ended(post(later, count(1), headers))).status).toBe(404)
  })
})

describe('a client is told to begin anew', () => {
  it.each([
    ['another owner', (id: string) => id, 'b'],
    ['a forged id', (id: string) => id.slice(0, -2) + (id.endsWith('AA') ? 'BB' : 'AA'), 'a'],
    ['half an id', (id: string) => id.slice(0, id.length / 2), 'a'],
    ['the name of the session', (id: string) => id.slice(0, 22), 'a'],
    ['another spelling', (id: string) => `${id}=`, 'a'],
    ['two of them', (id: string) => `${id}, ${id}`, 'a'],
    ['bytes that are no text', (id: string) => `${id}\u00ff\u00fe`, 'a'],
    ['a mark alone', () => 'mcps1.', 'a'],
    ['an id of nobody', () => 'mcps1.' + 'A'.repeat(3000), 'a']
  ])('with %s', async (_name, change, auth) => {
    const { headers, url: first } = await begun(sdkV1Stateful(), SURVIVING, 'a')
    const { url, endpoint } = await restarted()
    const session = change(headers['mcp-session-id'] as string)
    const wrong = headersFor({ session, auth, version: VERSION })
    const unknown = headersFor({ session: 'made-up', auth, version: VERSION })
    for (const where of [url, first]) {
      const [one, other] = await Promise.all(
        [wrong, unknown].map(headers => ended(post(where, count(1), headers)))
      )
      expect([one!.status, one!.text]).toEqual([404, other!.text])
    }
    expect(endpoint.sessions.size).toBe(0)
  })

  it.each([
    ['refuses it', undefined],
    ['speaks another revision', { protocolVersion: '2025-06-18', capabilities: { tools: {} } }],
    ['is less able', { protocolVersion: VERSION, capabilities: {} }]
  ])('where the endpoint %s', async (_name, result) => {
    const raw = (answer: object | undefined, session: string) =>
      rawEndpoint(({ message, req, res, result: respond }) => {
        const known = req.headers['mcp-session-id'] === session
        if (req.method === 'DELETE') return void res.writeHead(200).end()
        if (message.method !== 'initialize')
          return known ? respond() : void res.writeHead(400).end('{}')
        if (answer === undefined) return void res.writeHead(400).end('{}')
        res.setHeader('Mcp-Session-Id', session)
        respond(answer)
      })
    const able = { protocolVersion: VERSION, capabilities: { tools: { listChanged: true } } }
    const { url: first } = await serve(raw(able, 'one'), SURVIVING)
    const answer = await ended(
      post(first, request(1, 'initialize', { protocolVersion: VERSION, capabilities: {} }))
    )
    const headers = headersFor({ session: answer.headers['mcp-session-id'] as string })
    expect(headers['mcp-session-id']).toMatch(/^mcps1\./)
    const second = raw(result, 'two')
    const { url } = await serve(second, SURVIVING)
    expect((await ended(post(url, request(2, 'tools/list'), headers))).status).toBe(404)
    // Nothing is left of what was begun.
    const deleted = second.requests.filter(({ req }) => req.method === 'DELETE')
    expect(deleted.map(({ req }) => req.headers['mcp-session-id'])).toEqual(
      result === undefined ? [] : ['two']
    )
  })
})

describe('an endpoint that is out of the ordinary', () => {
  it('gives no session, and its client gets none', async () => {
    const { url } = await serve(
      rawEndpoint(() => undefined, { stateless: true }),
      SURVIVING
    )
    expect((await initializeSession(url, VERSION)).sessionId).toBeUndefined()
  })

  it('gives two clients one session, in JSON, and sees its own id from both', async () => {
    const endpoint = rawEndpoint(({ result }) => result(), {
      session: 'mine',
      initializeAs: 'json'
    })
    const { url } = await serve(endpoint, SURVIVING)
    const sessions = [await initializeSession(url, VERSION), await initializeSession(url, VERSION)]
    expect(new Set(sessions.map(({ sessionId }) => sessionId)).size).toBe(2)
    for (const { headers } of sessions) await ended(post(url, request(1, 'tools/list'), headers))
    const seen = endpoint.requests.map(({ req }) => req.headers['mcp-session-id'])
    expect(seen).toEqual([undefined, 'mine', undefined, 'mine', 'mine', 'mine'])
  })

  it('refuses the first request of a session by 400, which is no word about the session', async () => {
    const endpoint = rawEndpoint(({ res }) => void res.writeHead(400).end(), { session: 'mine' })
    const { url } = await serve(endpoint, SURVIVING)
    const { headers } = await initializeSession(url, VERSION)
    endpoint.calls.length = 0
    const refused = await ended(post(url, request(1, 'tools/list'), headers))
    expect(refused.status).toBe(400)
  })

  it('gives a head without a session at once', async () => {
    const endpoint = rawEndpoint(({ message, res, result }) => {
      if (message.method !== 'initialize') return result()
      res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(': soon\n\n')
    })
    const { url } = await serve(endpoint, SURVIVING)
    const answer = await post(url, request(1, 'initialize', { protocolVersion: VERSION }))
    expect(answer.status).toBe(200)
    answer.destroy()
  })

  it('gives at once what is too large to be sealed', async () => {
    const endpoint = rawEndpoint(({ message, res, result }) => {
      if (message.method !== 'initialize') return result()
      res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Mcp-Session-Id': 'mine' })
      const text = 'x'.repeat(1024 * 1024)
      res.write(`data: ${JSON.stringify({ jsonrpc: '2.0', id: message.id, result: { text } })}\n\n`)
    })
    const { url } = await serve(endpoint, SURVIVING)
    const answer = await post(url, request(1, 'initialize', { protocolVersion: VERSION }))
    expect([answer.status, answer.headers['mcp-session-id']]).toEqual([200, 'mine'])
    answer.destroy()
  })

  it('gets the id that it has given where it is too long to be sealed', async () => {
    const session = 'x'.repeat(4000)
    const { url } = await serve(
      rawEndpoint(({ result }) => result(), { session }),
      SURVIVING
    )
    expect((await initializeSession(url, VERSION)).sessionId).toBe(session)
  })

  it('asks before it has answered initialize, and its client hears it', async () => {
    const endpoint = rawEndpoint(({ message, res, emit, result }) => {
      if (message.method !== 'initialize') return result()
      res.setHeader('Mcp-Session-Id', 'mine')
      emit(notification('notifications/message', { level: 'info', data: 'soon' }))
    })
    const { url } = await serve(endpoint, SURVIVING)
    const answer = await post(url, request(1, 'initialize', { protocolVersion: VERSION }))
    expect(await answer.nextMessage()).toMatchObject({ params: { data: 'soon' } })
    answer.destroy()
  })
})
