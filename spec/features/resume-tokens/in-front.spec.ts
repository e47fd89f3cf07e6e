// What stands in front may have begun to answer when a call's answer is due, and what the endpoint
// says in its head may not fit ours: neither may be an exception of the process.

import { describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import type { ServerResponse } from 'node:http'
import { result } from '../../helpers/mcp.js'
import { sleep } from '../../helpers/sleep.js'
import { end, go, meanwhile, take } from '../../helpers/talk/client.js'
import { hold, json, note, noteOf, resultIs } from '../../helpers/talk/endpoint.js'
import { conversation, play, primer } from '../../helpers/talk/index.js'
import { PATIENT, report, SOON, TEXT, tokens } from './setup.js'

describe.each([
  ['that may be resumed', {}],
  ['that may be repeated', { headers: { 'idempotency-key': 'a key that nobody guesses' } }],
  ['at 2026-07-28', { version: '2026-07-28' }]
])('a request %s', (_name, client) => {
  it.each(['a token', 'a result', 'progress'])(
    'is left to whoever has begun to answer it in our place, when %s is due',
    async what => {
      let answering: ServerResponse | undefined
      const limit: RequestHandler = (_req, res, next) => next(void (answering = res))
      const { response } = await play({
        ...{ ...client, ...tokens({ after: what === 'a token' ? SOON : 5000 }), inFront: [limit] },
        endpoint: [
          () => {
            answering!.writeHead(503, { 'Content-Type': 'text/plain' })
            answering!.write('too ')
          },
          async (call, run) => {
            if (what === 'a token') await sleep(2 * SOON)
            // As without us: there is one response, and it has a head.
            else if (what === 'a result')
              expect(() => json(TEXT)(call, run)).toThrow('headers after they are sent')
            else call.emit(noteOf(1))
            await sleep(SOON)
            answering!.end('late')
          }
        ],
        client: [report]
      })
      const written =
        what === 'progress' ? `event: message\ndata: ${JSON.stringify(noteOf(1))}\n\n` : ''
      expect([response.status, response.text]).toEqual([503, `too ${written}late`])
    }
  )

  it('is cut off where a hook on its head throws, and the process goes on', async () => {
    const broken: RequestHandler = (_req, res, next) => {
      res.writeHead = () => {
        throw new Error('the hook is broken')
      }
      next()
    }
    const world = { ...client, ...tokens(), inFront: [broken], endpoint: [hold] }
    await expect(play({ ...world, client: [report] })).rejects.toThrow('ECONNRESET')
  })
})

describe('a head with a `Trailer`', () => {
  conversation('is passed on without', {
    ...tokens({ after: 5000 }),
    endpoint: [
      ({ res, message }) => {
        res.writeHead(200, { 'Content-Type': 'application/json', Trailer: 'X-Sum' })
        res.write(JSON.stringify(result(message.id, TEXT)))
        res.addTrailers({ 'X-Sum': '1' })
        res.end()
      }
    ],
    client: [report],
    sees: ['json', result(1, TEXT)],
    then: ({ response: { headers } }) => expect(headers.trailer).toBeUndefined()
  })

  conversation('is passed on without where it is another status', {
    ...tokens({ after: 5000 }),
    endpoint: [
      ({ res }) => {
        res.writeHead(403, { 'Content-Type': 'text/plain', Trailer: 'X-Sum' })
        res.write('no')
        res.end()
      }
    ],
    client: [report],
    sees: ['403'],
    then: ({ response: { headers, text } }) =>
      expect([text, headers.trailer]).toEqual(['no', undefined])
  })
})

const answering: ServerResponse[] = []
conversation('what stands in front answers 404 over a request with a token: its session goes on', {
  ...{ ...tokens(), session: 's1' },
  inFront: [(_req, res, next) => next(void answering.push(res))],
  endpoint: [hold, note(1), hold, resultIs(TEXT)],
  client: [
    ...[report, meanwhile(report({ id: 2, token: 1, wait: PATIENT })), go, take(2)],
    () => {
      const late = answering.at(-1)!
      late.statusCode = 404
      late.end('late')
    },
    // Its client comes again.
    ...[end, meanwhile(report({ id: 3, token: 1, wait: PATIENT })), go, end]
  ],
  sees: ['json', 'token 1', primer, 1, 'end', 'json', result(3, TEXT)]
})
