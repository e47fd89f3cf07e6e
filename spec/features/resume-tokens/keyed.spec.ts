// The first request has no token yet: where its answer is lost, its `Idempotency-Key` stands for
// it.

import { describe, expect, it } from '@jest/globals'
import { until } from '../../helpers/happenings.js'
import { del, initializeSession, notification, post, request, result } from '../../helpers/mcp.js'
import { answerJson, answerOf, report, serveTokens, TEXT, tokenOf } from './setup.js'

const KEY = { 'idempotency-key': 'a key that nobody guesses', 'mcp-protocol-version': '2025-11-25' }

describe('a first request that is sent again under its key', () => {
  it('gets the same token, whether its client was there for the first or not', async () => {
    const { url, endpoint } = await serveTokens()
    const cut = new AbortController()
    const lost = fetch(url, {
      method: 'POST',
      body: JSON.stringify(report(1, { resumeToken: null })),
      headers: { ...KEY, 'Content-Type': 'application/json' },
      signal: cut.signal
    })
    await endpoint.calls.nth(1)
    cut.abort()
    await expect(lost).rejects.toThrow()
    const answers = []
    for (let n = 0; n < 2; n++)
      answers.push(await answerOf(await post(url, report(1, { resumeToken: null }), KEY)))
    expect(answers[0]).toEqual(answers[1])
    answerJson(endpoint.calls[0]!, TEXT)
    const last = await post(url, report(2, { resumeToken: tokenOf(answers[0]) }))
    expect(await answerOf(last)).toMatchObject({ id: 2, result: TEXT })
    expect(endpoint.calls).toHaveLength(1)
  })

  it('gets the same result, where that was there in time', async () => {
    const { url, endpoint } = await serveTokens({ resumeTokens: { after: 5000 } })
    const first = post(url, report(1, { resumeToken: null }), KEY)
    answerJson(await endpoint.calls.nth(1), TEXT)
    const text = await answerOf(await first)
    expect(await answerOf(await post(url, report(1, { resumeToken: null }), KEY))).toEqual(text)
    expect(endpoint.calls).toHaveLength(1)
  })

  it('is refused for another body', async () => {
    const { url, endpoint } = await serveTokens()
    await answerOf(await post(url, report(1, { resumeToken: null }), KEY))
    const other = await post(url, report(1, { resumeToken: null }, {}), KEY)
    expect(other.status).toBe(409)
    expect(endpoint.calls).toHaveLength(1)
  })

  it('is cancelled by that key while there is no answer: the endpoint is told', async () => {
    const { url, endpoint } = await serveTokens(
      { resumeTokens: { after: 20_000 } },
      { session: 'one' }
    )
    const { headers } = await initializeSession(url, '2025-11-25')
    const controller = new AbortController()
    const leaving = fetch(url, {
      method: 'POST',
      body: JSON.stringify(report(1, { resumeToken: null })),
      headers: { ...KEY, ...headers, 'Content-Type': 'application/json' },
      signal: controller.signal
    })
    const call = await endpoint.calls.nth(1)
    controller.abort()
    await expect(leaving).rejects.toThrow()
    expect(call.isClosed).toBe(false)
    await (
      await del(`${url}?stream=${encodeURIComponent(KEY['idempotency-key'])}`, headers)
    ).ended
    await call.closed
    const told = (): unknown[] => endpoint.requests.map(({ message }) => message?.params?.requestId)
    await until(() => told().includes(call.message.id))
  })

  it('may say both: that it follows links, and that it takes tokens', async () => {
    const { url } = await serveTokens()
    const response = await post(url, report(1), { ...KEY, prefer: 'rel=stream, respond-async' })
    expect(tokenOf(await answerOf(response))).toBeDefined()
    expect(response.headers['preference-applied']).toBe('rel=stream, respond-async')
  })

  it.each([
    ['response', 200],
    ['refusal', 403]
  ])(
    'gets `Preference-Applied: rel=stream` itself: not the request that fetches the %s',
    async (_name, status) => {
      const { url, endpoint } = await serveTokens()
      const first = await post(url, report(1, { resumeToken: null }), {
        ...KEY,
        prefer: 'rel=stream'
      })
      const token = tokenOf(await answerOf(first))
      expect(first.headers['preference-applied']).toBe('rel=stream')
      const { res, message } = endpoint.calls[0]!
      res.setHeader('X-Quota', '7')
      res.writeHead(status, { 'Content-Type': 'application/json' })
      res.end(JSON.stringify(result(message.id, TEXT)))
      const last = await post(url, report(2, { resumeToken: token }))
      await last.ended
      expect(last).toMatchObject({ status, headers: { 'x-quota': '7' } })
      expect(last.headers).not.toHaveProperty('preference-applied')
    }
  )
})

describe('a first request whose events nobody can come back to', () => {
  it.each(['before', 'after'])('ends its call when its client leaves %s the first', async when => {
    const { url, endpoint, streams } = await serveTokens({
      resumeTokens: { after: 20_000 },
      maxStreams: 1
    })
    const other = post(url, request(9, 'other'))
    ;(await endpoint.calls.nth(1)).emit(notification('notifications/message', { data: 1 }))
    await other
    const controller = new AbortController()
    const leaving = fetch(url, {
      method: 'POST',
      body: JSON.stringify(report(1, { resumeToken: null })),
      headers: {
        ...KEY,
        'Content-Type': 'application/json',
        accept: 'application/json, text/event-stream',
        prefer: 'rel=stream'
      },
      signal: controller.signal
    })
    const call = await endpoint.calls.nth(2)
    const emit = (): boolean => call.emit(notification('notifications/message', { data: 1 }))
    if (when === 'after') {
      emit()
      const { headers } = await leaving
      expect([headers.get('link'), headers.get('preference-applied')]).toEqual([null, null])
      controller.abort()
    } else {
      controller.abort()
      await expect(leaving).rejects.toThrow()
      await until(() => call.req.socket.destroyed)
      emit()
    }
    await call.closed
    expect(streams.stats()).toMatchObject({ calls: 0, keyed: 0 })
  })
})

describe('a request with a token', () => {
  it('that is sent again under its key gets the same answer', async () => {
    const { url, endpoint } = await serveTokens()
    const first = await answerOf(await post(url, report(1, { resumeToken: null })))
    const resume = report(2, { resumeToken: tokenOf(first) })
    const answers = [
      await answerOf(await post(url, resume, KEY)),
      await answerOf(await post(url, resume, KEY))
    ]
    expect(answers[0]).toEqual(answers[1])
    expect(endpoint.calls).toHaveLength(1)
  })
})
