// No answer ever comes: after `resumeInterval.max` without a sign of life the endpoint is told for
// each of its requests.

import { beforeEach, describe, expect, it, jest } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { QUIET } from '../../../lib/features/hand-off/hand-off.js'
import { happenings } from '../../helpers/happenings.js'
import { initializeSession, post as postTo } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { answer, counts, end, go, pass, post } from '../../helpers/talk/client.js'
import { resume, take, turn, yes } from '../../helpers/talk/client.js'
import { asks, hold, result, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, upTo, type Talk } from '../../helpers/talk/index.js'
import { stopTheClock } from '../limits/setup.js'
import { ANNOUNCED } from './asking.js'
import { callRun, CAPABILITIES, sdkThatAsks } from './sdk-v1.js'

const MAX = 5000
const OPTIONS = { resumeInterval: { min: 0, max: MAX / 1000 }, retry: 1 }
const UNANSWERED = {
  code: -31000,
  message: expect.stringContaining('did not answer in time') as unknown as string,
  data: { reason: 'unanswered' }
}
/** A call that has asked `a` and `b`, and waits. */
const CALL = {
  ...{ clock: 'stopped' as const, prefer: 'rel=stream', auth: 'alice' },
  options: OPTIONS,
  endpoint: [asks('a', 'b'), hold, result]
}
const IN_SESSION = { ...CALL, session: 's' }
const WAITING = [post, take(3), pass(QUIET), end, counts({ waiting: 1 })]
const SEEN = [primer, 'asks a', 'asks b', primer, 'end']
/** Waits until so many answers have come to the endpoint; `told()`: no more than that have. */
const told =
  (...ids: string[]) =>
  async (talk: Talk): Promise<void> => {
    await talk.requests.nth(1 + ids.length)
    expect(
      talk
        .hears()
        .filter(one => one.startsWith('answer'))
        .sort()
    ).toEqual(ids.map(id => `answer ${id}`))
  }
const answersOf = ({ requests }: Talk) => requests.slice(1)

describe('a call whose client does not answer', () => {
  let abandoned: ReturnType<typeof happenings>
  describe.each([
    ['with a session', IN_SESSION],
    ['without', CALL]
  ])('%s', (_name, world) => {
    conversation('is abandoned: its endpoint hears an error for each request, and then the close', {
      ...world,
      client: [
        ...[...WAITING, () => (abandoned = happenings('abandoned'))],
        ...[pass(MAX - 1), turn, told(), counts({ waiting: 1 }), pass(1), told('a', 'b')],
        ...[counts({ waiting: 0, live: 0, bytes: 0 }), ({ call }: Talk) => call.closed],
        // And so is whoever comes after all.
        ...[resume({ after: null }), end, answer('a', 'b'), end]
      ],
      sees: [...SEEN, '410 stream-expired', '410 stream-expired'],
      then: talk => {
        const told = answersOf(talk)
        expect(told.map(({ message }) => message.error)).toEqual([UNANSWERED, UNANSWERED])
        // By the client's own name.
        for (const { req } of told)
          expect([req.headers.authorization, req.headers['mcp-session-id'], req.url]).toEqual([
            ...['Bearer alice', (world as { session?: string }).session, '/mcp']
          ])
        expect(talk.errors.map(([code]) => code)).toEqual(['abandoned'])
        expect(abandoned).toHaveLength(1)
      }
    })
  })

  const silent: Line = () => new Promise(() => undefined)
  conversation('is told by a request that is closed after 30 s without a response', {
    ...IN_SESSION,
    accepts: [silent],
    client: [
      ...[...WAITING, pass(MAX), told('a', 'b')],
      talk => expect(answersOf(talk)[1]!.isClosed).toBe(false),
      ...[pass(30_000), (talk: Talk) => answersOf(talk)[1]!.closed]
    ]
  })

  const seen: unknown[] = []
  const guard: RequestHandler = (req, _res, next) => {
    if (req.body?.method === undefined) seen.push([req.ip, req.originalUrl, req.body?.id])
    next()
  }
  conversation('comes from where the client came from, through what stands in front', {
    ...IN_SESSION,
    inFront: [express.json() as RequestHandler, guard],
    client: [...WAITING, pass(MAX), told('a', 'b')],
    then: () =>
      expect(seen.toSorted()).toEqual([
        ['127.0.0.1', '/mcp', 'a'],
        ['127.0.0.1', '/mcp', 'b']
      ])
  })

  conversation('tells where the client came from even if nobody has asked before it left', {
    ...IN_SESSION,
    client: [...WAITING, pass(MAX), told('a', 'b')],
    then: talk =>
      expect(answersOf(talk).map(({ req }) => req.socket.remoteAddress)).toEqual([
        ...['127.0.0.1', '127.0.0.1']
      ])
  })

  conversation('has its time start again with every poll and every answer', {
    ...IN_SESSION,
    client: [
      ...[...WAITING, ...upTo(3).flatMap(() => [pass(MAX - 1), resume])],
      ...[pass(MAX - 1), answer('a'), pass(QUIET), end],
      ...[pass(MAX - 1), turn, told('a'), counts({ waiting: 1 })],
      // Of what it has answered, nothing is said.
      ...[pass(1), told('a', 'b')]
    ],
    sees: [...SEEN, '204', '204', '204', primer, primer, 'end'],
    then: talk =>
      expect(answersOf(talk)[1]!.message).toEqual({ jsonrpc: '2.0', id: 'b', error: UNANSWERED })
  })

  let isRefusing = true
  conversation('has its time start again also with answers that the endpoint refuses', {
    ...IN_SESSION,
    accepts: [({ res }) => isRefusing && res.writeHead(503).end()],
    client: [
      ...[...WAITING, pass(MAX - 1), answer('a'), () => (isRefusing = false)],
      ...[pass(MAX - 1), turn, told('a'), counts({ waiting: 1 }), pass(1), told('a', 'a', 'b')]
    ],
    sees: [...SEEN, '503']
  })

  conversation('is not kept alive by strangers, or by requests that are refused', {
    ...IN_SESSION,
    client: [
      ...[...WAITING, pass(MAX - 1), resume({ auth: 'bob' }), end],
      talk => talk.send({ url: talk.link, body: [yes('a')], auth: 'bob' }),
      ...[end, (talk: Talk) => talk.send({ url: talk.link, body: 'no JSON' }), end],
      ...[pass(1), told('a', 'b')]
    ],
    sees: [...SEEN, '404 stream-unknown', '404 stream-unknown', '400 invalid-json']
  })

  conversation('is no concern of an endpoint that has ended meanwhile', {
    ...IN_SESSION,
    client: [...WAITING, go, pass(MAX), ...upTo(5).map(() => turn), told()]
  })

  let closed: Promise<void>
  conversation('is abandoned when the server shuts down, as far as it does not come back soon', {
    ...IN_SESSION,
    client: [
      ...[...WAITING, ({ streams }: Talk) => void (closed = streams.close()), pass(2 * 1 + 1000)],
      ...[told('a', 'b'), () => closed]
    ],
    then: talk => expect(answersOf(talk)[0]!.message).toMatchObject({ error: UNANSWERED })
  })
})

describe('the official endpoint', () => {
  beforeEach(stopTheClock)

  it('rejects what its tool has asked, with the error and its reason', async () => {
    const endpoint = sdkThatAsks()
    const { url, streams } = await serve(endpoint, OPTIONS)
    const { headers } = await initializeSession(url, '2025-11-25', ANNOUNCED, CAPABILITIES)
    const first = await postTo(url, callRun(1, 'all at once'), headers)
    for (let i = 0; i < 3; i++) await first.nextMessage()
    jest.advanceTimersByTime(QUIET)
    await first.ended
    jest.advanceTimersByTime(MAX)
    const run = await endpoint.log.ended.nth(1)
    expect([run.state, run.error]).toMatchObject([
      'threw',
      { code: -31000, data: { reason: 'unanswered' } }
    ])
    expect(streams.stats()).toMatchObject({ waiting: 0, live: 0 })
  })
})
