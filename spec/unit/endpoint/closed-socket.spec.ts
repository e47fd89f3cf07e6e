// A call that goes on without its client has a light stand-in for its socket, which tells what that
// one would.

import { afterEach, describe, expect, it } from '@jest/globals'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { closedSockets, OF_NODE, standInFor } from '../../../lib/endpoint/node-internals.js'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { closeAll } from '../../helpers/listen.js'
import { get } from '../../helpers/mcp.js'
import { streamUrl } from '../../helpers/serve.js'
import {
  errorFor,
  HEADERS,
  type Behave,
  NOTE,
  note,
  RESULT,
  serveCase,
  SSE_TYPE
} from './capture-case.js'

afterEach(closeAll)

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

interface Noted extends Socket {
  note?: string
}

/** What is asked of a socket. */
const told = ({ socket }: { readonly socket: Socket }) => ({
  remote: [socket.remoteAddress, socket.remotePort, socket.remoteFamily],
  local: [socket.localAddress, socket.localPort, socket.address()],
  states: [socket.destroyed, socket.closed, socket.readable, socket.writable, socket.readyState],
  bytes: [socket.bytesRead, socket.bytesWritten],
  server: (socket as { server?: object }).server,
  note: (socket as Noted).note,
  timeout: socket.timeout
})

/** A call whose client has gone, and whose endpoint does `then` once its socket is forgotten. */
async function forgotten(
  then: (req: IncomingMessage, res: ServerResponse) => unknown,
  before: Behave = () => undefined,
  options: McpStreamsOptions = {}
) {
  const go = gate()
  const ended = gate()
  const served = await serveCase(async (res, req, next) => {
    before(res, req, next)
    const original = new WeakRef(req.socket)
    res.writeHead(200, SSE_TYPE).write(NOTE)
    await go.opened
    await until(() => req.socket !== original.deref())
    await then(req, res)
    ended.open()
  }, options)
  const response = await served.call()
  await response.nextMessage()
  response.destroy()
  await served.connections(1)
  go.open()
  await ended.opened
  const again = await get(streamUrl(response, served.url), HEADERS)
  await again.ended
  return { served, messages: again.messages() }
}

describe('the socket of a call whose client has gone', () => {
  it('tells what that one tells now, with what others have noted on it', async () => {
    let original: Socket | undefined
    const { messages } = await forgotten(
      (req, res) => {
        expect(told(req)).toEqual(told({ socket: original! }))
        expect(told(req)).toMatchObject({
          remote: ['127.0.0.1', expect.any(Number), 'IPv4'],
          note: 'of the application',
          timeout: 12_345
        })
        expect(req.socket).toBeInstanceOf(Socket)
        expect(res.socket).toBe(req.socket)
        res.end(RESULT)
      },
      (_res, { socket }) => {
        original = socket
        ;(socket as Noted).note = 'of the application'
        socket.setTimeout(12_345)
      }
    )
    expect(messages).toHaveLength(2)
  })

  it('can be used like one that has closed', async () => {
    const timers = () => process.getActiveResourcesInfo().filter(name => name === 'Timeout').length
    const { messages } = await forgotten(async ({ socket }, res) => {
      const before = timers()
      const errors: unknown[] = []
      socket.on('data', () => undefined).on('error', error => errors.push(error))
      socket
        .setTimeout(1000, () => undefined)
        .setKeepAlive(true)
        .setNoDelay()
        .ref()
        .unref()
      const failed = await new Promise(resolve => socket.write('x', resolve))
      expect(failed).toMatchObject({ code: 'ERR_STREAM_DESTROYED' })
      socket.pause().resume().end()
      socket.destroySoon()
      await new Promise(setImmediate)
      expect(errors).toEqual([])
      expect(timers()).toBe(before)
      res.end(RESULT)
    })
    expect(messages).toHaveLength(2)
  })

  it.each<[string, (req: IncomingMessage, res: ServerResponse) => unknown]>([
    ['req.socket.destroy()', req => req.socket.destroy()],
    ['req.socket.destroy(error)', req => req.socket.destroy(new Error('of the endpoint'))],
    ['res.socket.destroy()', (_req, res) => res.socket!.destroy()],
    ['res.destroy()', (_req, res) => res.destroy()],
    ['req.destroy()', req => req.destroy()]
  ])('ends the call where the endpoint calls %s', async (_name, destroy) => {
    for (const options of [{}, { currentStream: false }]) {
      const { served, messages } = await forgotten(destroy, undefined, options)
      expect(messages).toEqual([note(1), errorFor(1)])
      await served.expectNeighbourUnharmed()
    }
  })

  it('does not end it where somebody else destroys it', async () => {
    let socket: Socket | undefined
    const destroyed = gate()
    const done = forgotten(async (req, res) => {
      socket = req.socket
      await destroyed.opened
      res.end(RESULT)
    })
    await until(() => socket !== undefined)
    socket!.destroy()
    destroyed.open()
    expect((await done).messages).toHaveLength(2)
  })

  it('is not kept in memory', async () => {
    let original: WeakRef<Socket> | undefined
    const { messages } = await forgotten(
      async (_req, res) => {
        await until(() => {
          collectGarbage()
          return original!.deref() === undefined
        })
        res.end(RESULT)
      },
      (_res, req) => (original = new WeakRef(req.socket))
    )
    expect(messages).toHaveLength(2)
  })
})

describe('a stand-in', () => {
  const prototype = closedSockets(() => new Socket()) as Socket

  it('is for plain sockets that have closed', () => {
    class Other extends Socket {}
    expect(standInFor(new Socket().destroy(), prototype)).toBeInstanceOf(Socket)
    expect(standInFor(new Other().destroy(), prototype)).toBeUndefined()
    expect(standInFor(new Socket(), prototype)).toBeUndefined()
  })
})

describe('what Node keeps of a socket', () => {
  it('is what we know', async () => {
    const { call } = await serveCase((res, req) => {
      const own = Reflect.ownKeys(req.socket).filter(key => !OF_NODE.has(key))
      const holders = Object.entries(req).filter(([, value]) => value === req.socket)
      const { name } = (res as unknown as { _onPendingData: () => void })._onPendingData
      const listeners = res.listeners('finish').map(listener => listener.name)
      res.writeHead(200, SSE_TYPE)
      const known = { own, holders: holders.map(([key]) => key), name, listeners }
      res.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id: 1, result: known })}\n\n`)
    })
    const { result } = (await (await call()).nextMessage()) as { result: unknown }
    expect(result).toEqual({
      own: [],
      holders: ['socket', 'client'],
      name: 'bound updateOutgoingData',
      listeners: ['bound resOnFinish']
    })
  })
})
