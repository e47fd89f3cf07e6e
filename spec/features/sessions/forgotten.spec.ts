// An endpoint that forgets a session while this process goes on: it is another process that was
// restarted, or it has ended an idle session. With option `sessions`, and without.

import { describe, expect, it, jest } from '@jest/globals'
import type { RequestHandler } from 'express'
import { request as httpRequest } from 'node:http'
import { sessions } from '../../../lib/features/sessions/index.js'
import { tasks } from '../../../lib/features/tasks/index.js'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { forgetfulEndpoint } from '../../helpers/endpoints/forgetful.js'
import type { RawCall } from '../../helpers/endpoints/raw.js'
import { gate } from '../../helpers/gate.js'
import {
  callTool,
  del,
  ended,
  errorResponse,
  get,
  initializeSession,
  notification,
  post,
  request
} from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { sleep } from '../../helpers/sleep.js'

const SURVIVING: McpStreamsOptions = { sessions: sessions({ secret: 'a secret of this spec' }) }
const VERSION = '2025-11-25'
const LIST = request(1, 'tools/list')
const JSON_TYPE = { 'Content-Type': 'application/json' }

async function begun(
  endpoint = forgetfulEndpoint(),
  options: McpStreamsOptions = SURVIVING,
  inFront: RequestHandler[] = []
) {
  const served = await serve(endpoint, options, inFront)
  const { headers } = await initializeSession(served.url, VERSION)
  const ask = (message: object = LIST, more: Record<string, string> = {}) =>
    ended(post(served.url, message, { ...headers, ...more }))
  return { ...served, endpoint, headers, ask }
}

/** As another process that has nothing of the first one but its secret. */
async function restarted({ endpoint, headers }: Awaited<ReturnType<typeof begun>>) {
  const served = await serve(endpoint, SURVIVING)
  const ask = (message: object = LIST, more: Record<string, string> = {}) =>
    ended(post(served.url, message, { ...headers, ...more }))
  return { ...served, ask }
}

describe.each([404, 400])('a session that the endpoint forgets, and answers %d', unknownIs => {
  it('is begun again, and the one request that was refused is sent once more', async () => {
    const { ask, endpoint, headers, streams } = await begun(forgetfulEndpoint({ unknownIs }))
    for (let times = 1; times <= 2; times++) {
      endpoint.known.clear()
      endpoint.calls.length = 0
      const { status, text, headers: got } = await ask()
      expect([status, got['mcp-session-id'] ?? headers['mcp-session-id']]).toEqual([
        200,
        headers['mcp-session-id']
      ])
      expect(text).toContain('"id":1')
      const begin = ['initialize', 'notifications/initialized']
      const proof = unknownIs === 400 ? ['ping'] : []
      expect(endpoint.log()).toEqual(['tools/list', ...proof, ...begin, 'tools/list'])
    }
    expect([endpoint.known.size, streams.stats().revivals]).toEqual([1, 2])
  })

  it('is begun again once for all requests that come at a time', async () => {
    const { ask, endpoint, streams } = await begun(forgetfulEndpoint({ unknownIs }))
    endpoint.known.clear()
    const all = await Promise.all([1, 2, 3, 4].map(id => ask(request(id, 'tools/list'))))
    expect(all.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    expect([endpoint.known.size, streams.stats().revivals]).toEqual([1, 1])
  })

  it('listens again', async () => {
    const { url, endpoint, headers } = await begun(
      forgetfulEndpoint({ unknownIs, answer: call => call.open() })
    )
    endpoint.known.clear()
    const channel = await get(url, headers)
    expect(channel.status).toBe(200)
    const told = await channel.nextMessage()
    expect(told).toMatchObject({ method: 'notifications/tools/list_changed' })
    endpoint.calls.at(-1)!.emit(notification('notifications/message', { level: 'info' }))
    expect(await channel.nextMessage()).toMatchObject({ params: { level: 'info' } })
    channel.destroy()
  })

  it('has a stream of the call, which survives its connection', async () => {
    const open = gate()
    const { url, endpoint, headers } = await begun(forgetfulEndpoint({ unknownIs }))
    endpoint.answer = async call => {
      call.emit(notification('notifications/message', { level: 'info', data: 'soon' }))
      await open.opened
      call.result()
    }
    endpoint.known.clear()
    const first = await post(url, callTool(7, 'any'), headers)
    await first.nextMessage()
    await first.nextMessage()
    const where = streamUrl(first, url)
    first.destroy()
    open.open()
    expect((await ended(get(where, headers))).messages().at(-1)).toMatchObject({ id: 7 })
  })

  it('has its notifications sent again', async () => {
    const { ask, endpoint } = await begun(forgetfulEndpoint({ unknownIs }))
    endpoint.known.clear()
    expect((await ask(notification('notifications/roots/list_changed'))).status).toBe(202)
    expect(endpoint.log().at(-1)).toBe('notifications/roots/list_changed')
  })

  it('takes tasks', async () => {
    const options = { ...SURVIVING, tasks: tasks({}) }
    const { ask, endpoint } = await begun(forgetfulEndpoint({ unknownIs }), options)
    endpoint.known.clear()
    const { status, text } = await ask(callTool(3, 'any'))
    expect([status, text.includes('result')]).toEqual([200, true])
  })

  it('is over when its client ends it', async () => {
    const { url, ask, endpoint, headers } = await begun(forgetfulEndpoint({ unknownIs: 404 }))
    endpoint.known.clear()
    endpoint.calls.length = 0
    expect((await ended(del(url, headers))).status).toBe(204)
    expect((await ask()).status).toBe(404)
    expect(endpoint.log()).toEqual(['DELETE', 'tools/list'])
  })
})

describe('a session that cannot be kept', () => {
  it('is begun again three times in a minute at the most, and then the endpoint has its way', async () => {
    const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
    const { ask, endpoint, streams } = await begun()
    const statuses: number[] = []
    for (let n = 0; n < 6; n++) {
      endpoint.known.clear()
      statuses.push((await ask()).status)
    }
    expect(statuses).toEqual([200, 200, 200, 404, 404, 404])
    expect(streams.stats().revivals).toBe(3)
    await sleep(61_000)
    expect((await ask()).status).toBe(200)
    expect(warn.mock.calls.map(([, options]) => options)).toEqual([
      { code: 'MCP_STREAMS_SESSION_LOST_AGAIN' }
    ])
  })

  it('is told to come back while the endpoint is not well', async () => {
    let isWell = true
    const { ask, endpoint } = await begun(
      forgetfulEndpoint({
        initialize: ({ res }) => {
          if (!isWell) res.writeHead(503).end()
        }
      })
    )
    endpoint.known.clear()
    isWell = false
    const { status, headers } = await ask()
    expect([status, Number(headers['retry-after']) > 0]).toEqual([503, true])
    isWell = true
    expect((await ask()).status).toBe(200)
  })

  it('is taken back where the endpoint does not take notifications in it', async () => {
    let takes = true
    const { ask, endpoint } = await begun()
    const { known } = endpoint
    const add = known.add.bind(known)
    known.add = id => (takes ? add(id) : add('none'))
    known.clear()
    takes = false
    expect((await ask()).status).toBe(404)
    expect(endpoint.log().slice(-3)).toEqual(['initialize', 'notifications/initialized', 'DELETE'])
  })
})

describe('a 400 in a session that the endpoint knows', () => {
  const bad = { answer: ({ res }: RawCall) => void res.writeHead(400).end() }

  it('stays 400, and costs a ping in ten seconds', async () => {
    for (const options of [SURVIVING, {}]) {
      const { ask, endpoint, streams } = await begun(forgetfulEndpoint(bad), options)
      for (let n = 0; n < 3; n++) expect((await ask()).status).toBe(400)
      const pings = () => endpoint.log().filter(method => method === 'ping').length
      expect(pings()).toBe(1)
      await sleep(10_001)
      expect([(await ask()).status, pings()]).toEqual([400, 2])
      expect(streams.stats().revivals).toBe(0)
    }
  })

  it.each([['Bad request'], ['Bad ', 'request']])(
    'stays so where Node makes its head: %j %j',
    async (...parts) => {
      const answer = ({ res }: RawCall) => {
        res.statusCode = 400
        for (const part of parts.slice(0, -1)) res.write(part)
        res.end(parts.at(-1))
      }
      const { ask } = await begun(forgetfulEndpoint({ answer }), {})
      expect(await ask()).toMatchObject({ status: 400, text: 'Bad request' })
    }
  )

  it('costs none where the answer says that it is about the request', async () => {
    const answer = ({ res }: RawCall) => {
      res.writeHead(400, JSON_TYPE)
      res.end(JSON.stringify(errorResponse(1, -32602, 'Invalid params')))
    }
    const { ask, endpoint } = await begun(forgetfulEndpoint({ answer, unknownIs: 400 }), {})
    expect((await ask()).status).toBe(400)
    expect(endpoint.log()).not.toContain('ping')
    endpoint.known.clear()
    expect((await ask()).status).toBe(404)
  })

  it('is no end of it after a restart, and asks with the revision that was sealed', async () => {
    const seen: unknown[] = []
    const guard: RequestHandler = (req, _res, next) => {
      seen.push(req.headers['mcp-protocol-version'])
      next()
    }
    const endpoint = forgetfulEndpoint({
      answer: call =>
        call.req.headers['mcp-protocol-version'] === VERSION
          ? call.result()
          : call.res.writeHead(400).end()
    })
    const first = await begun(endpoint)
    const { ask, streams } = await restarted(first)
    const wrong = { 'mcp-protocol-version': '2099-01-01' }
    expect([(await ask(LIST, wrong)).status, (await ask()).status]).toEqual([400, 200])
    expect([endpoint.known.size, streams.stats().revivals]).toEqual([1, 0])

    const { url } = await serve(endpoint, SURVIVING, [guard])
    endpoint.known.clear()
    const { status } = await ended(post(url, LIST, { ...first.headers, ...wrong }))
    // Begun again, and the request is bad as before.
    expect([status, endpoint.known.size]).toEqual([400, 1])
    expect(seen).toEqual(['2099-01-01', VERSION, VERSION, '2099-01-01'])
  })
})

describe('without option sessions', () => {
  it('a 400 in a session that was begun here and is forgotten becomes 404', async () => {
    const { ask, url, endpoint, headers } = await begun(forgetfulEndpoint({ unknownIs: 400 }), {})
    expect((await ask()).status).toBe(200)
    endpoint.known.clear()
    const { status, text } = await ask()
    expect([status, text]).toEqual([
      404,
      JSON.stringify(errorResponse(null, -32000, 'No valid session'))
    ])
    expect([(await ended(get(url, headers))).status, (await ask()).status]).toEqual([404, 404])
  })

  it('takes the revision of the session where the request names another one', async () => {
    const endpoint = forgetfulEndpoint({ unknownIs: 400 })
    const versions: unknown[] = []
    endpoint.answer = call => call.res.writeHead(400).end()
    const guard: RequestHandler = (req, _res, next) => {
      versions.push(req.headers['mcp-protocol-version'])
      next()
    }
    const { ask } = await begun(endpoint, {}, [guard])
    versions.length = 0
    expect((await ask(LIST, { 'mcp-protocol-version': '2099-01-01' })).status).toBe(400)
    expect(versions).toEqual(['2099-01-01', VERSION])
  })
})

describe('a request that was refused', () => {
  it('keeps its head when it is sent again', async () => {
    const { ask, endpoint } = await begun()
    endpoint.known.clear()
    await ask(LIST, { traceparent: '00-1', 'x-own': 'yes', accept: 'application/json' })
    const again = endpoint.calls.at(-1)!.req.headers
    expect(again).toMatchObject({ traceparent: '00-1', 'x-own': 'yes', accept: 'application/json' })
  })

  it('is not sent again where its client has gone meanwhile', async () => {
    const held = gate()
    const begins = gate()
    let isHeld = false
    const { url, ask, endpoint, headers, streams } = await begun(
      forgetfulEndpoint({
        initialize: async () => {
          if (!isHeld) return
          begins.open()
          await held.opened
        }
      })
    )
    endpoint.known.clear()
    isHeld = true
    const leaving = httpRequest(url, { method: 'POST', headers: { ...headers, ...JSON_TYPE } })
    leaving.on('error', () => undefined).end(JSON.stringify(LIST))
    await begins.opened
    leaving.destroy()
    const refused = endpoint.calls.find(({ message }) => message?.method === 'tools/list')
    await refused!.closed
    isHeld = false
    held.open()
    expect((await ask(request(2, 'tools/list'))).status).toBe(200)
    const lists = endpoint.calls.filter(({ message }) => message?.method === 'tools/list')
    expect(lists.filter(({ message }) => message.id === 1)).toHaveLength(1)
    expect(streams.stats().revivals).toBe(1)
  })
})
