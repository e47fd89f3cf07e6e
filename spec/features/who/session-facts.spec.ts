// What is remembered of a session is one owner's: whoever else names that session changes nothing
// for its client.

import { describe, expect, it } from '@jest/globals'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { callTool, ended, get, headersFor, initialize, post, result } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'

const MAX_STREAMS = 20

/** Names a session in its answer to `initialize`, where it has any, and knows whose each is. */
async function world({ hasSessions = true } = {}) {
  const owners = new Map<string, string | undefined>()
  const endpoint = rawEndpoint(call => {
    const { authorization, 'mcp-session-id': session } = call.req.headers
    const { id, method, params } = call.message
    if (method === 'initialize') {
      const name = `session ${owners.size + 1}`
      owners.set(name, authorization)
      call.open(hasSessions ? { 'Mcp-Session-Id': name } : {})
      call.emit(result(id, { protocolVersion: params.protocolVersion, capabilities: {} }))
      return void call.res.end()
    }
    if (
      hasSessions &&
      owners.has(session as string) &&
      owners.get(session as string) !== authorization
    )
      return void call.res.writeHead(404).end()
    call.result()
  })
  const { url, streams } = await serve(endpoint, { maxStreams: MAX_STREAMS })
  /** The session that an owner's `initialize` has got. */
  const begin = async (auth: string, version = '2026-07-28', session?: string): Promise<string> => {
    const response = await ended(post(url, initialize(version), headersFor({ auth, session })))
    return String(response.headers['mcp-session-id'])
  }
  const call = async (headers: Record<string, string>) => {
    const response = await ended(post(url, callTool(1, 'any'), headers))
    return response
  }
  /**
   * Whether calls of a client are kept: at 2026-07-28 not, unless it has shown that it follows
   * links.
   */
  const isKept = async (headers: Record<string, string>): Promise<boolean> =>
    'link' in (await call(headers)).headers
  return { url, streams, begin, call, isKept }
}

describe('what is known of a session', () => {
  it('outlives what the endpoint refuses to others in it', async () => {
    const { begin, call, isKept } = await world()
    const session = await begin('a')
    expect(await isKept(headersFor({ auth: 'a', session }))).toBe(false)
    expect((await call(headersFor({ auth: 'b', session }))).status).toBe(404)
    expect(await isKept(headersFor({ auth: 'a', session }))).toBe(false)
  })

  it('outlives as many sessions of others as are remembered', async () => {
    const { begin, isKept } = await world()
    const session = await begin('a')
    for (let n = 0; n < 2 * MAX_STREAMS; n++) await begin('b')
    expect(await isKept(headersFor({ auth: 'a', session }))).toBe(false)
  })

  it('is not what others agree upon in its name', async () => {
    const { begin, isKept } = await world({ hasSessions: false })
    const a = headersFor({ auth: 'a', session: 'session of a', version: '2025-11-25' })
    expect(await isKept(a)).toBe(true)
    await begin('b', '2026-07-28', 'session of a')
    expect(await isKept(a)).toBe(true)
    // Nor what its own client agrees upon under a name that the endpoint has not given it.
    await begin('a', '2026-07-28', 'session of a')
    expect(await isKept(a)).toBe(true)
  })

  it('is not what others prove in its name', async () => {
    const { url, call, isKept } = await world({ hasSessions: false })
    const session = 'session of a'
    const a = headersFor({ auth: 'a', session, version: '2026-07-28' })
    const b = headersFor({ auth: 'b', session, version: '2026-07-28' })
    const own = await call({ ...b, ...headersFor({ prefer: 'rel=stream' }) })
    expect((await get(streamUrl(own, url), b)).status).toBe(200)
    expect(await isKept(b)).toBe(true)
    expect(await isKept(a)).toBe(false)
  })
})
