// The session rule: a stream that was opened in a session is not for another one. A stream URL may
// come without any.

import { beforeEach, describe, expect, it } from '@jest/globals'
import supertest from 'supertest'
import { rawEndpoint, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import {
  callTool,
  eventId,
  get,
  headersFor,
  initialize,
  initializeSession,
  post
} from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'
import { rawExchange } from './raw-exchange.js'

describe('a stream of a session', () => {
  let endpoint: RawEndpoint
  let url: string
  let response: OpenStream
  let own: string
  const SECRET = { jsonrpc: '2.0', method: 'notifications/message', params: { data: 'secret' } }

  beforeEach(async () => {
    endpoint = rawEndpoint(
      ({ emit, message, res }) => {
        if (message !== undefined && message.method !== 'ping') emit(SECRET)
        else res.writeHead(405).end()
      },
      { session: 'mine' }
    )
    ;({ url } = await serve(endpoint))
    const { headers } = await initializeSession(url, '2025-11-25')
    response = await post(url, callTool(1, 'x'), headers)
    await response.nextMessage()
    own = streamUrl(response, url)
  })

  it.each([
    ['its session', 'mine'],
    ['no session', undefined]
  ])('is resumed by its URL with %s', async (_name, session) => {
    const resumed = await get(own, headersFor({ session }))
    expect(resumed.status).toBe(200)
    expect(resumed.headers['mcp-session-id']).toBe('mine')
    expect(await resumed.nextMessage()).toEqual(SECRET)
  })

  it.each(['other', '', 'mine, mine', 'Mine'])(
    'is nowhere to be found with session %p',
    async session => {
      const real = await rawExchange(own, 'GET', { 'Mcp-Session-Id': session })
      const madeUp = await rawExchange(`${url}?stream=${'x'.repeat(21)}`, 'GET', {
        'Mcp-Session-Id': session
      })
      expect(real).toBe(madeUp)
      expect(real).toMatch(/^HTTP\/1\.1 404 /)
      await supertest(own).delete('').set(headersFor({ session })).expect(404)
      expect(response.ending).toBeUndefined()
    }
  )

  it('is resumed by an event id with its session', async () => {
    const resumed = await get(
      url,
      headersFor({ session: 'mine', lastEventId: `${streamId(response)}.0.1` })
    )
    expect(await resumed.nextMessage()).toEqual(SECRET)
  })

  it.each([
    ['another session', 'other'],
    ['no session', undefined]
  ])(
    'is not resumed by an event id with %s: the endpoint is asked, who knows about sessions',
    async (_name, session) => {
      const lastEventId = eventId(streamId(response), '0.1')
      const refused = await get(url, headersFor({ session, lastEventId }))
      expect(refused.status).toBe(405)
      const { message, req } = endpoint.requests.at(-1)!
      expect(message).toMatchObject({ method: 'ping' })
      // Nor does the endpoint hear of an id that is none of its own.
      expect(req.rawHeaders.join()).not.toContain(lastEventId)
      expect(response.ending).toBeUndefined()
    }
  )

  it('is not resumed by an event id that names no request: the endpoint hears a plain GET', async () => {
    const lastEventId = `${streamId(response)}.0.1`
    const passedOn = await get(url, headersFor({ session: 'other', lastEventId }))
    expect(passedOn.status).toBe(405)
    const { req } = endpoint.calls.at(-1)!
    expect(req.headers['last-event-id']).toBeUndefined()
    expect(req.rawHeaders.join()).not.toContain(lastEventId)
  })
})

describe('a call of the official SDK', () => {
  it.each([
    ['its session', true],
    ['no session', false]
  ])('is cancelled by DELETE of its URL with %s: its tool hears of it', async (_name, isNamed) => {
    const endpoint = sdkV1Stateful()
    const { url } = await serve(endpoint)
    const { headers } = await initializeSession(url, '2025-11-25')
    const response = await post(url, callTool(1, 'hang', { key: 'h' }), headers)
    await endpoint.log.calls.nth(1)
    await supertest(streamUrl(response, url))
      .delete('')
      .set(isNamed ? headers : {})
      .expect(204)
    expect((await endpoint.log.ended.nth(1)).state).toBe('aborted')
  })
})

describe('the stream of initialize', () => {
  it('belongs to the session that it has begun', async () => {
    const { url } = await serve(rawEndpoint(() => undefined, { session: 'new' }))
    const response = await post(url, initialize('2025-11-25'))
    await response.ended
    const own = streamUrl(response, url)
    const statuses = ['new', undefined, 'other'].map(
      async session => (await get(own, headersFor({ session }))).status
    )
    expect(await Promise.all(statuses)).toEqual([200, 200, 404])
  })
})

describe('a listen channel', () => {
  it('is re-attached for its own session alone', async () => {
    const listening = new Set<unknown>()
    const endpoint = rawEndpoint(({ req, res, open }) => {
      const session = req.headers['mcp-session-id']
      if (listening.has(session)) return res.writeHead(409).end()
      listening.add(session)
      return open()
    })
    const { url } = await serve(endpoint)
    const first = await get(url, headersFor({ session: 'mine' }))
    first.destroy()
    const again = await get(url, headersFor({ session: 'mine' }))
    expect(again.headers.link).toBe(first.headers.link)
    const other = await get(url, headersFor({ session: 'other' }))
    expect(streamId(other)).not.toBe(streamId(first))
    expect(endpoint.calls).toHaveLength(3)
  })
})
