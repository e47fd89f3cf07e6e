// The Streams draft over WebSocket, message by message: a client of its own words, and the official
// SDK's server.

import { describe, expect, it, jest } from '@jest/globals'
import { once } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { closeLater } from '../../helpers/listen.js'
import { Hub } from '../../helpers/backplane/memory.js'
import { mcpStreams } from '../../../lib/index.js'
import { resumableTransport, type TransportLike } from '../../../lib/wires/index.js'
import { until } from '../../helpers/happenings.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import {
  callTool,
  headersFor,
  initialized,
  initialize,
  notification,
  post,
  request,
  result
} from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve, streamId as streamIdOf } from '../../helpers/serve.js'
import { stopTheClock } from '../limits/setup.js'
import { bare, DECLARED, isCreate, isEnd, openSession, openWire } from './raw-wire.js'
import { serveWires } from './web-socket.js'

const UNKNOWN = {
  code: -32602,
  message: 'Stream not found',
  data: { reason: 'stream-unknown', detail: 'The stream ID is invalid (e.g., abandoned)' }
}

describe('a client that declares streams', () => {
  it('is told of each stream first and last, and that the server knows them', async () => {
    const { url } = await serveWires('v1', { resumeInterval: { min: 5, max: 3600 } })
    const wire = await openSession(url)
    const streamId = await wire.call(1, 'count', { n: 2 })
    await wire.messages.nth(9)
    expect((await wire.response('initialize')).result.capabilities.experimental).toEqual({
      streams: {}
    })
    expect(wire.messages.slice(4).map(bare)).toEqual([
      'notifications/stream/create',
      'notifications/progress',
      'notifications/progress',
      'result of 1',
      'notifications/stream/end'
    ])
    const [create, , , , end] = wire.messages.slice(4)
    expect(create.params.stream).toEqual({ streamId, resumeInterval: { min: 5, max: 3600 } })
    expect(end.params).toMatchObject({ streamId })
  })

  it('comes back with stream/resume on another wire, and is the same client there', async () => {
    const { url, log, transports, closed } = await serveWires('v1')
    const wire = await openSession(url)
    const streamId = await wire.call(1, 'count', { key: 'a', n: 3, paced: true })
    log.release('a', 1)
    await wire.find(({ method }) => method === 'notifications/progress')
    await wire.drop()
    log.release('a', 1)

    const other = await openWire(url)
    other.send(notification('stream/resume', { streamId }))
    await other.messages.nth(4)
    log.release('a', 2)
    await other.find(isEnd)
    expect(other.messages.map(bare)).toEqual([
      // Of the session's own stream, which comes along.
      'notifications/stream/create',
      'notifications/stream/create',
      'notifications/progress',
      'notifications/progress',
      'notifications/progress',
      'result of 1',
      'notifications/stream/end'
    ])
    expect(await other.ask(2, 'tools/list')).toHaveProperty('result.tools')
    expect(closed).toEqual([transports[1]])
    expect(log.executions('a')).toBe(1)
  })

  it('comes back, polls and ends its session where instances share a backplane', async () => {
    const { url, log, closed, transports } = await serveWires('v1', {
      backplane: new Hub().option()
    })
    const wire = await openSession(url)
    const own = (await wire.find(isCreate)).params.stream.streamId
    const streamId = await wire.call(1, 'hang', { key: 'a' })
    await wire.drop()
    const other = await openWire(url)
    other.send(notification('stream/resume', { streamId }))
    expect((await other.ask(2, 'stream/poll', { streamId })).result).toMatchObject({
      streamId,
      status: 'live'
    })
    other.send(notification('notifications/stream/end', { streamId: own }))
    await closed.nth(2)
    await log.ended.nth(1)
    expect(closed).toEqual([transports[1], transports[0]])
    expect(log.aborted('a')).toBe(1)
  })

  it('names a cursor, and gets what lies after it; and a result where its resume has an id', async () => {
    const { url, log } = await serveWires('v1')
    const wire = await openSession(url)
    const streamId = await wire.call(1, 'count', { key: 'a', n: 2 })
    await wire.response(1)
    await wire.drop()
    expect(log.executions('a')).toBe(1)
    const other = await openWire(url)
    expect(await other.ask('r', 'stream/resume', { streamId, cursor: 3 })).toMatchObject({
      result: { streamId, status: 'completed' }
    })
    expect(other.messages.slice(1).map(bare)).toEqual([
      'result of 1',
      'notifications/stream/end',
      'result of r'
    ])
  })

  it('loses nothing that the server says without being asked', async () => {
    const { url, servers } = await serveWires('v1')
    const wire = await openSession(url)
    const { streamId } = (await wire.find(isCreate)).params.stream
    await wire.drop()
    servers[0]!.sendToolListChanged()
    const other = await openWire(url)
    other.send(notification('stream/resume', { streamId, cursor: 1 }))
    expect(bare(await other.messages.nth(1))).toBe('notifications/tools/list_changed')
  })

  it('takes over from a connection that seems open still', async () => {
    const { url, log } = await serveWires('v1')
    const wire = await openSession(url)
    const streamId = await wire.call(1, 'count', { key: 'a', n: 1, paced: true })
    const other = await openWire(url)
    other.send(notification('stream/resume', { streamId }))
    await wire.closed
    log.release('a', 2)
    await other.find(isEnd)
    expect(wire.messages.map(bare)).not.toContain('notifications/progress')
  })

  it('answers on its new wire what it was asked on the old one, and is heard once', async () => {
    const { url, log, servers } = await serveWires('v1')
    const wire = await openSession(url)
    const streamId = await wire.call(1, 'elicit', { key: 'a' })
    const asked = await wire.find(({ method }) => method === 'elicitation/create')
    await wire.drop()
    const errors: Error[] = []
    servers[0]!.server.onerror = error => errors.push(error)
    const other = await openWire(url)
    other.send(notification('stream/resume', { streamId, cursor: 2 }))
    const answer = result(asked.id, { action: 'accept', content: { answer: 'Ann' } })
    other.send(answer, answer)
    expect((await other.response(1)).result.content[0].text).toContain('Ann')
    expect(log.executions('a')).toBe(1)
    expect(errors).toEqual([])
  })

  it('may answer a question after a thousand later ones', async () => {
    const { url, servers } = await serveWires('v1')
    const wire = await openSession(url)
    const { server } = servers[0]!
    const pongs = Array.from({ length: 1001 }, () => server.ping())
    const isPing = ({ method }: Json): boolean => method === 'ping'
    await until(() => wire.messages.filter(isPing).length === pongs.length)
    const [first] = wire.messages.filter(isPing)
    wire.send(result(first.id, {}))
    expect(await pongs[0]).toEqual({})
    for (const { id } of wire.messages.filter(isPing).slice(1)) wire.send(result(id, {}))
    await Promise.all(pongs)
  })

  it('does not run a call twice that it sends again on a new wire', async () => {
    const { url, log } = await serveWires('v1')
    const wire = await openSession(url)
    const { streamId } = (await wire.find(isCreate)).params.stream
    const call = request(1, 'tools/call', {
      name: 'count',
      arguments: { key: 'a', n: 1, paced: true }
    })
    wire.send(call)
    await log.calls.nth(1)
    await wire.drop()
    const other = await openWire(url)
    other.send(notification('stream/resume', { streamId }), call)
    log.release('a', 2)
    await other.response(1)
    const third = await openWire(url)
    third.send(notification('stream/resume', { streamId }), call)
    expect(await third.response(1)).toMatchObject({
      result: { content: [{ text: 'counted to 1' }] }
    })
    expect(log.executions('a')).toBe(1)
  })

  it('gets an answer also to a message that is nested too deeply to be written again', async () => {
    const { url, log, servers } = await serveWires('v1')
    const wire = await openSession(url)
    const errors: Error[] = []
    servers[0]!.server.onerror = error => errors.push(error)
    const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
    wire.socket.send(
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"key":"a","n":1},"_meta":{"deep":${deep}}}}`
    )
    expect(await wire.response(1)).toMatchObject({
      result: { content: [{ text: 'counted to 1' }] }
    })
    expect(log.executions('a')).toBe(1)
    expect(errors).toEqual([])
  })

  it('ends a session with the end of its stream: whatever still runs is cancelled', async () => {
    const { url, log, closed, transports, streams } = await serveWires('v1')
    const wire = await openSession(url)
    const { streamId } = (await wire.find(isCreate)).params.stream
    await wire.call(1, 'hang', { key: 'a' })
    wire.send(notification('notifications/stream/end', { streamId }))
    await closed.nth(1)
    await log.ended.nth(1)
    expect(closed).toEqual([transports[0]])
    expect(log.aborted('a')).toBe(1)
    expect(streams.stats().live).toBe(0)
  })

  it('cancels a call as ever, and its stream ends', async () => {
    const { url, log } = await serveWires('v1')
    const wire = await openSession(url)
    const streamId = await wire.call(1, 'hang', { key: 'a' })
    wire.send(notification('notifications/cancelled', { requestId: 1 }))
    await log.ended.nth(1)
    await wire.find(message => isEnd(message) && message.params.streamId === streamId)
    expect(await wire.ask('p', 'stream/poll', { streamId })).toMatchObject({ error: UNKNOWN })
  })
})

describe('a client that sends requests before it declares streams', () => {
  it('gets the responses to those, and may answer earlier questions', async () => {
    const { url, log } = await serveWires('v1')
    const wire = await openWire(url)
    // All in one go: the answer to the first is made when the second has come in.
    wire.send(request('early', 'ping'), initialize('2025-11-25', DECLARED), initialized())
    expect(await wire.response('early')).toEqual({ jsonrpc: '2.0', id: 'early', result: {} })
    await wire.response('initialize')
    expect(await wire.ask(1, 'tools/list')).toHaveProperty('result.tools')

    const other = await openSession(url, { elicitation: {} })
    other.send(callTool(1, 'elicit', { key: 'a' }))
    const { id } = await other.find(({ method }) => method === 'elicitation/create')
    const meta = { _meta: { 'io.modelcontextprotocol/clientCapabilities': DECLARED } }
    expect(await other.ask(2, 'tools/list', meta)).toHaveProperty('result.tools')
    expect(other.messages.some(isCreate)).toBe(true)
    other.send(result(id, { action: 'accept', content: { answer: 'Ann' } }))
    expect((await other.response(1)).result.content[0].text).toContain('Ann')
    expect(log.executions('a')).toBe(1)
  })
})

describe('a client that declares nothing', () => {
  it('sees nothing of streams, and its session ends with its connection', async () => {
    const { url, log, closed, transports } = await serveWires('v1')
    const wire = await openSession(url, {})
    wire.send(
      request(1, 'tools/call', { name: 'count', arguments: { n: 1 }, _meta: { progressToken: 1 } })
    )
    await wire.response(1)
    expect(
      wire.messages.map(message => Object.keys(message.params ?? message.result).includes('_meta'))
    ).toEqual([false, false, false])
    expect(wire.messages[0].result.capabilities).not.toHaveProperty('experimental')
    wire.send(request(2, 'tools/call', { name: 'hang', arguments: { key: 'a' } }))
    await log.calls.nth(2)
    await wire.drop()
    await closed.nth(1)
    expect(closed).toEqual([transports[0]])
    await log.ended.nth(2)
    expect(log.aborted('a')).toBe(1)
  })

  it('has messages sent by the wrapped transport, with its options and errors', async () => {
    const sent: unknown[][] = []
    const failure = new Error('cannot be sent')
    const transport = resumableTransport(
      {
        start: async () => undefined,
        close: async () => void sent.push(['closed']),
        send: async (...args: unknown[]) => {
          sent.push(args)
          if (sent.length > 1) throw failure
        }
      },
      mcpStreams()
    )
    await transport.start()
    const message = { jsonrpc: '2.0', method: 'notifications/progress' } as const
    const options = { relatedRequestId: 1, more: true }
    await transport.send(message, options)
    await expect(transport.send(message)).rejects.toBe(failure)
    expect(sent).toEqual([
      [message, options],
      [message, undefined]
    ])
  })

  it("is treated alike where notifications are 'never', whatever it declares", async () => {
    const { url, closed } = await serveWires('v1', { notifications: 'never' })
    const wire = await openSession(url)
    expect(wire.messages.map(bare)).toEqual(['result of initialize'])
    await wire.drop()
    await closed.nth(1)
  })

  it("is told of its streams where notifications are 'always'", async () => {
    const { url } = await serveWires('v1', { notifications: 'always' })
    const wire = await openSession(url, {})
    await wire.call(1, 'count', { n: 0 })
  })
})

describe('stream/poll', () => {
  it('says how a stream stands, and consumes nothing', async () => {
    const { url, log } = await serveWires('v1')
    const wire = await openSession(url)
    const streamId = await wire.call(1, 'elicit', { key: 'a' })
    await wire.find(({ method }) => method === 'elicitation/create')
    await wire.drop()
    const other = await openWire(url)
    const pending = {
      streamId,
      status: 'live',
      pendingMessages: true,
      hasRequest: true,
      hasError: false
    }
    expect((await other.ask(1, 'stream/poll', { streamId, cursor: 1 })).result).toEqual(pending)
    expect((await other.ask(2, 'stream/poll', { streamId, cursor: 1 })).result).toEqual(pending)
    expect((await other.ask(3, 'stream/poll', { streamId })).result).toMatchObject({
      pendingMessages: false
    })
    expect(log.executions('a')).toBe(1)
  })

  it('says of all streams of a session how they stand, and of no others', async () => {
    const { url } = await serveWires('v1')
    const wire = await openSession(url)
    const streamId = await wire.call(1, 'hang', { key: 'a' })
    const stranger = await openSession(url)
    const mine = (await wire.ask('all', 'stream/poll/all')).result.streams
    const theirs = (await stranger.ask('all', 'stream/poll/all')).result.streams
    expect(mine.map((stream: { streamId: string }) => stream.streamId)).toContain(streamId)
    expect(mine).toHaveLength(3)
    expect(theirs).toHaveLength(2)
    expect(theirs).not.toEqual(expect.arrayContaining([expect.objectContaining({ streamId })]))
  })

  it('keeps a stream and its session, as a sign of life', async () => {
    stopTheClock()
    const { url, closed, sockets } = await serveWires('v1', { resumeInterval: { max: 60 } })
    const wire = await openSession(url)
    const own = (await wire.find(isCreate)).params.stream.streamId
    const streamId = await wire.call(1, 'hang', { key: 'a' })
    const other = await openWire(url)
    const dropped = once(sockets[0]!, 'close')
    await wire.drop()
    await dropped
    for (let i = 0; i < 3; i++) {
      jest.advanceTimersByTime(40_000)
      expect((await other.ask(i, 'stream/poll', { streamId })).result).toMatchObject({
        status: 'live'
      })
    }
    expect(closed).toHaveLength(0)
    expect((await other.ask('own', 'stream/poll', { streamId: own })).result).toMatchObject({
      status: 'live'
    })
  })
})

describe('abandonment', () => {
  it('of one call aborts that call, and nothing else', async () => {
    const { url, log, closed, transports } = await serveWires('v1', {
      resumeInterval: { max: 0.1 }
    })
    const wire = await openSession(url)
    const { streamId } = (await wire.find(isCreate)).params.stream
    const abandoned = await wire.call(1, 'hang', { key: 'a' })
    const other = await openWire(url)
    // It takes the session over, and so the first wire is closed.
    other.send(notification('stream/resume', { streamId }))
    await log.ended.nth(1)
    expect(log.aborted('a')).toBe(1)
    expect((await other.ask(2, 'stream/resume', { streamId: abandoned })).error).toEqual(UNKNOWN)
    expect(await other.ask(3, 'tools/list')).toHaveProperty('result')
    expect(closed).toEqual([transports[1]])
  })

  it('closes the server, aborts what runs, and is an error to whoever comes late', async () => {
    const { url, log, closed, transports, streams } = await serveWires('v1', {
      resumeInterval: { max: 0.05 }
    })
    const wire = await openSession(url)
    const streamId = await wire.call(1, 'hang', { key: 'a' })
    await wire.drop()
    await closed.nth(1)
    expect(closed).toEqual([transports[0]])
    await log.ended.nth(1)
    expect(log.aborted('a')).toBe(1)
    const other = await openWire(url)
    expect((await other.ask(1, 'stream/resume', { streamId })).error).toEqual(UNKNOWN)
    expect((await other.ask(2, 'stream/poll', { streamId })).error).toEqual(UNKNOWN)
    expect(streams.stats().live).toBe(0)
  })
})

describe('who may come back', () => {
  const ownerOf = (path: string) => path.slice(1)

  it("gets the same answer for somebody else's stream as for none", async () => {
    const { url, log, closed } = await serveWires('v1', {}, ownerOf)
    const wire = await openSession(`${url}/ann`)
    const streamId = await wire.call(1, 'count', { key: 'a', n: 1, paced: true })
    await wire.drop()
    const stranger = await openWire(`${url}/bob`)
    for (const method of ['stream/resume', 'stream/poll'])
      expect((await stranger.ask(method, method, { streamId })).error).toEqual(UNKNOWN)
    stranger.send(notification('notifications/stream/end', { streamId }))
    expect((await stranger.ask('all', 'stream/poll/all')).result).toEqual({ streams: [] })
    const other = await openWire(`${url}/ann`)
    const all = (await other.ask('all', 'stream/poll/all')).result.streams
    expect(all.map((stream: { streamId: string }) => stream.streamId)).toContain(streamId)
    log.release('a', 2)
    expect((await other.ask('r', 'stream/resume', { streamId })).result).toEqual({
      streamId,
      status: 'completed'
    })
    expect(closed).toHaveLength(1)
  })

  it('has no claim to streams of HTTP: their clients are others', async () => {
    const { url, streams } = await serveWires('v1')
    const { url: http } = await serve(
      rawEndpoint(({ open }) => open()),
      {},
      [(req, res, next) => streams(req, res, next)]
    )
    const streamId = streamIdOf(
      await post(http, callTool(1, 'any'), headersFor({ version: '2025-11-25' }))
    )
    const wire = await openWire(url)
    for (const method of ['stream/resume', 'stream/poll'])
      expect((await wire.ask(method, method, { streamId })).error).toEqual(UNKNOWN)
    wire.send(notification('notifications/stream/end', { streamId }))
    await wire.ask('ping', 'ping')
    expect(streams.stats().live).toBe(1)
  })
})

describe('bad input', () => {
  const cases: [what: string, params: unknown, message: string][] = [
    ['params that are no object', [1], 'The params of stream/resume must be an object'],
    ['no stream id', {}, 'stream/resume needs a streamId'],
    [
      'a stream id that is no string',
      { streamId: 7 },
      'stream/resume needs a streamId that is a string'
    ],
    ['a stream id of a megabyte', { streamId: 'x'.repeat(1024 * 1024) }, 'Stream not found']
  ]
  it.each(cases)('is named: %s', async (_what, params, message) => {
    const { url, closed } = await serveWires('v1')
    const wire = await openSession(url)
    expect(await wire.ask('r', 'stream/resume', params as object)).toMatchObject({
      error: { code: -32602, message }
    })
    expect(await wire.ask('p', 'ping')).toHaveProperty('result')
    expect(closed).toHaveLength(0)
  })

  it.each([-1, 99, 1.5, '1', {}])(
    'is named: a cursor that is no place in the stream, %p',
    async cursor => {
      const { url } = await serveWires('v1')
      const wire = await openSession(url)
      const streamId = await wire.call(1, 'count', { n: 1 })
      const { error } = await wire.ask('r', 'stream/resume', { streamId, cursor })
      expect(error).toMatchObject({ code: -32602, data: { reason: 'invalid-cursor' } })
    }
  )

  it('without an id is answered with the id null', async () => {
    const { url } = await serveWires('v1')
    const wire = await openSession(url)
    wire.send(notification('stream/resume', { streamId: 'nobody' }))
    expect((await wire.response(null)).error).toEqual(UNKNOWN)
  })

  it('is refused: an id that is in use', async () => {
    const { url, log } = await serveWires('v1')
    const wire = await openSession(url)
    await wire.call(1, 'hang', { key: 'a' })
    expect((await wire.ask(1, 'tools/list')).error).toMatchObject({ code: -32600 })
    expect(log.executions('a')).toBe(1)
  })

  it('a storm of polls leaves nothing behind', async () => {
    const { url, streams } = await serveWires('v1')
    const wire = await openSession(url)
    const streamId = await wire.call(1, 'hang', { key: 'a' })
    const before = streams.stats()
    for (let i = 0; i < 1000; i++) wire.send(request(`s${i}`, 'stream/poll', { streamId }))
    await wire.response('s999')
    expect(streams.stats()).toEqual(before)
  })
})

describe('limits', () => {
  it('a call fails whose tool writes more than is kept while its client is away', async () => {
    const { url, log, streams, sockets } = await serveWires('v1', { maxStreamBytes: 16_384 })
    const wire = await openSession(url)
    const streamId = await wire.call(1, 'count', { key: 'a', n: 200, size: 1000, paced: true })
    await Promise.all([once(sockets[0]!, 'close'), wire.drop()])
    log.release('a', 201)
    const polling = await openWire(url)
    await polling.ask(1, 'stream/poll', { streamId })
    expect(streams.stats().bytes).toBeLessThan(64_000)
    const other = await openWire(url)
    other.send(notification('stream/resume', { streamId }))
    await other.find(isEnd)
    const notes = other.messages.filter(({ method }) => method === 'notifications/progress')
    expect(notes.length).toBeGreaterThan(10)
    expect(notes.length).toBeLessThan(40)
    expect(other.messages).toContainEqual(
      expect.objectContaining({ id: 1, error: expect.objectContaining({ code: -31000 }) })
    )
  })

  it('a slow connection gets no more at once than it accepts, and everything in the end', async () => {
    const streams = mcpStreams()
    closeLater(() => streams.close({ drain: 0 }))
    const taken: number[] = []
    let goOn: () => void = () => undefined
    let isSlow = true
    const wire: TransportLike = {
      start: async () => undefined,
      close: async () => undefined,
      send: async message => {
        const { method, params } = message as Json
        if (method !== 'notifications/message') return
        taken.push(params.n)
        if (isSlow)
          await new Promise<void>(
            resolve => (goOn = ((earlier: () => void) => () => (earlier(), resolve()))(goOn))
          )
      }
    }
    const transport = resumableTransport(wire, streams)
    await transport.start()
    wire.onmessage?.(initialize('2025-11-25', DECLARED))
    for (let n = 0; n < 1000; n++)
      await transport.send(
        notification('notifications/message', { n, data: 'x'.repeat(1000) }) as never
      )
    expect(taken.length).toBeGreaterThan(100)
    expect(taken.length).toBeLessThan(500)
    isSlow = false
    goOn()
    await until(() => taken.length === 1000)
    expect(taken).toEqual(Array.from({ length: 1000 }, (_, n) => n))
    await transport.close()
  })

  it('a slow connection gets messages of all its streams in turn', async () => {
    const streams = mcpStreams()
    closeLater(() => streams.close({ drain: 0 }))
    const [texts, waiting]: [string[], (() => void)[]] = [[], []]
    const wire: TransportLike = {
      start: async () => undefined,
      close: async () => undefined,
      send: async message => {
        const { method, params } = message as Json
        if (method !== 'notifications/message') return
        texts.push(params.text)
        await new Promise<void>(resolve => waiting.push(resolve))
      }
    }
    const goOn = async () => {
      for (const resolve of waiting.splice(0)) resolve()
      await new Promise(resolve => setImmediate(resolve))
    }
    const transport = resumableTransport(wire, streams)
    await transport.start()
    wire.onmessage?.(initialize('2025-11-25', DECLARED))
    wire.onmessage?.(callTool(1, 'any'))
    const say = (text: string, options?: object) => {
      const params = { text, data: 'x'.repeat(1000) }
      return transport.send(notification('notifications/message', params) as never, options)
    }
    for (let n = 0; n < 1000; n++) await say('own')
    for (let n = 0; n < 100; n++) await say('of a call', { relatedRequestId: 1 })
    expect(texts).not.toContain('of a call')
    await goOn()
    await goOn()
    expect(texts.filter(text => text === 'of a call')).toHaveLength(100)
    expect(texts.length).toBeLessThan(1000)
    wire.onmessage?.(notification('notifications/cancelled', { requestId: 1 }))
    await transport.close()
  })

  it('a connection that accepts nothing gets no more, however often a stream is resumed on it', async () => {
    const streams = mcpStreams()
    closeLater(() => streams.close({ drain: 0 }))
    const sent: Json[] = []
    const wire: TransportLike = {
      start: async () => undefined,
      close: async () => undefined,
      send: async message => {
        sent.push(message)
        if (sent.length > 10) await new Promise(() => undefined)
      }
    }
    const transport = resumableTransport(wire, streams)
    await transport.start()
    wire.onmessage?.(initialize('2025-11-25', DECLARED))
    const { streamId } = sent[0].params.stream
    for (let n = 0; n < 100; n++)
      await transport.send(
        notification('notifications/message', { n, data: 'x'.repeat(1000) }) as never
      )
    for (let n = 0; n < 100; n++)
      wire.onmessage?.(notification('stream/resume', { streamId, cursor: 0 }))
    expect(sent.length).toBeGreaterThan(100)
    expect(sent.length).toBeLessThan(500)
    await transport.close()
  })

  it('a connection whose client sends requests and reads no responses is closed, and its memory freed', async () => {
    const streams = mcpStreams()
    closeLater(() => streams.close({ drain: 0 }))
    let held = 0
    let isClosed = false
    const wire: TransportLike = {
      start: async () => undefined,
      close: async () => void (isClosed = true),
      send: async message => {
        held += JSON.stringify(message).length
        if ((message as Json).id !== 0) await new Promise(() => undefined)
      }
    }
    const transport = resumableTransport(wire, streams)
    await transport.start()
    wire.onmessage?.({ ...initialize('2025-11-25', DECLARED), id: 0 })
    const before = streams.stats().bytes
    for (let id = 1; id <= 50_000 && !isClosed; id++)
      wire.onmessage?.({ jsonrpc: '2.0', id, method: 'stream/poll/all', params: {} })
    expect(isClosed).toBe(true)
    expect(held).toBeLessThan(1.1 * 1024 * 1024)
    expect(streams.stats().bytes).toBeLessThanOrEqual(before)
    await transport.close()
  })

  it('a connection forgets the sessions that were resumed on it when they end', async () => {
    setFlagsFromString('--expose-gc')
    const collectGarbage = runInNewContext('gc') as () => void
    const streams = mcpStreams()
    closeLater(() => streams.close({ drain: 0 }))
    const open = async () => {
      const sent: Json[] = []
      const wire: TransportLike = {
        start: async () => undefined,
        close: async () => undefined,
        send: async message => void sent.push(message)
      }
      const session = resumableTransport(wire, streams)
      await session.start()
      wire.onmessage?.(initialize('2025-11-25', DECLARED))
      return { wire, session: new WeakRef(session), streamId: sent[0].params.stream.streamId }
    }
    const staying = await open()
    const comeBackAndEnd = async () => {
      const { wire, session, streamId } = await open()
      wire.onclose?.()
      staying.wire.onmessage?.(notification('stream/resume', { streamId }))
      staying.wire.onmessage?.(notification('notifications/stream/end', { streamId }))
      expect(session.deref()).toBeDefined()
      return session
    }
    const ended = await comeBackAndEnd()
    await new Promise(resolve => setImmediate(resolve))
    collectGarbage()
    expect(ended.deref()).toBeUndefined()
    await staying.session.deref()?.close()
  })

  it('without room for its streams, a session works as without the middleware', async () => {
    const { url, closed } = await serveWires('v1', { maxStreams: 1 })
    const first = await openSession(url)
    const second = await openWire(url)
    second.send(initialize('2025-11-25', { experimental: { streams: {} } }), initialized())
    await second.response('initialize')
    expect(second.messages.map(bare)).toEqual(['result of initialize'])
    expect(await first.ask(1, 'tools/list')).toHaveProperty('result')
    await second.drop()
    await closed.nth(1)
  })
})

describe('a transport that throws in `send` and `close`', () => {
  it('is treated as lost, and does no harm', async () => {
    const errors: unknown[] = []
    const wire: TransportLike = {
      start: async () => undefined,
      send: async () => {
        throw new Error('takes nothing')
      },
      close: () => {
        throw new Error('does not close')
      }
    }
    const streams = mcpStreams()
    closeLater(() => streams.close({ drain: 0 }))
    const transport = resumableTransport(wire, streams)
    transport.onerror = error => errors.push(error.message)
    await transport.start()
    wire.onmessage?.(initialize('2025-11-25', DECLARED))
    await until(() => errors.length > 0)
    await transport.close()
    expect(errors).toEqual(['does not close'])
  })
})

describe('the end of the process', () => {
  it('lets go of the wires whose clients may come back', async () => {
    const { url, streams } = await serveWires('v1')
    const wire = await openSession(url)
    const plain = await openSession(url, {})
    await streams.close()
    await wire.closed
    expect(await plain.ask(1, 'tools/list')).toHaveProperty('result')
  })

  it('lets calls be answered before', async () => {
    const { url, streams, log } = await serveWires('v1')
    const wire = await openSession(url)
    await wire.call(1, 'count', { key: 'a', n: 1, paced: true })
    const closing = streams.close()
    log.release('a', 2)
    await wire.closed
    await closing
    expect(wire.messages.slice(-2).map(bare)).toEqual(['result of 1', 'notifications/stream/end'])
  })

  it.each([
    ['before', {}],
    ['when', { drain: 0 }]
  ])(
    'keeps the connection of a call that is not recorded, %s the time is up',
    async (_, options) => {
      const { url, streams, log } = await serveWires('v1')
      const lost = await openSession(url)
      const { streamId } = (await lost.find(isCreate)).params.stream
      await lost.drop()
      const plain = await openSession(url, {})
      plain.send(callTool(1, 'count', { key: 'a', n: 1, paced: true }))
      await log.calls.nth(1)
      plain.send(notification('stream/resume', { streamId }))
      await plain.find(isCreate)
      await streams.close(options)
      log.release('a', 2)
      expect(await Promise.race([plain.response(1), plain.closed])).toMatchObject({
        result: { content: [{ text: 'counted to 1' }] }
      })
    }
  )

  it('tells the others when the time is up', async () => {
    const { url, streams } = await serveWires('v1')
    const wire = await openSession(url)
    await wire.call(1, 'count', { key: 'a', n: 1, paced: true })
    await streams.close({ drain: 20 })
    await wire.closed
    expect((await wire.response(1)).error).toMatchObject({ data: { reason: 'closing' } })
  })
})
