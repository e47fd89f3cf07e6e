// Tokens that nobody asks for: the Resuming draft's own text, in which the server offers them.

import { describe, expect, it } from '@jest/globals'
import { initialize, post, request } from '../../helpers/mcp.js'
import { answerJson, answerOf, ask, report, serveTokens, TEXT, tokenOf } from './setup.js'

const ALWAYS = { resumeTokens: { offer: 'always' as const } }
const ALL = { resumeTokens: { offer: 'always' as const, methods: 'all' as const } }

describe('where tokens are always offered', () => {
  it('the example of the draft runs word for word', async () => {
    const { url, endpoint } = await serveTokens(ALL)
    const params = { param_str: 'value', param_num: 2 }
    const message = { jsonrpc: '2.0', id: 1, method: 'long_running_method', params }
    // "The caller initiates a new long-running operation as usual."
    const first = await ask(url, message)
    expect(first).toEqual({
      jsonrpc: '2.0',
      id: 1,
      result: { _meta: { nextResumeToken: expect.any(String) } }
    })
    const resumed = { ...message, params: { ...params, _meta: { resumeToken: tokenOf(first) } } }
    const second = ask(url, resumed)
    answerJson(endpoint.calls[0]!, { done: true })
    // "The operation is considered complete when the server provides a response which does not
    // contain a `nextResumeToken`."
    expect(await second).toEqual({ jsonrpc: '2.0', id: 1, result: { done: true } })
    expect(endpoint.calls).toHaveLength(1)
  })

  it('a request that is answered in time has its result, as it was written', async () => {
    const { url, endpoint } = await serveTokens({
      resumeTokens: { ...ALWAYS.resumeTokens, after: 5000 }
    })
    const answer = ask(url, report(7))
    answerJson(await endpoint.calls.nth(1), TEXT)
    expect(await answer).toEqual({ jsonrpc: '2.0', id: 7, result: TEXT })
  })

  it('only the methods of the option get them', async () => {
    const { url, endpoint } = await serveTokens(ALWAYS)
    expect(tokenOf(await ask(url, report(1)))).toBeDefined()
    const other = ask(url, request(2, 'prompts/get', { name: 'x' }))
    const call = await endpoint.calls.nth(2)
    expect(call.message.id).toBe(2)
    answerJson(call, { messages: [] })
    expect((await other).result).toEqual({ messages: [] })
  })

  it('`initialize` goes to the endpoint unchanged', async () => {
    const { url } = await serveTokens(ALL, { session: 'one', initializeAs: 'json' })
    const response = await post(url, initialize('2025-11-25'))
    expect(response.headers['mcp-session-id']).toBe('one')
    expect((await answerOf(response)).result.protocolVersion).toBe('2025-11-25')
  })

  it('a batch goes to the endpoint unchanged', async () => {
    const { url, endpoint } = await serveTokens(ALL)
    const response = await post(url, [report(1)])
    await response.ended
    expect((await endpoint.requests.nth(1)).message).toEqual([report(1)])
  })

  describe('"servers SHOULD ensure that resume tokens are stable"', () => {
    it('a token that nobody asked for gives the same answer each time, whether its call goes on or not', async () => {
      const { url, endpoint } = await serveTokens(ALWAYS)
      const resumeToken = tokenOf(await ask(url, report(1)))
      const next = tokenOf(await ask(url, report(2, { resumeToken })))
      // The answer was lost: the same request, later and from two places at once.
      const again = await Promise.all([3, 4].map(id => ask(url, report(id, { resumeToken }))))
      expect(again.map(tokenOf)).toEqual([next, next])
      answerJson(endpoint.calls[0]!, TEXT)
      await endpoint.calls[0]!.closed
      expect(tokenOf(await ask(url, report(5, { resumeToken })))).toBe(next)
      for (const id of [6, 7])
        expect((await ask(url, report(id, { resumeToken: next }))).result).toEqual(TEXT)
      expect(endpoint.calls).toHaveLength(1)
    })

    it('it holds from the first answer on, and until the next one is used', async () => {
      const { url } = await serveTokens(ALWAYS)
      const first = tokenOf(await ask(url, report(1)))
      const second = tokenOf(await ask(url, report(1, { resumeToken: first })))
      await ask(url, report(1, { resumeToken: second }))
      const late = await ask(url, report(1, { resumeToken: first }))
      expect(late).toMatchObject({ error: { code: -32602, data: { reason: 'token-superseded' } } })
    })
  })
})
