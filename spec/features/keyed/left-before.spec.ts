// A client that leaves while something in front of the endpoint is still to be asked: its call runs
// without it, and is there for the client that sends it again.

import { expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { Awaitable } from '../../helpers/gate.js'
import { callTool, post, result } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { open, requestText } from '../hardening/wire.js'
import { keyed } from './setup.js'

const CALL = callTool(1, 'any')
const ANSWER = result(1, { done: true })
const EVENT = `data: ${JSON.stringify(ANSWER)}\n\n`

const events = (type: string) => ({ 'Content-Type': type, 'Cache-Control': 'no-cache' })

it.each<[how: string, answer: (call: RawCall) => unknown]>([
  ['writes events', ({ res }) => res.writeHead(200, events('text/event-stream')).end(EVENT)],
  [
    'writes events as long as somebody is there',
    ({ res }) => {
      res.writeHead(200, events('text/event-stream'))
      if (!res.destroyed && res.writable) res.write(EVENT)
      if (!res.closed) res.end()
    }
  ],
  [
    'lets its answer flow',
    ({ res }) => pipeline(Readable.from([EVENT]), res.writeHead(200, events('text/event-stream')))
  ],
  [
    'writes JSON',
    ({ res }) => {
      if (res.destroyed || res.closed) return
      res.writeHead(200, events('application/json')).end(JSON.stringify(ANSWER))
    }
  ],
  [
    'lets JSON flow',
    ({ res }) =>
      pipeline(
        Readable.from([JSON.stringify(ANSWER)]),
        res.writeHead(200, events('application/json'))
      )
  ]
])('an endpoint that %s', async (_how, answer) => {
  const endpoint = rawEndpoint(call => void answer(call))
  const asked = new Awaitable<void>()
  // Somebody looks up who it is for as long as the first client stays.
  const inFront: RequestHandler = (_req, res, next) => {
    if (asked.push(undefined) > 1) return next()
    res.once('close', () => next())
  }
  const { url, streams } = await serve(endpoint, {}, [express.json(), inFront])
  const wire = open(Number(new URL(url).port))
  wire.socket.write(requestText({ method: 'POST', path: '/mcp', headers: keyed() }, CALL))
  await asked.nth(1)
  await wire.leave()
  await endpoint.calls.nth(1)
  const again = await post(url, CALL, keyed())
  expect(await again.ended).toBe('end')
  expect(again.text.split(JSON.stringify(ANSWER))).toHaveLength(2)
  expect(endpoint.calls.length).toBe(1)
  expect(streams.stats()).toMatchObject({ keyed: 0, answering: 0, live: 0 })
})
