// No answer ever comes: after `resumeInterval.max` without a sign of life the endpoint is told for
// each of its requests.

import { beforeEach, describe, expect, it, jest } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { QUIET } from '../../../lib/features/hand-off/hand-off.js'
import { happenings } from '../../helpers/happenings.js'
import { callTool, get, headersFor, initializeSession, post } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { stopTheClock, turn } from '../limits/setup.js'
import { ANNOUNCED, askingEndpoint, type AskingOptions, yes } from './asking.js'
import { callRun, CAPABILITIES, sdkThatAsks } from './sdk-v1.js'

beforeEach(stopTheClock)
const MAX = 5
const OPTIONS = { resumeInterval: { min: 0, max: MAX }, retry: 1 }
const UNANSWERED = {
  code: -31000,
  message: expect.stringContaining('did not answer in time') as unknown as string,
  data: { reason: 'unanswered' }
}

interface WaitingOptions extends AskingOptions {
  inFront?: RequestHandler[]
}

async function waiting(
  { session, onAnswer = () => {}, inFront = [] }: WaitingOptions = { session: 's' }
) {
  const endpoint = askingEndpoint(
    async (call, ask) => {
      await Promise.all([ask('a'), ask('b')])
      call.result()
    },
    { ...(session !== undefined && { session }), onAnswer }
  )
  const errors: unknown[] = []
  const onError = (error: Error) => void errors.push((error as { code?: string }).code)
  const served = await serve(endpoint, { ...OPTIONS, onError }, inFront)
  const headers = { ...ANNOUNCED, ...headersFor({ session, auth: 'alice' }) }
  const first = await post(served.url, callTool(1, 'any'), headers)
  await first.nextMessage()
  jest.advanceTimersByTime(QUIET)
  await first.ended
  expect(served.streams.stats().waiting).toBe(1)
  return { ...served, endpoint, errors, first, headers, link: streamUrl(first, served.url) }
}

describe('a call whose client does not answer', () => {
  it.each([
    ['with a session', 's'],
    ['without', undefined]
  ])(
    'is abandoned: %s, its endpoint hears an error for each request, and then the close',
    async (_name, session) => {
      const abandoned = happenings('abandoned')
      const { endpoint, errors, streams, link, headers } = await waiting(
        session === undefined ? {} : { session }
      )
      jest.advanceTimersByTime(MAX * 1000 - 1)
      await turn()
      expect([endpoint.answers.length, streams.stats().waiting]).toEqual([0, 1])
      jest.advanceTimersByTime(1)
      await endpoint.answers.nth(2)
      const told = endpoint.answers.map(({ message }) => message)
      expect(told.toSorted((one, other) => (one.id < other.id ? -1 : 1))).toEqual([
        { jsonrpc: '2.0', id: 'a', error: UNANSWERED },
        { jsonrpc: '2.0', id: 'b', error: UNANSWERED }
      ])
      // By the client's own name.
      for (const { req } of endpoint.answers) {
        expect([req.headers.authorization, req.headers['mcp-session-id'], req.url]).toEqual([
          'Bearer alice',
          session,
          '/mcp'
        ])
      }
      expect(streams.stats()).toMatchObject({ waiting: 0, live: 0, bytes: 0 })
      await endpoint.runs[0]!.closed
      expect(errors).toEqual(['abandoned'])
      expect(abandoned).toHaveLength(1)
      // And so is whoever comes after all.
      for (const late of [
        await get(link, headers),
        await post(link, [yes('a'), yes('b')], headers)
      ]) {
        expect(late.status).toBe(410)
        expect(await late.json()).toMatchObject({ error: { data: { reason: 'stream-expired' } } })
      }
      expect(endpoint.answers).toHaveLength(2)
    }
  )

  it('is told by a request that is closed after 30 s without a response', async () => {
    const { endpoint } = await waiting({ session: 's', onAnswer: () => 'broken' })
    jest.advanceTimersByTime(MAX * 1000)
    const told = await endpoint.answers.nth(2)
    expect(told.isClosed).toBe(false)
    jest.advanceTimersByTime(30_000)
    await told.closed
  })

  it('comes from where the client came from, through what stands in front', async () => {
    const seen: [string | undefined, string, unknown][] = []
    const guard: RequestHandler = (req, _res, next) => {
      seen.push([req.ip, req.originalUrl, req.body?.id])
      next()
    }
    const { endpoint } = await waiting({
      session: 's',
      inFront: [express.json() as RequestHandler, guard]
    })
    jest.advanceTimersByTime(MAX * 1000)
    await endpoint.answers.nth(2)
    expect(seen.slice(1).toSorted()).toEqual([
      ['127.0.0.1', '/mcp', 'a'],
      ['127.0.0.1', '/mcp', 'b']
    ])
  })

  it('tells where the client came from even if nobody has asked before it left', async () => {
    const { endpoint } = await waiting()
    jest.advanceTimersByTime(MAX * 1000)
    await endpoint.answers.nth(2)
    expect(endpoint.answers.map(({ req }) => req.socket.remoteAddress)).toEqual([
      '127.0.0.1',
      '127.0.0.1'
    ])
  })

  it('has its time start again with every poll and every answer', async () => {
    const { endpoint, streams, first, link, headers } = await waiting()
    const lastEventId = first.blocks.at(-1)!.id!
    for (let i = 0; i < 3; i++) {
      jest.advanceTimersByTime(MAX * 1000 - 1)
      expect((await get(link, { ...headers, 'last-event-id': lastEventId })).status).toBe(204)
    }
    jest.advanceTimersByTime(MAX * 1000 - 1)
    const part = await post(link, [yes('a')], headers)
    expect(part.status).toBe(200)
    jest.advanceTimersByTime(QUIET)
    await part.ended
    jest.advanceTimersByTime(MAX * 1000 - 1)
    await turn()
    expect([endpoint.answers.length, streams.stats().waiting]).toEqual([1, 1])
    jest.advanceTimersByTime(1)
    // Of what it has answered, nothing is said.
    await endpoint.answers.nth(2)
    expect(endpoint.answers[1]!.message).toEqual({ jsonrpc: '2.0', id: 'b', error: UNANSWERED })
  })

  it('has its time start again also with answers that the endpoint refuses', async () => {
    let isRefusing = true
    const onAnswer: AskingOptions['onAnswer'] = ({ res }) =>
      isRefusing ? res.writeHead(503).end() : undefined
    const { endpoint, streams, link, headers } = await waiting({ session: 's', onAnswer })
    jest.advanceTimersByTime(MAX * 1000 - 1)
    expect((await post(link, [yes('a')], headers)).status).toBe(503)
    isRefusing = false
    jest.advanceTimersByTime(MAX * 1000 - 1)
    await turn()
    expect([endpoint.answers.length, streams.stats().waiting]).toEqual([1, 1])
    jest.advanceTimersByTime(1)
    await endpoint.answers.nth(3)
  })

  it('is not kept alive by strangers, or by requests that are refused', async () => {
    const { endpoint, link, headers } = await waiting()
    jest.advanceTimersByTime(MAX * 1000 - 1)
    expect((await get(link, { ...headers, ...headersFor({ auth: 'bob' }) })).status).toBe(404)
    expect(
      (await post(link, [yes('a')], { ...headers, ...headersFor({ auth: 'bob' }) })).status
    ).toBe(404)
    expect((await post(link, 'no JSON', headers)).status).toBe(400)
    jest.advanceTimersByTime(1)
    await endpoint.answers.nth(2)
  })

  it('is no concern of an endpoint that has ended meanwhile', async () => {
    const { endpoint } = await waiting()
    endpoint.runs[0]!.result()
    jest.advanceTimersByTime(MAX * 1000)
    for (let i = 0; i < 5; i++) await turn()
    expect(endpoint.answers).toHaveLength(0)
  })

  it('is abandoned when the server shuts down, as far as it does not come back soon', async () => {
    const { endpoint, streams } = await waiting()
    const closed = streams.close()
    jest.advanceTimersByTime(2 * 1 + 1000)
    await endpoint.answers.nth(2)
    expect(endpoint.answers[0]!.message).toMatchObject({ error: UNANSWERED })
    await closed
  })
})

describe('the official endpoint', () => {
  it('rejects what its tool has asked, with the error and its reason', async () => {
    const endpoint = sdkThatAsks()
    const { url, streams } = await serve(endpoint, OPTIONS)
    const { headers } = await initializeSession(url, '2025-11-25', ANNOUNCED, CAPABILITIES)
    const first = await post(url, callRun(1, 'all at once'), headers)
    for (let i = 0; i < 3; i++) await first.nextMessage()
    jest.advanceTimersByTime(QUIET)
    await first.ended
    jest.advanceTimersByTime(MAX * 1000)
    const run = await endpoint.log.ended.nth(1)
    expect([run.state, run.error]).toMatchObject([
      'threw',
      { code: -31000, data: { reason: 'unanswered' } }
    ])
    expect(streams.stats()).toMatchObject({ waiting: 0, live: 0 })
  })
})
