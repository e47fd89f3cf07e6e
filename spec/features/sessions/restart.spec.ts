// A session goes on in a process that has not begun it: with the same secret, and an endpoint that
// knows nothing of it.

import { describe, expect } from '@jest/globals'
import type { RequestHandler } from 'express'
import { resources } from '../../../lib/resources/index.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful, type SdkV1Endpoint } from '../../helpers/endpoints/sdk-v1.js'
import { callTool, initialize, initializeSession, request } from '../../helpers/mcp.js'
import { sleep } from '../../helpers/sleep.js'
import { end, listen, post, request as requestBy } from '../../helpers/talk/client.js'
import { restart, resume, send, take, wait, type Word } from '../../helpers/talk/client.js'
import { hold, note, refuse, result, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, upTo, type Talk, type World } from '../../helpers/talk/index.js'
import { ANSWERED, ANSWERED_ANEW, forget, forgetful, handlerOf, has, keepsItsId } from './setup.js'
import { list, SECRET, statuses, surviving, together, VERSION } from './setup.js'

const SDK = { ...surviving(), server: 'SDK v1' as const }
/** Another process, of ours and of the endpoint's: nothing is left but the secret. */
const ANEW: Word[] = [restart, forget]
const count = (id: number): Word[] => [post({ message: callTool(id, 'count', { n: 2 }) }), end]

const withJson = () => sdkV1Stateful({ enableJsonResponse: true })
const COUNTED_ANEW = [primer, 'tools/list_changed', 1, 2, 'result', 'end']
const TWICE = [...COUNTED_ANEW, primer, 1, 2, 'result of 2', 'end']
conversation.each<[string, NonNullable<World['server']>, unknown[]]>([
  ['SDK 1.x', 'SDK v1', TWICE],
  ['SDK 1.x, JSON', withJson, ['json', 'result', 'json', 'result of 2']],
  ['SDK 2.x', 'SDK v2', TWICE]
])('a session of %s goes on after a restart, under its id', (_name, server, seen) => ({
  ...{ ...SDK, server },
  client: [
    ({ endpoint, headers }) => {
      const { sessions } = endpoint.handler as SdkV1Endpoint
      expect(sessions.has(headers['mcp-session-id']!)).toBe(false)
    },
    ...[...ANEW, ...count(1), ...count(2), has(1), keepsItsId]
  ],
  sees: seen
}))

describe('a session that has outlived its process', () => {
  conversation('is begun again once, for all requests that wait', {
    ...SDK,
    client: [...ANEW, together(...upTo(3).map(id => list({ id }))), has(1)],
    counts: { revivals: 1 },
    then: talk => expect(statuses(talk)).toEqual([200, 200, 200])
  })

  conversation('has its streams under their URLs', {
    ...SDK,
    client: [...ANEW, ...count(1), resume({ after: null }), end],
    sees: [...COUNTED_ANEW, ...COUNTED_ANEW],
    then: ({ response, headers }) =>
      expect(response.headers['mcp-session-id']).toBe(headers['mcp-session-id'])
  })

  conversation('listens again, and hears that lists may have changed', {
    ...SDK,
    client: [...ANEW, listen, take(2)],
    sees: [primer, 'tools/list_changed']
  })

  conversation('ends by DELETE in its new process, and stays ended', {
    ...SDK,
    client: [...ANEW, list, requestBy('DELETE'), end, list, has(0)],
    sees: [...ANSWERED_ANEW, 'empty', '404'],
    counts: { revivals: 1 }
  })

  const front = new Set<unknown>()
  const guard: RequestHandler = (req, _res, next) => {
    front.add(req.headers['mcp-session-id'])
    next()
  }
  conversation('is known by its own id in front, and by that of the endpoint behind', {
    ...{ ...surviving(), ...forgetful(), inFront: [guard] },
    client: [...ANEW, () => front.clear(), list],
    then: talk => {
      const own = talk.headers['mcp-session-id']
      const behind = talk.requests.flatMap(({ req: { headers, rawHeaders } }) => [
        headers['mcp-session-id'],
        rawHeaders.find((_, i, all) => /^mcp-session-id$/i.test(all[i - 1] ?? ''))
      ])
      expect([...front]).toEqual([own])
      const [dead, none, now, ...others] = new Set(behind)
      expect([none, now, others]).toEqual([undefined, [...handlerOf(talk).known][0], []])
      expect(dead).not.toBe(own)
    }
  })

  const rounds: number[] = []
  const held: (() => void)[] = []
  let all: { headers: Record<string, string> }[] | undefined
  conversation('waits in a line with the others of its process', {
    ...surviving(),
    ...forgetful({
      /** Holds each `initialize` until 32 are there, and as many more as may come. */
      async initialize() {
        if (all === undefined) return
        const released = new Promise<void>(resolve => held.push(resolve))
        if (held.length === 32) {
          await sleep(50)
          rounds.push(held.length)
          for (const release of held.splice(0)) release()
        }
        await released
      }
    }),
    client: [
      async ({ url }) => {
        all = await Promise.all(upTo(96).map(() => initializeSession(url, VERSION)))
      },
      ...[...ANEW, (talk: Talk) => together(...all!.map(({ headers }) => list({ headers })))(talk)]
    ],
    counts: { revivals: 96 },
    then: talk => {
      expect(new Set(statuses(talk))).toEqual(new Set([200]))
      expect(rounds).toEqual([32, 32, 32])
    }
  })

  conversation('answers a batch', {
    ...{ ...SDK, version: '2025-03-26' },
    client: [...ANEW, send([request(1, 'ping'), request(2, 'tools/list')]), end],
    sees: [primer, 'tools/list_changed', 'result', 'result of 2', 'end']
  })

  const given: unknown[] = []
  const open = (uri: string, { sessionId }: { sessionId?: string | undefined }) => {
    given.push(sessionId)
    return { body: Buffer.from(uri) }
  }
  const bytes = send(request(1, 'resources/stream', { uri: 'a:1' }), {
    accept: 'application/json, text/event-stream, */*'
  })
  const BYTES = {
    ...SDK,
    capabilities: { resourceStreaming: {} },
    options: { ...SDK.options, resources: resources({ open }) }
  }
  const areBytes = ({ response }: Talk): void => expect(response.text).toBe('a:1')
  conversation('gives bytes to a client that has declared that it takes them', {
    ...BYTES,
    client: [...ANEW, () => void (given.length = 0), bytes, end, areBytes],
    then: ({ endpoint: { handler } }) =>
      expect(given).toEqual([...(handler as SdkV1Endpoint).sessions.keys()])
  })

  conversation.each<[string, NonNullable<World['server']>]>([
    ['an event stream', 'SDK v1'],
    ['JSON', withJson]
  ])('gives them to it before as well, where it has begun by %s', (_name, server) => ({
    ...{ ...BYTES, server },
    client: [bytes, end, areBytes]
  }))

  conversation('is begun again where the endpoint has ended it while it ran', {
    ...SDK,
    client: [list, forget, list, list, has(1)],
    sees: [...ANSWERED, ...ANSWERED_ANEW, ...ANSWERED],
    counts: { revivals: 1 }
  })

  conversation('is not begun again when its time is over', {
    ...{ ...SDK, ...surviving({ lifetime: 1 }) },
    client: [...ANEW, wait(10), list, has(0)],
    sees: ['404']
  })

  conversation('goes on where the endpoint still knows it', {
    ...SDK,
    client: [restart, list, has(1)],
    sees: ANSWERED,
    counts: { revivals: 0 }
  })

  const newer = 'a newer secret of this spec'
  const change =
    (...secret: string[]): Word =>
    ({ world }) =>
      void (world.options = surviving({ secret }).options)
  conversation('is known under a newer secret, as long as the older one is accepted', {
    ...SDK,
    client: [change(newer, SECRET), ...ANEW, list, change(newer), restart, list],
    sees: [...ANSWERED_ANEW, '404']
  })
})

describe('a client is told to begin anew', () => {
  conversation.each<[string, (id: string) => string, string]>([
    ['another owner', id => id, 'b'],
    ['a forged id', id => id.slice(0, -2) + (id.endsWith('AA') ? 'BB' : 'AA'), 'a'],
    ['half an id', id => id.slice(0, id.length / 2), 'a'],
    ['the name of the session', id => id.slice(0, 22), 'a'],
    ['another spelling', id => `${id}=`, 'a'],
    ['two of them', id => `${id}, ${id}`, 'a'],
    ['bytes that are no text', id => `${id}\u00ff\u00fe`, 'a'],
    ['a mark alone', () => 'mcps1.', 'a'],
    ['an id of nobody', () => 'mcps1.' + 'A'.repeat(3000), 'a']
  ])('with %s', (_name, changed, auth) => {
    const wrong: Word = async talk => {
      const session = changed(talk.headers['mcp-session-id']!)
      await list({ session, auth })(talk)
      await list({ session: 'made-up', auth })(talk)
      const [one, unknown] = talk.wires.slice(-2).map(({ response }) => response.text)
      expect(one).toBe(unknown)
    }
    return {
      ...{ ...SDK, auth: 'a' },
      client: [wrong, ...ANEW, wrong, has(0)],
      sees: ['404', '404', '404', '404']
    }
  })

  const ABLE = { tools: { listChanged: true } }
  conversation.each<[string, object | undefined]>([
    ['refuses it', undefined],
    ['speaks another revision', { protocolVersion: '2025-06-18', capabilities: ABLE }],
    ['is less able', { protocolVersion: VERSION, capabilities: {} }]
  ])('where the endpoint %s', (_name, answer) => {
    let isAnother = false
    const begin = ({ res, result: respond }: RawCall): void => {
      if (!isAnother) return
      if (answer === undefined) return void res.writeHead(400).end('{}')
      res.setHeader('Mcp-Session-Id', 'two')
      respond(answer)
    }
    const becomesAnother = (talk: Talk): void => {
      isAnother = true
      handlerOf(talk).known.add('two')
    }
    return {
      ...{ ...surviving(), ...forgetful({ unknownIs: 400, initialize: begin }) },
      client: [keepsItsId, ...ANEW, becomesAnother, list],
      sees: ['404'],
      // Nothing is left of what was begun.
      then: ({ requests }) => {
        const deleted = requests.filter(({ req }) => req.method === 'DELETE')
        expect(deleted.map(({ req }) => req.headers['mcp-session-id'])).toEqual(
          answer === undefined ? [] : ['two']
        )
      }
    }
  })
})

describe('an endpoint that is out of the ordinary', () => {
  const { options } = surviving()
  const isId = (id: string | undefined) => (talk: Talk) =>
    expect(talk.headers['mcp-session-id']).toBe(id)

  conversation('gives no session, and its client gets none', {
    ...surviving(),
    server: answer => rawEndpoint(answer, { stateless: true }),
    client: [isId(undefined)]
  })

  let other: Record<string, string>
  conversation('gives two clients one session, in JSON, and sees its own id from both', {
    ...surviving(),
    endpoint: [result],
    server: answer => rawEndpoint(answer, { session: 'mine', initializeAs: 'json' }),
    client: [
      async ({ url }) => void ({ headers: other } = await initializeSession(url, VERSION)),
      ...[list, (talk: Talk) => list({ headers: other })(talk)]
    ],
    then: ({ headers, requests }) => {
      expect(other['mcp-session-id']).not.toBe(headers['mcp-session-id'])
      const seen = requests.map(({ req }) => req.headers['mcp-session-id'])
      expect(seen).toEqual([undefined, 'mine', 'mine', 'mine'])
    }
  })

  conversation('refuses the first request by 400, which is no word about the session', {
    ...{ options, session: 'mine' },
    endpoint: [refuse(400, '')],
    client: [keepsItsId, list],
    sees: ['400']
  })

  const begin = send(initialize(VERSION))
  const SSE = { 'Content-Type': 'text/event-stream' }
  conversation('gives a head without a session at once', {
    options,
    endpoint: [({ res }) => res.writeHead(200, SSE).write(': soon\n\n'), hold],
    client: [begin],
    then: ({ response }) => expect(response.status).toBe(200)
  })

  const large: Line = ({ res, message: { id } }) => {
    const value = { jsonrpc: '2.0', id, result: { text: 'x'.repeat(1024 * 1024) } }
    res.writeHead(200, { ...SSE, 'Mcp-Session-Id': 'mine' })
    res.write(`data: ${JSON.stringify(value)}\n\n`)
  }
  conversation('gives at once what is too large to be sealed', {
    options,
    endpoint: [large, hold],
    client: [begin],
    then: ({ response: { status, headers } }) =>
      expect([status, headers['mcp-session-id']]).toEqual([200, 'mine'])
  })

  const long = 'x'.repeat(4000)
  conversation('gets the id that it has given where it is too long to be sealed', {
    ...{ options, session: long },
    client: [isId(long)]
  })

  conversation('asks before it has answered initialize, and its client hears it', {
    options,
    endpoint: [({ res }) => res.setHeader('Mcp-Session-Id', 'mine'), note(1), hold],
    client: [begin, take(1)],
    sees: [1]
  })
})
