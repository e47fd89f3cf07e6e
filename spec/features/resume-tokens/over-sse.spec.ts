// An endpoint that streams: what it says before its result goes out on the connection that is open.

import { describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { type CurrentStream, currentStream } from '../../../lib/index.js'
import {
  headersFor,
  initializeSession,
  notification,
  post,
  request,
  result
} from '../../helpers/mcp.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { openStream } from '../../helpers/open-stream.js'
import { answerOf, report, serveTokens, TEXT, tokenOf } from './setup.js'

const progress = (progressToken: unknown, n: number) =>
  notification('notifications/progress', { progressToken, progress: n })
const HEADERS = headersFor({ version: '2025-11-25' })
/** Messages that no wire takes without a reader: 20 MB. */
const MOST = 400
const PATIENT = { 'express-mcp-streams/wait': 60_000 }

describe('a request for a token whose endpoint answers with an event stream', () => {
  it('gets progress on the connection that is open, with the progress token of that request', async () => {
    const { url, endpoint } = await serveTokens()
    const first = await post(url, report(1, { resumeToken: null, progressToken: 'a' })).then(
      async response => {
        await response.ended
        return response
      }
    )
    const call = endpoint.calls[0]!
    const second = post(
      url,
      report(2, { resumeToken: tokenOf(await answerOf(first)), progressToken: 7, ...PATIENT })
    )
    call.emit(progress('a', 1))
    const open = await second
    expect(open.headers['content-type']).toBe('text/event-stream')
    expect(await open.nextMessage()).toEqual(progress(7, 1))
    call.emit(notification('notifications/message', { level: 'info', data: 'half-way' }))
    expect(await open.nextMessage()).toEqual(
      notification('notifications/message', { level: 'info', data: 'half-way' })
    )
    call.result(TEXT)
    expect(await open.nextMessage()).toEqual(result(2, TEXT))
    expect(await open.ended).toBe('end')
  })

  it('is answered with a token on the same stream when the time is over', async () => {
    const { url, endpoint } = await serveTokens()
    const opening = post(url, report(1, { resumeToken: null, progressToken: 'a' }), HEADERS)
    const call = await endpoint.calls.nth(1)
    call.emit(progress('a', 1))
    const first = await opening
    expect(await first.nextMessage()).toEqual(progress('a', 1))
    expect(await first.nextMessage()).toMatchObject({ id: 1, result: { content: [] } })
    expect(await first.ended).toBe('end')
    // Nobody is there now: what it says waits for the next.
    call.emit(progress('a', 2))
    const next = await post(
      url,
      report(2, { resumeToken: tokenOf(await answerOf(first)), ...PATIENT, progressToken: 'b' })
    )
    expect(await next.nextMessage()).toEqual(progress('b', 2))
    call.error(-32000, 'no')
    expect(await next.nextMessage()).toEqual({
      jsonrpc: '2.0',
      id: 2,
      error: { code: -32000, message: 'no' }
    })
  })

  it('is answered in JSON where the endpoint sends no event before', async () => {
    const { url, endpoint } = await serveTokens()
    const opening = post(url, report(1, { resumeToken: null }), HEADERS)
    ;(await endpoint.calls.nth(1)).open()
    const first = await opening
    expect(first.headers['content-type']).toBe('application/json')
    const next = post(
      url,
      report(2, { resumeToken: tokenOf(await answerOf(first)), ...PATIENT }),
      HEADERS
    )
    endpoint.calls[0]!.result(TEXT)
    const second = await next
    expect(second.headers['content-type']).toBe('application/json')
    expect(await answerOf(second)).toEqual(result(2, TEXT))
  })

  it('is answered in JSON for a client that accepts only that; a question for it fails', async () => {
    const { url, endpoint } = await serveTokens()
    const asking = post(url, report(1, { resumeToken: null, progressToken: 'a' }), {
      ...HEADERS,
      accept: 'application/json'
    })
    const call = await endpoint.calls.nth(1)
    call.emit(progress('a', 1))
    call.emit(request('q', 'elicitation/create', {}))
    const first = await asking
    expect(first.headers['content-type']).toBe('application/json')
    expect(await answerOf(first)).toMatchObject({ id: 1, result: { content: [] } })
    const { message } = await endpoint.requests.nth(2)
    expect(message).toMatchObject({
      id: 'q',
      error: { code: -31000, data: { reason: 'unanswered' } }
    })
  })

  it('gets no progress without a progress token', async () => {
    const { url, endpoint } = await serveTokens()
    const opening = post(url, report(1, { resumeToken: null, progressToken: 'a' }), HEADERS)
    const call = await endpoint.calls.nth(1)
    const next = post(
      url,
      report(2, { resumeToken: tokenOf(await answerOf(await opening)), ...PATIENT })
    )
    call.emit(progress('a', 1))
    call.result(TEXT)
    expect(await answerOf(await next)).toEqual(result(2, TEXT))
  })

  it('stays open while its client is asked something', async () => {
    const { url, endpoint } = await serveTokens({ handoff: 'never' })
    const opening = post(url, report(1, { resumeToken: null }), HEADERS)
    const call = await endpoint.calls.nth(1)
    call.emit(request('q', 'elicitation/create', { message: 'Which year?' }))
    const open = await opening
    expect(await open.nextMessage()).toMatchObject({ id: 'q' })
    await new Promise(resolve => setTimeout(resolve, 150))
    expect(open.ending).toBeUndefined()
    call.result(TEXT)
    expect(await open.nextMessage()).toEqual(result(1, TEXT))
  })

  it('gets a question with its next request where no connection was open', async () => {
    const { url, endpoint } = await serveTokens()
    const first = await answerOf(await post(url, report(1, { resumeToken: null }), HEADERS))
    const call = endpoint.calls[0]!
    call.emit(request('q', 'elicitation/create', {}))
    const open = await post(url, report(2, { resumeToken: tokenOf(first), ...PATIENT }), HEADERS)
    expect(await open.nextMessage()).toMatchObject({ method: 'ping' })
    expect(await open.nextMessage()).toMatchObject({ id: 'q' })
    call.result(TEXT)
    expect(await open.nextMessage()).toEqual(result(2, TEXT))
  })

  it.each(['to the endpoint', 'to the stream URL'])(
    'asks nobody again who has answered, %s',
    async where => {
      const { url, endpoint } = await serveTokens({}, { session: 'one' })
      const { headers } = await initializeSession(url, '2025-11-25')
      const first = await answerOf(await post(url, report(1, { resumeToken: null }), headers))
      const call = endpoint.calls[0]!
      const resume = (id: number) =>
        post(url, report(id, { resumeToken: tokenOf(first), ...PATIENT }), headers)
      const opening = resume(2)
      for (const id of ['q', 'r']) call.emit(request(id, 'elicitation/create', {}))
      const open = await opening
      expect(await open.nextMessage()).toMatchObject({ method: 'ping' })
      for (const id of ['q', 'r']) expect(await open.nextMessage()).toMatchObject({ id })
      const target = where === 'to the endpoint' ? url : streamUrl(open, url)
      const answering = await post(target, result('q', { action: 'accept' }), headers)
      expect(answering.status).toBe(where === 'to the endpoint' ? 202 : 200)
      for (const one of [open, answering]) one.destroy()
      const again = await resume(3)
      expect(await again.nextMessage()).toMatchObject({ id: 'r' })
      call.result(TEXT)
      expect(await again.nextMessage()).toEqual(result(3, TEXT))
    }
  )

  it('takes a hand-over for the answer on every connection on which it has asked', async () => {
    const { url, endpoint, streams } = await serveTokens({}, { session: 'one' })
    const { headers } = await initializeSession(url, '2025-11-25', { prefer: 'rel=stream' })
    const first = await answerOf(await post(url, report(1, { resumeToken: null }), headers))
    const resume = (id: number, meta: object) =>
      post(url, report(id, { resumeToken: tokenOf(first), ...meta }), headers)
    const opening = resume(2, PATIENT)
    await endpoint.calls[0]!.emit(request('q', 'elicitation/create', {}))
    const lost = await opening
    expect(await lost.nextMessage()).toMatchObject({ id: 'q' })
    await lost.ended
    // Its client has gone; another process has the token.
    const open = await resume(3, { 'express-mcp-streams/wait': 20 })
    expect(await open.nextMessage()).toMatchObject({ id: 'q' })
    await open.ended
    const next = await post(streamUrl(open, url), [result('q', { action: 'accept' })], headers)
    // It is not held by a question that has been answered.
    expect(await next.nextMessage()).toMatchObject({ id: 3, result: { content: [] } })
    expect(streams.stats().waiting).toBe(0)
  })

  it('may have a part of its result ready while it asks: that goes out once it has its answer', async () => {
    const endpoint = rawEndpoint(() => undefined, { session: 'one' })
    let stream: CurrentStream | undefined
    const { url } = await serve(
      (req, res) => {
        stream = currentStream()
        return endpoint(req, res)
      },
      { resumeTokens: { after: 60_000 }, handoff: 'never' }
    )
    const { headers } = await initializeSession(url, '2025-11-25')
    const opening = post(url, report(1, { resumeToken: null }), headers)
    const call = await endpoint.calls.nth(1)
    const calling = stream!
    call.emit(request('q', 'elicitation/create', {}))
    const open = await opening
    await open.nextMessage()
    calling.partial(TEXT)
    await (
      await post(url, result('q', { action: 'accept' }), headers)
    ).ended
    expect(await open.nextMessage()).toMatchObject({ id: 1, result: TEXT })
    expect(await open.ended).toBe('end')
  })

  it('that waits for a slow client is slowed down', async () => {
    const { url, endpoint } = await serveTokens({ maxStreamBytes: 100_000 })
    const opening = post(url, report(1, { resumeToken: null, ...PATIENT }), {
      ...HEADERS,
      'mcp-protocol-version': '2026-07-28'
    })
    const call = await endpoint.calls.nth(1)
    call.emit(notification('notifications/message', { data: 'x' }))
    const open = await opening
    open.pause()
    const message = notification('notifications/message', { data: 'x'.repeat(50_000) })
    // The wire takes some of it. A pause that is none on a busy machine ends this early, and proves
    // nothing.
    const drains = async (): Promise<boolean> => {
      const signal = AbortSignal.timeout(100)
      return once(call.res, 'drain', { signal }).then(Boolean, () => false)
    }
    let written = 0
    do written++
    while ((call.emit(message) || (await drains())) && written < MOST)
    expect(written).toBeLessThan(MOST)
    const drained = once(call.res, 'drain')
    open.resume()
    await drained
    call.result(TEXT)
    expect(await answerOf(open)).toEqual(result(1, TEXT))
    expect(open.messages()).toHaveLength(written + 2)
  })
})

describe('a stream that answers a request with a token', () => {
  it('is resumed by its link like any other', async () => {
    const { url, endpoint } = await serveTokens()
    const opening = post(
      url,
      report(1, { resumeToken: null, ...PATIENT, progressToken: 'a' }),
      HEADERS
    )
    const call = await endpoint.calls.nth(1)
    call.emit(progress('a', 1))
    const cut = await opening
    await cut.nextMessage()
    cut.destroy()
    call.result(TEXT)
    const resumed = await openStream(streamUrl(cut, url))
    expect(await answerOf(resumed)).toEqual(result(1, TEXT))
    expect(resumed.messages()[0]).toEqual(progress('a', 1))
    expect(endpoint.calls).toHaveLength(1)
  })

  it('is not made at 2026-07-28, unless the client has announced itself', async () => {
    for (const prefer of [undefined, 'rel=stream']) {
      const { url, endpoint } = await serveTokens()
      const headers = headersFor({ version: '2026-07-28', prefer })
      const opening = post(
        url,
        report(1, { resumeToken: null, progressToken: 'a', ...PATIENT }),
        headers
      )
      const call = await endpoint.calls.nth(1)
      call.emit(progress('a', 1))
      const open = await opening
      call.result(TEXT)
      expect(await answerOf(open)).toEqual(result(1, TEXT))
      expect(open.messages()).toHaveLength(2)
      expect(String(open.headers['link']).includes('stream=')).toBe(prefer !== undefined)
    }
  })
})
