// Functions of the caller that hear of something: what they throw or reject with ends their call,
// and nothing else; one that never settles does not keep an abort from ending it.

import { describe, expect, it } from '@jest/globals'
import { getEventListeners } from 'node:events'
import {
  callResumable,
  callTask,
  reconnectingTransport,
  streamResource
} from '../../../lib/client/index.js'
import type { TransportLike } from '../../../lib/wires/index.js'
import { until } from '../../helpers/happenings.js'
import type { Json } from '../../helpers/open-stream.js'
import { broken, bytesOf, direct, drain, FAST, server, status, stream } from './resource-server.js'

const mine = new Error('of the caller')
const never = () => new Promise<never>(() => undefined)
const FAILING: [string, () => unknown][] = [
  [
    'throws',
    () => {
      throw mine
    }
  ],
  ['rejects', () => Promise.reject(mine)]
]

describe.each(FAILING)('what %s', (_how, fail) => {
  it('as onProgress fails the transfer', async () => {
    const { url, requests } = await server(direct(bytesOf(100_000)))
    expect(await drain(await stream(url, { onProgress: fail }))).toMatchObject({ error: mine })
    await requests[0]!.closed
  })

  it('as onReconnect ends the transfer, at its beginning and in its middle', async () => {
    const { url, requests } = await server(status(503), broken(bytesOf(1000), 10))
    await expect(stream(url, { onReconnect: fail })).rejects.toBe(mine)
    expect(await drain(await stream(url, { onReconnect: fail }))).toMatchObject({ error: mine })
    expect(requests).toHaveLength(2)
  })

  it('as onPartial ends the call', async () => {
    const part = { content: ['a'], _meta: { nextResumeToken: 'T' } }
    const client = { request: () => Promise.resolve(part) }
    const options = { onPartial: fail }
    await expect(callResumable(client, { method: 'any' }, options)).rejects.toBe(mine)
  })

  it('as onStatus ends the call, and cancels the task', async () => {
    const methods: string[] = []
    const client = taskClient(({ method }) => {
      methods.push(method)
      return { taskId: 'T', status: 'working', pollInterval: 60_000 }
    })
    await expect(callTask(client, { name: 'any' }, { onStatus: fail })).rejects.toBe(mine)
    expect(methods).toEqual(['tasks/cancel'])
  })

  it('as onReconnect of a transport closes it, with that as the cause', async () => {
    const { transport, wires } = wired({ onReconnect: fail, maxRetries: 1 })
    const errors: Error[] = []
    transport.onerror = error => errors.push(error)
    await transport.start()
    wires[0]!.onclose?.()
    await until(() => errors.length > 0)
    expect(errors).toMatchObject([{ code: 'retries-exhausted', cause: mine }])
    expect(wires).toHaveLength(1)
  })

  it('as onNotification ends its stream, and no other', async () => {
    const { transport, wires } = wired({ idleTimeout: null })
    const handed: Json[] = []
    transport.onmessage = (message: Json) => handed.push(message)
    await transport.start()
    let heard = 0
    const failing = transport.resume(STREAM, () => (heard++, fail()))
    const other = transport.resume(OTHER, () => undefined)
    const come = (streamId: string, n: number, message: object): void =>
      wires[0]!.onmessage?.({ jsonrpc: '2.0', ...message, ...tagged(streamId, n, message) })
    come(STREAM, 1, { method: 'notifications/message', params: {} })
    await expect(failing).rejects.toBe(mine)
    come(STREAM, 2, { method: 'notifications/message', params: {} })
    come(OTHER, 1, { method: 'notifications/message', params: {} })
    come(OTHER, 2, { id: 1, result: { is: 'done' } })
    expect(await other).toEqual({ is: 'done' })
    expect(heard).toBe(1)
    expect(handed).toEqual([])
    // It may be followed again.
    const again = transport.resume(STREAM)
    come(STREAM, 3, { id: 1, result: {} })
    expect(await again).toEqual({})
    await transport.close()
  })
})

describe('an abort ends a call also where', () => {
  /** A function that never settles; its first call is followed by the abort. */
  const aborting = () => {
    const caller = new AbortController()
    const callback = (): Promise<never> => {
      setImmediate(() => caller.abort(mine))
      return never()
    }
    return { signal: caller.signal, callback }
  }

  it('onReconnect never settles', async () => {
    const { url } = await server(status(503))
    const { signal, callback } = aborting()
    await expect(stream(url, { ...FAST, signal, onReconnect: callback })).rejects.toBe(mine)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  it('onProgress never settles', async () => {
    const { url, requests } = await server(direct(bytesOf(1000)))
    const { signal, callback } = aborting()
    const { stream: body } = await streamResource(url, 'x:', { signal, onProgress: callback })
    await expect(body.getReader().read()).rejects.toBe(mine)
    await requests[0]!.closed
  })

  it('onPartial never settles', async () => {
    const part = { content: ['a'], _meta: { nextResumeToken: 'T' } }
    const client = { request: () => Promise.resolve(part) }
    const { signal, callback } = aborting()
    const options = { signal, onPartial: callback }
    await expect(callResumable(client, { method: 'any' }, options)).rejects.toBe(mine)
  })
})

describe('a server of tasks at 2025-11-25', () => {
  it.each([
    ['of another task', { taskId: 'U', status: 'completed' }],
    ['without a status', { taskId: 'T' }],
    ['of nothing', {}]
  ])('that tells %s is given up', async (_name, told) => {
    const client = taskClient(() => told)
    await expect(callTask(client, { name: 'any' })).rejects.toThrow('no such task')
  })
})

interface Asked {
  readonly method: string
}

/** A client whose calls become the task `T`; `tell` answers what is asked of that. */
function taskClient(tell: (request: Asked) => object) {
  return {
    getServerCapabilities: () => ({ tasks: { requests: { tools: { call: {} } } } }),
    request: async (request: Asked) =>
      (request.method === 'tools/call'
        ? { task: { taskId: 'T', status: 'working', pollInterval: 1 } }
        : tell(request)) as Record<string, unknown>
  }
}

const STREAM = 's'.repeat(21)
const OTHER = 'o'.repeat(21)

/** What says of a message which event of a stream it is. */
function tagged(streamId: string, n: number, message: object): object {
  const _meta = { 'express-mcp-streams/eventId': `${streamId}.${n}` }
  return 'method' in message
    ? { params: { _meta } }
    : { result: { ...Object(message).result, _meta } }
}

function wired(options: Parameters<typeof reconnectingTransport>[1]) {
  const wires: TransportLike[] = []
  const transport = reconnectingTransport(() => {
    const wire: TransportLike = {
      start: async () => undefined,
      send: async () => undefined,
      close: async () => undefined
    }
    wires.push(wire)
    return wire
  }, options)
  return { transport, wires }
}
