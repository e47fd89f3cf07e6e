// Sessions that their clients have left are ended at the endpoint (`sessions({ idle })`), and begun
// again when a client comes back.

import { describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { DecisionMessage } from '../../../lib/index.js'
import { cluster } from '../../helpers/backplane/cluster.js'
import { closeLater } from '../../helpers/close-all.js'
import { gate } from '../../helpers/gate.js'
import { headersFor, initializeSession } from '../../helpers/mcp.js'
import { sleep } from '../../helpers/sleep.js'
import { counts, cut, end, go, listen, meanwhile } from '../../helpers/talk/client.js'
import { on, post, request, until, wait, type Word } from '../../helpers/talk/client.js'
import { hold, open, result } from '../../helpers/talk/endpoint.js'
import { conversation, type Talk } from '../../helpers/talk/index.js'
import { forgetfulEndpoint } from './forgetful.js'
import { ANSWERED, ANSWERED_ANEW, BEGIN, forgetful, handlerOf, has, list } from './setup.js'
import { surviving, VERSION } from './setup.js'

const IDLE = 5000
const IDLING = { ...surviving({ idle: IDLE }), auth: 'one' }
const WORLD = { ...IDLING, ...forgetful() }
/** Its client begins another one. */
const another: Word = ({ url }) =>
  initializeSession(url, VERSION, headersFor({ auth: IDLING.auth }))
const isIdled = until(talk => talk.stats().idled === 1)
const isDelete = ({ method }: { method: string }): boolean => method === 'DELETE'

describe('an idle session', () => {
  conversation('is ended at the endpoint, and its client notices nothing', {
    ...WORLD,
    client: [
      ...[list, wait(IDLE - 1000), list, wait(IDLE - 1000)],
      ...[has(1), counts({ idled: 0, revivals: 0 })],
      (talk: Talk) => expect(talk.stats().remembered).toBeGreaterThan(0),
      ...[isIdled, has(0), counts({ remembered: 0 }), list, has(1)]
    ],
    sees: [...ANSWERED, ...ANSWERED, ...ANSWERED_ANEW],
    hears: ['tools/list', 'tools/list', 'DELETE', ...BEGIN, 'tools/list'],
    counts: { idled: 1, revivals: 1 }
  })

  const seen: unknown[] = []
  const guard: RequestHandler = (req, _res, next) => {
    const { authorization, ...headers } = req.headers
    const names = [headers['mcp-session-id'], headers['mcp-protocol-version']]
    if (isDelete(req)) seen.push([authorization, ...names, req.originalUrl, req.ip])
    next()
  }
  conversation('is ended through all that stands in front, in the name of its client', {
    ...{ ...WORLD, inFront: [guard] },
    client: [isIdled],
    then: ({ headers }) =>
      expect(seen).toEqual([
        ['Bearer one', headers['mcp-session-id'], VERSION, '/mcp', expect.any(String)]
      ])
  })

  conversation('of an SDK server frees it', {
    ...{ ...IDLING, server: 'SDK v1' },
    endpoint: [result],
    client: [post, end, isIdled, has(0), post, end, has(1)],
    sees: [...ANSWERED, ...ANSWERED_ANEW],
    counts: { idled: 1, revivals: 1 }
  })

  conversation('is none while a call runs, or a listen channel is open', {
    ...WORLD,
    options: { ...WORLD.options, resumeInterval: { min: 1, max: 1 } },
    endpoint: [
      [hold, result],
      [open, hold]
    ],
    client: [
      ...[meanwhile(post), wait(2 * IDLE), listen, go({ run: 0 }), on(0, end), wait(2 * IDLE)],
      // Its stream is over when its client has stayed away for too long.
      ...[has(1), counts({ idled: 0, revivals: 0 }), cut, isIdled, has(0)]
    ],
    sees: ANSWERED
  })

  conversation('is over when its client ends it, and the endpoint hears nothing of it', {
    ...WORLD,
    client: [isIdled, request('DELETE'), end, list],
    sees: ['204', '404'],
    hears: ['DELETE', 'tools/list'],
    counts: { idled: 1, revivals: 0 }
  })

  conversation('is ended once by us or its client', {
    ...WORLD,
    client: [request('DELETE'), end, wait(2 * IDLE)],
    sees: ['empty'],
    hears: ['DELETE'],
    counts: { idled: 0, revivals: 0 }
  })

  const held = gate()
  const slow: RequestHandler = (req, _res, next) =>
    isDelete(req) ? void held.opened.then(() => next()) : next()
  conversation('waits with what comes while it is being ended', {
    ...{ ...WORLD, inFront: [slow] },
    client: [wait(IDLE + 500), meanwhile(list), wait(1000), () => held.open(), end],
    sees: ANSWERED_ANEW,
    counts: { idled: 1, revivals: 1 }
  })

  let newest: string | undefined
  conversation('that has to make room is ended at once', {
    ...WORLD,
    options: { ...WORLD.options, maxStreams: 2 },
    client: [
      ...[another, another, another],
      talk => (newest = [...handlerOf(talk).known].at(-1)),
      ...[until(talk => talk.stats().idled === 2), has(2)]
    ],
    then: talk => expect(handlerOf(talk).known).toContain(newest)
  })

  it('is left alone by an instance that does not see all of its requests', async () => {
    const endpoint = forgetfulEndpoint()
    const { members } = await cluster(() => endpoint, IDLING.options, { sessions: 'local' }, 2)
    await initializeSession(members[0]!.url, VERSION)
    await sleep(2 * IDLE)
    expect(endpoint.log()).not.toContain('DELETE')
  })
})

describe('an endpoint that does not take DELETE', () => {
  const lines: string[] = []
  const watch = (): void => {
    const listener = (message: unknown) => void lines.push((message as DecisionMessage).line)
    lines.length = 0
    subscribe('mcp-streams:decision', listener)
    closeLater(() => unsubscribe('mcp-streams:decision', listener))
  }
  conversation.each([405, 404])('(%d) is left alone, and that is said once', status => {
    let deletes = 0
    let before: number
    const refusing: RequestHandler = (req, res, next) => {
      if (!isDelete(req)) return next()
      deletes++
      res.writeHead(status).end()
    }
    return {
      ...{ ...WORLD, inFront: [refusing] },
      client: [
        ...[watch, another, wait(2 * IDLE), has(2), () => (before = deletes)],
        ...[list, wait(2 * IDLE), has(2)],
        // Another status than 405 may be about this session.
        () => expect(deletes - before).toBe(status === 405 ? 0 : 1),
        () => expect(lines.filter(line => line.includes('does not take DELETE'))).toHaveLength(1)
      ],
      sees: ANSWERED,
      counts: { idled: 0, revivals: 0 }
    }
  })
})
