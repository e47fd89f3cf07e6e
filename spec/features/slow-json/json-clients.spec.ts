// White space in front of a late JSON answer, as clients read it that were not written for it.

import { describe, expect, it } from '@jest/globals'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connectV1, connectV2, type ConnectedV1, type ConnectedV2 } from '../../helpers/clients.js'
import { sdkV1Stateful, sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler, sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { Awaitable } from '../../helpers/gate.js'
import { callTool } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'

const DONE = { content: [{ type: 'text', text: 'counted to 0' }] }
const SLOW = { name: 'count', arguments: { key: 'k', n: 0, paced: true } }
const ONLY_JSON = {
  'content-type': 'application/json',
  accept: 'application/json',
  'mcp-protocol-version': '2025-11-25'
}

type Endpoint = ReturnType<typeof sdkV1Stateful> | ReturnType<typeof sdkV2Handler>

/** The SDK's servers refuse clients that take no event streams: this endpoint does not tell it. */
function lenient(endpoint: Endpoint) {
  const both = 'application/json, text/event-stream'
  return (req: IncomingMessage, res: ServerResponse) => {
    req.headers.accept = both
    const at = req.rawHeaders.findIndex(name => name.toLowerCase() === 'accept')
    if (at >= 0) req.rawHeaders[at + 1] = both
    return endpoint(req, res)
  }
}

async function start(endpoint: Endpoint) {
  const { log } = endpoint
  return { log, ...(await serve(lenient(endpoint), { jsonKeepAlive: 10 })) }
}

/** A `fetch` that takes only JSON for calls; the client has no say in it. */
function jsonFetch(answers: Awaitable<Response>): typeof fetch {
  return async (url, init) => {
    const isCall = String(init?.body).includes('"tools/call"')
    const headers = new Headers(init?.headers)
    if (isCall) headers.set('accept', 'application/json')
    const response = await fetch(url, { ...init, headers })
    if (isCall) answers.push(response.clone())
    return response
  }
}

/** What has come of an answer once `bytes` of it are there. */
async function beginningOf(response: Response, bytes: number): Promise<string> {
  const reader = response.body!.getReader()
  let text = ''
  while (text.length < bytes) text += Buffer.from((await reader.read()).value!).toString()
  void reader.cancel().catch(() => undefined)
  return text
}

describe('white space before a late JSON answer', () => {
  it.each<
    [
      string,
      () => Endpoint,
      (url: string, options: { fetch: typeof fetch }) => Promise<ConnectedV1 | ConnectedV2>
    ]
  >([
    ['1.x', () => sdkV1Stateful({ enableJsonResponse: true }), connectV1],
    [
      '2.x at 2025-11-25',
      () => sdkV2Stateful({ enableJsonResponse: true }),
      (url, options) => connectV2(url, { ...options, era: '2025-11-25' })
    ],
    ['2.x at 2026-07-28', () => sdkV2Handler(), connectV2]
  ])('is read by the official client %s', async (_, endpoint, connect) => {
    const { url, log } = await start(endpoint())
    const answers = new Awaitable<Response>()
    const connected = await connect(url, { fetch: jsonFetch(answers) })
    const { client } = connected
    const result = client instanceof Client ? client.callTool(SLOW) : client.callTool(SLOW)
    const answer = await answers.nth(1)
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/)
    expect(await beginningOf(answer, 3)).toMatch(/^ {3,}$/)
    log.release('k')
    expect(await result).toMatchObject(DONE)
    expect(connected.errors).toEqual([])
  })

  it('is read by fetch', async () => {
    const { url, log } = await start(sdkV1Stateless({ enableJsonResponse: true }))
    const body = JSON.stringify(callTool(7, SLOW.name, SLOW.arguments))
    const response = await fetch(url, { method: 'POST', headers: ONLY_JSON, body })
    const copy = response.clone()
    await beginningOf(copy, 2)
    log.release('k')
    expect(await response.json()).toMatchObject({ id: 7, result: DONE })
  })
})
