// An endpoint that numbers its events itself: we step aside, and say so once.

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import type { EventStore } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { Awaitable, gate } from '../../helpers/gate.js'
import { closeAll, listen } from '../../helpers/listen.js'
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
import type { Json } from '../../helpers/open-stream.js'
import { streamId, streamUrl } from '../../helpers/serve.js'
import { createStreams, type Middleware, MOUNTS } from '../mounting/frameworks.js'
import { expectSameBytes, requestOf } from '../mounting/on-the-wire.js'

const SSE_TYPE = { 'Content-Type': 'text/event-stream' }
const HEADERS = headersFor({ version: '2025-11-25' })
const [, mount] = MOUNTS[3]!
const note = (n: number) =>
  `data: ${JSON.stringify(notification('notifications/message', { level: 'info', data: n }))}\n\n`
const answer = `data: ${JSON.stringify(result(1, {}))}\n\n`

let warnings: ReturnType<typeof jest.spyOn>

beforeEach(() => {
  warnings = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
})

afterEach(async () => {
  warnings.mockRestore()
  await closeAll()
})

/** The sample store of the SDKs, with ids that are the same in every run. */
class CountingStore implements EventStore {
  readonly #events: { id: string; streamId: string; message: Json }[] = []
  readonly #streams: string[] = []

  async storeEvent(streamId: string, message: Json): Promise<string> {
    if (!this.#streams.includes(streamId)) this.#streams.push(streamId)
    const id = `${this.#streams.indexOf(streamId)}_${this.#events.length}`
    this.#events.push({ id, streamId, message })
    return id
  }

  async getStreamIdForEventId(eventId: string): Promise<string | undefined> {
    return this.#events.find(({ id }) => id === eventId)?.streamId
  }

  async replayEventsAfter(
    lastEventId: string,
    { send }: { send: (id: string, message: Json) => Promise<void> }
  ) {
    const at = this.#events.findIndex(({ id }) => id === lastEventId)
    const { streamId } = this.#events[at]!
    for (const { id, message } of this.#events
      .slice(at + 1)
      .filter(event => event.streamId === streamId)) {
      if (Object.keys(message).length > 0) await send(id, message)
    }
    return streamId
  }
}

interface Running {
  server: { sendLoggingMessage(message: { level: 'info'; data: unknown }): Promise<void> }
  transport: { closeStandaloneSSEStream(): void }
}

const withoutSession = (text: string) =>
  text.replaceAll(/[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/g, '…')

const ENDPOINTS = {
  'SDK v1': () =>
    sdkV1Stateful({ eventStore: new CountingStore(), transport: { retryInterval: 50 } }),
  'SDK v2': () =>
    sdkV2Stateful({ eventStore: new CountingStore(), transport: { retryInterval: 50 } })
}

describe.each(Object.entries(ENDPOINTS))('%s with its eventStore', (_name, create) => {
  it.each(['2025-06-18', '2025-11-25'])(
    'at %s: the same blocks as without us, and its own way to resume',
    async version => {
      const responses = await Promise.all(
        [false, true].map(async isOurs => {
          const endpoint = create() as Middleware & ReturnType<typeof create>
          const streams = isOurs ? [createStreams()] : []
          const { url } = await listen(mount([...streams, endpoint]))
          const session = await initializeSession(`${url}/mcp`, version)
          const answering = post(
            `${url}/mcp`,
            callTool(1, 'count', { key: 'k', n: 3, paced: true }, 'token'),
            session.headers
          )
          endpoint.log.release('k')
          const first = await answering
          await first.nextMessage()
          first.destroy()
          endpoint.log.release('k', 3)
          await endpoint.log.ended.nth(1)
          const second = await get(`${url}/mcp`, {
            ...session.headers,
            'last-event-id': first.events.at(-1)!.id!
          })
          await second.take(3, block => block.data !== '')
          second.destroy()
          const list = await post(`${url}/mcp`, callTool(2, 'count', { n: 2 }), session.headers)
          await list.ended
          // The channel: nothing on it before the endpoint's first event, and its end is the
          // endpoint's.
          const listening = await get(`${url}/mcp`, session.headers)
          const [{ server, transport }] = [...endpoint.sessions.values()] as unknown as [Running]
          await server.sendLoggingMessage({ level: 'info', data: 'hello' })
          await listening.nextMessage()
          transport.closeStandaloneSSEStream()
          expect(await listening.ended).toBe('end')
          return [session.response, first, second, list, listening]
        })
      )
      const [bare, ours] = responses as [
        Awaited<(typeof responses)[0]>,
        Awaited<(typeof responses)[0]>
      ]
      for (const [i, response] of ours.entries()) {
        expect(withoutSession(response.text)).toBe(withoutSession(bare[i]!.text))
        expect(response.headers['link']).toBeUndefined()
      }
      expect(ours[2]!.messages()).toHaveLength(3)
      expect(warnings.mock.calls).toMatchObject([
        [expect.stringContaining('eventStore'), { code: 'MCP_STREAMS_FOREIGN_IDS' }]
      ])
    }
  )
})

describe('an endpoint with ids of its own', () => {
  const UNTOUCHED: Record<string, (res: Parameters<Middleware>[1]) => unknown> = {
    'on its first event': res => res.writeHead(200, SSE_TYPE).end(`id: 1\n${note(1)}${answer}`),
    'on its first event, by an implicit head': res => {
      res.setHeader('Content-Type', 'text/event-stream').write(`id: 1\n${note(1)}`)
      res.end()
    },
    'behind other fields': res =>
      res.writeHead(200, SSE_TYPE).end(`event: message\nretry: 5\n${note(1).trimEnd()}\nid: x\n\n`),
    'without a value': res => res.writeHead(200, SSE_TYPE).end(`id\n${note(1)}`),
    'without an event': res => res.writeHead(200, SSE_TYPE).end(`id: 7\n\n${note(1)}`),
    'with a content-length': res => {
      const body = `id: 1\n${note(1)}`
      res.writeHead(200, 'Fine', { ...SSE_TYPE, 'Content-Length': body.length }).end(body)
    },
    'with writes to come': res => {
      res.writeHead(200, SSE_TYPE)
      res.write(`id: 1\n${note(1)}`)
      for (const n of [2, 3, 4]) res.write(`id: ${n}\n${note(n)}`)
      res.end(answer)
    },
    'with a block that is cut in two': res => {
      res.writeHead(200, SSE_TYPE)
      res.write(`id: 1\n${note(1)}id: 2\n${note(2).slice(0, 10)}`)
      res.write(note(2).slice(10))
      res.end()
    },
    'with a block that never ends': res =>
      res.writeHead(200, SSE_TYPE).end(`id: 1\n${note(1)}id: 2\ndata: {`)
  }

  it.each(Object.entries(UNTOUCHED))('%s: the same bytes, and no link', async (_name, write) => {
    const [response] = await expectSameBytes(
      streams => mount([...streams, (_req, res) => write(res)]),
      requestOf(callTool(1, 'any'), { headers: HEADERS })
    )
    expect(response).not.toMatch(/^link:/im)
    expect(warnings).toHaveBeenCalledTimes(1)
  })

  it.each([
    ['an id in a comment', ': id: 1\n'],
    ['an identity', 'identity: 1\n'],
    ['ids', 'ids: 1\n'],
    ['an id in its data', 'data: id: 1\n\n'],
    ['an id in capitals', 'ID: 1\n'],
    ['an id behind a space', ' id: 1\n']
  ])('is not one that writes %s', async (_name, lines) => {
    const { url } = await listen(
      mount([createStreams(), (_req, res) => res.writeHead(200, SSE_TYPE).end(`${lines}${answer}`)])
    )
    const response = await post(`${url}/mcp`, callTool(1, 'any'), HEADERS)
    await response.ended
    expect(response.headers['link']).toBeDefined()
    expect(response.events.at(-1)!.id).toBe(eventId(streamId(response), response.events.length - 1))
    expect(warnings).not.toHaveBeenCalled()
  })

  it('after its head has left: the rest as it is, and a link that leads nowhere', async () => {
    const go = gate()
    const streams = createStreams()
    const endpoint: Middleware = async (_req, res) => {
      res.writeHead(200, SSE_TYPE)
      await go.opened
      res.write(`id: 1\n${note(1)}`)
      res.end(`id: 2\n${answer}`)
    }
    const { url } = await listen(mount([streams, endpoint]))
    const response = await post(`${url}/mcp`, callTool(1, 'any'), HEADERS)
    const target = streamUrl(response, `${url}/mcp`)
    expect((await response.next()).data).toBe('')
    go.open()
    expect(await response.ended).toBe('end')
    expect(response.text.slice(response.blocks[0]!.raw.length)).toBe(
      `id: 1\n${note(1)}id: 2\n${answer}`
    )
    expect((await get(target, HEADERS)).status).toBe(404)
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, connections: 0, bytes: 0 })
  })

  it('after events without: those keep our ids, once each, and the rest its own', async () => {
    const go = gate()
    const endpoint: Middleware = async (_req, res) => {
      res.writeHead(200, SSE_TYPE)
      res.write(note(1))
      res.write(`${note(2)}id: 3\n${note(3)}`)
      await go.opened
      res.end(answer)
    }
    const { url } = await listen(mount([createStreams(), endpoint]))
    const response = await post(`${url}/mcp`, callTool(1, 'any'), HEADERS)
    go.open()
    expect(await response.ended).toBe('end')
    expect(response.messages()).toMatchObject([
      { params: { data: 1 } },
      { params: { data: 2 } },
      { params: { data: 3 } },
      { id: 1 }
    ])
    expect(response.events.map(({ id }) => id?.replace(/^.{21}/, '…'))).toEqual([
      '….r1.0.1',
      '….r1.1',
      '….r1.2',
      '3',
      undefined
    ])
  })

  it('after more than its client has read: nothing is lost', async () => {
    const filler = 'x'.repeat(100_000)
    const written = gate()
    const endpoint: Middleware = (_req, res) => {
      res.writeHead(200, SSE_TYPE)
      for (let n = 0; n < 60; n++)
        res.write(
          `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":${n},"x":"${filler}"}}\n\n`
        )
      res.end(`id: 3\n${answer}`)
      written.open()
    }
    const { url } = await listen(mount([createStreams(), endpoint]))
    const response = await post(`${url}/mcp`, callTool(1, 'any'), HEADERS)
    response.pause()
    await written.opened
    response.resume()
    expect(await response.ended).toBe('end')
    const messages: Json[] = response.messages()
    expect(messages.slice(0, -1).map(({ params }) => params.data)).toEqual([...Array(60).keys()])
    expect(messages.at(-1)).toMatchObject({ id: 1 })
  })

  it('hears of its client again at once', async () => {
    const heard = new Awaitable<string>()
    const endpoint: Middleware = (req, res) => {
      res.on('close', () => heard.push('res close'))
      req.on('aborted', () => heard.push('req aborted'))
      res.writeHead(200, SSE_TYPE).write(`id: 1\n${note(1)}`)
    }
    const { url } = await listen(mount([createStreams(), endpoint]))
    const response = await post(`${url}/mcp`, callTool(1, 'any'), HEADERS)
    await response.next()
    response.destroy()
    await heard.nth(2)
    expect(heard).toHaveLength(2)
  })

  it('after its client has left with one of our ids: this response stays ours to its end', async () => {
    const go = gate()
    const streams = createStreams()
    const endpoint: Middleware = async (_req, res) => {
      res.writeHead(200, SSE_TYPE)
      await go.opened
      res.write(`id: 1\n${note(1)}id: 2\n\n`)
      res.end(`id: 3\n${answer}`)
    }
    const { url } = await listen(mount([streams, endpoint]))
    const first = await post(`${url}/mcp`, callTool(1, 'any'), HEADERS)
    const { id: lastEventId } = await first.next()
    const second = await get(`${url}/mcp`, { ...HEADERS, 'last-event-id': lastEventId! })
    await first.ended
    go.open()
    expect(await second.ended).toBe('end')
    expect(second.messages()).toMatchObject([{ params: { data: 1 } }, { id: 1 }])
    expect(second.events.map(({ id }) => id?.replace(/^.{21}/, '…'))).toEqual([
      '….r1.0.3',
      '….r1.1',
      '….r1.2'
    ])
    // What it has shown counts for the next.
    const third = await post(`${url}/mcp`, callTool(1, 'any'), HEADERS)
    expect(third.headers['link']).toBeUndefined()
  })

  it('is left alone from the head on, once it has shown one, in all its sessions that do not show otherwise', async () => {
    const { url, streams } = await serveSessions()
    const [mine, other] = [await sessionOf(url, 'numbered'), await sessionOf(url, 'plain')]
    const numbered = await post(url, callTool(1, 'any'), mine)
    expect([numbered.headers['link'], (await numbered.next()).raw]).toEqual([
      undefined,
      `id: 1\n${answer}`
    ])
    const listening = await get(url, mine)
    expect(listening.headers['link']).toBeUndefined()
    expect(streams.stats()).toMatchObject({ live: 0, connections: 0 })

    // A gateway may have others behind the same path.
    const plain = await post(url, callTool(1, 'any'), other)
    await plain.ended
    expect(streamId(plain)).toBeDefined()
    const unknown = await post(url, callTool(1, 'any'), {
      ...HEADERS,
      'mcp-session-id': 'numbered-never-seen'
    })
    expect(unknown.headers['link']).toBeUndefined()
    const elsewhere = await post(`${url}/plain`, callTool(1, 'any'), HEADERS)
    expect(elsewhere.headers['link']).toBeDefined()
    expect(warnings).toHaveBeenCalledTimes(1)
  })

  it('tells its client no reconnection time of ours, nor does any other with its answer to initialize', async () => {
    const { url } = await serveSessions()
    for (const kind of ['numbered', 'plain']) {
      const response = await post(url, initialize('2025-11-25'), { 'x-session': kind })
      await response.ended
      expect(response.blocks.map(({ retry }) => retry)).toEqual([undefined])
    }
  })

  /** Sessions that are named by what their events have: `numbered…` have ids. */
  async function serveSessions() {
    const streams = createStreams()
    const endpoint: Middleware = (req, res) => {
      const session = req.headers['mcp-session-id'] ?? req.headers['x-session'] ?? 'plain'
      res.writeHead(200, {
        ...SSE_TYPE,
        ...(req.headers['x-session'] !== undefined && { 'Mcp-Session-Id': session })
      })
      if (req.method === 'GET') res.flushHeaders()
      else res.end(`${String(session).startsWith('numbered') ? 'id: 1\n' : ''}${answer}`)
    }
    const { url } = await listen(mount([streams, endpoint]))
    return { url: `${url}/mcp`, streams }
  }

  async function sessionOf(url: string, session: string): Promise<Record<string, string>> {
    await (
      await post(url, initialize('2025-11-25'), { 'x-session': session })
    ).ended
    return { ...HEADERS, 'mcp-session-id': session }
  }

  it('is warned of once, however many responses it makes', async () => {
    const streams = createStreams()
    const endpoint: Middleware = (_req, res) => res.writeHead(200, SSE_TYPE).end(`id: 1\n${answer}`)
    const { url } = await listen(mount([streams, endpoint]))
    for (const session of ['a', 'b', 'c']) {
      const response = await post(`${url}/mcp`, initialize('2025-11-25'), {
        ...HEADERS,
        'mcp-session-id': session
      })
      await response.ended
      expect(response.headers['link']).toBeUndefined()
      expect(response.messages()).toEqual([result(1, {})])
    }
    expect(warnings).toHaveBeenCalledTimes(1)
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0 })
  })
})
