// The owner of a stream: by default from `Authorization`, else nobody; or whoever the option
// `owner` says it is.

import { describe, expect, it } from '@jest/globals'
import type { IncomingMessage } from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import supertest from 'supertest'
import { StreamError, type McpStreamsOptions, type OwnerFunction } from '../../../lib/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { gate } from '../../helpers/gate.js'
import { callTool, del, get, headersFor, post } from '../../helpers/mcp.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'

const answers = () => rawEndpoint(({ result }) => result({ secret: 42 }))
const version = '2025-11-25'

/**
 * The statuses that one client's finished call has for another: by its URL, and how a resume by
 * event id ends.
 */
async function seenBy(
  mine: Record<string, string>,
  theirs: Record<string, string>,
  options?: McpStreamsOptions
) {
  const endpoint = rawEndpoint(({ message, result, res }) => {
    if (message === undefined) res.writeHead(405).end()
    else result({ secret: 42 })
  })
  const { url } = await serve(endpoint, options)
  const headers = { ...headersFor({ version }), ...mine }
  const response = await post(url, callTool(1, 'x'), headers)
  await response.ended
  const others = { ...headersFor({ version }), ...theirs }
  const byUrl = await get(streamUrl(response, url), others)
  const byEventId = await get(url, { ...others, 'last-event-id': `${streamId(response)}.0.1` })
  await byEventId.ended
  return [byUrl.status, byEventId.status, byEventId.text.includes('secret')]
}

const RESUMED = [200, 200, true]
const REFUSED = [404, 405, false]

describe('by default, without req.auth', () => {
  it.each<
    [what: string, mine: Record<string, string>, theirs: Record<string, string>, seen: unknown[]]
  >([
    ['the same credentials', { authorization: 'Bearer a' }, { authorization: 'Bearer a' }, RESUMED],
    ['others', { authorization: 'Bearer a' }, { authorization: 'Bearer b' }, REFUSED],
    ['none', { authorization: 'Bearer a' }, {}, REFUSED],
    ['some, where there were none', {}, { authorization: 'Bearer a' }, REFUSED],
    ['none, where there were none', {}, {}, RESUMED]
  ])('%s', async (_what, mine, theirs, seen) => {
    expect(await seenBy(mine, theirs)).toEqual(seen)
  })

  it('tells streams of others apart neither by reading nor by cancelling', async () => {
    const endpoint = rawEndpoint(({ open }) => open())
    const { url, streams } = await serve(endpoint)
    const response = await post(url, callTool(1, 'x'), headersFor({ version, auth: 'a' }))
    await supertest(streamUrl(response, url))
      .delete('')
      .set(headersFor({ version, auth: 'b' }))
      .expect(404)
    expect(streams.stats()).toMatchObject({ live: 1, refusals: 1 })
    endpoint.calls[0]!.result()
    expect(await response.ended).toBe('end')
  })
})

const byHeader: OwnerFunction = req => req.headers['x-user']?.toString()

describe.each<[how: string, owner: OwnerFunction]>([
  ['at once', byHeader],
  ['by a promise', async req => byHeader(req)],
  [
    'after a while',
    async req => {
      await turn()
      await turn()
      return byHeader(req)
    }
  ]
])('an owner function that answers %s', (_how, owner) => {
  it.each<
    [what: string, mine: Record<string, string>, theirs: Record<string, string>, seen: unknown[]]
  >([
    ['the same user', { 'x-user': 'ann' }, { 'x-user': 'ann' }, RESUMED],
    [
      'the same user with other credentials',
      { 'x-user': 'ann', authorization: 'a' },
      { 'x-user': 'ann' },
      RESUMED
    ],
    ['another user', { 'x-user': 'ann' }, { 'x-user': 'bea' }, REFUSED],
    ['nobody', { 'x-user': 'ann' }, {}, REFUSED],
    ['nobody, where it was nobody', {}, {}, RESUMED]
  ])('decides: %s', async (_what, mine, theirs, seen) => {
    expect(await seenBy(mine, theirs, { owner })).toEqual(seen)
  })

  it('is asked once a request, with the request', async () => {
    const asked: IncomingMessage[] = []
    const { url } = await serve(answers(), {
      owner: req => {
        asked.push(req)
        return owner(req)
      }
    })
    const response = await post(url, callTool(1, 'x'), headersFor({ version }))
    await response.ended
    await get(streamUrl(response, url))
    expect(asked.map(({ method }) => method)).toEqual(['POST', 'GET'])
  })

  it('leaves the body to the endpoint, in one piece', async () => {
    const endpoint = rawEndpoint(({ result, body }) => result({ length: body!.length }))
    const { url } = await serve(endpoint, { owner })
    const call = callTool(1, 'x', { text: 'ü'.repeat(300_000) })
    const response = await post(url, call, headersFor({ version }))
    await response.ended
    expect(response.messages()).toEqual([
      { jsonrpc: '2.0', id: 1, result: { length: JSON.stringify(call).length } }
    ])
  })
})

describe('an owner function that has no answer yet', () => {
  it('keeps nobody else waiting, and nothing of a client that has left', async () => {
    const go = gate()
    const { url, streams } = await serve(answers(), {
      owner: async req => {
        if (req.headers['x-user'] === 'slow') await go.opened
        return byHeader(req)
      }
    })
    const slow = post(url, callTool(1, 'x'), { ...headersFor({ version }), 'x-user': 'slow' })
    const quick = await post(url, callTool(2, 'x'), {
      ...headersFor({ version }),
      'x-user': 'quick'
    })
    expect(await quick.ended).toBe('end')
    const gone = new AbortController()
    const leaver = fetch(url, { headers: { 'x-user': 'slow' }, signal: gone.signal })
    await turn()
    gone.abort()
    await expect(leaver).rejects.toThrow()
    go.open()
    expect(await (await slow).ended).toBe('end')
    expect(streams.stats()).toMatchObject({ live: 0, connections: 0 })
  })
})

describe.each<[how: string, owner: () => never]>([
  [
    'throws',
    () => {
      throw new Error('no database')
    }
  ],
  ['rejects', (() => Promise.reject(new Error('no database'))) as () => never],
  [
    'rejects late',
    (async () => {
      await turn()
      throw new Error('no database')
    }) as unknown as () => never
  ]
])('an owner function that %s', (_how, owner) => {
  it('answers the request with 500, and tells onError why', async () => {
    const heard: unknown[] = []
    const endpoint = answers()
    const { url, streams } = await serve(endpoint, {
      owner: req => (req.headers['x-user'] === 'ann' ? 'ann' : owner()),
      onError: (error, context) => heard.push([error, context])
    })
    const good = await post(url, callTool(1, 'x'), { ...headersFor({ version }), 'x-user': 'ann' })
    await good.ended

    const refused = [
      await post(url, callTool(2, 'x'), headersFor({ version })),
      await get(url, headersFor({ version, lastEventId: `${streamId(good)}.0.1` })),
      await get(streamUrl(good, url)),
      await del(streamUrl(good, url))
    ]
    for (const response of refused) {
      expect(response.status).toBe(500)
      expect(await response.json()).toEqual({
        jsonrpc: '2.0',
        id: null,
        error: {
          code: -31000,
          message: 'The owner of the request could not be determined',
          data: { reason: 'owner-failed' }
        }
      })
    }
    expect(heard).toHaveLength(4)
    for (const [error, context] of heard as [StreamError, object][]) {
      expect(error).toBeInstanceOf(StreamError)
      expect(error).toMatchObject({
        code: 'owner-failed',
        cause: expect.objectContaining({ message: 'no database' })
      })
      expect(context).toEqual({ streamId: undefined })
    }
    expect(endpoint.calls).toHaveLength(1)
    expect(streams.stats()).toMatchObject({ live: 0, finished: 1 })
    expect((await get(streamUrl(good, url), { 'x-user': 'ann' })).status).toBe(200)
  })
})

describe('an owner function without types', () => {
  it.each([null, 42])('may answer %p', async value => {
    const owner = (() => value) as unknown as OwnerFunction
    expect(await seenBy({}, {}, { owner })).toEqual(RESUMED)
  })
})
