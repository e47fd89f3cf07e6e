// Duration hints: what the server knows about how long its tools take, in `tools/list`.

import { describe, expect, it } from '@jest/globals'
import { notification, request, result } from '../../helpers/mcp.js'
import { answerJson, ask, serveTokens, tokenOf } from './setup.js'

const hints = {
  report: { typical: 30_000, max: 120_000 },
  own: { typical: 1 },
  ['__proto__x']: { max: 1 }
}
const TOOLS = [
  { name: 'report', inputSchema: { type: 'object' }, _meta: { icon: 'x' } },
  { name: 'quick', inputSchema: { type: 'object' } },
  { name: 'own', _meta: { durationHint: { typical: 2 } } }
]
const HINTED = [
  { ...TOOLS[0], _meta: { icon: 'x', durationHint: { typical: 30_000, max: 120_000 } } },
  TOOLS[1],
  TOOLS[2]
]

const DEEP = '['.repeat(20_000) + ']'.repeat(20_000)

describe('resumeTokens.hints', () => {
  it('are added to the tools that they are about, whoever asks', async () => {
    const { url, endpoint } = await serveTokens({ resumeTokens: { hints } })
    const answer = ask(url, request(4, 'tools/list', { cursor: 'x' }))
    const call = await endpoint.calls.nth(1)
    // The very request of the client, on its own response: the server is not run a second time.
    expect(call.message).toEqual(request(4, 'tools/list', { cursor: 'x' }))
    answerJson(call, { tools: TOOLS, nextCursor: 'y' })
    expect(await answer).toEqual(result(4, { tools: HINTED, nextCursor: 'y' }))
  })

  it('are added to an event stream, too, behind what else is in it', async () => {
    const { url, endpoint } = await serveTokens({ resumeTokens: { hints } })
    const answer = ask(url, request('a', 'tools/list'))
    const call = await endpoint.calls.nth(1)
    call.emit(notification('notifications/message', { data: 1 }))
    call.result({ tools: TOOLS })
    expect(await answer).toEqual(result('a', { tools: HINTED }))
  })

  it.each([
    ['an error', (call: Parameters<typeof answerJson>[0]) => call.error(-32601, 'no tools')],
    [
      'a result without tools',
      (call: Parameters<typeof answerJson>[0]) => call.result({ tools: 'none' })
    ]
  ])('leave %s as it is', async (_name, end) => {
    const { url, endpoint } = await serveTokens({ resumeTokens: { hints } })
    const answer = ask(url, request(1, 'tools/list'))
    end(await endpoint.calls.nth(1))
    expect([
      result(1, { tools: 'none' }),
      { jsonrpc: '2.0', id: 1, error: { code: -32601, message: 'no tools' } }
    ]).toContainEqual(await answer)
  })

  it('let the endpoint see that its client has gone', async () => {
    const { url, endpoint } = await serveTokens({ resumeTokens: { hints } })
    const controller = new AbortController()
    const { signal } = controller
    const body = JSON.stringify(request(1, 'tools/list'))
    fetch(url, {
      method: 'POST',
      body,
      headers: { 'Content-Type': 'application/json' },
      signal
    }).catch(() => undefined)
    const call = await endpoint.calls.nth(1)
    controller.abort()
    await call.closed
  })

  it('are in a list that is collected with tokens, too', async () => {
    const { url, endpoint } = await serveTokens({
      resumeTokens: { hints, methods: ['tools/list'] }
    })
    const list = (id: number, resumeToken: string | null) =>
      ask(url, request(id, 'tools/list', { _meta: { resumeToken } }))
    const first = await list(1, null)
    expect(first.result.tools).toEqual([])
    answerJson(endpoint.calls[0]!, { tools: TOOLS })
    expect(await list(2, tokenOf(first))).toEqual(result(2, { tools: HINTED }))
  })

  it.each([
    ['is one of a batch', JSON.stringify([request(1, 'tools/list')])],
    [
      'is nested too deeply to be written again',
      `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":${DEEP}}}`
    ]
  ])('do not change the answer to a request that %s', async (_name, body) => {
    const { url, endpoint } = await serveTokens({ resumeTokens: { hints } }, {})
    const answer = fetch(url, {
      method: 'POST',
      body,
      headers: { 'Content-Type': 'application/json' }
    })
    const { res } = await endpoint.calls.nth(1)
    res
      .writeHead(200, { 'Content-Type': 'application/json' })
      .end(JSON.stringify(result(1, { tools: TOOLS })))
    expect(await (await answer).json()).toEqual(result(1, { tools: TOOLS }))
  })

  it('leave `tools/list` alone where there are none', async () => {
    const { url, endpoint } = await serveTokens()
    const answer = ask(url, request(1, 'tools/list'))
    const call = await endpoint.calls.nth(1)
    expect(call.message.id).toBe(1)
    answerJson(call, { tools: TOOLS })
    expect(await answer).toEqual(result(1, { tools: TOOLS }))
  })
})
