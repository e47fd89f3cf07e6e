// Behind the SDK's own `requireBearerAuth`: a stream is its user's, not its token's; and what the
// auth in front says, stands.

import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js'
import { InvalidTokenError } from '@modelcontextprotocol/sdk/server/auth/errors.js'
import { beforeEach, describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { nanoid } from 'nanoid'
import supertest from 'supertest'
import { mcpStreams } from '../../../lib/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { closeLater, listen } from '../../helpers/listen.js'
import {
  callTool,
  del,
  ended,
  get,
  headersFor,
  initializeSession,
  notification,
  post
} from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'
import { rawExchange } from './raw-exchange.js'

const METADATA = 'https://auth.example/.well-known/oauth-protected-resource'
const NEWS = notification('notifications/message', { data: 'secret' })

interface User {
  clientId: string
  extra?: Record<string, unknown>
}
const USERS: Record<string, User> = {
  alice: { clientId: 'app', extra: { sub: 'alice' } },
  'alice-refreshed': { clientId: 'app', extra: { sub: 'alice', scope: 'more' } },
  'alice-elsewhere': { clientId: 'other-app', extra: { sub: 'alice' } },
  bob: { clientId: 'app', extra: { sub: 'bob' } },
  'no-subject': { clientId: 'app' },
  'no-subject-refreshed': { clientId: 'app', extra: {} }
}

const auth = requireBearerAuth({
  resourceMetadataUrl: METADATA,
  verifier: {
    async verifyAccessToken(token) {
      const user = USERS[token]
      if (user === undefined) throw new InvalidTokenError('never heard of')
      return { token, scopes: [], expiresAt: Date.now() / 1000 + 60, ...user }
    }
  }
}) as RequestHandler

const as = (token: string) => headersFor({ auth: token, version: '2025-11-25' })

describe('a stream of one user', () => {
  let url: string
  let response: OpenStream
  const endpoint = () => rawEndpoint(({ emit, message }) => (message ? emit(NEWS) : undefined))

  beforeEach(async () => {
    ;({ url } = await serve(endpoint(), {}, [auth]))
    response = await post(url, callTool(1, 'x'), as('alice'))
    await response.nextMessage()
  })

  it('is resumed with a refreshed token, by its URL', async () => {
    const resumed = await get(streamUrl(response, url), as('alice-refreshed'))
    expect(await resumed.nextMessage()).toEqual(NEWS)
  })

  it('is resumed with a refreshed token, by an event id', async () => {
    const resumed = await get(url, {
      ...as('alice-refreshed'),
      'last-event-id': `${streamId(response)}.0.1`
    })
    expect(await resumed.nextMessage()).toEqual(NEWS)
  })

  it('is cancelled with a refreshed token', async () => {
    await supertest(streamUrl(response, url)).delete('').set(as('alice-refreshed')).expect(204)
    expect(await response.ended).toBe('end')
  })

  describe.each([
    ['another user of the same client', 'bob'],
    ['the same subject at another client', 'alice-elsewhere'],
    ['a token of the client that has no subject', 'no-subject']
  ])('is, for %s,', (_who, token) => {
    it.each(['GET', 'HEAD', 'DELETE'])('no other than one that was made up: %s', async method => {
      const headers = { Authorization: `Bearer ${token}` }
      const real = await rawExchange(streamUrl(response, url), method, headers)
      const madeUp = await rawExchange(`${url}?stream=${nanoid()}`, method, headers)
      expect(real).toBe(madeUp)
      expect(real).toMatch(/^HTTP\/1\.1 404 /)
      expect(response.ending).toBeUndefined()
    })

    it('not told apart when it has ended, or is gone', async () => {
      const headers = { Authorization: `Bearer ${token}` }
      const madeUp = await rawExchange(`${url}?stream=${nanoid()}`, 'GET', headers)
      const finished = await post(url, callTool(2, 'x'), as('alice'))
      await finished.nextMessage()
      await supertest(streamUrl(finished, url)).delete('').set(as('alice')).expect(204)
      expect(await rawExchange(streamUrl(finished, url), 'GET', headers)).toBe(madeUp)
    })
  })

  it('has a body that says what JSON-RPC clients understand', async () => {
    const refused = await get(streamUrl(response, url), as('bob'))
    expect(refused.headers['content-type']).toBe('application/json')
    expect(await refused.json()).toEqual({
      jsonrpc: '2.0',
      id: null,
      error: { code: -31000, message: 'Stream not found', data: { reason: 'stream-unknown' } }
    })
  })
})

describe('a client whose tokens name no subject', () => {
  it('is the owner itself: all that can be known is that it is the same client', async () => {
    const { url } = await serve(
      rawEndpoint(({ emit }) => emit(NEWS)),
      {},
      [auth]
    )
    const response = await post(url, callTool(1, 'x'), as('no-subject'))
    expect((await get(streamUrl(response, url), as('no-subject-refreshed'))).status).toBe(200)
    await supertest(streamUrl(response, url)).get('').set(as('alice')).expect(404)
  })
})

describe('without a valid token', () => {
  const challenge = (description: string) =>
    `Bearer error="invalid_token", error_description="${description}", resource_metadata="${METADATA}"`

  it.each<[what: string, headers: Record<string, string>, description: string]>([
    ['no token', {}, 'Missing Authorization header'],
    ['a token that nobody knows', headersFor({ auth: 'mallory' }), 'never heard of']
  ])(
    '%s: 401 and WWW-Authenticate (RFC 9728) come from the auth in front, everywhere',
    async (_what, headers, description) => {
      const endpoint = rawEndpoint(({ emit }) => emit(NEWS))
      const { url, streams } = await serve(endpoint, {}, [auth])
      const response = await post(url, callTool(1, 'x'), as('alice'))
      await response.nextMessage()
      const id = streamId(response)
      for (const refused of [
        await post(url, callTool(1, 'x'), headers),
        await get(url, headers),
        await get(url, { ...headers, 'last-event-id': `${id}.0.1` }),
        await get(streamUrl(response, url), headers),
        await del(streamUrl(response, url), headers)
      ]) {
        expect(refused.status).toBe(401)
        expect(refused.headers['www-authenticate']).toBe(challenge(description))
        expect(refused.headers.link).toBeUndefined()
        expect(await refused.json()).toMatchObject({ error: 'invalid_token' })
      }
      expect(endpoint.calls).toHaveLength(1)
      expect(streams.stats()).toMatchObject({ live: 1, connections: 1, refusals: 0 })
    }
  )

  it('401 and WWW-Authenticate come from an auth behind, too', async () => {
    const streams = mcpStreams()
    closeLater(() => streams.close({ drain: 0 }))
    const endpoint = rawEndpoint(({ result }) => result())
    const app = express()
      .use('/mcp', streams, auth)
      .all('/mcp', endpoint as RequestHandler)
    const { url } = await listen(app)
    const refused = await post(`${url}/mcp`, callTool(1, 'x'), {})
    expect(refused.status).toBe(401)
    expect(refused.headers['www-authenticate']).toBe(challenge('Missing Authorization header'))
    expect(await refused.json()).toMatchObject({ error: 'invalid_token' })

    // What came before the auth knows only the header: the same one resumes, another does not.
    const response = await ended(post(`${url}/mcp`, callTool(1, 'x'), as('alice')))
    const own = streamUrl(response, `${url}/mcp`)
    expect((await get(own, as('alice'))).status).toBe(200)
    await supertest(own).get('').set(as('alice-refreshed')).expect(404)
    await supertest(own).get('').expect(404)
  })
})

describe('on the official SDK', () => {
  it('a call survives a cut and a refreshed token', async () => {
    const endpoint = sdkV1Stateful()
    const { url } = await serve(endpoint, {}, [auth])
    const { headers } = await initializeSession(url, '2025-11-25', headersFor({ auth: 'alice' }))
    const response = await post(url, callTool(1, 'count', { key: 'k', n: 2, paced: true }), headers)
    endpoint.log.release('k')
    await response.nextMessage()
    response.reset()
    endpoint.log.release('k', 2)
    await endpoint.log.ended.nth(1)
    const cursor = response.blocks.at(-1)!.id!
    const strange = await get(streamUrl(response, url), {
      ...headers,
      authorization: 'Bearer bob',
      'last-event-id': cursor
    })
    expect(strange.status).toBe(404)
    const refreshed = {
      ...headers,
      authorization: 'Bearer alice-refreshed',
      'last-event-id': cursor
    }
    const resumed = await get(streamUrl(response, url), refreshed)
    expect(await resumed.ended).toBe('end')
    expect(resumed.messages()).toMatchObject([{ params: { data: '2' } }, { id: 1, result: {} }])
  })
})
