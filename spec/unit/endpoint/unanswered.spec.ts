// Endpoints are told of requests of theirs that nobody will answer: a few at a time, in turn.

import { afterEach, beforeEach, expect, it } from '@jest/globals'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import { isLoopback } from '../../../lib/endpoint/loopback.js'
import { Unanswered } from '../../../lib/endpoint/unanswered.js'
import { Awaitable } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { closeAll, listen } from '../../helpers/listen.js'
import { request } from '../../helpers/mcp.js'
import { openStream, type Json } from '../../helpers/open-stream.js'

const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i + 1)

/** What the endpoint has been told: by the session, and the request id. */
let told: [session: unknown, id: unknown][]
let open: number
let most: number
let answer: (req: IncomingMessage, res: ServerResponse) => unknown
let req: IncomingMessage
let unanswered: Unanswered
const lines: string[] = []

beforeEach(async () => {
  told = []
  open = most = 0
  lines.length = 0
  answer = (_req, res) => setImmediate(() => res.writeHead(202).end())
  const requests = new Awaitable<IncomingMessage>()
  const { url } = await listen(async (received, res) => {
    if (!isLoopback(received)) return void requests.push(received)
    most = Math.max(most, ++open)
    res.once('close', () => open--)
    const message = (await json(received)) as Json
    told.push([received.headers['mcp-session-id'], message.id])
    answer(received, res)
  })
  void openStream(url, { method: 'POST', body: JSON.stringify(request(1, 'any')) }).catch(() => {})
  req = await requests.nth(1)
  unanswered = new Unanswered({ debug: format => lines.push(format) }, 3)
})
afterEach(closeAll)

it('eight at a time, and none waits for all of another', async () => {
  unanswered.tell(req, upTo(100), 'many')
  unanswered.tell(req, ['one'], 'few')
  await until(() => told.length === 101)
  expect(most).toBe(8)
  expect(told.findIndex(([session]) => session === 'few')).toBeLessThan(20)
  expect(told.filter(([session]) => session === 'many').map(([, id]) => id)).toEqual(upTo(100))
})

it('who has something else to do has a turn in between', async () => {
  answer = (_req, res) => res.writeHead(202).end()
  const all = told
  let turns = 0
  const turn = (): void => {
    turns++
    if (all.length < 200) setImmediate(turn)
  }
  unanswered.tell(req, upTo(200), 's')
  turn()
  await until(() => all.length === 200)
  expect(turns).toBeGreaterThan(20)
})

it('not again where it breaks off', async () => {
  answer = ({ headers }, res) =>
    headers['mcp-session-id'] === 'broken' ? res.destroy() : res.writeHead(202).end()
  unanswered.tell(req, upTo(100), 'broken')
  unanswered.tell(req, upTo(20), 'whole')
  await until(() => told.filter(([session]) => session === 'whole').length === 20)
  expect(told.filter(([session]) => session === 'broken').length).toBeLessThan(20)
})

it('of more than may wait, the oldest hears nothing', async () => {
  for (const session of ['one', 'two', 'three', 'four'])
    unanswered.tell(req, session === 'one' ? upTo(100) : [1], session)
  await until(() => ['two', 'three', 'four'].every(session => told.some(([s]) => s === session)))
  await until(() => open === 0)
  expect(told.length).toBeLessThan(20)
  expect(lines.filter(line => line.startsWith('too many'))).toHaveLength(1)
})
