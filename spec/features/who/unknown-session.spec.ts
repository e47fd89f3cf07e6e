// A session that nobody has handed out here, as after a restart. Hosts begin a new one on a 404
// alone, and many endpoints answer 400.

import { describe, expect, it } from '@jest/globals'
import { tasks } from '../../../lib/features/tasks/index.js'
import { cluster } from '../../helpers/backplane/cluster.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { callTool, del, ended, get, headersFor, initialize, post } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'

const REFUSAL = '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request"}}'
const DEAD = headersFor({ session: 'dead', version: '2025-11-25' })
const HEAD = { 'Content-Type': 'application/json', 'X-Of-Endpoint': 'yes' }

/** Refuses everything, in the ways in which Node lets one say so. */
const refusals: Record<string, (call: RawCall) => void> = {
  'by writeHead': ({ res }) => void res.writeHead(400, HEAD).end(REFUSAL),
  'by statusCode': ({ res }) => {
    for (const [name, value] of Object.entries(HEAD)) res.setHeader(name, value)
    res.statusCode = 400
    res.write(REFUSAL)
    res.end()
  },
  'with a reason': ({ res }) => void res.writeHead(400, 'Bad Request', HEAD).end(REFUSAL)
}

/** Refuses what is not well-formed, here by its method, whatever the session is. */
const refuseMalformed = ({ message, res, result }: RawCall): void =>
  ['tools/list', 'ping'].includes(String(message?.method))
    ? result()
    : void res.writeHead(400, HEAD).end(REFUSAL)

const call = callTool(1, 'any')
const list = { ...call, method: 'tools/list' }

describe('a session that nobody has handed out, which the endpoint answers with 400', () => {
  it.each(Object.entries(refusals))('gets 404, refused %s', async (_name, refuse) => {
    const { url } = await serve(rawEndpoint(refuse))
    const all = [post(url, call, DEAD), get(url, DEAD), del(url, DEAD), post(url, '{', DEAD)]
    for (const response of await Promise.all(all.map(ended))) {
      expect([response.status, response.text]).toEqual([404, REFUSAL])
      expect(response.headers).toMatchObject({
        'content-type': 'application/json',
        'x-of-endpoint': 'yes'
      })
    }
  })

  it('gets 404 again under its Idempotency-Key, and where the call might have become a task', async () => {
    const endpoint = rawEndpoint(refusals['by statusCode']!)
    const { url } = await serve(endpoint, { tasks: tasks({}), resumeTokens: {} })
    const keyed = { ...DEAD, 'idempotency-key': 'one-of-enough-length', prefer: 'rel=stream' }
    const statuses: number[] = []
    for (let n = 0; n < 2; n++) statuses.push((await ended(post(url, call, keyed))).status)
    const asTask = { ...call, params: { ...call.params, task: {} } }
    statuses.push((await ended(post(url, asTask, DEAD))).status)
    expect(statuses).toEqual([404, 404, 404])
    expect(endpoint.calls).toHaveLength(2)
  })

  it('keeps its 400 where it is none: no session, or one that is only about to begin', async () => {
    const { url } = await serve(rawEndpoint(refusals['by writeHead']!))
    const none = await ended(post(url, call))
    const begins = await ended(post(url, initialize('2025-11-25'), DEAD))
    const tooLong = await ended(post(url, call, headersFor({ session: 'x'.repeat(2000) })))
    expect([none.status, begins.status, tooLong.status]).toEqual([400, 400, 400])
  })
})

describe('a session that is known here', () => {
  it('keeps its 400, whoever asks, until it is over', async () => {
    const { url } = await serve(
      rawEndpoint(
        call =>
          call.req.method === 'DELETE' ? void call.res.writeHead(200).end() : refuseMalformed(call),
        { session: 'mine' }
      )
    )
    const mine = headersFor({ session: 'mine', auth: 'a' })
    const status = async (headers: Record<string, string>) =>
      (await ended(post(url, call, headers))).status
    await ended(post(url, initialize('2025-11-25'), headersFor({ auth: 'a' })))
    // A token that has been renewed makes another owner.
    const others = headersFor({ session: 'mine', auth: 'renewed' })
    expect([await status(mine), await status(others)]).toEqual([400, 400])
    await ended(del(url, mine))
    expect(await status(mine)).toBe(404)
  })

  it('may have been handed out by another process, where the endpoint has accepted it', async () => {
    const { url } = await serve(rawEndpoint(refuseMalformed))
    const statuses: number[] = []
    for (const message of [call, list, call])
      statuses.push((await ended(post(url, message, DEAD))).status)
    expect(statuses).toEqual([404, 200, 400])
  })

  it.each(['forward', 'local'] as const)(
    'keeps its 400 where another instance has handed it out (sessions: %s)',
    async sessions => {
      const endpoint = () => rawEndpoint(refuseMalformed, { session: 'mine' })
      const { members } = await cluster(endpoint, {}, { sessions })
      const [first, second] = members.map(({ url }) => url) as [string, string]
      await ended(post(first, initialize('2025-11-25')))
      const mine = headersFor({ session: 'mine', version: '2025-11-25' })
      expect((await ended(post(second, call, mine))).status).toBe(400)
      expect((await ended(post(second, call, DEAD))).status).toBe(
        sessions === 'forward' ? 404 : 400
      )
    }
  )
})
