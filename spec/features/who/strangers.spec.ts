// Others who know too much: a URL, an event id, a session id or a request id is not an
// authorisation.

import { describe, expect, it } from '@jest/globals'
import { nanoid } from 'nanoid'
import supertest from 'supertest'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful, sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import {
  callTool,
  cancelled,
  del,
  ended,
  get,
  headersFor,
  initializeSession,
  notification,
  post
} from '../../helpers/mcp.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'
import { rawExchange } from './raw-exchange.js'

const version = '2025-11-25'
const SECRET = notification('notifications/message', { data: 'secret' })

/**
 * Alice's call in her session, with one event sent and the end held back, and her listen channel.
 */
async function alice() {
  const endpoint = rawEndpoint(
    ({ emit, message, open, req, res }) => {
      if (req.method === 'DELETE') res.writeHead(200).end()
      else if (req.headers.authorization !== 'Bearer alice') res.writeHead(404).end()
      else if (message !== undefined) emit(SECRET)
      else open()
    },
    { session: 'hers' }
  )
  const served = await serve(endpoint)
  const { headers } = await initializeSession(served.url, version, headersFor({ auth: 'alice' }))
  const channel = await get(served.url, headers)
  const response = await post(served.url, callTool(1, 'x'), headers)
  await response.nextMessage()
  const call = endpoint.calls.at(-1)!
  return {
    ...served,
    endpoint,
    headers,
    channel,
    response,
    call,
    own: streamUrl(response, served.url)
  }
}

const BOB = { Authorization: 'Bearer bob' }

describe('Bob, who has no credentials of hers,', () => {
  const knowledge = [
    { session: false, eventId: false },
    { session: false, eventId: true },
    { session: true, eventId: false },
    { session: true, eventId: true }
  ]

  it.each(knowledge)(
    'gets the same 404 for her URL as for a made-up one: %j besides',
    async ({ session, eventId }) => {
      const { response, own, url, streams, call } = await alice()
      const ask = (id: string) =>
        rawExchange(`${url}?stream=${id}`, 'GET', {
          ...BOB,
          ...(session && { 'Mcp-Session-Id': 'hers' }),
          ...(eventId && { 'Last-Event-ID': `${id}.0.1` })
        })
      const real = await ask(streamId(response))
      expect(real).toBe(await ask(nanoid()))
      expect(real).toMatch(/^HTTP\/1\.1 404 /)
      expect(real).not.toContain('secret')
      expect(own).toContain(streamId(response))
      // And she does not notice.
      expect(streams.stats()).toMatchObject({ connections: 2, resumes: 0 })
      call.result()
      expect(await response.ended).toBe('end')
    }
  )

  it.each([false, true])(
    'gets the answer of the endpoint, the same for her event id as for a made-up one (session: %p)',
    async session => {
      const { response, channel, url, endpoint, call } = await alice()
      const ask = (id: string) =>
        rawExchange(url, 'GET', {
          ...BOB,
          Accept: 'text/event-stream',
          'Last-Event-ID': `${id}.0.1`,
          ...(session && { 'Mcp-Session-Id': 'hers' })
        })
      expect(await ask(streamId(response))).toBe(await ask(nanoid()))
      expect(await ask(streamId(channel))).toBe(await ask(nanoid()))
      // The endpoint's 404 means Bob's session: hers lives on.
      expect(endpoint.calls.at(-1)!.res.statusCode).toBe(404)
      call.result()
      expect(await response.ended).toBe('end')
      expect(response.messages().at(-1)).toMatchObject({ result: {} })
      expect(channel.ending).toBeUndefined()
    }
  )

  it('does not get her listen channel by her session', async () => {
    const { url, channel, streams } = await alice()
    const asked = await get(url, { ...BOB, 'mcp-session-id': 'hers' })
    expect(asked.status).toBe(404)
    expect(channel.ending).toBeUndefined()
    expect(streams.stats().resumes).toBe(0)
  })

  it('ends nothing of hers: not by cancelling her request, not by DELETE of her session, not by a 404 of his own', async () => {
    const { url, response, own, call, streams } = await alice()
    const his = { ...BOB, 'mcp-session-id': 'hers' }
    await supertest(url).post('').set(his).send(cancelled(1)).expect(202)
    expect((await del(url, his)).status).toBe(200)
    await supertest(url).post('').set(his).send(callTool(1, 'x')).expect(404)
    await supertest(own).delete('').set(his).expect(404)
    expect(streams.stats()).toMatchObject({ live: 2 })
    expect(response.ending).toBeUndefined()
    call.result()
    expect(await response.ended).toBe('end')
  })

  it('answers none of her questions', async () => {
    const { url, response, headers, call, own } = await alice()
    call.emit({ jsonrpc: '2.0', id: 'q', method: 'elicitation/create', params: {} })
    await response.nextMessage()
    const answer = { jsonrpc: '2.0', id: 'q', result: { action: 'accept' } }
    await ended(post(url, answer, { ...BOB, 'mcp-session-id': 'hers' }))
    const again = await get(own, headers)
    await again.nextMessage()
    expect(await again.nextMessage()).toMatchObject({ method: 'ping' })
    expect(await again.nextMessage()).toMatchObject({ id: 'q', method: 'elicitation/create' })
  })
})

describe('two clients that both call their request 1', () => {
  it('get each their own, in sessions', async () => {
    const endpoint = sdkV1Stateful()
    const { url } = await serve(endpoint)
    const sessions = [await initializeSession(url, version), await initializeSession(url, version)]
    const responses = await Promise.all(
      sessions.map(({ headers }, i) =>
        post(
          url,
          callTool(1, 'count', { key: `${i}`, n: 1, filler: `${i}`, size: 3, paced: true }),
          headers
        )
      )
    )
    await Promise.all(responses.map(response => response.next()))
    for (const response of responses) response.reset()
    for (const key of ['0', '1']) endpoint.log.release(key, 2)
    await endpoint.log.ended.nth(2)
    for (const [i, response] of responses.entries()) {
      const resumed = await ended(
        get(url, {
          ...sessions[i]!.headers,
          'last-event-id': response.blocks.at(-1)!.id!
        })
      )
      expect(resumed.messages()).toMatchObject([
        { params: { data: `1 ${String(i).repeat(3)}` } },
        { id: 1 }
      ])
    }
  })

  it('get each their own, without sessions or credentials', async () => {
    const endpoint = sdkV1Stateless()
    const { url } = await serve(endpoint)
    const headers = headersFor({ version })
    const responses = await Promise.all(
      ['a', 'b'].map(filler =>
        post(
          url,
          callTool(1, 'count', { n: 1, filler, size: 2, key: filler, paced: true }),
          headers
        )
      )
    )
    await Promise.all(responses.map(response => response.next()))
    for (const response of responses) response.destroy()
    for (const key of ['a', 'b']) endpoint.log.release(key, 2)
    await endpoint.log.ended.nth(2)
    for (const [i, filler] of ['a', 'b'].entries()) {
      const resumed = await ended(get(streamUrl(responses[i]!, url), headers))
      expect(resumed.messages()).toMatchObject([
        { params: { data: `1 ${filler}${filler}` } },
        { id: 1 }
      ])
    }
  })

  it.each<
    [how: string, mine: Record<string, string>, theirs: Record<string, string>, cancels: boolean]
  >([
    ['in sessions', { 'mcp-session-id': 'a' }, { 'mcp-session-id': 'b' }, true],
    ['by their credentials', { authorization: 'a' }, { authorization: 'b' }, true],
    // Whose request 1 it was, nobody can tell: both run.
    ['by nothing', {}, {}, false]
  ])('cancel each their own, told apart %s', async (_how, mine, theirs, cancels) => {
    const endpoint = rawEndpoint(({ open, message, res }) =>
      message.id === undefined ? res.writeHead(202).end() : open()
    )
    const { url, streams } = await serve(endpoint)
    const responses = [
      await post(url, callTool(1, 'x'), mine),
      await post(url, callTool(1, 'x'), theirs)
    ]
    await ended(post(url, cancelled(1), mine))
    if (cancels) expect(await responses[0]!.ended).toBe('end')
    expect(streams.stats().live).toBe(cancels ? 1 : 2)
    endpoint.calls[1]!.result()
    expect(await responses[1]!.ended).toBe('end')
    expect(responses[1]!.messages()).toEqual([{ jsonrpc: '2.0', id: 1, result: {} }])
  })

  it('cannot cancel the only one there is, where nothing tells whose it is', async () => {
    const endpoint = rawEndpoint(({ open, message, res }) =>
      message.id === undefined ? res.writeHead(202).end() : open()
    )
    const { url, streams } = await serve(endpoint)
    const response = await post(url, callTool(1, 'x'), headersFor({ version }))
    await supertest(url).post('').set(headersFor({ version })).send(cancelled(1)).expect(202)
    expect(streams.stats().live).toBe(1)
    endpoint.calls[0]!.result()
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([{ jsonrpc: '2.0', id: 1, result: {} }])
  })
})
