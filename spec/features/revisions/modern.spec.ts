// 2026-07-28: untouched in every respect, the close is the cancellation; unless the client has
// announced itself.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import { once } from 'node:events'
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { currentStream, type CurrentStream } from '../../../lib/index.js'
import { connectV2 } from '../../helpers/clients.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { countMessage, sdkV2Handler } from '../../helpers/endpoints/sdk-v2.js'
import { closeLater, listen, type Handler } from '../../helpers/listen.js'
import {
  callTool,
  del,
  get,
  headersFor,
  notification,
  post,
  postModern,
  request
} from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'

const ANNOUNCED = { prefer: 'rel=stream' }
const aborted = (signal: AbortSignal) =>
  new Promise<void>(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })

describe('without announcement', () => {
  const stream = rawEndpoint(({ open, write, emit, result }) => {
    open({ Link: '<https://docs.example>; rel="help"', 'X-Custom': 'yes' })
    write('retry: 10\r\n: comment\r\n\r\nid: 7\ndata: {"jsonrpc":\ndata: "2.0","method":"x"}\n\n')
    emit(notification('notifications/message', { data: 'ü€😀' }))
    result({})
  })
  const json = rawEndpoint(({ res, message }) => {
    res.setHeader('Content-Type', 'application/json')
    res.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result: {} }))
  })

  it.each([
    ['an event stream', stream, callTool(1, 'x'), {}],
    ['an event stream, after initialize', stream, request(1, 'initialize', {}), {}],
    ['a JSON response', json, callTool(1, 'x'), {}],
    ['a later revision', stream, callTool(1, 'x'), { 'mcp-protocol-version': '2027-01-31' }],
    [
      'another preference',
      stream,
      callTool(1, 'x'),
      { prefer: 'return=minimal, rel=streams, wait=10' }
    ]
  ])('leaves every byte as it is: %s', async (_name, endpoint, message, headers) => {
    const [bare, ours] = await both(endpoint, url => postModern(url, message, headers))
    expect(ours.rawHeaders).toEqual(bare.rawHeaders)
    expect(ours.text).toBe(bare.text)
    expect(ours.status).toBe(bare.status)
  })

  it('leaves every byte of the official SDK as it is', async () => {
    const send = (url: string) =>
      postModern(url, callTool(1, 'count', { n: 2, size: 40, filler: 'ü' }, 'token'))
    const [bare, ours] = await both(sdkV2Handler({ responseMode: 'sse' }), send)
    expect(bare.messages()).toHaveLength(3)
    expect(ours.rawHeaders).toEqual(bare.rawHeaders)
    expect(ours.text).toBe(bare.text)
  })

  it('passes the close on at once, which aborts the tool', async () => {
    const endpoint = sdkV2Handler({ responseMode: 'sse' })
    const { url, streams } = await serve(endpoint)
    // Before the call: untouched, the SDK sends no head before its first event.
    endpoint.log.release('k')
    const response = await postModern(url, callTool(1, 'count', { key: 'k', paced: true }, 'token'))
    await response.nextMessage()
    const { signal } = await endpoint.log.calls.nth(1)
    expect(signal.aborted).toBe(false)
    response.destroy()
    await aborted(signal)
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, connections: 0 })
    endpoint.log.release('k', 3)
  })

  it('aborts the tool when the official client aborts the call', async () => {
    const endpoint = sdkV2Handler({ responseMode: 'sse' })
    const { url } = await serve(endpoint)
    const { client, errors } = await connectV2(url)
    const abort = new AbortController()
    const call = client.callTool({ name: 'hang', arguments: {} }, { signal: abort.signal })
    const { signal } = await endpoint.log.calls.nth(1)
    abort.abort()
    await expect(call).rejects.toThrow()
    await aborted(signal)
    expect(errors).toEqual([])
  })

  it('has no current stream, on a connection that has had one too', async () => {
    const seen: (CurrentStream | undefined)[] = []
    const endpoint = rawEndpoint(({ result }) => {
      seen.push(currentStream())
      result()
    })
    const { url } = await serve(endpoint)
    const versions = ['2025-11-25', '2026-07-28', '2025-11-25']
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    closeLater(() => agent.destroy())
    for (const version of versions) {
      const headers = { 'content-type': 'application/json', 'mcp-protocol-version': version }
      const outgoing = httpRequest(url, { method: 'POST', agent, headers }).end(
        JSON.stringify(callTool(1, 'x'))
      )
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
      await once(response.resume(), 'end')
    }
    expect(seen).toEqual([expect.anything(), undefined, expect.anything()])
    expect(new Set(endpoint.calls.map(({ req }) => req.socket.remotePort)).size).toBe(1)
  })
})

describe('with announcement', () => {
  it.each([
    'rel=stream',
    'REL="stream"',
    'return=minimal, rel=stream; x=1',
    'wait=10 ,  rel = stream'
  ])('is durable: Prefer: %s', async prefer => {
    const { url } = await serve(rawEndpoint(({ result }) => result({})))
    const response = await postModern(url, callTool(1, 'x'), { prefer })
    await response.ended
    expect(response.headers['preference-applied']).toBe('rel=stream')
    expect(response.text).toMatch(
      /^id: [\w-]{21}\.r1\.0\.1\nretry: 3000\ndata:\n\nid: [\w-]{21}\.r1\.1\nevent: message\n/
    )
  })

  it('is durable on the official SDK: a cut aborts nothing, and the call goes on by its link', async () => {
    const endpoint = sdkV2Handler({ responseMode: 'sse' })
    const { url } = await serve(endpoint)
    const response = await postModern(
      url,
      callTool(1, 'count', { key: 'k', n: 2, paced: true }, 'token'),
      ANNOUNCED
    )
    expect(response.headers['preference-applied']).toBe('rel=stream')
    endpoint.log.release('k')
    expect((await response.nextMessage()).params.message).toBe(countMessage(1))
    response.reset()
    await response.ended
    endpoint.log.release('k', 2)
    const { state } = await endpoint.log.ended.nth(1)
    expect(state).toBe('returned')
    const cursor = response.blocks.at(-1)!.id!
    const resumed = await get(streamUrl(response, url), { ...ANNOUNCED, 'last-event-id': cursor })
    expect(resumed.headers['preference-applied']).toBe('rel=stream')
    expect(await resumed.ended).toBe('end')
    expect(resumed.messages()).toMatchObject([{ params: { message: '2' } }, { id: 1, result: {} }])
  })

  it('is cancelled by DELETE of its stream URL, and by that alone', async () => {
    const endpoint = sdkV2Handler({ responseMode: 'sse' })
    const { url } = await serve(endpoint)
    const response = await postModern(
      url,
      callTool(1, 'count', { key: 'k', paced: true }, 'token'),
      ANNOUNCED
    )
    endpoint.log.release('k')
    await response.nextMessage()
    const { signal } = await endpoint.log.calls.nth(1)
    response.destroy()
    expect((await get(streamUrl(response, url), ANNOUNCED)).status).toBe(200)
    expect(signal.aborted).toBe(false)
    expect((await del(streamUrl(response, url), ANNOUNCED)).status).toBe(204)
    await aborted(signal)
    endpoint.log.release('k', 3)
  })

  it('leaves a JSON response as it is', async () => {
    const endpoint = sdkV2Handler()
    const [bare, ours] = await both(endpoint, url =>
      postModern(url, callTool(1, 'slow', { ms: 1 }), ANNOUNCED)
    )
    expect(bare.headers['content-type']).toContain('application/json')
    expect(ours.rawHeaders).toEqual(bare.rawHeaders)
    expect(ours.text).toBe(bare.text)
  })

  it('is kept for this request, not for the next one of the same client', async () => {
    const { url } = await serve(rawEndpoint(({ result }) => result({})))
    const first = await postModern(url, callTool(1, 'x'), ANNOUNCED)
    await first.ended
    expect((await get(streamUrl(first, url), headersFor({ version: '2026-07-28' }))).status).toBe(
      200
    )
    const second = await postModern(url, callTool(2, 'x'))
    expect(second.headers.link).toBeUndefined()
  })
})

describe('a client of an older revision', () => {
  it('is told that its preference was applied', async () => {
    const { url } = await serve(
      rawEndpoint(({ open, result }) => {
        open({ 'Preference-Applied': 'respond-async' })
        result({})
      })
    )
    const announced = await post(
      url,
      callTool(1, 'x'),
      headersFor({ version: '2025-11-25', prefer: 'rel=stream' })
    )
    expect(announced.headers['preference-applied']).toBe('respond-async, rel=stream')
    const silent = await post(url, callTool(1, 'x'), headersFor({ version: '2025-11-25' }))
    expect(silent.headers['preference-applied']).toBe('respond-async')
    expect(streamId(silent)).not.toBe(streamId(announced))
  })
})

/**
 * The same request, to the endpoint alone and to the endpoint behind the middleware; `Date` taken
 * out.
 */
async function both(endpoint: Handler, send: (url: string) => Promise<OpenStream>) {
  const { url: bareUrl } = await listen(express().all('/mcp', endpoint))
  const { url } = await serve(endpoint)
  const [bare, ours] = [await send(`${bareUrl}/mcp`), await send(url)]
  await Promise.all([bare.ended, ours.ended])
  return [bare, ours].map(({ rawHeaders, text, status, headers, messages }, index) => {
    expect(rawHeaders).toContain('Date')
    const kept = rawHeaders.map((value, i) => (rawHeaders[i - 1] === 'Date' ? 'now' : value))
    return { rawHeaders: kept, text, status, headers, messages: messages.bind([bare, ours][index]) }
  }) as [Seen, Seen]
}
type Seen = Pick<OpenStream, 'rawHeaders' | 'text' | 'status' | 'headers' | 'messages'>
