// The first requests to a server, which has not shown yet that it keeps keys: those that are safe
// by their own meaning are sent again if their answer is lost.

import { afterEach, describe, expect, it } from '@jest/globals'
import { resumableFetch } from '../../../lib/client/index.js'
import { type Cut, createCutProxy } from '../../helpers/cut-proxy.js'
import { closeAll } from '../../helpers/listen.js'
import { callTool, notification, request, result } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import {
  fetchOnce,
  FAST,
  json,
  POST,
  reset,
  scripted,
  status,
  type ServerAnswer
} from './scripted.js'
import { callCount, SETUPS, SPEC_OPTIONS } from './setups.js'

afterEach(closeAll)

const posting = (messages: unknown): RequestInit => ({ ...POST, body: JSON.stringify(messages) })

/** Cut off in the middle of its body. */
const half: ServerAnswer = async res => {
  res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': '100' })
  res.write('{"half')
  await new Promise(resolve => setTimeout(resolve, 10))
  res.socket?.resetAndDestroy()
}

const SAFE = [
  'initialize',
  'server/discover',
  'ping',
  'tools/list',
  'resources/list',
  'resources/templates/list',
  'prompts/list',
  'tasks/list',
  'resources/read',
  'prompts/get',
  'completion/complete',
  'tasks/get'
]
const UNSAFE = ['tools/call', 'tasks/cancel', 'tasks/update', 'logging/setLevel', 'any', 'xping']

describe('at a server that is not known yet', () => {
  it.each(SAFE)('%s is sent again if its answer is lost or cut off', async method => {
    for (const lost of [reset, half]) {
      const { url, requests } = await scripted(lost, lost, json('answer'))
      const answer = await fetchOnce(url, {}, posting(request(1, method)))
      expect(await answer.json()).toBe('answer')
      expect(new Set(requests.map(({ body }) => body)).size).toBe(1)
      expect(requests.length).toBe(3)
    }
  })

  it.each<[string, unknown]>([
    ...UNSAFE.map(method => [method, request(1, method)] as [string, unknown]),
    ['a notification', notification('notifications/initialized')],
    ['an answer', result(1, 'x')],
    ['a batch with a call', [request(1, 'ping'), callTool(2, 'any')]],
    [
      'a batch with a notification',
      [request(1, 'ping'), notification('notifications/initialized')]
    ],
    ['nothing', []]
  ])('%s is not', async (_name, messages) => {
    const { url, requests } = await scripted(reset, json('twice'))
    await expect(fetchOnce(url, {}, posting(messages))).rejects.toThrow('fetch failed')
    expect(requests.length).toBe(1)
  })

  it('a batch of what is safe is', async () => {
    const { url } = await scripted(reset, json('answer'))
    const batch = [request(1, 'ping'), request(2, 'tools/list')]
    expect(await (await fetchOnce(url, {}, posting(batch))).json()).toBe('answer')
  })

  it.each([0, 1, 5])('it is given up soon, with maxRetries %d', async maxRetries => {
    const { url, requests } = await scripted(reset, reset, reset, reset, reset, reset)
    const called = fetchOnce(url, { maxRetries }, posting(request(1, 'initialize')))
    await expect(called).rejects.toThrow('fetch failed')
    expect(requests.length).toBe(Math.min(maxRetries, 2) + 1)
  })

  it.each([401, 404, 500, 502, 503, 504])('the status %d is its answer', async code => {
    const { url, requests } = await scripted(status(code, { 'Retry-After': '0' }, 'no'))
    const answer = await fetchOnce(url, {}, posting(request(1, 'initialize')))
    expect([answer.status, await answer.text(), requests.length]).toEqual([code, 'no', 1])
  })

  it('may be silent for longer than idleTimeout', async () => {
    let posts = 0
    const fetch = resumableFetch({
      ...FAST,
      idleTimeout: 10,
      fetch: async () => {
        posts++
        await new Promise(resolve => setTimeout(resolve, 30))
        return Response.json('late')
      }
    })
    expect(await (await fetch('/mcp', posting(request(1, 'initialize')))).json()).toBe('late')
    expect(posts).toBe(1)
  })
})

describe.each(SETUPS)('$name', setup => {
  it.each<[string, Cut]>([
    ['before its head', { by: 'rst', afterBytes: 0 }],
    ['in its head', { by: 'fin', afterBytes: 20 }]
  ])('connects although its first answer is cut %s', async (_name, cut) => {
    const endpoint = setup.endpoint()
    const { url } = await serve(endpoint, { retry: 5 })
    const proxy = await createCutProxy({ target: Number(new URL(url).port), plan: [cut] })
    const fetch = resumableFetch(SPEC_OPTIONS)
    const connected = await setup.connect(`${proxy.url}/mcp`, fetch)
    expect((await callCount(connected, 'after')).text).toBe('counted to 2')
    expect(proxy.cuts.map(({ index }) => index)).toEqual([0])
  })
})
