// What stands in front may have begun to answer when a call's answer is due, and what the endpoint
// says in its head may not fit ours: neither may be an exception of the process.

import { describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import type { ServerResponse } from 'node:http'
import { gate } from '../../helpers/gate.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { ended, headersFor, notification, post, result } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { answerJson, answerOf, report, serveTokens, SOON, TEXT, tokenOf } from './setup.js'

const NOTE = notification('notifications/message', { data: 1 })
const KEY = { 'idempotency-key': 'a key that nobody guesses' }
const HEADERS = {
  'that may be resumed': headersFor({ version: '2025-11-25' }),
  'that may be repeated': { ...headersFor({ version: '2025-11-25' }), ...KEY },
  'at 2026-07-28': headersFor({ version: '2026-07-28' })
}

describe.each(Object.entries(HEADERS))('a request %s', (_name, headers) => {
  const send = (url: string): Promise<OpenStream> =>
    post(url, report(1, { resumeToken: null }), headers)

  it.each(['a token', 'a result', 'progress'])(
    'is left to whoever has begun to answer it in our place, when %s is due',
    async what => {
      const begun = gate()
      const over = gate()
      const endpoint = rawEndpoint(() => undefined, { stateless: true })
      const limit: RequestHandler = (_req, res, next) => {
        void endpoint.calls.nth(1).then(() => {
          res.writeHead(503, { 'Content-Type': 'text/plain' })
          res.write('too ')
          begun.open()
        })
        void over.opened.then(() => res.end('late'))
        next()
      }
      const { url } = await serve(
        endpoint,
        { resumeTokens: { after: what === 'a token' ? SOON : 5000 } },
        [limit]
      )
      const answer = send(url)
      const call = await endpoint.calls.nth(1)
      await begun.opened
      if (what === 'a token') await new Promise(resolve => setTimeout(resolve, 2 * SOON))
      // As without us: there is one response, and it has a head.
      else if (what === 'a result')
        expect(() => answerJson(call, TEXT)).toThrow('headers after they are sent')
      else call.emit(NOTE)
      await new Promise(resolve => setTimeout(resolve, SOON))
      over.open()
      const response = await ended(answer)
      const written = what === 'progress' ? `event: message\ndata: ${JSON.stringify(NOTE)}\n\n` : ''
      expect([response.status, response.text]).toEqual([503, `too ${written}late`])
    }
  )

  it('is cut off where a hook on its head throws, and the process goes on', async () => {
    const endpoint = rawEndpoint(() => undefined, { stateless: true })
    const broken: RequestHandler = (_req, res, next) => {
      res.writeHead = () => {
        throw new Error('the hook is broken')
      }
      next()
    }
    const { url } = await serve(endpoint, { resumeTokens: { after: SOON } }, [broken])
    await expect(send(url)).rejects.toThrow('ECONNRESET')
  })
})

describe('a head with a `Trailer`', () => {
  it('is passed on without', async () => {
    const { url, endpoint } = await serveTokens({ resumeTokens: { after: 5000 } })
    const answer = post(url, report(1, { resumeToken: null }), HEADERS['that may be resumed'])
    const { res, message } = await endpoint.calls.nth(1)
    res.writeHead(200, { 'Content-Type': 'application/json', Trailer: 'X-Sum' })
    res.write(JSON.stringify(result(message.id, TEXT)))
    res.addTrailers({ 'X-Sum': '1' })
    res.end()
    const response = await answer
    expect(await answerOf(response)).toEqual(result(1, TEXT))
    expect(response.headers.trailer).toBeUndefined()
  })

  it('is passed on without where it is another status', async () => {
    const { url, endpoint } = await serveTokens({ resumeTokens: { after: 5000 } })
    const answer = post(url, report(1, { resumeToken: null }), HEADERS['that may be resumed'])
    const { res } = await endpoint.calls.nth(1)
    res.writeHead(403, { 'Content-Type': 'text/plain', Trailer: 'X-Sum' })
    res.write('no')
    res.end()
    const response = await ended(answer)
    expect([response.status, response.text, response.headers.trailer]).toEqual([
      403,
      'no',
      undefined
    ])
  })
})

it('what stands in front answers 404 over a request with a token: its session goes on', async () => {
  const answering: ServerResponse[] = []
  const inFront: RequestHandler = (_req, res, next) => next(void answering.push(res))
  const endpoint = rawEndpoint(() => undefined, { session: 's1' })
  const { url } = await serve(endpoint, { resumeTokens: { after: SOON } }, [inFront])
  const headers = headersFor({ version: '2025-11-25', session: 's1' })
  const first = post(url, report(1, { resumeToken: null }), headers)
  const call = await endpoint.calls.nth(1)
  const resumeToken = tokenOf(await answerOf(await first))
  const waiting = { ...headers, Prefer: 'wait=60' }
  const second = post(url, report(2, { resumeToken }), waiting)
  call.emit(NOTE)
  const response = await second
  expect(await response.nextMessage()).toEqual(NOTE)
  const late = answering.at(-1)!
  late.statusCode = 404
  late.end('late')
  await response.ended
  call.emit(result(call.message.id, TEXT))
  const third = await post(url, report(3, { resumeToken }), waiting)
  expect((await answerOf(third)).result).toEqual(TEXT)
})
