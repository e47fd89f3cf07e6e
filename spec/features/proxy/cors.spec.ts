// What pages of other origins may do with the command `proxy`. In Chromium:
// spec/e2e/browser/resumable-fetch.spec.ts.

import { describe, expect, it } from '@jest/globals'
import type { OutgoingHttpHeaders } from 'node:http'
import { corsHeaders } from '../../../lib/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { freePort } from '../../helpers/free-port.js'
import { listen } from '../../helpers/listen.js'
import { callTool, ended, headersFor, post } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'
import { startProxy } from './start-proxy.js'

const PAGE = 'https://app.example'
const HEADERS = { ...headersFor({ version: '2025-11-25' }), origin: PAGE }
const EXPOSED = corsHeaders.exposedHeaders.join(', ')
const call = callTool(1, 'any')

/** The head that a page gets of a target that answers with these headers. */
async function headOf(headers: OutgoingHttpHeaders, allowed = PAGE, sent: object = HEADERS) {
  const endpoint = rawEndpoint(({ res }) => res.writeHead(200, headers).end('{}'))
  const { url } = await listen(endpoint)
  const proxy = await startProxy(`${url}/mcp`, ['--allowed-origins', allowed])
  const { response } = await ended(post(proxy.url, call, { ...sent }))
  return response
}

const preflight = async (url: string, origin: string, headers: string) =>
  (
    await ended(
      openStream(url, {
        method: 'OPTIONS',
        headers: {
          origin,
          'access-control-request-method': 'POST',
          'access-control-request-headers': headers
        }
      })
    )
  ).response

describe('a preflight', () => {
  it('is answered while the target is down, with what corsHeaders names and what it asks for', async () => {
    const target = `http://127.0.0.1:${await freePort()}/mcp`
    const { url } = await startProxy(target, ['--allowed-origins', `${PAGE},https://b.example`])
    for (const at of [
      url,
      `${url}?stream=any`,
      new URL('/.well-known/oauth-protected-resource', url).href
    ]) {
      const { statusCode, headers } = await preflight(at, PAGE, 'mcp-param-a,prefer')
      expect(statusCode).toBe(204)
      expect(headers).toMatchObject({
        'access-control-allow-origin': PAGE,
        'access-control-allow-methods': 'GET, HEAD, POST, DELETE',
        'access-control-allow-headers': [...corsHeaders.allowedHeaders, 'mcp-param-a'].join(', '),
        vary: 'Origin, Access-Control-Request-Headers'
      })
    }
    const foreign = await preflight(url, 'https://other.example', 'prefer')
    expect(foreign.statusCode).toBe(403)
    expect(foreign.headers).not.toHaveProperty('access-control-allow-origin')
  })
})

describe('an answer', () => {
  it('has what a page must read, where the target knows nothing of CORS', async () => {
    for (const allowed of [PAGE, '*']) {
      const { headers } = await headOf({}, allowed)
      expect(headers).toMatchObject({
        'access-control-allow-origin': PAGE,
        'access-control-expose-headers': EXPOSED,
        vary: 'Origin'
      })
    }
  })

  it('has nothing twice where the target answers CORS itself, and what it lacks', async () => {
    const response = await headOf({
      'access-control-allow-origin': '*',
      'access-control-allow-credentials': 'true',
      'Access-Control-Expose-Headers': ['X-Own, mcp-session-id', 'link'],
      Vary: ['Accept', 'origin']
    })
    expect(response.headersDistinct).toMatchObject({
      'access-control-allow-origin': [PAGE],
      'access-control-allow-credentials': ['true'],
      'access-control-expose-headers': [
        `X-Own, mcp-session-id, link, ${corsHeaders.exposedHeaders
          .filter(name => !/^(?:Mcp-Session-Id|Link)$/.test(name))
          .join(', ')}`
      ],
      vary: ['Accept, origin']
    })
  })

  it('is that of the target where no page asks', async () => {
    const { origin: _, ...others } = HEADERS
    const own = { 'access-control-allow-origin': 'https://own.example' }
    const { headers } = await headOf(own, PAGE, others)
    expect(headers).toMatchObject(own)
    expect(headers).not.toHaveProperty('access-control-expose-headers')
  })

  it('can be read of the proxy itself, too', async () => {
    const target = `http://127.0.0.1:${await freePort()}/mcp`
    const { url } = await startProxy(target, ['--allowed-origins', PAGE])
    const down = await ended(post(url, call, HEADERS))
    const unknown = await ended(
      openStream(`${url}?stream=${'-'.repeat(21)}`, { headers: { ...HEADERS } })
    )
    for (const { response } of [down, unknown])
      expect(response.headersDistinct['access-control-allow-origin']).toEqual([PAGE])
    expect([down.status, unknown.status]).toEqual([502, 404])
  })
})
