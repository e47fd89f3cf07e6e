// Sessions whose instance has gone, where there are others: one of them begins each again.

import { describe, expect, it } from '@jest/globals'
import { cluster } from '../../helpers/backplane/cluster.js'
import { sdkV1Stateful, type SdkV1Endpoint } from '../../helpers/endpoints/sdk-v1.js'
import { callTool, cancelled, ended, initializeSession, post as postTo } from '../../helpers/mcp.js'
import { request } from '../../helpers/mcp.js'
import { end, go, listen, on, post, request as requestBy } from '../../helpers/talk/client.js'
import { resume, send, take, until, type Word } from '../../helpers/talk/client.js'
import { asks, hold, result } from '../../helpers/talk/endpoint.js'
import { conversation, primer, type Talk } from '../../helpers/talk/index.js'
import { answers, ASKED_ELSEWHERE, ASKED_FIRST, askedOn, gone, haveLeft } from './several.js'
import { heard, leaves, revivals, running, several, wakeAll } from './several.js'
import { list, statuses, surviving, together, VERSION } from './setup.js'

const WORLD = { ...surviving(), server: 'SDK v1' as const, endpoint: [result], instances: 3 }

describe('a session whose instance has gone', () => {
  const isWhole = ({ response }: Talk): void =>
    expect(response.messages().at(-1)).toMatchObject({ id: 7 })
  conversation('is begun again by one of those that are asked at once, which then has it', {
    ...WORLD,
    client: [
      gone(0),
      together(...[1, 2, 1, 2].map((at, i) => list({ at, id: 7 + i }))),
      talk => {
        expect(statuses(talk)).toEqual([200, 200, 200, 200])
        expect(revivals(talk).slice(1).sort()).toEqual([0, 1])
        const sizes = talk.endpoints.map(({ handler }) => (handler as SdkV1Endpoint).sessions.size)
        expect(sizes.slice(1).sort()).toEqual([0, 1])
      },
      ...[on(0, resume({ at: 1, after: null })), end, isWhole],
      ...[on(0, resume({ at: 2, after: null })), end, isWhole],
      async talk => {
        const second = revivals(talk).indexOf(1)
        await talk.plays(gone(second), list({ at: 3 - second }))
      }
    ],
    then: talk => expect([talk.response.status, revivals(talk)]).toEqual([200, [0, 1, 1]])
  })

  conversation('stays ended at all of them', {
    ...WORLD,
    client: [requestBy('DELETE'), end, list({ at: 1 }), list({ at: 2 })],
    sees: ['empty', '404', '404'],
    then: talk => expect(revivals(talk)).toEqual([0, 0, 0])
  })

  const say = (method: string, params: object): Word[] => [send(request(1, method, params)), end]
  conversation('has its subscriptions and its level again', {
    ...several(),
    client: [
      ...say('logging/setLevel', { level: 'debug' }),
      ...say('logging/setLevel', { level: 'error' }),
      ...['a:1', 'a:2', 'a:3'].flatMap(uri => say('resources/subscribe', { uri })),
      ...say('resources/unsubscribe', { uri: 'a:2' }),
      ...[gone(0), list({ at: 1 })]
    ],
    then: ({ response, endpoints }) => {
      expect(response.status).toBe(200)
      const asked = endpoints[1]!.requests.map(({ message }) => [message.method, message.params])
      // After the request that was refused, and the two by which the session was begun.
      expect(asked.slice(3, -1)).toEqual([
        ['logging/setLevel', { level: 'error' }],
        ['resources/subscribe', { uri: 'a:1' }],
        ['resources/subscribe', { uri: 'a:3' }]
      ])
    }
  })

  it('may go on at each of them where sessions are local', async () => {
    const { options } = surviving()
    const { members } = await cluster(() => sdkV1Stateful(), options, { sessions: 'local' })
    const { headers } = await initializeSession(members[0]!.url, VERSION)
    await members[0]!.streams.close({ drain: 0 })
    for (const i of [1, 2, 1, 2]) {
      const { status } = await ended(postTo(members[i]!.url, callTool(i, 'count'), headers))
      expect(status).toBe(200)
    }
    expect(members.map(({ streams }) => streams.stats().revivals)).toEqual([0, 1, 1])
  })
})

describe('a session whose instance leaves', () => {
  const ASKING = { ...several(), endpoint: [asks(0), hold, result] }
  const SECOND = [primer, 'tools/list_changed', 'ping', ASKED_ELSEWHERE, 'result of 2', 'end']
  const isTold = until(({ endpoints }) =>
    [0, 1].every(i =>
      endpoints[i]!.requests.some(({ message }) => message?.params?.requestId === 77)
    )
  )
  conversation('is begun again at another one, and what was asked before is answered before', {
    ...ASKING,
    client: [
      ...[wakeAll, post, take(3), leaves(0), post({ id: 2, at: 1 }), take(4)],
      talk => expect(askedOn(talk, 1)).not.toEqual([0]),
      // Over either instance, and over the third one.
      ...[answers(1, 1), answers(0, 2), heard([0], [1], [])],
      ...[send(cancelled(77), { at: 2 }), end, isTold],
      ...[go({ run: 0 }), go({ run: 1 }), on(0, end), on(1, end), haveLeft]
    ],
    sees: [...ASKED_FIRST, ...SECOND, '202', '202', '202'],
    then: talk => expect(running(talk)).toEqual([0, 1])
  })

  conversation('is served where it is asked for, also where that is the instance that leaves', {
    ...ASKING,
    client: [
      ...[wakeAll, post, take(3), leaves(0), post({ id: 2 }), take(4)],
      talk => {
        expect(talk.response.headers.connection).toBe('close')
        expect(running(talk)[1]).toBeGreaterThan(0)
      },
      // Who listens there is sent away.
      ...[listen, end, ({ response }: Talk) => expect(response.text).toMatch(/^retry: \d+\n$/)],
      ...[go({ run: 0 }), go({ run: 1 }), on(0, end), on(1, end), haveLeft]
    ],
    sees: [...ASKED_FIRST, ...SECOND, 'end']
  })
})
