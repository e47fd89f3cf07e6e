// The revision table on the wire: what a client of each protocol revision gets, byte for byte.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import { rawEndpoint, type RawScript } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { gate } from '../../helpers/gate.js'
import { listen, type Handler } from '../../helpers/listen.js'
import {
  callTool,
  eventId,
  get,
  headersFor,
  initialize,
  initializeSession,
  notification,
  post,
  result
} from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'

const PRIMERS = {
  named: (id: string) => `event: prime\nid: ${id}\nretry: 3000\ndata: {}\n\n`,
  empty: (id: string) => `id: ${id}\nretry: 3000\ndata:\n\n`
}

interface Row {
  name: string
  headers: Record<string, string>
  primer: keyof typeof PRIMERS
  announced?: boolean
}

const rows: Row[] = [
  { name: '2025-03-26', headers: headersFor({ version: '2025-03-26' }), primer: 'named' },
  { name: '2025-06-18', headers: headersFor({ version: '2025-06-18' }), primer: 'named' },
  { name: 'unknown (no header)', headers: {}, primer: 'named' },
  { name: 'unknown (no date)', headers: headersFor({ version: 'DRAFT-2026-v1' }), primer: 'named' },
  { name: '2025-11-25', headers: headersFor({ version: '2025-11-25' }), primer: 'empty' },
  ...['2025-06-18', '2025-11-25', '2026-07-28'].map((version): Row => {
    const primer = version === '2025-06-18' ? 'named' : 'empty'
    const headers = headersFor({ version, prefer: 'rel=stream' })
    return { name: `${version}, announced`, headers, primer, announced: true }
  })
]

const FIRST = notification('notifications/message', { level: 'info', data: 'grüße' })
const LAST = result(1, { ok: true })
const block = (message: unknown) => `event: message\ndata: ${JSON.stringify(message)}\n\n`

const twoEvents: RawScript = ({ emit, result }) => {
  emit(FIRST)
  result(LAST.result)
}

describe.each(rows)('a client of revision $name', ({ headers, primer, announced = false }) => {
  it('gets a primer, and ids on its events', async () => {
    const { url } = await serve(rawEndpoint(twoEvents))
    const response = await post(url, callTool(1, 'x'), headers)
    expect(await response.ended).toBe('end')
    const id = streamId(response)
    expect(response.text).toBe(
      `${PRIMERS[primer](eventId(id, '0.1'))}id: ${eventId(id, 1)}\n${block(FIRST)}id: ${eventId(id, 2)}\n${block(LAST)}`
    )
  })

  it('gets the headers of a stream, besides those of the endpoint', async () => {
    const endpoint = rawEndpoint(twoEvents)
    const [bare, response] = await both(endpoint, url => post(url, callTool(1, 'x'), headers))
    expect(headersOf(response)).toEqual({
      ...headersOf(bare),
      'Cache-Control': 'no-cache, no-transform',
      'X-Accel-Buffering': 'no',
      Link: `<?stream=${streamId(response)}>; rel="stream"`,
      ...(announced && { 'Preference-Applied': 'rel=stream' })
    })
  })

  it('gets head and primer before the endpoint has written an event', async () => {
    const go = gate()
    const { url } = await serve(
      rawEndpoint(async call => {
        call.open()
        await go.opened
        twoEvents(call)
      })
    )
    const response = await post(url, callTool(1, 'x'), headers)
    const { raw } = await response.next()
    expect(raw).toBe(PRIMERS[primer](eventId(streamId(response), '0.1')))
    go.open()
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([FIRST, LAST])
  })

  it('gets a primer of its own on every connection that it comes back with, the id advancing, the cursor kept', async () => {
    const go = gate()
    const { url } = await serve(
      rawEndpoint(async ({ emit, result }) => {
        emit(FIRST)
        await go.opened
        result(LAST.result)
      })
    )
    const first = await post(url, callTool(1, 'x'), headers)
    await first.take(2)
    first.destroy()
    const id = streamId(first)
    const byUrl = await get(streamUrl(first, url), { ...headers, 'last-event-id': `${id}.1` })
    expect((await byUrl.next()).raw).toBe(PRIMERS[primer](eventId(id, '1.3')))
    const byEndpoint = await get(url, { ...headers, 'last-event-id': `${id}.1` })
    expect((await byEndpoint.next()).raw).toBe(PRIMERS[primer](eventId(id, '1.5')))
    go.open()
    await byEndpoint.ended
    expect(byEndpoint.text).toBe(
      `${PRIMERS[primer](eventId(id, '1.5'))}id: ${eventId(id, 2)}\n${block(LAST)}`
    )
    for (const resumed of [byUrl, byEndpoint]) {
      expect(resumed.headers.link).toBe(first.headers.link)
      expect(resumed.headers['preference-applied']).toBe(announced ? 'rel=stream' : undefined)
    }
  })
})

describe('a client that says nothing of itself when it comes back', () => {
  it.each(rows)(
    'is treated as the one of revision $name that opened the stream',
    async ({ headers, primer }) => {
      const { url } = await serve(rawEndpoint(twoEvents))
      const response = await post(url, callTool(1, 'x'), headers)
      await response.ended
      const resumed = await get(streamUrl(response, url))
      expect((await resumed.next()).raw).toBe(PRIMERS[primer](eventId(streamId(response), '0.3')))
    }
  )
})

describe('the response to initialize', () => {
  it.each(['2025-03-26', '2025-06-18', '2025-11-25'])(
    'has ids, a link and the reconnection time, and no primer: %s is only asked for yet',
    async version => {
      const { url } = await serve(rawEndpoint(() => undefined, { session: 's' }))
      const response = await post(url, initialize(version))
      await response.ended
      const [message] = response.messages()
      expect(message).toMatchObject({ id: 'initialize', result: { protocolVersion: version } })
      expect(response.text).toBe(`id: ${streamId(response)}.1\n${block(message)}`)
    }
  )
})

describe('a JSON-RPC batch of 2025-03-26', () => {
  const headers = headersFor({ version: '2025-03-26' })
  const batch = [callTool(1, 'x'), notification('notifications/x'), callTool('two', 'x')]

  it('is one stream, which completes with the last of its responses', async () => {
    const go = gate()
    const { url, streams } = await serve(
      rawEndpoint(async ({ emit, res }) => {
        emit(result('two', {}))
        await go.opened
        emit([notification('notifications/y'), LAST])
        res.end()
      })
    )
    const response = await post(url, batch, headers)
    await response.take(2)
    expect(streams.stats()).toMatchObject({ live: 1, finished: 0 })
    go.open()
    expect(await response.ended).toBe('end')
    const id = streamId(response)
    expect(response.text).toBe(
      `${PRIMERS.named(`${id}.0.1`)}id: ${id}.1\n${block(result('two', {}))}` +
        `id: ${id}.2\n${block([notification('notifications/y'), LAST])}`
    )
    expect(streams.stats()).toMatchObject({ live: 0, finished: 1 })
  })

  it('gets an error for each response that the endpoint has left out', async () => {
    const { url } = await serve(
      rawEndpoint(({ emit, res }) => {
        emit(LAST)
        res.end()
      })
    )
    const response = await post(url, batch, headers)
    await response.ended
    expect(response.messages()).toEqual([
      LAST,
      { jsonrpc: '2.0', id: 'two', error: expect.objectContaining({ code: -31000 }) }
    ])
  })

  it('is resumed as a whole, on the official SDK', async () => {
    const endpoint = sdkV1Stateful()
    const { url } = await serve(endpoint)
    const { headers } = await initializeSession(url, '2025-03-26')
    const count = (id: number) => callTool(id, 'count', { key: `${id}`, n: 2, paced: true })
    const response = await post(url, [count(1), count(2)], headers)
    await endpoint.log.calls.nth(2)
    endpoint.log.release('1', 2)
    await response.take(3)
    response.reset()
    endpoint.log.release('2', 3)
    endpoint.log.release('1')
    await endpoint.log.ended.nth(2)
    const resumed = await get(streamUrl(response, url), {
      ...headers,
      'last-event-id': response.blocks[2]!.id!
    })
    expect(await resumed.ended).toBe('end')
    const messages = [...response.messages(), ...resumed.messages()]
    expect(messages.map(message => message.id ?? message.params.data).sort()).toEqual(
      ['1', '1', '2', '2', 1, 2].sort()
    )
    expect(resumed.messages().filter(message => message.result)).toHaveLength(2)
  })
})

/** The same request, to the endpoint alone and to the endpoint behind the middleware. */
async function both(
  endpoint: Handler,
  send: (url: string) => Promise<OpenStream>
): Promise<[OpenStream, OpenStream]> {
  const { url: bareUrl } = await listen(express().all('/mcp', endpoint))
  const { url } = await serve(endpoint)
  const responses: [OpenStream, OpenStream] = [await send(`${bareUrl}/mcp`), await send(url)]
  await Promise.all(responses.map(({ ended }) => ended))
  return responses
}

function headersOf({ rawHeaders }: OpenStream): Record<string, string> {
  const headers: Record<string, string> = {}
  for (let i = 0; i < rawHeaders.length; i += 2) headers[rawHeaders[i]!] = rawHeaders[i + 1]!
  expect(Object.keys(headers)).toHaveLength(rawHeaders.length / 2)
  return { ...headers, Date: 'now' }
}
