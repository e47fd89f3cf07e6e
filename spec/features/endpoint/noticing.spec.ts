// By what a handler notices that its client has gone: what tells of the response tells of its
// stream, and what tells of the socket tells of the cut.

import { describe, expect, it } from '@jest/globals'
import { finished } from 'node:stream'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { until } from '../../helpers/happenings.js'
import { callTool, headersFor, post, result } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'

const MODERN = headersFor({ version: '2025-11-25' })

describe('a handler whose client is cut off', () => {
  it('hears of the end of its stream by req and res, and of the cut by the socket', async () => {
    const heard: string[] = []
    const endpoint = rawEndpoint(({ req, res, open }) => {
      const { socket } = req
      for (const event of ['close', 'aborted']) req.on(event, () => heard.push(`req ${event}`))
      res.on('close', () => heard.push('res close'))
      finished(res, () => heard.push('finished(res)'))
      socket.on('close', () => heard.push('socket close'))
      finished(socket, () => heard.push('finished(socket)'))
      open()
    })
    const { url, streams } = await serve(endpoint)
    const response = await post(url, callTool(1, 'any'), MODERN)
    const { req, res } = endpoint.calls[0]!
    response.reset()
    await until(() => streams.stats().connections === 0 && heard.length > 1)
    expect(heard.sort()).toEqual(['finished(socket)', 'socket close'])
    expect(req.aborted).toBe(false)
    expect(res).toMatchObject({ destroyed: false, closed: false, writable: true })
    expect(req.socket).toMatchObject({ destroyed: true, writable: false, readyState: 'closed' })
    res.end()
    await until(() => heard.includes('res close'))
    expect(heard).toContain('finished(res)')
  })
})

describe('an `Accept` that is repaired to please an SDK', () => {
  it.each([
    ['behind', 'application/json'],
    ['in front', 'text/event-stream']
  ])('%s: what a client of JSON alone gets is %s', async (where, type) => {
    const both = 'application/json, text/event-stream'
    const endpoint = rawEndpoint(async ({ req, res, message }) => {
      if (where === 'behind') req.headers.accept = both
      await new Promise(resolve => setTimeout(resolve, 100))
      res.writeHead(200, { 'Content-Type': 'application/json' })
      res.end(JSON.stringify(result(message.id, {})))
    })
    const { url } = await serve(endpoint, { upgradeAfter: 5 }, [
      (req, _res, next) => {
        if (where === 'in front') req.headers.accept = both
        next()
      }
    ])
    const response = await post(url, callTool(1, 'any'), { ...MODERN, accept: 'application/json' })
    expect(response.headers['content-type']).toBe(type)
  })
})
