// `disconnectAfter`: the greatest age of a connection, for proxies that limit the total duration of
// a response.

import { describe, expect, it } from '@jest/globals'
import { connectV1 } from '../../helpers/clients.js'
import { createCutProxy } from '../../helpers/cut-proxy.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { happenings } from '../../helpers/happenings.js'
import {
  callTool,
  eventId,
  get,
  headersFor,
  initializeSession,
  notification,
  post
} from '../../helpers/mcp.js'
import type { Json, OpenStream } from '../../helpers/open-stream.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'

const AGE = 40
/** Of a client that has announced that it comes back. */
const POLLING = headersFor({ version: '2025-11-25', prefer: 'rel=stream' })
const options = { disconnectAfter: AGE, retry: 300 }

/** Answers nothing by itself: the spec does. */
const silent = () => rawEndpoint(({ open }) => open(), { session: 's' })

/** Resolves with a response that has ended, and the milliseconds that it took. */
async function timed(request: () => Promise<OpenStream>): Promise<[OpenStream, number]> {
  const start = performance.now()
  const response = await request()
  expect(await response.ended).toBe('end')
  return [response, performance.now() - start]
}

describe('disconnectAfter', () => {
  it('closes each connection of a polling client when it is that old, and the stream goes on', async () => {
    const endpoint = silent()
    const { url, streams } = await serve(endpoint, options)
    const headers = POLLING
    const [first, firstAge] = await timed(() => post(url, callTool(1, 'x'), headers))
    const id = streamId(first)
    const cursor = first.blocks.at(-1)!.id!
    const [second, secondAge] = await timed(() => get(url, { ...headers, 'last-event-id': cursor }))
    expect(first.text).toBe(
      `id: ${eventId(id, '0.1')}\nretry: 300\ndata:\n\nid: ${eventId(id, '0.2')}\nretry: 300\ndata:\n\n`
    )
    expect(second.text).toBe(
      `id: ${eventId(id, '0.3')}\nretry: 300\ndata:\n\nid: ${eventId(id, '0.4')}\nretry: 300\ndata:\n\n`
    )
    // Not before its time, which Node rounds by a millisecond; how much later is the machine's
    // affair.
    expect(Math.min(firstAge, secondAge)).toBeGreaterThan(AGE - 2)
    expect(streams.stats()).toMatchObject({ live: 1, connections: 0 })
    endpoint.calls[0]!.result()
    const third = await get(streamUrl(first, url), {
      ...headers,
      'last-event-id': second.blocks.at(-1)!.id!
    })
    await third.ended
    expect(third.messages()).toEqual([{ jsonrpc: '2.0', id: 1, result: {} }])
  })

  it('closes a connection that is busy all the time, without losing an event', async () => {
    const endpoint = rawEndpoint(({ emit, result, open }) => {
      open()
      let n = 0
      const timer = setInterval(() => {
        if (n < 30) return void emit(notification('notifications/x', { n: n++ }))
        clearInterval(timer)
        result({})
      }, 5)
    })
    const { url, streams } = await serve(endpoint, options)
    const headers = POLLING
    let response = await post(url, callTool(1, 'x'), headers)
    const messages: Json[] = []
    for (;;) {
      expect(await response.ended).toBe('end')
      messages.push(...response.messages())
      if (messages.at(-1)?.result) break
      response = await get(url, { ...headers, 'last-event-id': response.blocks.at(-1)!.id! })
    }
    expect(messages.map(message => message.params?.n)).toEqual([...Array(30).keys(), undefined])
    expect(streams.stats().resumes).toBeGreaterThan(1)
  })

  it.each([
    ['2025-06-18', headersFor({ version: '2025-06-18' })],
    ['2025-11-25', headersFor({ version: '2025-11-25' })],
    ['no known revision', {}]
  ])(
    'leaves a client of %s connected that has not shown that it comes back',
    async (_name, headers) => {
      const endpoint = silent()
      const { url } = await serve(endpoint, { ...options, disconnectAfter: 1 })
      // Two clients: when the younger connection of one that comes back has been closed, the older
      // one's time was up, too.
      const stays = await post(url, callTool(1, 'x'), headers)
      const goes = await post(url, callTool(2, 'x'), POLLING)
      expect(await goes.ended).toBe('end')
      expect(stays.ending).toBeUndefined()
      endpoint.calls[0]!.result()
      expect(await stays.ended).toBe('end')
      expect(stays.blocks.map(({ retry }) => retry)).toEqual([300, undefined])
    }
  )

  it.each(['2025-06-18', '2026-07-28'])(
    'closes the connection of one that has announced itself, at %s',
    async version => {
      const { url } = await serve(silent(), options)
      const response = await post(
        url,
        callTool(1, 'x'),
        headersFor({ version, prefer: 'rel=stream' })
      )
      expect(await response.ended).toBe('end')
      expect(response.blocks).toHaveLength(2)
    }
  )

  it('closes listen channels too', async () => {
    const { url } = await serve(sdkV1Stateful(), options)
    const { headers: own } = await initializeSession(url, '2025-11-25')
    const headers = { ...own, prefer: 'rel=stream' }
    const channel = await get(url, headers)
    expect(await channel.ended).toBe('end')
    const again = await get(url, headers)
    expect(again.headers.link).toBe(channel.headers.link)
    expect(await again.ended).toBe('end')
  })

  it('is not seen by the official client, whose call outlasts many connections once it has been cut', async () => {
    const endpoint = sdkV1Stateful()
    const resumed = happenings('resumed')
    const { url } = await serve(endpoint, { disconnectAfter: 30, retry: 5 })
    const proxy = await createCutProxy({
      target: Number(new URL(url).port),
      plan: ({ message }) =>
        message?.method === 'tools/call' ? { by: 'rst', afterEvents: 1 } : undefined
    })
    const { client, errors } = await connectV1(`${proxy.url}/mcp`)
    const progress: unknown[] = []
    const call = client.callTool(
      { name: 'count', arguments: { key: 'k', n: 5, paced: true } },
      undefined,
      { onprogress: ({ message }) => progress.push(message) }
    )
    for (let n = 1; n <= 6; n++) {
      await resumed.nth(n * 2)
      endpoint.log.release('k')
    }
    expect(await call).toMatchObject({ content: [{ text: 'counted to 5' }] })
    expect(progress).toEqual(['1', '2', '3', '4', '5'])
    expect(endpoint.log.executions('k')).toBe(1)
    expect(errors.filter(({ message }) => !message.includes('disconnected'))).toEqual([])
  })
})
