// The Resuming draft's guidelines one by one, in its own words.

import { describe, expect, it } from '@jest/globals'
import { callResumable } from '../../../lib/client/index.js'
import { connectV1 } from '../../helpers/clients.js'
import { request } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { answerJson, ask, report, serveTokens, TEXT, tokenOf } from './setup.js'

describe('Resume Token Flow', () => {
  it('the example of the draft, with its own method', async () => {
    const { url, endpoint } = await serveTokens({
      resumeTokens: { methods: ['long_running_method'] }
    })
    const params = { param_str: 'value', param_num: 2 }
    const first = await ask(url, request(1, 'long_running_method', params), {
      prefer: 'respond-async'
    })
    expect(first).toEqual({
      jsonrpc: '2.0',
      id: 1,
      result: { _meta: { nextResumeToken: expect.any(String) } }
    })
    // As in the draft, under the same request id.
    const resumed = ask(
      url,
      request(1, 'long_running_method', { ...params, _meta: { resumeToken: tokenOf(first) } })
    )
    answerJson(endpoint.calls[0]!, { done: true })
    expect(await resumed).toEqual({ jsonrpc: '2.0', id: 1, result: { done: true } })
  })

  it('the operation is considered complete when a response does not contain a `nextResumeToken`', async () => {
    const { url, endpoint } = await serveTokens()
    const first = await ask(url, report(1, { resumeToken: null }))
    answerJson(endpoint.calls[0]!, TEXT)
    const last = await ask(url, report(2, { resumeToken: tokenOf(first) }))
    expect(last.result).toEqual(TEXT)
  })
})

describe('Implementation Guidelines, servers', () => {
  it('SHOULD provide a `nextResumeToken` when requests are resumable', async () => {
    const { url } = await serveTokens()
    expect(tokenOf(await ask(url, report(1, { resumeToken: null })))).toBeDefined()
  })

  it('SHOULD ensure that resume tokens are stable', async () => {
    const { url } = await serveTokens()
    const token = tokenOf(await ask(url, report(1, { resumeToken: null })))
    const answers = []
    for (const id of [2, 3, 4])
      answers.push(tokenOf(await ask(url, report(id, { resumeToken: token }))))
    expect(new Set(answers).size).toBe(1)
  })

  it('MUST ensure tokens do not expose internal or sensitive information', async () => {
    const { url, endpoint } = await serveTokens()
    const tokens: string[] = []
    for (let id = 1; id <= 20; id++) {
      const answer = await ask(
        url,
        report(id, { resumeToken: null, 'express-mcp-streams/wait': 1 }),
        {
          auth: 'secret'
        }
      )
      tokens.push(tokenOf(answer))
    }
    // 126 random bits and nothing else: all different, none the id of anything.
    for (const token of tokens) expect(token).toMatch(/^[\w-]{21}$/)
    expect(new Set(tokens).size).toBe(20)
    for (const { message } of endpoint.calls) expect(tokens).not.toContain(message.id)
  })

  it('MUST omit the nextResumeToken if the operation errors', async () => {
    const { url, endpoint } = await serveTokens()
    const early = ask(url, report(1, { resumeToken: null }))
    ;(await endpoint.calls.nth(1)).error(-32603, 'early')
    const token = tokenOf(await ask(url, report(2, { resumeToken: null })))
    endpoint.calls[1]!.error(-32603, 'late')
    const errors = [await early, await ask(url, report(3, { resumeToken: token }))]
    expect(errors.map(({ error }) => error)).toEqual([
      { code: -32603, message: 'early' },
      { code: -32603, message: 'late' }
    ])
    expect(JSON.stringify(errors)).not.toContain('nextResumeToken')
    // A tool that fails says so in a result: that is the end of it, too.
    const failing = ask(url, report(4, { resumeToken: null }))
    answerJson(await endpoint.calls.nth(3), { content: [], isError: true })
    expect((await failing).result).toEqual({ content: [], isError: true })
  })

  it('MUST validate the parameters of a resumed request', async () => {
    const { url, endpoint } = await serveTokens()
    const token = tokenOf(await ask(url, report(1, { resumeToken: null })))
    const changed = report(2, { resumeToken: token }, { year: 1999 })
    expect(await ask(url, changed)).toMatchObject({
      error: { code: -32602, data: { reason: 'parameters-changed' } }
    })
    expect(endpoint.calls).toHaveLength(1)
  })

  it('MAY communicate tool execution duration hints in tool metadata', async () => {
    const { url, endpoint } = await serveTokens({
      resumeTokens: { hints: { report: { typical: 30_000 } } }
    })
    const answer = ask(url, request(1, 'tools/list'))
    answerJson(await endpoint.calls.nth(1), { tools: [{ name: 'report' }] })
    expect((await answer).result.tools).toEqual([
      { name: 'report', _meta: { durationHint: { typical: 30_000 } } }
    ])
  })
})

describe('Implementation Guidelines, clients', () => {
  /** The requests of a call by `callResumable` that is answered with two tokens first. */
  async function requestsOf(answers: object[]): Promise<{ sent: Json[]; result: unknown }> {
    const sent: Json[] = []
    const client = {
      request: async (message: Json): Promise<unknown> => (
        sent.push(message),
        answers[sent.length - 1]
      )
    }
    const params = { name: 'report', arguments: { year: 2025 }, _meta: { trace: 1 } }
    return { result: await callResumable(client, { method: 'tools/call', params }), sent }
  }
  const ANSWERS = [
    { _meta: { nextResumeToken: '{"not":"parsed"}' } },
    { _meta: { nextResumeToken: ' %00' } },
    TEXT
  ]

  it('SHOULD treat an absent `nextResumeToken` as the completion of the operation', async () => {
    const { result, sent } = await requestsOf(ANSWERS)
    expect(result).toEqual(TEXT)
    expect(sent).toHaveLength(3)
  })

  it('MUST only mutate the metadata for the resume token on a resumed request', async () => {
    const { sent } = await requestsOf(ANSWERS)
    const [first, ...resumed] = sent.map(message => {
      const { resumeToken: _, ...meta } = message.params._meta
      return { ...message, params: { ...message.params, _meta: meta } }
    })
    expect(first.params._meta).toEqual({ trace: 1, 'express-mcp-streams/wait': null })
    for (const one of resumed) expect(one).toEqual(first)
  })

  it('MUST treat resume tokens from completed requests as expired', async () => {
    const { sent } = await requestsOf([...ANSWERS, TEXT])
    expect(sent.filter(({ params }) => params._meta.resumeToken === ' %00')).toHaveLength(1)
  })

  it('MUST treat resume tokens as opaque tokens', async () => {
    const { sent } = await requestsOf(ANSWERS)
    expect(sent.map(({ params }) => params._meta.resumeToken)).toEqual([
      undefined,
      '{"not":"parsed"}',
      ' %00'
    ])
  })
})

describe('Error Handling', () => {
  it('invalid resume tokens SHOULD result in an error with code -32602, which the official client understands', async () => {
    const { url, endpoint } = await serveTokens()
    const { client } = await connectV1(url)
    const call = client.callTool({ name: 'report', _meta: { resumeToken: 'adef50' } })
    await expect(call).rejects.toMatchObject({ code: -32602, data: { reason: 'token-invalid' } })
    expect(endpoint.calls.filter(({ message }) => message?.method === 'tools/call')).toHaveLength(0)
  })

  it('a token may be invalid due to the completion state, the time elapsed, or a validation error', async () => {
    const { url, endpoint } = await serveTokens({ window: 30 })
    const reasonOf = async (message: Json, at = url): Promise<unknown> =>
      (await ask(at, message)).error.data.reason

    const completed = tokenOf(await ask(url, report(1, { resumeToken: null })))
    answerJson(endpoint.calls[0]!, TEXT)
    await ask(url, report(1, { resumeToken: completed }))
    await new Promise(resolve => setTimeout(resolve, 60))
    expect(await reasonOf(report(1, { resumeToken: completed }))).toBe('token-completed')

    const impatient = await serveTokens({ resumeInterval: { max: 0.15 } })
    const late = tokenOf(await ask(impatient.url, report(2, { resumeToken: null })))
    await impatient.endpoint.calls[0]!.closed
    const expired = reasonOf(report(2, { resumeToken: late }), impatient.url)
    expect(await expired).toBe('token-expired')

    expect(await reasonOf(report(3, { resumeToken: 'adef50' }))).toBe('token-invalid')
    const other = tokenOf(await ask(url, report(4, { resumeToken: null })))
    expect(await reasonOf(report(4, { resumeToken: other }, {}))).toBe('parameters-changed')
  })
})
