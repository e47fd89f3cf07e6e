// Requests that are pipelined share a socket: Node tells its end to the response whose turn it is,
// and to no other.

import { describe, expect, it } from '@jest/globals'
import type { ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { until } from '../../helpers/happenings.js'
import { callTool, headersFor, post } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { HEADERS, RESULT, serveCase, SSE_TYPE } from '../endpoint/setup.js'
import { open, requestText } from './wire.js'

const listenersOf = (socket: Socket) =>
  socket.eventNames().map(name => [String(name), socket.listenerCount(name)].join(' '))

describe('calls that are pipelined', () => {
  it('leave nothing behind on their socket, however many there were', async () => {
    const sockets = new Set<Socket>()
    const waiting: ServerResponse[] = []
    let finished = 0
    const { port } = await serveCase((res, req) => {
      sockets.add(req.socket)
      res.writeHead(200, SSE_TYPE)
      res.once('close', () => finished++)
      // All four are open at the same time, as calls that take their time are.
      if (waiting.push(res) === 4) for (const one of waiting.splice(0)) one.end(RESULT)
    })
    const { socket } = open(port)
    const four = requestText({ headers: HEADERS }, callTool(1, 'any')).repeat(4)
    let before: string[] | undefined
    for (let round = 1; round <= 100; round++) {
      socket.write(four)
      await until(() => finished === 4 * round)
      before ??= listenersOf([...sockets][0]!)
    }
    const [own, ...others] = sockets
    expect(others).toEqual([])
    expect(own!.destroy).toBe(Socket.prototype.destroy)
    expect(listenersOf(own!)).toEqual(before)
  })
})

describe('when their socket dies', () => {
  it('listen channels that are pipelined all lose their reader, and closing waits for none of them', async () => {
    const endpoint = rawEndpoint(({ open }) => open())
    const { streams, server } = await serve(endpoint)
    const wire = open((server.address() as { port: number }).port)
    for (const n of [1, 2, 3, 4, 5]) {
      const headers = headersFor({ version: '2025-11-25', session: `session ${n}` })
      wire.socket.write(requestText({ method: 'GET', headers }))
    }
    await until(() => streams.stats().connections === 5)
    await wire.leave()
    await until(() => streams.stats().connections === 0)
    expect(streams.stats().live).toBe(5)
    await streams.close({ drain: 0 })
  })

  it('resumed streams that are pipelined all lose their reader, and closing waits for none of them', async () => {
    const endpoint = rawEndpoint(({ open }) => open())
    const { url, streams, server } = await serve(endpoint)
    const wire = open((server.address() as { port: number }).port)
    const paths: string[] = []
    for (const id of [1, 2, 3]) {
      const response = await post(url, callTool(id, 'any'), HEADERS)
      const { pathname, search } = new URL(streamUrl(response, url))
      response.destroy()
      await until(() => streams.stats().connections === 0)
      paths.push(pathname + search)
    }
    for (const path of paths) wire.socket.write(requestText({ method: 'GET', path }))
    await until(() => streams.stats().connections === 3)
    await wire.leave()
    await until(() => streams.stats().connections === 0)
    expect(streams.stats()).toMatchObject({ live: 3, resumes: 3 })
    await streams.close({ drain: 0 })
  })
})
