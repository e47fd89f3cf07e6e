// `reconnectingTransport()` under the official client: what it keeps, what it tells, and when it
// gives up.

import { describe, expect, it, jest } from '@jest/globals'
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { reconnectingTransport } from '../../../lib/client/index.js'
import type { TransportLike } from '../../../lib/wires/index.js'
import { freePort } from '../../helpers/free-port.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { request, result } from '../../helpers/mcp.js'
import { stopTheClock } from '../limits/setup.js'
import type { Json } from '../../helpers/open-stream.js'
import { connectWire, serveWires, SETUPS, WebSocketTransport } from './web-socket.js'

describe.each(SETUPS.slice(0, 2))('over WebSocket, with the official SDK, %s', setup => {
  it('the user is asked once, and the answer arrives, whenever the wire is cut', async () => {
    for (const moment of ['while the user thinks', 'with the answer on its way']) {
      const { url, log, proxy, sockets } = await serveWires(setup)
      const answering = gate<string>()
      const asked: string[] = []
      const { call, errors } = await connectWire(setup, url, {
        onElicit: message => {
          asked.push(message)
          return answering.opened
        }
      })
      const called = call('elicit', { key: 'a', message: 'Who?' })
      await until(() => asked.length > 0)
      if (moment === 'while the user thinks') {
        proxy.cutNow('rst')
        await sockets.nth(2)
        answering.open('Ann')
      } else {
        // Nothing of what the client sends from now on passes.
        const { bytes } = proxy.passages[0]!
        proxy.passages[0]!.cut = { by: 'rst', direction: 'request', afterBytes: bytes.request }
        answering.open('Ann')
      }
      expect((await called).text).toContain('Ann')
      expect(asked).toEqual(['Who?'])
      expect(log.executions('a')).toBe(1)
      expect(errors).toEqual([])
    }
  })

  it('many calls at once go on', async () => {
    const { url, log, proxy, sockets } = await serveWires(setup)
    const { call, errors } = await connectWire(setup, url)
    const keys = Array.from({ length: 20 }, (_, i) => `k${i}`)
    const calls = keys.map(key => call('count', { key, n: 3, paced: true }))
    await log.calls.nth(20)
    for (const [i, by] of (['fin', 'rst', 'fin'] as const).entries()) {
      for (const key of keys) log.release(key, 1)
      proxy.cutNow(by)
      await sockets.nth(i + 2)
    }
    for (const key of keys) log.release(key, 1)
    for (const result of await Promise.all(calls))
      expect(result).toEqual({ text: 'counted to 3', steps: [1, 2, 3] })
    expect(keys.map(key => log.executions(key))).toEqual(keys.map(() => 1))
    expect(errors).toEqual([])
  })

  it('an error of a call is its own, and comes once', async () => {
    const { url, log, proxy } = await serveWires(setup)
    const { client, errors } = await connectWire(setup, url)
    const requester = client as unknown as {
      request(request: object, schema: object): Promise<unknown>
    }
    const called = requester.request({ method: 'prompts/get', params: { name: 'none' } }, {})
    await expect(called).rejects.toThrow()
    const failed = client.callTool({ name: 'fail', arguments: {} })
    await log.calls.nth(1)
    proxy.cutNow('rst')
    expect(await failed).toMatchObject({ isError: true })
    expect(errors).toEqual([])
  })

  it('a server that is closed hears at once of a client that is', async () => {
    const { url, log, closed, transports } = await serveWires(setup)
    const { client, call, close } = await connectWire(setup, url)
    const called = call('hang', { key: 'a' }).catch((error: Error) => error)
    await log.calls.nth(1)
    await close()
    await closed.nth(1)
    expect(closed).toEqual([transports[0]])
    await log.ended.nth(1)
    expect(log.aborted('a')).toBe(1)
    expect(String(await called)).toContain('closed')
    expect(client.transport).toBeUndefined()
  })
})

describe('a client in a new process', () => {
  it('hears the notifications of such a call apart from its own', async () => {
    const { url, log, sockets } = await serveWires('v1')
    const ids: string[] = []
    const first = await connectWire('v1', url)
    first.client.fallbackNotificationHandler = ({ params }) => {
      ids.push((params as { stream: { streamId: string } }).stream.streamId)
      return Promise.resolve()
    }
    const lost = first.call('count', { key: 'a', n: 2, paced: true }).catch(() => 'lost')
    await until(() => ids.length === 1)
    first.sockets[0]!.removeAllListeners('close')
    await Promise.all([once(sockets[0]!, 'close'), first.sockets[0]!.terminate()])
    const second = await connectWire('v1', url)
    const steps: unknown[] = []
    const own = second.call('count', { key: 'b', n: 1, paced: true })
    const taken = second.transport.resume(ids[0]!, ({ params }) =>
      steps.push((params as { progress?: number }).progress)
    )
    // Who asks again is told, and the first one has its result.
    await expect(second.transport.resume(ids[0]!)).rejects.toThrow('already')
    log.release('a', 3)
    expect(await taken).toMatchObject({ content: [{ text: 'counted to 2' }] })
    expect(steps.filter(step => step !== undefined)).toEqual([1, 2])
    log.release('b', 2)
    expect(await own).toEqual({ text: 'counted to 1', steps: [1] })
    await expect(second.transport.resume('nobody')).rejects.toMatchObject({
      code: -32602,
      message: 'Stream not found'
    })
    await first.close()
    expect(await lost).toBe('lost')
  })
})

describe('giving up calls', () => {
  it('rejects open calls once no server can be reached any more', async () => {
    const { url, log, proxy, sockets } = await serveWires('v1')
    const { call, client } = await connectWire('v1', url, { maxRetries: 2 })
    const closed = new Promise<void>(resolve => (client.onclose = resolve))
    const called = call('hang', { key: 'a' })
    await log.calls.nth(1)
    await proxy.close()
    for (const socket of sockets) socket.terminate()
    await expect(called).rejects.toThrow('retries exhausted')
    await closed
  })

  it('rejects open calls that the server does not know any more, and runs none again', async () => {
    const lost = await serveWires('v1')
    const fresh = await serveWires('v1')
    let url = lost.url
    const errors: Error[] = []
    const transport = reconnectingTransport(
      () => new WebSocketTransport(new WebSocket(url).on('error', () => undefined)),
      { minTimeout: 1 }
    )
    transport.onmessage = (message: { id?: unknown }) => messages.push(message)
    transport.onerror = error => errors.push(error)
    const messages: { id?: unknown }[] = []
    const closed = new Promise<void>(resolve => (transport.onclose = resolve))
    await transport.start()
    const send = (message: object) => transport.send({ jsonrpc: '2.0', ...message })
    const info = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'x', version: '1' }
    }
    await send({ id: 1, method: 'initialize', params: info })
    await until(() => messages.some(({ id }) => id === 1))
    url = fresh.url
    await send({ id: 2, method: 'tools/call', params: { name: 'hang', arguments: { key: 'a' } } })
    await lost.log.calls.nth(1)
    lost.proxy.cutNow('rst')
    await closed
    expect(messages.at(-1)).toMatchObject({
      id: 2,
      error: { code: -31000, data: { reason: 'stream-unknown' } }
    })
    expect(errors).toMatchObject([{ name: 'ResumptionError', code: 'stream-unknown' }])
    expect(fresh.log.calls).toHaveLength(0)
  })

  it('is left to the transport underneath, where the server knows no streams', async () => {
    const { url, proxy } = await serveWires('v1', { notifications: 'never' })
    const { client, call, sockets, log } = {
      ...(await connectWire('v1', url)),
      log: [] as unknown[]
    }
    expect(await call('count', { n: 1 })).toEqual({ text: 'counted to 1', steps: [1] })
    const closed = new Promise<void>(resolve => (client.onclose = resolve))
    const called = call('hang', {}).catch((error: Error) => error.message)
    await call('count', { n: 0 })
    proxy.cutNow('fin')
    await closed
    expect(await called).toContain('Connection closed')
    expect(sockets).toHaveLength(1)
    expect(log).toEqual([])
  })

  it('rejects open calls once maxRetries connections are lost without anything new', async () => {
    const { url, log, sockets } = await serveWires('v1')
    const { call } = await connectWire('v1', url, { maxRetries: 3, maxPayload: 4000 })
    await expect(call('count', { key: 'a', n: 1, size: 5000 })).rejects.toThrow('retries exhausted')
    expect(sockets).toHaveLength(1 + 3)
    expect(log.executions('a')).toBe(1)
  })

  it('rejects open calls where connections open, and no server answers on them', async () => {
    jest.useFakeTimers()
    try {
      const STREAM = 'S'.repeat(21)
      const attempts: number[] = []
      const transport = reconnectingTransport(
        () => {
          const wire: TransportLike = {
            start: async () => undefined,
            send: async message => {
              if ((message as { method?: unknown }).method !== 'initialize') return
              const _meta = { 'express-mcp-streams/eventId': `${STREAM}.1` }
              const params = { _meta, streamId: STREAM, resumeInterval: { min: 1, max: 60 } }
              wire.onmessage?.({ jsonrpc: '2.0', method: 'notifications/stream/create', params })
              setTimeout(() => wire.onclose?.(), 10)
            },
            close: async () => wire.onclose?.()
          }
          return wire
        },
        { maxRetries: 3, onReconnect: ({ attempt }) => void attempts.push(attempt) }
      )
      const messages: unknown[] = []
      transport.onmessage = message => void messages.push(message)
      const closed = new Promise<void>(resolve => (transport.onclose = resolve))
      await transport.start()
      const initialize = { id: 1, method: 'initialize', params: { capabilities: {} } }
      await transport.send({ jsonrpc: '2.0', ...initialize })
      await jest.advanceTimersByTimeAsync(600_000)
      await closed
      expect(attempts).toEqual([1, 2, 3])
      expect(messages).toMatchObject([{ id: 1, error: { data: { reason: 'retries-exhausted' } } }])
    } finally {
      jest.useRealTimers()
    }
  })

  it('rejects the handshake where every wire is lost at once', async () => {
    const { url, sockets, proxy } = await serveWires('v1')
    proxy.plan = () => ({ by: 'fin', direction: 'response', afterBytes: 130 })
    await expect(connectWire('v1', url, { maxRetries: 3 })).rejects.toThrow('retries exhausted')
    expect(sockets).toHaveLength(1 + 3)
  })

  it('rejects connect() where the first connection does not open', async () => {
    const url = `ws://127.0.0.1:${await freePort()}`
    await expect(connectWire('v1', url)).rejects.toThrow('ECONNREFUSED')
  })

  it('throws for invalid options', () => {
    const connect = () => new WebSocketTransport(undefined as never)
    expect(() => reconnectingTransport(connect, { maxRetries: -1 })).toThrow(
      'reconnectingTransport: option `maxRetries` must be a number, 0 or more'
    )
    // Such as one that is about HTTP.
    expect(() => reconnectingTransport(connect, { fetch } as never)).toThrow(
      'reconnectingTransport: unknown option `fetch`'
    )
  })
})

describe('close()', () => {
  it('does not wait for a connection that accepts no bytes, nor for a message on its way', async () => {
    const { url } = await serveWires('v1')
    let isStuck = false
    const { client, transport } = await connectWire('v1', url, {
      wrap: wire => {
        const send = wire.send.bind(wire)
        wire.send = message => (isStuck ? new Promise(() => undefined) : send(message))
        return wire
      }
    })
    isStuck = true
    const stuck = transport.send({ jsonrpc: '2.0', method: 'notifications/progress' } as never)
    await client.close()
    await stuck
  })

  it('of a connection that is not open yet leaves nothing behind', async () => {
    const { url, sockets } = await serveWires('v1')
    const transport = reconnectingTransport(() => new WebSocketTransport(new WebSocket(url)))
    const started = transport.start()
    await transport.close()
    await started
    await expect(
      transport.send({ jsonrpc: '2.0', id: 1, method: 'ping' } as never)
    ).rejects.toThrow('Not connected')
    await once(await sockets.nth(1), 'close')
  })
})

describe('a connection that is lost while it opens', () => {
  it('counts as not opened', async () => {
    const wires: TransportLike[] = []
    const lostAtOnce = [2, 3, 5]
    const connect = () => {
      const n = wires.length + 1
      const wire: TransportLike = {
        start: async () => (lostAtOnce.includes(n) ? wire.onclose?.() : undefined),
        send: async () => undefined,
        close: async () => undefined
      }
      wires.push(wire)
      return wire
    }
    const transport = reconnectingTransport(connect, { minTimeout: 1, idleTimeout: null })
    await transport.start()
    wires[0]!.onclose?.()
    await until(() => wires.length === 4)
    await transport.close()
    // The first one is the caller's.
    await expect(reconnectingTransport(connect).start()).rejects.toThrow('lost')
  })

  it('is given up after idleTimeout, and closed where it opens later', async () => {
    const late = gate<TransportLike>()
    let isClosed = false
    const wire: TransportLike = {
      start: () => Promise.reject(new Error('started')),
      send: () => Promise.resolve(),
      close: () => Promise.resolve(void (isClosed = true))
    }
    const transport = reconnectingTransport(() => late.opened, { idleTimeout: 50 })
    await expect(transport.start()).rejects.toThrow('Silence')
    late.open(wire)
    await until(() => isClosed)
  })
})

describe('a message that comes twice', () => {
  it('is given to the client once', async () => {
    const wire: TransportLike = {
      start: async () => undefined,
      send: async () => undefined,
      close: async () => undefined
    }
    const transport = reconnectingTransport(() => wire, { idleTimeout: null })
    const handed: unknown[] = []
    transport.onmessage = (message: unknown) => handed.push(message)
    await transport.start()
    await transport.send({ jsonrpc: '2.0', id: 1, method: 'tools/call' } as never)
    const streamId = 'x'.repeat(21)
    const tags = (n: number) => ({ _meta: { 'express-mcp-streams/eventId': `${streamId}.${n}` } })
    const requestId = { 'express-mcp-streams/requestId': 1 }
    const create = {
      method: 'notifications/stream/create',
      params: { _meta: { ...tags(1)._meta, ...requestId } }
    }
    const progress = (n: number) => ({
      method: 'notifications/progress',
      params: { progress: n, ...tags(n) }
    })
    const error = { id: 1, error: { code: 1, message: 'no', data: tags(4) } }
    for (const message of [create, progress(2), create, progress(2), progress(3), error, error])
      wire.onmessage?.({ jsonrpc: '2.0', ...message })
    await until(() => handed.length >= 4)
    expect(handed.slice(1)).toEqual([
      { jsonrpc: '2.0', method: 'notifications/progress', params: { progress: 2 } },
      { jsonrpc: '2.0', method: 'notifications/progress', params: { progress: 3 } },
      { jsonrpc: '2.0', id: 1, error: { code: 1, message: 'no' } }
    ])
    await transport.close()
  })
})

describe('what is no message', () => {
  it.each([null, 5, 'text', [[]]])('is handed up as it is: %j', async rubbish => {
    const wire: TransportLike = {
      start: async () => undefined,
      send: async () => undefined,
      close: async () => undefined
    }
    const transport = reconnectingTransport(() => wire, { idleTimeout: null })
    const handed: unknown[] = []
    transport.onmessage = (message: unknown) => handed.push(message)
    await transport.start()
    wire.onmessage?.(rubbish)
    await until(() => handed.length > 0)
    expect(handed).toEqual([rubbish])
    await transport.close()
  })
})

describe('of streams that a server announces', () => {
  const idOf = (name: string, n = 0): string => name + String(n).padStart(20, '0')
  const created = (streamId: string, requestId?: string | number) => ({
    jsonrpc: '2.0',
    method: 'notifications/stream/create',
    params: {
      _meta: {
        'express-mcp-streams/eventId': `${streamId}.1`,
        ...(requestId !== undefined && { 'express-mcp-streams/requestId': requestId })
      }
    }
  })

  /** A session whose server answers what it is asked about streams; `resumed`: which are resumed. */
  async function session() {
    const wires: TransportLike[] = []
    const resumed: string[] = []
    const answer = (message: Json): void => {
      if (message.method === 'stream/resume') resumed.push(message.params.streamId)
      if (message.method?.startsWith('stream/')) come(result(message.id, { status: 'live' }))
    }
    const connect = () => {
      const wire: TransportLike = {
        start: async () => undefined,
        send: async message => void setImmediate(answer, message),
        close: async () => undefined
      }
      wires.push(wire)
      return wire
    }
    const come = (message: object): void => wires.at(-1)!.onmessage?.(message)
    const transport = reconnectingTransport(connect, { idleTimeout: null, minTimeout: 1 })
    await transport.start()
    come(created(idOf('s')))
    return { transport, resumed, come, lose: () => wires[0]!.onclose?.() }
  }

  it.each<[string, (n: number) => string | number | undefined]>([
    ['of other sessions', () => undefined],
    ['for requests that nobody has made', n => `none ${n}`],
    ['for one request', () => 1]
  ])('without end, %s, the newest are followed', async (_name, requestId) => {
    const { transport, resumed, come, lose } = await session()
    await transport.send(request(1, 'tools/call') as never)
    const taken = expect(transport.resume(idOf('t'))).rejects.toMatchObject({ code: 'no-response' })
    for (let n = 0; n < 5000; n++) come(created(idOf('o', n), requestId(n)))
    await taken
    lose()
    await until(() => resumed.includes(idOf('o', 4999)))
    expect(resumed).toEqual(expect.arrayContaining([idOf('s'), idOf('o', 4001)]))
    expect(resumed.length).toBeLessThan(1010)
    await transport.close()
  })

  it('all are followed that somebody waits for', async () => {
    const { transport, resumed, come, lose } = await session()
    const taken = Array.from({ length: 1500 }, (_, n) => transport.resume(idOf('t', n)))
    const ended = Promise.allSettled(taken)
    for (let n = 0; n < 1500; n++) {
      await transport.send(request(n, 'tools/call') as never)
      come(created(idOf('a', n), n))
      come(created(idOf('o', n)))
    }
    resumed.length = 0
    lose()
    await until(() => resumed.length >= 1 + 3 * 1500)
    expect(new Set(resumed).size).toBe(1 + 3 * 1500)
    await transport.close()
    await ended
  })
})

describe('a message that may not have arrived', () => {
  it('is asked after by stream/poll before too many are kept', async () => {
    const { url, servers } = await serveWires('v1')
    const sent: string[] = []
    const { client } = await connectWire('v1', url, {
      idleTimeout: null,
      wrap: wire => {
        const send = wire.send.bind(wire)
        wire.send = message => {
          sent.push((message as { method: string }).method)
          return send(message)
        }
        return wire
      }
    })
    for (let i = 0; i < 100; i++)
      await client.notification({
        method: 'notifications/progress',
        params: { progressToken: 'x', progress: i }
      } as never)
    await until(() => sent.filter(method => method === 'stream/poll').length >= 3)
    servers[0]!.server.onerror = () => undefined
    // And is not sent again once it has.
    const before = sent.length
    servers[0]!.sendToolListChanged()
    await client.ping()
    expect(sent.slice(before).filter(method => method === 'notifications/progress')).toEqual([])
  })

  it('is sent again on the next connection, as is a request without a stream', async () => {
    const wires: TransportLike[] = []
    const sent: Json[][] = []
    const nextWire = (): TransportLike => {
      const own: Json[] = []
      const wire: TransportLike = {
        start: async () => undefined,
        send: async message => void own.push(message as Json),
        close: async () => undefined
      }
      wires.push(wire)
      sent.push(own)
      return wire
    }
    const transport = reconnectingTransport(nextWire, { idleTimeout: null, minTimeout: 1 })
    const handed: Json[] = []
    transport.onmessage = (message: unknown) => handed.push(message as Json)
    await transport.start()
    const streamIds = ['s', 'a'].map(name => name.repeat(21))
    const create = (n: number, requestId?: number) => ({
      jsonrpc: '2.0',
      method: 'notifications/stream/create',
      params: {
        _meta: {
          'express-mcp-streams/eventId': `${streamIds[n]}.1`,
          ...(requestId !== undefined && { 'express-mcp-streams/requestId': requestId })
        }
      }
    })
    const come = (n: number, message: Json): void => wires[n]!.onmessage?.(message)
    come(0, create(0))
    // Of the second, the server could keep nothing.
    for (const id of [1, 2, 3, 4]) await transport.send(request(id, 'tools/call') as never)
    await transport.send({ jsonrpc: '2.0', id: 2, result: {} } as never)
    come(0, create(1, 1))
    come(0, result(3, {}))
    wires[0]!.onclose?.()
    await until(() => sent[1]?.length === 1)
    come(1, result(sent[1]![0]!.id, { status: 'working' }))
    const again = () => sent[1]!.filter(({ method }) => method !== 'stream/resume').slice(1)
    await until(() => again().length === 3)
    expect(again()).toEqual([
      request(2, 'tools/call'),
      request(4, 'tools/call'),
      { jsonrpc: '2.0', id: 2, result: {} }
    ])
    come(1, { jsonrpc: '2.0', id: 2, error: { code: -31_000, message: 'lost' } })
    await until(() => handed.length === 3)
    expect(handed.map(({ id }) => id)).toEqual([undefined, 3, 2])
    await transport.close()
  })

  it('is not sent again where the answer to a later message has come', async () => {
    const { url, proxy, sockets } = await serveWires('v1')
    const sent: string[] = []
    const { client } = await connectWire('v1', url, {
      wrap: wire => {
        const send = wire.send.bind(wire)
        wire.send = message => {
          sent.push((message as { method: string }).method)
          return send(message)
        }
        return wire
      }
    })
    await client.notification({
      method: 'notifications/progress',
      params: { progressToken: 'x', progress: 1 }
    } as never)
    await client.ping()
    proxy.cutNow('rst')
    await sockets.nth(2)
    await client.ping()
    expect(sent.filter(method => method === 'notifications/progress')).toHaveLength(1)
    expect(sent.filter(method => method === 'ping')).toHaveLength(2)
  })
})

describe('silence', () => {
  it('after a reconnection is a loss also while other messages come', async () => {
    const wires: TransportLike[] = []
    const transport = reconnectingTransport(
      () => {
        const wire: TransportLike = {
          start: async () => undefined,
          send: async () => undefined,
          close: async () => clearInterval(talking)
        }
        const come = (): void =>
          wire.onmessage?.({ jsonrpc: '2.0', method: 'notifications/message' })
        const talking = setInterval(come, 5)
        wires.push(wire)
        return wire
      },
      { idleTimeout: 50, minTimeout: 1, maxRetries: 2 }
    )
    await transport.start()
    const _meta = { 'express-mcp-streams/eventId': `${'s'.repeat(21)}.1` }
    const create = { method: 'notifications/stream/create', params: { _meta } }
    wires[0]!.onmessage?.({ jsonrpc: '2.0', ...create })
    wires[0]!.onclose?.()
    await wires[0]!.close()
    await until(() => wires.length === 3)
    await transport.close()
  })

  it('is a loss once the server does not answer a ping', async () => {
    const { url, log, proxy, sockets } = await serveWires('v1')
    const { call } = await connectWire('v1', url, { idleTimeout: 500 })
    const called = call('count', { key: 'a', n: 1, paced: true })
    await log.calls.nth(1)
    proxy.cutNow('silence')
    await sockets.nth(2)
    log.release('a', 2)
    expect(await called).toEqual({ text: 'counted to 1', steps: [1] })
  })

  it('is no loss where the server answers pings', async () => {
    stopTheClock()
    try {
      const { url, log, sockets } = await serveWires('v1')
      const { call, sockets: own } = await connectWire('v1', url, { idleTimeout: 1000 })
      const called = call('count', { key: 'a', n: 1, paced: true })
      await log.calls.nth(1)
      for (let n = 1; n <= 5; n++) {
        const answered = once(own[0]!, 'message')
        // Half of it, and the client asks whether the server is there.
        jest.advanceTimersByTime(500)
        await answered
      }
      log.release('a', 2)
      expect(await called).toMatchObject({ text: 'counted to 1' })
      expect(sockets).toHaveLength(1)
    } finally {
      jest.useRealTimers()
    }
  })
})
