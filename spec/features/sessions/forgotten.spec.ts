// An endpoint that forgets a session while this process goes on: it is another process that was
// restarted, or it has ended an idle session. With option `sessions`, and without.

import { describe, expect, jest } from '@jest/globals'
import type { RequestHandler } from 'express'
import { tasks } from '../../../lib/features/tasks/index.js'
import { gate } from '../../helpers/gate.js'
import { errorResponse, notification } from '../../helpers/mcp.js'
import { counts, cut, end, go, listen, meanwhile } from '../../helpers/talk/client.js'
import { post, request, restart, resume, send, take, wait } from '../../helpers/talk/client.js'
import { hold, note, open, refuse, result, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, upTo, type Talk, type World } from '../../helpers/talk/index.js'
import { ANSWERED, ANSWERED_ANEW, BEGIN, forget, forgetful, handlerOf, has } from './setup.js'
import { keepsItsId, list, statuses, surviving, together, VERSION } from './setup.js'

const LIST = 'tools/list'
/** Notes the revision of each request that comes in front. */
const versions: unknown[] = []
const guard: RequestHandler = (req, _res, next) => {
  versions.push(req.headers['mcp-protocol-version'])
  next()
}
const isQuiet = (): void => void (versions.length = 0)
const OTHER = '2099-01-01'

describe.each([404, 400])('a session that the endpoint forgets, and answers %d', unknownIs => {
  const world = { ...surviving(), ...forgetful({ unknownIs }) }
  const proof = unknownIs === 400 ? ['ping'] : []

  conversation('is begun again, and the one request that was refused is sent once more', {
    ...world,
    client: [forget, list, forget, list, keepsItsId, has(1)],
    sees: [...ANSWERED_ANEW, ...ANSWERED_ANEW],
    hears: [1, 2].flatMap(() => [LIST, ...proof, ...BEGIN, LIST]),
    counts: { revivals: 2 },
    // As the first request of any session.
    then: ({ requests }) => {
      const [begin] = requests.filter(({ message }) => message.method === 'initialize')
      expect(begin!.req.headers['mcp-protocol-version']).toBeUndefined()
    }
  })

  conversation('is begun again once for all requests that come at a time', {
    ...world,
    client: [forget, together(...upTo(4).map(id => list({ id }))), has(1)],
    counts: { revivals: 1 },
    then: talk => expect(statuses(talk)).toEqual([200, 200, 200, 200])
  })

  conversation('listens again', {
    ...world,
    endpoint: [open, hold, note(1), hold],
    client: [forget, listen, take(2), go, take(1)],
    sees: [primer, 'tools/list_changed', 1]
  })

  conversation('has a stream of the call, which survives its connection', {
    ...world,
    endpoint: [note(1), hold, result],
    client: [forget, post({ id: 7 }), take(3), cut, go, resume, end],
    sees: [primer, 'tools/list_changed', 1, primer, 'result of 7', 'end']
  })

  const CHANGED = 'notifications/roots/list_changed'
  conversation('has its notifications sent again', {
    ...world,
    client: [forget, send(notification(CHANGED)), end],
    sees: ['202'],
    hears: [CHANGED, ...proof, ...BEGIN, CHANGED]
  })

  conversation('takes tasks', {
    ...world,
    options: { ...world.options, tasks: tasks({}) },
    client: [forget, post({ id: 3 }), end],
    sees: [primer, 'tools/list_changed', 'result of 3', 'end']
  })
})

conversation('a session that the endpoint has forgotten is over when its client ends it', {
  ...{ ...surviving(), ...forgetful() },
  client: [forget, request('DELETE'), end, list],
  sees: ['204', '404'],
  hears: ['DELETE', LIST]
})

describe('a session that cannot be kept', () => {
  let warnings: () => unknown[]
  const watch = (): void => {
    const { mock } = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
    warnings = () => mock.calls.map(([, options]) => options)
  }
  const times = (n: number) => upTo(n).flatMap(() => [forget, list])
  conversation(
    'is begun again three times in a minute at the most, and then the endpoint has its way',
    {
      ...{ ...surviving(), ...forgetful() },
      client: [watch, ...times(6), counts({ revivals: 3 }), wait(61_000), list],
      sees: [
        ...[...ANSWERED_ANEW, ...ANSWERED_ANEW, ...ANSWERED_ANEW],
        ...['404', '404', '404', ...ANSWERED_ANEW]
      ],
      then: () => expect(warnings()).toEqual([{ code: 'MCP_STREAMS_SESSION_LOST_AGAIN' }])
    }
  )

  let isWell = true
  conversation('is told to come back while the endpoint is not well', {
    ...surviving(),
    ...forgetful({ initialize: ({ res }) => isWell || res.writeHead(503).end() }),
    client: [
      ...[forget, () => (isWell = false), list, () => (isWell = true)],
      ({ response }) => expect(Number(response.headers['retry-after'])).toBeGreaterThan(0),
      list
    ],
    sees: ['503 endpoint-failed', ...ANSWERED_ANEW]
  })

  conversation('is told to come back where the endpoint does not answer for twenty seconds', {
    ...surviving(),
    ...forgetful({ initialize: () => isWell || new Promise(() => undefined) }),
    client: [forget, () => (isWell = false), list, () => (isWell = true), list],
    sees: ['503 endpoint-failed', ...ANSWERED_ANEW]
  })

  conversation('is taken back where the endpoint does not take notifications in it', {
    ...{ ...surviving(), ...forgetful() },
    client: [
      talk => {
        const { known } = handlerOf(talk)
        known.add = () => Set.prototype.add.call(known, 'none')
      },
      ...[forget, list]
    ],
    sees: ['404'],
    hears: [LIST, ...BEGIN, 'DELETE']
  })
})

describe('a 400 in a session that the endpoint knows', () => {
  const pings =
    (count: number) =>
    (talk: Talk): void =>
      expect(talk.hears().filter(name => name === 'ping')).toHaveLength(count)
  const EACH: [name: string, world: Partial<World>][] = [
    ['with', surviving()],
    ['without', { session: 'its own' }]
  ]
  conversation.each(EACH)(
    'stays 400, and costs a ping in ten seconds, %s option sessions',
    (_name, world) => ({
      ...{ ...world, ...forgetful() },
      endpoint: [refuse(400, '')],
      client: [list, list, list, pings(1), wait(10_001), list, pings(2)],
      sees: ['400', '400', '400', '400'],
      counts: { revivals: 0 }
    })
  )

  const invalid: Line = ({ res }) =>
    res
      .writeHead(400, { 'Content-Type': 'application/json' })
      .end(JSON.stringify(errorResponse(1, -32602, 'Invalid params')))
  conversation.each(EACH)(
    'costs none where the answer says that it is about the request, %s option sessions',
    (name, world) => ({
      ...{ ...world, ...forgetful({ unknownIs: 400 }) },
      endpoint: [invalid],
      client: [list, pings(0), forget, list],
      // Begun again, or not.
      sees: ['400', name === 'with' ? '400' : '404']
    })
  )

  conversation.each([[['Bad request']], [['Bad ', 'request']]])(
    'stays so where Node makes its head: %j',
    parts => ({
      ...{ session: 'its own', ...forgetful() },
      endpoint: [
        ({ res }) => {
          res.statusCode = 400
          for (const part of parts.slice(0, -1)) res.write(part)
          res.end(parts.at(-1))
        }
      ],
      client: [list, end],
      sees: ['400'],
      then: ({ response }) => expect(response.text).toBe('Bad request')
    })
  )

  const byVersion: Line = call =>
    call.req.headers['mcp-protocol-version'] === VERSION
      ? call.result()
      : call.res.writeHead(400).end()
  conversation('is no end of it after a restart, and asks with the revision that was sealed', {
    ...{ ...surviving(), ...forgetful() },
    endpoint: [byVersion],
    inFront: [guard],
    client: [
      ...[restart, list({ version: OTHER }), list, has(1), counts({ revivals: 0 })],
      // Begun again, and the request is bad as before.
      ...[restart, forget, isQuiet, list({ version: OTHER }), has(1)]
    ],
    sees: ['400', ...ANSWERED, '400'],
    then: () => expect(versions).toEqual([OTHER, VERSION, VERSION, OTHER])
  })
})

describe('without option sessions', () => {
  const world = { ...forgetful({ unknownIs: 400 }), session: 'its own' }

  conversation('a 400 in a session that was begun here and is forgotten becomes 404', {
    ...world,
    client: [list, forget, list, listen, end, list],
    sees: [...ANSWERED, '404', '404', '404'],
    then: ({ wires }) =>
      expect(wires[1]!.response.text).toBe(
        JSON.stringify(errorResponse(null, -32000, 'No valid session'))
      )
  })

  conversation('takes the revision of the session where the request names another one', {
    ...world,
    endpoint: [refuse(400, '')],
    inFront: [guard],
    client: [isQuiet, list({ version: OTHER })],
    sees: ['400'],
    then: () => expect(versions).toEqual([OTHER, VERSION])
  })
})

describe('a request that was refused', () => {
  const own = { traceparent: '00-1', 'x-own': 'yes' }
  conversation('keeps its head when it is sent again', {
    ...{ ...surviving(), ...forgetful() },
    client: [forget, list({ accept: 'application/json', headers: own })],
    then: ({ requests }) =>
      expect(requests.at(-1)!.req.headers).toMatchObject({ ...own, accept: 'application/json' })
  })

  const begins = gate()
  const held = gate()
  let isHeld = false
  conversation('is not sent again where its client has gone meanwhile', {
    ...surviving(),
    ...forgetful({
      async initialize() {
        if (!isHeld) return
        begins.open()
        await held.opened
      }
    }),
    client: [
      ...[forget, () => (isHeld = true), meanwhile(list), () => begins.opened, cut],
      ({ requests: [refused] }) => refused!.closed,
      () => {
        isHeld = false
        held.open()
      },
      list({ id: 2 })
    ],
    counts: { revivals: 1 },
    then: ({ wire, requests }) => {
      expect(wire.response.status).toBe(200)
      const lists = requests.filter(({ message }) => message?.method === LIST)
      expect(lists.filter(({ message }) => message.id === 1)).toHaveLength(1)
    }
  })
})
