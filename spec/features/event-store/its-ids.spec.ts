// Clients that come back for what only the endpoint's store has: they have an id of the store, or
// the endpoint has closed their listen channel.

import { afterEach, describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { isMessage } from '../../helpers/blocks.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { closeAll, type Handler, listen } from '../../helpers/listen.js'
import { callTool, eventId, get, headersFor, initializeSession, post } from '../../helpers/mcp.js'
import { serve, streamId } from '../../helpers/serve.js'
import { createStreams } from '../mounting/frameworks.js'
import { leave } from '../limits/setup.js'
import { ENDPOINTS, event, note, OrderedStore } from './setup.js'

afterEach(closeAll)

const SESSION = headersFor({ version: '2025-11-25', session: 'a session' })

describe.each(Object.entries(ENDPOINTS))(
  'a client of %s that has an id of its store',
  (_name, create) => {
    it('gets its replay, with ids of ours, and resumes that from us', async () => {
      const store = new OrderedStore()
      const endpoint = create(store)
      const streams = createStreams()
      const handle = endpoint as RequestHandler
      const { url } = await listen(
        express().use('/mcp', streams).all('/mcp', handle).all('/before', handle)
      )
      const { headers } = await initializeSession(`${url}/before`, '2025-11-25')
      const count = callTool(1, 'count', { key: 'k', n: 3, paced: true }, 'token')
      const before = await post(`${url}/before`, count, headers)
      endpoint.log.release('k')
      const { id } = await before.next(isMessage)
      before.destroy()

      const replayed = await get(`${url}/mcp`, { ...headers, 'last-event-id': id! })
      endpoint.log.release('k')
      const second = await replayed.next(isMessage)
      expect(second.id).toBe(`${streamId(replayed)}.1`)
      await leave(replayed, { streams })
      endpoint.log.release('k', 2)
      const rest = await get(`${url}/mcp`, { ...headers, 'last-event-id': second.id! })
      await rest.take(2, isMessage)
      expect([before, replayed, rest].flatMap(response => response.messages())).toMatchObject([
        { params: { progress: 1 } },
        { params: { progress: 2 } },
        { params: { progress: 3 } },
        { id: 1, result: {} }
      ])
      expect(store.replays).toEqual([id])
      expect(replayed.text + rest.text).not.toContain('store-')
      expect(endpoint.log.executions('k')).toBe(1)
    })
  }
)

describe('a listen channel that the endpoint closes', () => {
  /** An endpoint that writes a note for each GET, with an id of its own, and then closes. */
  const closing = () =>
    rawEndpoint(({ write, res }) => {
      const n = endpoint.calls.length
      write(event(`own-${n}`, note(n)))
      res.end()
    })
  let endpoint: ReturnType<typeof closing>

  it('goes on where it has closed it, when its client comes back', async () => {
    endpoint = closing()
    const { url } = await serve(endpoint)
    let id: string | undefined
    const seen: unknown[] = []
    for (let n = 1; n <= 3; n++) {
      const channel = await get(url, { ...SESSION, ...headersFor({ lastEventId: id }) })
      expect(await channel.ended).toBe('end')
      seen.push(...channel.messages())
      id = channel.blocks.at(-1)!.id!
      expect(id).toBe(`${streamId(channel)}.1`)
    }
    expect(seen).toEqual([note(1), note(2), note(3)])
    expect(endpoint.calls.map(({ req }) => req.headers['last-event-id'])).toEqual([
      undefined,
      'own-1',
      'own-2'
    ])
  })

  it('with what its client has not had yet: that comes first', async () => {
    endpoint = closing()
    const { url } = await serve(endpoint)
    const first = await get(url, SESSION)
    await first.ended
    const start = eventId(streamId(first), 0).replace('.r1', '')
    const rest = await get(url, { ...SESSION, 'last-event-id': start })
    expect(await rest.ended).toBe('end')
    expect(rest.messages()).toEqual([note(1)])
    expect(endpoint.calls).toHaveLength(1)
    const next = await get(url, { ...SESSION, 'last-event-id': rest.blocks.at(-1)!.id! })
    await next.ended
    expect(next.messages()).toEqual([note(2)])
    expect(endpoint.calls[1]!.req.headers['last-event-id']).toBe('own-1')
  })

  it('is refused to another owner as before: it never sees the id', async () => {
    endpoint = closing()
    const { url } = await serve(endpoint)
    const mine = await get(url, { ...SESSION, ...headersFor({ auth: 'me' }) })
    await mine.ended
    const id = mine.blocks.at(-1)!.id!
    const theirs = await get(url, { ...SESSION, ...headersFor({ auth: 'them', lastEventId: id }) })
    await theirs.ended
    expect(endpoint.calls[1]!.req.headers['last-event-id']).toBeUndefined()
  })

  it.each(Object.entries(ENDPOINTS))('%s loses nothing meanwhile', async (_name, create) => {
    const store = new OrderedStore()
    const sdk = create(store)
    const { url } = await serve(sdk as Handler)
    const { headers } = await initializeSession(url, '2025-11-25')
    const channel = await get(url, headers)
    const [session] = [...sdk.sessions.values()] as unknown as [Running]
    const say = (data: number) => session.server.sendLoggingMessage({ level: 'info', data })
    await say(1)
    await channel.next(isMessage)
    session.transport.closeStandaloneSSEStream()
    expect(await channel.ended).toBe('end')
    await say(2)
    const again = await get(url, { ...headers, 'last-event-id': channel.blocks.at(-1)!.id! })
    await say(3)
    await again.take(2, isMessage)
    expect([...channel.messages(), ...again.messages()]).toEqual([note(1), note(2), note(3)])
  })
})

interface Running {
  server: { sendLoggingMessage(message: { level: 'info'; data: unknown }): Promise<void> }
  transport: { closeStandaloneSSEStream(): void }
}
