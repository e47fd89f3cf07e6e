// A call that takes long: answered with tokens in the meantime, and with its result in the end.

import { describe, expect, it, jest } from '@jest/globals'
import { headersFor, initializeSession, post, request, withEnvelope } from '../../helpers/mcp.js'
import { answerJson, answerOf, ask, report, serveTokens, SOON, TEXT, tokenOf } from './setup.js'

describe('a request that asks for tokens', () => {
  it('gets its result, and no token, where that is ready in time', async () => {
    const { url, endpoint } = await serveTokens({ resumeTokens: { after: 5000 } })
    const answer = ask(url, report(7, { resumeToken: null }))
    answerJson(await endpoint.calls.nth(1), TEXT)
    expect(await answer).toEqual({ jsonrpc: '2.0', id: 7, result: TEXT })
  })

  it.each<[string, object | undefined, string | undefined]>([
    ['a `resumeToken` in `_meta`', { resumeToken: null }, undefined],
    ['a wait in `_meta`', {}, undefined],
    ['`Prefer: respond-async`', undefined, 'respond-async'],
    ['`Prefer` among others', undefined, 'rel=stream, Respond-Async; x=1, wait=60']
  ])(
    'by %s gets tokens until the result is there, under its own ids',
    async (_name, meta, prefer) => {
      const { url, endpoint } = await serveTokens()
      const wait = { 'express-mcp-streams/wait': SOON }
      const first = await ask(url, report(7, { ...meta, ...wait }), { prefer })
      expect(first).toEqual({
        jsonrpc: '2.0',
        id: 7,
        result: { content: [], _meta: { nextResumeToken: expect.stringMatching(/^[\w-]{21}$/) } }
      })
      const second = await ask(url, report(8, { resumeToken: tokenOf(first) }))
      expect(second).toMatchObject({ id: 8, result: { content: [] } })
      expect(tokenOf(second)).not.toBe(tokenOf(first))

      const third = ask(url, report('nine', { resumeToken: tokenOf(second), ...wait }))
      answerJson(endpoint.calls[0]!, TEXT)
      expect(await third).toEqual({ jsonrpc: '2.0', id: 'nine', result: TEXT })
      expect(endpoint.calls).toHaveLength(1)
    }
  )

  it('may leave the time to wait to the server', async () => {
    const { url } = await serveTokens()
    expect(tokenOf(await ask(url, report(1, { 'express-mcp-streams/wait': null })))).toBeDefined()
  })

  it('may ask by `Prefer`, and gets `Preference-Applied`', async () => {
    const { url } = await serveTokens()
    const response = await post(url, report(1), { prefer: 'respond-async' })
    await answerOf(response)
    expect(response.headers['preference-applied']).toBe('respond-async')
    expect(response.headers['cache-control']).toBe('no-store')
    const other = await post(url, report(1, { resumeToken: null }))
    await answerOf(other)
    expect(other.headers['preference-applied']).toBeUndefined()
  })

  it('reaches the endpoint without anything about tokens, and otherwise unchanged', async () => {
    const { url, endpoint } = await serveTokens()
    const asking = post(
      url,
      report(7, { resumeToken: null, 'express-mcp-streams/wait': SOON, trace: 1 }),
      {
        ...headersFor({ version: '2025-11-25', auth: 'secret' }),
        'x-tenant': 'acme'
      }
    )
    const { message, req } = await endpoint.calls.nth(1)
    expect(message).toEqual({
      ...report(7, { trace: 1 }),
      id: expect.stringMatching(/^[\w-]{21}$/)
    })
    expect(req.headers).toMatchObject({ authorization: 'Bearer secret', 'x-tenant': 'acme' })
    expect(req.headers['prefer']).toBeUndefined()
    await answerOf(await asking)

    await ask(url, report(8), { prefer: 'respond-async' })
    expect(endpoint.calls[1]!.message.params).toEqual(report(8).params)
  })

  it.each([
    ['a bare result is asked for', undefined, 'report', {}],
    ['its method is not among them', { resumeToken: null }, 'other', {}],
    ['they are off', { resumeToken: null }, 'report', { resumeTokens: false as const }]
  ])('goes to the endpoint unchanged where %s', async (_name, meta, name, options) => {
    const { url, endpoint } = await serveTokens(options)
    const message = name === 'other' ? { ...report(7, meta), method: 'other' } : report(7, meta)
    const answer = ask(url, message)
    const call = await endpoint.calls.nth(1)
    expect(call.message).toEqual(message)
    await new Promise(resolve => setTimeout(resolve, 2 * SOON))
    answerJson(call, TEXT)
    expect(await answer).toEqual({ jsonrpc: '2.0', id: 7, result: TEXT })
  })
})

describe('how long a request waits', () => {
  it('is what it asks for, in its head or in `_meta`', async () => {
    const { url } = await serveTokens({ resumeTokens: { after: 20_000 } })
    expect(tokenOf(await ask(url, report(1), { prefer: 'respond-async, wait=0' }))).toBeDefined()
    expect(tokenOf(await ask(url, report(1), { prefer: 'wait="0", respond-async' }))).toBeDefined()
    const first = await ask(url, report(1, { resumeToken: null, 'express-mcp-streams/wait': 1 }))
    const second = await ask(
      url,
      report(1, { resumeToken: tokenOf(first), 'express-mcp-streams/wait': 2 })
    )
    expect(tokenOf(second)).toBeDefined()
    const third = await ask(url, report(1, { resumeToken: tokenOf(second) }), {
      prefer: 'respond-async, wait=0'
    })
    expect(tokenOf(third)).toBeDefined()
  })

  it('is never longer than a minute', async () => {
    const { url, endpoint } = await serveTokens()
    const timers = jest.spyOn(globalThis, 'setTimeout')
    const answer = ask(url, report(1), { prefer: 'respond-async, wait=3600' })
    answerJson(await endpoint.calls.nth(1), TEXT)
    await answer
    const delays = timers.mock.calls.map(([, delay]) => delay)
    timers.mockRestore()
    expect(delays.filter(delay => delay! > 50_000 && delay! <= 60_000)).toHaveLength(1)
    expect(delays).not.toContain(3_600_000)
  })

  it('is the server’s default where the time asked for is invalid', async () => {
    const { url } = await serveTokens({ resumeTokens: { after: SOON } })
    for (const prefer of [
      'respond-async, wait=soon',
      'respond-async, wait=-1',
      'respond-async, wait=1e3'
    ])
      expect(tokenOf(await ask(url, report(1), { prefer }))).toBeDefined()
    for (const wait of ['1', -1, null, {}])
      expect(
        tokenOf(await ask(url, report(1, { resumeToken: null, 'express-mcp-streams/wait': wait })))
      ).toBeDefined()
  })
})

describe('stable tokens', () => {
  it('give the same answer again until the next one has been used', async () => {
    const { url, endpoint } = await serveTokens()
    const first = await ask(url, report(1, { resumeToken: null }))
    const lost = await ask(url, report(2, { resumeToken: tokenOf(first) }))
    const again = await ask(url, report(3, { resumeToken: tokenOf(first) }))
    expect(again).toEqual({ ...lost, id: 3 })

    await ask(url, report(4, { resumeToken: tokenOf(lost) }))
    expect(await ask(url, report(5, { resumeToken: tokenOf(first) }))).toMatchObject({
      error: { code: -32602, data: { reason: 'token-superseded' } }
    })
    expect(endpoint.calls).toHaveLength(1)
  })

  it('give two requests at once the same answer', async () => {
    const { url, endpoint } = await serveTokens()
    const token = tokenOf(await ask(url, report(1, { resumeToken: null })))
    const [one, two] = await Promise.all([
      ask(url, report(2, { resumeToken: token })),
      ask(url, report(3, { resumeToken: token }))
    ])
    expect(tokenOf(one)).toBe(tokenOf(two))

    const last = [4, 5].map(id =>
      ask(url, report(id, { resumeToken: tokenOf(one), 'express-mcp-streams/wait': 5000 }))
    )
    const third = await ask(
      url,
      report(6, { resumeToken: tokenOf(one), 'express-mcp-streams/wait': 1 })
    )
    // The impatient one is answered, and so are those who wait for the same.
    for (const answer of await Promise.all(last)) expect(tokenOf(answer)).toBe(tokenOf(third))
    const both = [7, 8].map(id => ask(url, report(id, { resumeToken: tokenOf(third) })))
    answerJson(endpoint.calls[0]!, TEXT)
    expect(await Promise.all(both)).toEqual(
      [7, 8].map(id => ({ jsonrpc: '2.0', id, result: TEXT }))
    )
    expect(endpoint.calls).toHaveLength(1)
  })

  it('give a result that came between two requests, any number of times', async () => {
    const { url, endpoint } = await serveTokens()
    const token = tokenOf(await ask(url, report(1, { resumeToken: null })))
    answerJson(endpoint.calls[0]!, TEXT)
    await endpoint.calls[0]!.closed
    for (const id of [2, 3, 4])
      expect(await ask(url, report(id, { resumeToken: token }))).toMatchObject({ id, result: TEXT })
  })
})

describe('a result', () => {
  it('keeps the numbers that JavaScript cannot hold', async () => {
    const { url, endpoint } = await serveTokens()
    const answer = post(
      url,
      report(5, { resumeToken: null }),
      headersFor({ version: '2025-11-25' })
    )
    const { res, message } = await endpoint.calls.nth(1)
    res.setHeader('Content-Type', 'application/json')
    res.end(
      `{"jsonrpc":"2.0", "id" : "${message.id}", "result":{"content":[],"n":12345678901234567890}}`
    )
    const response = await answer
    await response.ended
    expect(response.text).toBe(
      '{"jsonrpc":"2.0", "id":5, "result":{"content":[],"n":12345678901234567890}}'
    )
  })

  it('that contains the id of its request keeps it', async () => {
    const { url, endpoint } = await serveTokens()
    const answer = ask(url, report(5, { resumeToken: null }))
    const call = await endpoint.calls.nth(1)
    const { id } = call.message
    answerJson(call, { content: [], structuredContent: { id } })
    expect(await answer).toEqual({
      jsonrpc: '2.0',
      id: 5,
      result: { content: [], structuredContent: { id } }
    })
  })

  it('may be of any method that is named', async () => {
    const { url } = await serveTokens({
      resumeTokens: { methods: ['prompts/get', 'resources/read', 'own/method'] }
    })
    const of = async (method: string) => {
      const { result } = await ask(url, request(1, method, { _meta: { resumeToken: null } }))
      delete result._meta
      return result
    }
    expect(await of('prompts/get')).toEqual({ messages: [] })
    expect(await of('resources/read')).toEqual({ contents: [] })
    expect(await of('own/method')).toEqual({})
  })

  it('in the meantime has the members that 2026-07-28 requires of every result', async () => {
    const { url } = await serveTokens({
      resumeTokens: { methods: ['tools/call', 'resources/read'] }
    })
    const call = withEnvelope(report(1, { resumeToken: null }))
    const headers = headersFor({ version: '2026-07-28', message: call })
    expect(await answerOf(await post(url, call, headers))).toMatchObject({
      result: { resultType: 'complete', content: [] }
    })
    const read = withEnvelope(
      request(1, 'resources/read', { uri: 'x:y', _meta: { resumeToken: null } })
    )
    // Where no header says it, the message does.
    expect(await answerOf(await post(url, read))).toMatchObject({
      result: { resultType: 'complete', contents: [], ttlMs: 0, cacheScope: 'private' }
    })
  })
})

describe('in a session', () => {
  it('the endpoint knows the call as one of it', async () => {
    const { url, endpoint } = await serveTokens({}, { session: 'one' })
    const { headers } = await initializeSession(url, '2025-11-25')
    const first = await answerOf(await post(url, report(1, { resumeToken: null }), headers))
    const call = await endpoint.calls.nth(1)
    expect(call.req.headers['mcp-session-id']).toBe('one')
    call.result(TEXT)
    expect(
      await answerOf(await post(url, report(2, { resumeToken: tokenOf(first) }), headers))
    ).toMatchObject({
      id: 2,
      result: TEXT
    })
  })
})
