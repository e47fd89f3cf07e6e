// Sessions that their clients have left are ended at the endpoint (`sessions({ idle })`), and begun
// again when a client comes back.

import { describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { DecisionMessage } from '../../../lib/index.js'
import { sessions } from '../../../lib/features/sessions/index.js'
import { cluster } from '../../helpers/backplane/cluster.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { forgetfulEndpoint, type ForgetfulEndpoint } from '../../helpers/endpoints/forgetful.js'
import { closeLater } from '../../helpers/listen.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { callTool, del, ended, get, initializeSession, post, request } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { sleep } from '../../helpers/sleep.js'

const IDLE = 5000
const OPTIONS = { sessions: sessions({ secret: 'a secret of this spec', idle: IDLE }) }
const VERSION = '2025-11-25'
const AUTH = { Authorization: 'Bearer one' }

async function begun(
  endpoint: ForgetfulEndpoint | ReturnType<typeof sdkV1Stateful> = forgetfulEndpoint(),
  inFront: RequestHandler[] = [],
  options: object = OPTIONS
) {
  const { url, streams } = await serve(endpoint, options, inFront)
  const { headers } = await initializeSession(url, VERSION, AUTH)
  const mine: Record<string, string> = { ...headers, ...AUTH }
  const ask = () => ended(post(url, request(1, 'tools/list'), mine))
  const counts = () => {
    const { idled, revivals } = streams.stats()
    return [idled, revivals]
  }
  return { url, streams, headers: mine, ask, counts }
}

const deletes = ({ requests }: ForgetfulEndpoint) =>
  requests.filter(({ req }) => req.method === 'DELETE')

describe('an idle session', () => {
  it('is ended at the endpoint, and its client notices nothing', async () => {
    const endpoint = forgetfulEndpoint()
    const { ask, counts, streams } = await begun(endpoint)
    expect((await ask()).status).toBe(200)
    await sleep(IDLE - 1000)
    expect((await ask()).status).toBe(200)
    await sleep(IDLE - 1000)
    expect([endpoint.known.size, ...counts()]).toEqual([1, 0, 0])
    expect(streams.stats().remembered).toBeGreaterThan(0)
    await until(() => endpoint.known.size === 0)
    await until(() => counts()[0] === 1)
    expect(streams.stats().remembered).toBe(0)
    const methods = endpoint.log().length
    expect((await ask()).status).toBe(200)
    expect(endpoint.log().slice(methods)).toEqual([
      'initialize',
      'notifications/initialized',
      'tools/list'
    ])
    expect([endpoint.known.size, ...counts()]).toEqual([1, 1, 1])
  })

  it('is ended through all that stands in front, in the name of its client', async () => {
    const endpoint = forgetfulEndpoint()
    const seen: unknown[] = []
    const guard: RequestHandler = (req, _res, next) => {
      if (req.method === 'DELETE')
        seen.push([
          req.headers.authorization,
          req.headers['mcp-session-id'],
          req.headers['mcp-protocol-version'],
          req.originalUrl,
          req.ip
        ])
      next()
    }
    const { headers, counts } = await begun(endpoint, [guard])
    await until(() => counts()[0] === 1)
    expect(seen).toEqual([
      [AUTH.Authorization, headers['mcp-session-id'], VERSION, '/mcp', expect.any(String)]
    ])
  })

  it('of an SDK server frees it', async () => {
    const endpoint = sdkV1Stateful()
    const { url, headers, counts } = await begun(endpoint)
    await ended(post(url, callTool(1, 'count', { n: 1 }), headers))
    await until(() => counts()[0] === 1)
    expect(endpoint.sessions.size).toBe(0)
    expect((await ended(post(url, callTool(2, 'count', { n: 1 }), headers))).text).toContain(
      '"result"'
    )
    expect([endpoint.sessions.size, ...counts()]).toEqual([1, 1, 1])
  })

  it('is none while a call runs, or a listen channel is open', async () => {
    const open = gate()
    const endpoint = forgetfulEndpoint({
      answer: async call => {
        if (call.req.method === 'GET') return call.open()
        await open.opened
        call.result()
      }
    })
    const options = { ...OPTIONS, resumeInterval: { min: 1, max: 1 } }
    const { url, headers, counts } = await begun(endpoint, [], options)
    const call = ended(post(url, callTool(1, 'any'), headers))
    await sleep(2 * IDLE)
    const channel = await get(url, headers)
    open.open()
    expect((await call).status).toBe(200)
    await sleep(2 * IDLE)
    expect([endpoint.known.size, ...counts()]).toEqual([1, 0, 0])
    // Its stream is over when its client has stayed away for too long.
    channel.destroy()
    await until(() => counts()[0] === 1)
    expect(endpoint.known.size).toBe(0)
  })

  it('is over when its client ends it, and the endpoint hears nothing of it', async () => {
    const endpoint = forgetfulEndpoint()
    const { url, headers, ask, counts } = await begun(endpoint)
    await until(() => counts()[0] === 1)
    expect((await ended(del(url, headers))).status).toBe(204)
    expect([deletes(endpoint).length, (await ask()).status, ...counts()]).toEqual([1, 404, 1, 0])
  })

  it('is ended once by us or its client', async () => {
    const endpoint = forgetfulEndpoint()
    const { url, headers, counts } = await begun(endpoint)
    expect((await ended(del(url, headers))).status).toBe(200)
    await sleep(2 * IDLE)
    expect([deletes(endpoint).length, ...counts()]).toEqual([1, 0, 0])
  })

  it('waits with what comes while it is being ended', async () => {
    const held = gate()
    const endpoint = forgetfulEndpoint()
    const slow: RequestHandler = (req, _res, next) =>
      req.method === 'DELETE' ? void held.opened.then(() => next()) : next()
    const { ask, counts } = await begun(endpoint, [slow])
    await sleep(IDLE + 500)
    const answer = ask()
    await sleep(1000)
    held.open()
    expect((await answer).status).toBe(200)
    expect(counts()).toEqual([1, 1])
  })

  it('that has to make room is ended at once', async () => {
    const endpoint = forgetfulEndpoint()
    const { url, streams } = await begun(endpoint, [], { ...OPTIONS, maxStreams: 2 })
    for (let n = 0; n < 3; n++) await initializeSession(url, VERSION, AUTH)
    await until(() => streams.stats().idled === 2)
    expect(endpoint.known.size).toBe(2)
  })

  it('is left alone by an instance that does not see all of its requests', async () => {
    const endpoint = forgetfulEndpoint()
    const { members } = await cluster(() => endpoint, OPTIONS, { sessions: 'local' }, 2)
    await initializeSession(members[0]!.url, VERSION)
    await sleep(2 * IDLE)
    expect(deletes(endpoint)).toEqual([])
  })
})

describe('an endpoint that does not take DELETE', () => {
  it.each([405, 404])('(%d) is left alone, and that is said once', async status => {
    const lines: string[] = []
    const listener = (message: unknown) => void lines.push((message as DecisionMessage).line)
    subscribe('mcp-streams:decision', listener)
    closeLater(() => unsubscribe('mcp-streams:decision', listener))
    const endpoint = forgetfulEndpoint()
    const refusing: RequestHandler = (req, res, next) =>
      req.method === 'DELETE' ? void res.writeHead(status).end() : next()
    const { url, ask, counts } = await begun(endpoint, [refusing])
    await initializeSession(url, VERSION, AUTH)
    await sleep(2 * IDLE)
    expect(endpoint.known.size).toBe(2)
    expect((await ask()).status).toBe(200)
    await sleep(2 * IDLE)
    expect([endpoint.known.size, ...counts()]).toEqual([2, 0, 0])
    expect(lines.filter(line => line.includes('does not take DELETE'))).toHaveLength(1)
  })
})
