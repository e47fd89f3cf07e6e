// An endpoint that gives its events ids itself: ours take their place, in each response from its
// head to its end.

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import type { ServerResponse } from 'node:http'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { gate } from '../../helpers/gate.js'
import { type Handler } from '../../helpers/listen.js'
import { callTool, eventId, get, initialize, initializeSession, post } from '../../helpers/mcp.js'
import { isMessage } from '../../helpers/blocks.js'
import { serve, streamId } from '../../helpers/serve.js'
import { stopTheClock } from '../limits/setup.js'
import { answer, ENDPOINTS, event, MODERN, note, OrderedStore } from './setup.js'

const SSE_TYPE = { 'Content-Type': 'text/event-stream' }

let warnings: ReturnType<typeof jest.spyOn>

beforeEach(() => {
  warnings = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
})

afterEach(() => expect(warnings).not.toHaveBeenCalled())

describe.each(Object.entries(ENDPOINTS))('%s with its eventStore', (_name, create) => {
  it.each(['2025-06-18', '2025-11-25'])(
    'at %s: a call that is cut goes on, by our ids alone',
    async version => {
      const store = new OrderedStore()
      const endpoint = create(store)
      const { url } = await serve(endpoint as Handler)
      const session = await initializeSession(url, version)
      const count = callTool(1, 'count', { key: 'k', n: 3, paced: true }, 'token')
      const first = await post(url, count, session.headers)
      endpoint.log.release('k')
      await first.next(isMessage)
      first.destroy()
      endpoint.log.release('k', 3)
      await endpoint.log.ended.nth(1)
      const lastEventId = first.events.at(-1)!.id!
      const second = await get(url, { ...session.headers, 'last-event-id': lastEventId })
      expect(await second.ended).toBe('end')
      expect([...first.messages(), ...second.messages()]).toMatchObject([
        { params: { progress: 1 } },
        { params: { progress: 2 } },
        { params: { progress: 3 } },
        { id: 1, result: {} }
      ])
      expect(lastEventId).toBe(eventId(streamId(first), 1))
      expect(session.response.text + first.text + second.text).not.toContain('store-')
      expect(store.replays).toHaveLength(0)
      expect(endpoint.log.executions('k')).toBe(1)
    }
  )
})

describe('an endpoint with ids of its own', () => {
  const SHAPES: Record<string, (res: ServerResponse) => unknown> = {
    'on its first event': res => res.end(event(1, note(1)) + event(2, note(2)) + event(3, answer)),
    'later than on its first event': res =>
      res.end(`data: ${JSON.stringify(note(1))}\n\n${event(2, note(2))}${event(3, answer)}`),
    'behind other fields': res =>
      res.end(
        `event: message\ndata: ${JSON.stringify(note(1))}\nid: x\n\n` +
          event(2, note(2)) +
          event(3, answer)
      ),
    'without a value': res =>
      res.end(`id\n${event('', note(1))}${event(2, note(2))}${event(3, answer)}`),
    'without events': res =>
      res.end(`id: 7\n\n${event(1, note(1))}id: 8\n\n${event(2, note(2))}${event(3, answer)}`),
    'with a priming event': res =>
      res.end(`id: 0\ndata: \n\n${event(1, note(1))}${event(2, note(2))}${event(3, answer)}`),
    'in pieces': res => {
      for (const byte of event(1, note(1)) + event(2, note(2)) + event(3, answer)) res.write(byte)
      res.end()
    },
    'with line ends of its own': res =>
      res.end((event(1, note(1)) + event(2, note(2)) + event(3, answer)).replaceAll('\n', '\r\n'))
  }

  it.each(Object.entries(SHAPES))('%s: its messages, with ours', async (_name, write) => {
    for (const isLate of [false, true]) {
      const go = gate()
      const { url } = await serve(async (_req, res) => {
        res.writeHead(200, SSE_TYPE)
        if (isLate) await go.opened
        write(res)
      })
      const response = await post(url, callTool(1, 'any'), MODERN)
      go.open()
      expect(await response.ended).toBe('end')
      expect(response.messages()).toEqual([note(1), note(2), answer])
      expect(response.blocks.filter(isMessage).map(({ id }) => id)).toEqual(
        [1, 2, 3].map(n => eventId(streamId(response), n))
      )
      expect(response.blocks.filter(({ data }) => data === '')).toHaveLength(1)
    }
  })

  it('has its reconnection time passed on, and its comments', async () => {
    const { url } = await serve((_req, res) => {
      res.writeHead(200, SSE_TYPE)
      res.end(`: hello\nid: 1\nretry: 1234\ndata: \n\n: news\n${event(2, answer)}`)
    })
    const response = await post(url, callTool(1, 'any'), MODERN)
    expect(await response.ended).toBe('end')
    expect(response.text).toMatch(/retry: 3000\n[^]*: hello\nretry: 1234\n[^]*: news\n/)
    expect(response.messages()).toEqual([answer])
  })

  it('does so in its answer to initialize as well, and on its listen channel', async () => {
    const endpoint = rawEndpoint(({ req, res, open, write }) => {
      if (req.method === 'GET') return void write(event(9, note(1)))
      open({ 'Mcp-Session-Id': 'a session' })
      const serverInfo = { name: 'raw', version: '1' }
      const value = { protocolVersion: '2025-11-25', capabilities: {}, serverInfo }
      write(`id: 1\nretry: 7\ndata: \n\n`)
      res.end(event(2, { jsonrpc: '2.0', id: 'initialize', result: value }))
    })
    const { url } = await serve(endpoint)
    const first = await post(url, initialize('2025-11-25'))
    expect(await first.ended).toBe('end')
    expect(first.events.map(({ id }) => id)).toEqual([`${streamId(first)}.1`])
    const channel = await get(url, { ...MODERN, 'mcp-session-id': 'a session' })
    const { id } = await channel.next(isMessage)
    expect(id).toBe(`${streamId(channel)}.1`)
  })
})

describe('with `eventStore: leave`', () => {
  it.each(Object.entries(ENDPOINTS))('%s resumes its clients itself', async (_name, create) => {
    const store = new OrderedStore()
    const endpoint = create(store)
    const { url, streams } = await serve(endpoint as Handler, { eventStore: 'leave' })
    const session = await initializeSession(url, '2025-11-25')
    const count = callTool(1, 'count', { key: 'k', n: 2, paced: true }, 'token')
    const first = await post(url, count, session.headers)
    endpoint.log.release('k')
    const { id } = await first.next(isMessage)
    first.destroy()
    endpoint.log.release('k', 2)
    await endpoint.log.ended.nth(1)
    const second = await get(url, { ...session.headers, 'last-event-id': id! })
    expect((await second.take(2, isMessage)).map(({ id }) => id)).toEqual([
      expect.stringMatching(/^store-/),
      expect.stringMatching(/^store-/)
    ])
    expect(store.replays).toEqual([id])
    for (const { headers, text } of [first, second]) {
      expect(headers['link']).toBeUndefined()
      expect(text).not.toContain('retry: 3000')
    }
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0 })
  })

  it('a slow answer is waited for: nobody knows yet whose ids it will have', async () => {
    const [called, go] = [gate(), gate()]
    const { url, streams } = await serve(
      async (_req, res) => {
        called.open()
        await go.opened
        res.writeHead(200, SSE_TYPE).end(event(1, answer))
      },
      { eventStore: 'leave' }
    )
    stopTheClock()
    const asked = post(url, callTool(1, 'any'), { ...MODERN, prefer: 'rel=stream' })
    await called.opened
    jest.advanceTimersByTime(60_000)
    expect(streams.stats()).toMatchObject({ live: 0 })
    go.open()
    const response = await asked
    jest.useRealTimers()
    await response.ended
    expect(response.text).toBe(event(1, answer))
  })
})
