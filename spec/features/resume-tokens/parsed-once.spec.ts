// What an endpoint says is parsed once on its way to its client, whatever the client gets meanwhile.

import { describe, expect, it, jest } from '@jest/globals'
import { callTool, headersFor, notification, post, request } from '../../helpers/mcp.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { serve } from '../../helpers/serve.js'
import { arrived, end, go, meanwhile } from '../../helpers/talk/client.js'
import { emit, hold, json, resultIs } from '../../helpers/talk/endpoint.js'
import { conversation } from '../../helpers/talk/index.js'
import { answer, begin, send, serveTasks } from '../tasks/setup.js'
import { PATIENT, report, tokens, tokensOf } from './setup.js'

const result = (words: string) => ({ content: [{ type: 'text', text: words }] })

/** How often a text with these words is parsed from now on. */
function countParsed(words: string): () => number {
  const spy = jest.spyOn(JSON, 'parse')
  return () => spy.mock.calls.filter(([text]) => text.includes(words)).length
}

describe('a call with resume tokens', () => {
  const WORDS = ['the question', 'the news', 'the answer']
  let parsed: (() => number)[]
  const watch = (): void => void (parsed = WORDS.map(countParsed))
  const counted = (): number[] => parsed.map(count => count())

  conversation.each([
    ['an event stream', [1, 1, 1]],
    ['JSON', [0, 0, 1]]
  ])('for who waits, answered by %s', (kind, times) => ({
    ...tokens({}, { handoff: 'never' }),
    endpoint: [
      hold,
      ...(kind === 'JSON'
        ? [json(result('the answer'))]
        : [
            emit(request('q', 'elicitation/create', { message: 'the question' })),
            emit(notification('notifications/message', { data: 'the news' })),
            resultIs(result('the answer'))
          ])
    ],
    client: [meanwhile(report({ wait: 20_000 })), arrived(1), watch, go, end],
    then: ({ response }) => {
      expect(counted()).toEqual(times)
      expect(response.text).toContain('the answer')
    }
  }))

  conversation('for who comes back with a token', {
    ...tokens(),
    endpoint: [hold, json(result('the answer'))],
    client: [report, watch, go, talk => report({ token: tokensOf(talk)[0], wait: PATIENT })(talk)],
    then: ({ response }) => {
      expect(counted()[2]).toBe(1)
      expect(response.text).toContain('the answer')
    }
  })
})

describe('a call that has become a task', () => {
  it.each(['an event stream', 'JSON'])('answered by %s', async kind => {
    const { url, calls } = await serveTasks({ tools: { report: 'always' } })
    const taskId = await begin(url)
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
    const open = await post(url, callTool(1, 'any'), headersFor({ version: '2025-11-25', accept }))
    const parsed = countParsed('the answer')
    answer(await endpoint.calls.nth(1), result('the answer'))
    await open.ended
    expect(open.text).toContain('the answer')
    expect(parsed()).toBe(1)
  })
})
