// A request with a token that does not hold: told why, and never passed on.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import {
  headersFor,
  initializeSession,
  post,
  request,
  type HeaderOptions
} from '../../helpers/mcp.js'
import { answerJson, answerOf, ask, report, serveTokens, TEXT, tokenOf } from './setup.js'

/** Fakes what passes on its own: the clock, not the timers that servers run by. */
const inAnHour = (hours: number): void => {
  const now = performance.now()
  jest.spyOn(performance, 'now').mockImplementation(() => now + hours * 3_600_000)
}
afterEach(() => void jest.restoreAllMocks())

const refusal = (id: number | string | null, reason: string) => ({
  jsonrpc: '2.0',
  id,
  error: { code: -32602, message: expect.stringMatching(/^Invalid params: /), data: { reason } }
})

describe('a request with a token is refused, and does not reach the endpoint,', () => {
  it.each([
    ['that was never given out', 'V1StGXR8_Z5jdHi6B-myT'],
    ['that is not even one', 'x'],
    ['that is empty', ''],
    ['that is a number', 42],
    ['that is an object', { token: 1 }],
    ['that is true', true],
    ['that is a member of every object', '__proto__']
  ])('%s', async (_name, resumeToken) => {
    const { url, endpoint } = await serveTokens()
    expect(await ask(url, report(3, { resumeToken }))).toEqual(refusal(3, 'token-invalid'))
    expect(endpoint.calls).toHaveLength(0)
  })

  it('also where its method gets no tokens, and where it asks as well', async () => {
    const { url, endpoint } = await serveTokens()
    const other = request('a', 'prompts/get', { _meta: { resumeToken: 'x' } })
    expect(await ask(url, other, { prefer: 'respond-async' })).toEqual(
      refusal('a', 'token-invalid')
    )
    expect(endpoint.calls).toHaveLength(0)
  })

  it('of another owner, also when it is over', async () => {
    const { url, endpoint } = await serveTokens()
    const mine = { auth: 'mine' }
    const first = await ask(url, report(1, { resumeToken: null }), mine)
    const resume = report(2, { resumeToken: tokenOf(first) })
    expect(await ask(url, resume, { auth: 'theirs' })).toEqual(refusal(2, 'token-invalid'))
    expect(await ask(url, resume)).toEqual(refusal(2, 'token-invalid'))
    const second = await ask(url, resume, mine)
    await ask(url, report(3, { resumeToken: tokenOf(second) }), mine)
    expect(await ask(url, resume, { auth: 'theirs' })).toEqual(refusal(2, 'token-invalid'))
    expect(await ask(url, resume, mine)).toEqual(refusal(2, 'token-superseded'))
    expect(endpoint.calls).toHaveLength(1)
  })

  it('of another session', async () => {
    const { url } = await serveTokens()
    const first = await ask(url, report(1, { resumeToken: null }), { session: 'one' })
    const resume = report(2, { resumeToken: tokenOf(first) })
    expect(await ask(url, resume, { session: 'two' })).toEqual(refusal(2, 'token-invalid'))
    expect(await ask(url, resume)).toEqual(refusal(2, 'token-invalid'))
    expect(tokenOf(await ask(url, resume, { session: 'one' }))).toBeDefined()
  })

  it('with a token of somebody else exactly like with an unknown one', async () => {
    const { url, streams } = await serveTokens({ window: 60_000 }, { stateless: true })
    const mine = { auth: 'mine', session: 'one' }
    const issued = tokenOf(await ask(url, report(1, { resumeToken: null }), mine))
    const refusalFor = async (
      token: string,
      headers: HeaderOptions,
      to = url
    ): Promise<unknown> => {
      const resume = report(2, { resumeToken: token })
      const answer = await post(to, resume, headersFor({ version: '2025-11-25', ...headers }))
      await answer.ended
      const { date: _date, ...rest } = answer.headers
      return [answer.status, rest, answer.text]
    }
    const forged = await refusalFor('V1StGXR8_Z5jdHi6B-myT', mine)
    const elsewhere: [HeaderOptions, string?][] = [
      [{ ...mine, auth: 'theirs' }],
      [{ ...mine, session: 'two' }],
      [{ auth: 'mine' }],
      [mine, `${url}/other`]
    ]
    for (const [headers, to] of elsewhere)
      expect(await refusalFor(issued, headers, to)).toEqual(forged)
    // Whatever became of it since: used, and replaced by the next one.
    const next = tokenOf(await ask(url, report(3, { resumeToken: issued }), mine))
    await ask(url, report(4, { resumeToken: next }), mine)
    for (const [headers, to] of elsewhere)
      expect(await refusalFor(issued, headers, to)).toEqual(forged)
    expect(streams.stats().refusals).toBe(9)
  })

  it('of another path, and not of another query', async () => {
    const { url } = await serveTokens()
    const first = await ask(`${url}/charge?a=1`, report(1, { resumeToken: null }))
    const resume = report(2, { resumeToken: tokenOf(first) })
    expect(await ask(`${url}/mail`, resume)).toEqual(refusal(2, 'token-invalid'))
    expect(tokenOf(await ask(`${url}/charge?b=2`, resume))).toBeDefined()
  })

  it('of another method', async () => {
    const { url, endpoint } = await serveTokens({
      resumeTokens: { methods: ['tools/call', 'other'] }
    })
    const first = await ask(url, report(1, { resumeToken: null }))
    const other = { ...report(2, { resumeToken: tokenOf(first) }), method: 'other' }
    expect(await ask(url, other)).toEqual(refusal(2, 'method-changed'))
    expect(endpoint.calls).toHaveLength(1)
  })

  it.each<[string, object, object | undefined]>([
    ['another value', { year: 2024, parts: { b: 1, a: [2] } }, undefined],
    ['one more', { year: 2025, parts: { b: 1, a: [2] }, more: null }, undefined],
    ['one less', { year: 2025 }, undefined],
    ['another order of a list', { year: 2025, parts: { b: 1, a: [2, 1] } }, undefined],
    ['another type', { year: '2025', parts: { b: 1, a: [2] } }, undefined],
    ['another `_meta`', { year: 2025, parts: { b: 1, a: [2] } }, { trace: 2 }]
  ])('of other parameters: %s', async (_name, args, meta) => {
    const { url, endpoint } = await serveTokens()
    const first = await ask(url, report(1, { resumeToken: null, trace: 1 }))
    const resume = report(2, { trace: 1, ...meta, resumeToken: tokenOf(first) }, args)
    expect(await ask(url, resume)).toEqual(refusal(2, 'parameters-changed'))
    expect(endpoint.calls).toHaveLength(1)
    // It has done no harm.
    expect(
      tokenOf(await ask(url, report(2, { trace: 1, resumeToken: tokenOf(first) })))
    ).toBeDefined()
  })

  it('that has expired: nobody came with it in time', async () => {
    const { url, endpoint } = await serveTokens({ resumeInterval: { max: 0.2 } })
    const first = await ask(url, report(1, { resumeToken: null }))
    await endpoint.calls[0]!.closed
    expect(await ask(url, report(2, { resumeToken: tokenOf(first) }))).toEqual(
      refusal(2, 'token-expired')
    )
  })

  it('that was completed long ago', async () => {
    const { url, endpoint } = await serveTokens({ window: 3_600_000 })
    const first = await ask(url, report(1, { resumeToken: null }))
    const resume = report(2, { resumeToken: tokenOf(first) })
    answerJson(endpoint.calls[0]!, TEXT)
    expect(await ask(url, resume)).toMatchObject({ result: TEXT })
    inAnHour(0.99)
    expect(await ask(url, resume)).toMatchObject({ result: TEXT })
    inAnHour(1.01)
    expect(await ask(url, resume)).toEqual(refusal(2, 'token-completed'))
    // In the end nobody remembers that it ever was.
    inAnHour(1.01)
    expect(await ask(url, resume)).toEqual(refusal(2, 'token-invalid'))
    expect(endpoint.calls).toHaveLength(1)
  })

  it('whose result nobody has fetched for as long as a call may go without a request', async () => {
    const { url, endpoint } = await serveTokens({ window: 0, resumeInterval: { max: 3600 } })
    const first = await ask(url, report(1, { resumeToken: null }))
    const resume = report(2, { resumeToken: tokenOf(first) })
    answerJson(endpoint.calls[0]!, TEXT)
    await endpoint.calls[0]!.closed
    inAnHour(1.01)
    expect(await ask(url, resume)).toEqual(refusal(2, 'token-expired'))
  })

  it('in a batch, with all its requests', async () => {
    const { url, endpoint } = await serveTokens()
    const first = await ask(url, report(1, { resumeToken: null }))
    const batch = [report(2, { resumeToken: tokenOf(first) }), report(3)]
    expect(await ask(url, batch)).toEqual([
      refusal(2, 'token-in-batch'),
      refusal(3, 'token-in-batch')
    ])
    expect(endpoint.calls).toHaveLength(1)
  })

  it('in a batch of its own', async () => {
    const { url, endpoint } = await serveTokens()
    expect(await ask(url, [report(1, { resumeToken: 'x' })])).toEqual([
      refusal(1, 'token-in-batch')
    ])
    expect(endpoint.calls).toHaveLength(0)
  })

  it.each([null, true, {}])('under an id that is none: %j', async id => {
    const { url, endpoint, streams } = await serveTokens()
    const message = { ...report(1, { resumeToken: 'x' }), id }
    expect(await ask(url, message)).toEqual(refusal(null, 'token-invalid'))
    expect(await ask(url, [message])).toEqual([refusal(null, 'token-in-batch')])
    expect(endpoint.calls).toHaveLength(0)
    expect(streams.stats().refusals).toBe(2)
  })

  it('from a page of a foreign origin, before any look-up', async () => {
    const { url, endpoint } = await serveTokens({ allowedOrigins: ['https://app.example'] })
    const first = await ask(url, report(1, { resumeToken: null }))
    const messages = [tokenOf(first), 'x'].map(resumeToken => report(2, { resumeToken }))
    for (const body of [...messages, messages]) {
      const headers = headersFor({ origin: 'https://evil.example' })
      const response = await post(url, body, headers)
      expect(response.status).toBe(403)
      expect(await answerOf(response)).toMatchObject({
        error: { data: { reason: 'foreign-origin' } }
      })
    }
    const allowed = await ask(url, report(2, { resumeToken: tokenOf(first) }), {
      origin: 'https://app.example'
    })
    expect(tokenOf(allowed)).toBeDefined()
    expect(endpoint.calls).toHaveLength(1)
  })
})

describe('parameters of two requests count as the same', () => {
  it('whatever the order of their members, and whatever their progress is to be reported with', async () => {
    const { url } = await serveTokens()
    const first = await ask(url, report(1, { a: 1, b: 2, progressToken: 1, resumeToken: null }))
    const { params } = report(2, { resumeToken: tokenOf(first), progressToken: 2, b: 2, a: 1 })
    const { arguments: args, name, _meta } = params
    const turned = { _meta, name, arguments: { parts: { a: [2], b: 1 }, year: args.year } }
    expect(tokenOf(await ask(url, request(2, 'tools/call', turned)))).toBeDefined()
  })

  it('with an empty `_meta`, and without any', async () => {
    const { url } = await serveTokens()
    const first = await ask(url, report(1, {}), { prefer: 'respond-async' })
    expect(tokenOf(await ask(url, report(2, { resumeToken: tokenOf(first) })))).toBeDefined()
  })
})

describe('the counter of refusals', () => {
  it('includes all of these', async () => {
    const { url, streams } = await serveTokens()
    await ask(url, report(1, { resumeToken: 'x' }))
    expect(streams.stats().refusals).toBe(1)
  })
})

describe('in a session that the client has initialised anew', () => {
  it('the old token does not hold', async () => {
    const { url } = await serveTokens({}, { session: 'one' })
    const { headers } = await initializeSession(url, '2025-11-25')
    const first = await answerOf(await post(url, report(1, { resumeToken: null }), headers))
    const again = { ...headers, 'mcp-session-id': 'two' }
    const answer = await answerOf(
      await post(url, report(2, { resumeToken: tokenOf(first) }), again)
    )
    expect(answer).toEqual(refusal(2, 'token-invalid'))
  })
})
