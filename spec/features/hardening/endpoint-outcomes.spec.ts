// What the endpoint says about a session or a call ends what it is about, and nothing besides.

import { describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { connectV1 } from '../../helpers/clients.js'
import { Awaitable, gate } from '../../helpers/gate.js'
import { listen } from '../../helpers/listen.js'
import { callTool, cancelled, get, headersFor, post, result } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { errorFor } from '../endpoint/setup.js'
import { createStreams } from '../mounting/frameworks.js'

/** Notes each response once it is over and all that hears of it has been told. */
function closes() {
  const over = new Awaitable<string>()
  const middleware: RequestHandler = (req, res, next) => {
    res.once('close', () => setImmediate(() => over.push(`${req.method} ${res.statusCode}`)))
    next()
  }
  return { over, middleware }
}

describe('an endpoint without a listen channel', () => {
  it('may say 404 to it: the calls of the session go on (client 1.x)', async () => {
    const asked = gate()
    const { over, middleware } = closes()
    const endpoint = sdkV1Stateful()
    const holdingGet: RequestHandler = (req, _res, next) => {
      if (req.method === 'GET') void asked.opened.then(() => next())
      else next()
    }
    const app = express()
      .use('/mcp', middleware, holdingGet, createStreams())
      .post('/mcp', express.json(), endpoint as RequestHandler)
    const { url } = await listen(app)
    const { client } = await connectV1(`${url}/mcp`)
    const answer = client.callTool({ name: 'count', arguments: { key: 'slow', n: 1, paced: true } })
    await endpoint.log.calls.nth(1)
    asked.open()
    for (let n = 1; (await over.nth(n)) !== 'GET 404'; n++);
    endpoint.log.release('slow', 2)
    expect(await answer).toMatchObject({ content: [{ type: 'text', text: 'counted to 1' }] })
  })

  it.each([
    ['GET', false],
    ['POST', true]
  ])('404 to a %s ends the session: %p', async (method, isEnd) => {
    const { over, middleware } = closes()
    const endpoint = rawEndpoint(call => {
      if (call.message?.id === 1) call.open()
      else call.res.writeHead(404).end()
    })
    const { url } = await serve(endpoint, {}, [middleware])
    const headers = headersFor({ session: 'mine', version: '2025-11-25' })
    const running = await post(url, callTool(1, 'any'), headers)
    const other = await (method === 'GET'
      ? get(url, headers)
      : post(url, callTool(2, 'any'), headers))
    expect(other.status).toBe(404)
    await over.nth(1)
    endpoint.requests[0]!.result()
    expect(await running.ended).toBe('end')
    expect(running.messages()).toEqual([isEnd ? errorFor(1, 'session-ended') : result(1, {})])
  })
})

describe('a batch of which one request is cancelled', () => {
  it('still gets the other response, and ends when that is cancelled too', async () => {
    const { over, middleware } = closes()
    const endpoint = rawEndpoint(call => {
      if (Array.isArray(call.message)) call.open()
      else call.res.writeHead(202).end()
    })
    const { url } = await serve(endpoint, {}, [middleware])
    const headers = headersFor({ session: 'mine', version: '2025-03-26' })
    const batches = [
      [1, 2],
      [3, 4]
    ].map(ids =>
      post(
        url,
        ids.map(id => callTool(id, 'any')),
        headers
      )
    )
    const [first, second] = await Promise.all(batches)
    for (const id of [1, 3, 4]) await post(url, cancelled(id), headers)
    await over.nth(3)
    const callOf = (id: number) => endpoint.requests.find(({ message }) => message[0]?.id === id)!
    await callOf(3).closed
    expect(await second!.ended).toBe('end')
    expect(second!.messages()).toEqual([])
    expect(callOf(1).isClosed).toBe(false)
    callOf(1).emit(result(2, {}))
    callOf(1).res.end()
    expect(await first!.ended).toBe('end')
    expect(first!.messages()).toEqual([result(2, {})])
  })
})
