// What an endpoint says is parsed once on its way to its client, whatever the client gets meanwhile.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { headersFor, notification, post, request } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { serveTasks, answer, send } from '../tasks/setup.js'
import { answerJson, answerOf, report, serveTokens, tokenOf } from './setup.js'

const HEADERS = headersFor({ version: '2025-11-25', accept: 'application/json, text/event-stream' })
const PATIENT = { 'express-mcp-streams/wait': 20_000 }
const result = (words: string) => ({ content: [{ type: 'text', text: words }] })

/** How often a text with these words is parsed from now on. */
function countParsed(words: string): () => number {
  const spy = jest.spyOn(JSON, 'parse')
  return () => spy.mock.calls.filter(([text]) => text.includes(words)).length
}

afterEach(() => void jest.restoreAllMocks())

describe('a call with resume tokens', () => {
  it.each(['an event stream', 'JSON'])('for who waits, answered by %s', async kind => {
    const { url, endpoint } = await serveTokens({ handoff: 'never' })
    const opening = post(url, report(1, { resumeToken: null, ...PATIENT }), HEADERS)
    const call = await endpoint.calls.nth(1)
    const parsed = ['the question', 'the news', 'the answer'].map(countParsed)
    const isStream = kind === 'an event stream'
    if (isStream) {
      call.emit(request('q', 'elicitation/create', { message: 'the question' }))
      call.emit(notification('notifications/message', { data: 'the news' }))
      call.result(result('the answer'))
    } else answerJson(call, result('the answer'))
    const open = await opening
    await open.ended
    expect(open.text).toContain('the answer')
    expect(parsed.map(count => count())).toEqual(isStream ? [1, 1, 1] : [0, 0, 1])
  })

  it('for who comes back with a token', async () => {
    const { url, endpoint } = await serveTokens()
    const first = await answerOf(await post(url, report(1, { resumeToken: null }), HEADERS))
    const parsed = countParsed('the answer')
    answerJson(await endpoint.calls.nth(1), result('the answer'))
    const next = await post(url, report(2, { resumeToken: tokenOf(first), ...PATIENT }), HEADERS)
    await next.ended
    expect(next.text).toContain('the answer')
    expect(parsed()).toBe(1)
  })
})

describe('a call that has become a task', () => {
  it.each(['an event stream', 'JSON'])('answered by %s', async kind => {
    const { url, calls } = await serveTasks({ tools: { report: 'always' } })
    const created = await answerOf(await send(url, 'tools/call', { name: 'report' }))
    const { taskId } = created.result
    const call = await calls.nth(1)
    const parsed = countParsed('the answer')
    if (kind === 'JSON') answer(call, result('the answer'))
    else call.result(result('the answer'))
    const asked = await send(url, 'tasks/get', { taskId })
    await asked.ended
    expect(asked.text).toContain('the answer')
    expect(parsed()).toBe(1)
  })
})

describe('a slow call', () => {
  it.each(['an event stream', 'JSON'])('of a client that reads %s', async kind => {
    const endpoint = rawEndpoint(() => undefined)
    const { url } = await serve(endpoint, { upgradeAfter: 10, jsonKeepAlive: 10 })
    const accept = kind === 'JSON' ? 'application/json' : 'application/json, text/event-stream'
    const open = await post(url, report(1), headersFor({ version: '2025-11-25', accept }))
    const parsed = countParsed('the answer')
    answerJson(await endpoint.calls.nth(1), result('the answer'))
    await open.ended
    expect(open.text).toContain('the answer')
    expect(parsed()).toBe(1)
  })
})
