// Middleware in front that throws when a stream is written to: often in a timer of ours, where
// nobody could catch it. It costs its client the connection, and nobody anything else.

import { beforeEach, describe, expect, it, jest } from '@jest/globals'
import type { RequestHandler } from 'express'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Hub } from '../../helpers/backplane/memory.js'
import { gate } from '../../helpers/gate.js'
import { callTool, get, post, result } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { HEADERS, note, NOTE, RESULT, SSE_TYPE } from '../endpoint/setup.js'

let warn: jest.SpiedFunction<typeof process.emitWarning>
beforeEach(() => {
  warn = jest.spyOn(process, 'emitWarning').mockReturnValue()
})
type Name = 'write' | 'end' | 'setHeader' | 'writeHead'
type Method = (...args: unknown[]) => unknown

/** Throws at a call of a method of the response, for requests with the header `x-throwing`. */
const throwingAt =
  (name: Name, isIt: (args: unknown[], count: number) => boolean): RequestHandler =>
  (req, res, next) => {
    if (req.headers['x-throwing'] === undefined) return next()
    const methods = res as unknown as Record<Name, Method>
    const original = methods[name].bind(res)
    let count = 0
    methods[name] = (...args) => {
      if (isIt(args, ++count)) throw new Error('thrown in front')
      return original(...args)
    }
    next()
  }

const THROWING = { ...HEADERS, 'x-throwing': '1' }

describe('middleware in front that throws at', () => {
  const cases: [what: string, inFront: RequestHandler][] = [
    ['a later write', throwingAt('write', (_args, count) => count > 1)],
    ['the end', throwingAt('end', () => true)]
  ]

  const streaming = () => {
    const go = gate()
    const endpoint = async (_req: IncomingMessage, res: ServerResponse) => {
      res.writeHead(200, SSE_TYPE).write(NOTE)
      await go.opened
      res.write(NOTE)
      res.end(RESULT)
    }
    return { go, endpoint }
  }

  it('any write is named by a warning, once in a process', async () => {
    for (let i = 0; i < 2; i++) {
      const { go, endpoint } = streaming()
      const { url } = await serve(endpoint, {}, [throwingAt('write', (_args, count) => count > 1)])
      const response = await post(url, callTool(1, 'any'), THROWING)
      go.open()
      await response.ended
    }
    const detail = expect.stringMatching(/^Error: thrown in front\n/)
    expect(warn.mock.calls).toEqual([
      [expect.stringContaining('in front'), { code: 'MCP_STREAMS_FRONT_THREW', detail }]
    ])
  })

  it.each(cases)('%s of a call: its client is cut off, and comes back', async (_what, inFront) => {
    const { go, endpoint } = streaming()
    const { url, streams } = await serve(endpoint, { keepAlive: 5 }, [inFront])
    const response = await post(url, callTool(1, 'any'), THROWING)
    await response.nextMessage()
    go.open()
    expect(await response.ended).not.toBe('end')
    const again = await get(streamUrl(response, url), HEADERS)
    expect(await again.ended).toBe('end')
    expect(again.messages()).toEqual([note(1), note(1), result(1, {})])
    expect(streams.stats()).toMatchObject({ live: 0, connections: 0, failures: {} })
  })

  it.each(cases)('%s of a resumed call: the same', async (_what, inFront) => {
    const { go, endpoint } = streaming()
    const { url } = await serve(endpoint, { keepAlive: 5 }, [inFront])
    const response = await post(url, callTool(1, 'any'), HEADERS)
    const resumed = await get(streamUrl(response, url), THROWING)
    await response.ended
    await resumed.nextMessage()
    go.open()
    expect(await resumed.ended).not.toBe('end')
    const again = await get(streamUrl(response, url), HEADERS)
    expect(await again.ended).toBe('end')
    expect(again.messages()).toEqual([note(1), note(1), result(1, {})])
  })

  it.each(cases)('%s of a call that another instance runs: the same', async (_what, inFront) => {
    const { go, endpoint } = streaming()
    const hub = new Hub()
    const [home, away] = [hub.option(), hub.option()]
    const { url } = await serve(endpoint, { backplane: home })
    const other = await serve(endpoint, { backplane: away }, [inFront])
    const response = await post(url, callTool(1, 'any'), HEADERS)
    const resumed = await get(streamUrl(response, other.url), THROWING)
    await resumed.nextMessage()
    go.open()
    expect(await resumed.ended).not.toBe('end')
    const again = await get(streamUrl(response, url), HEADERS)
    expect(await again.ended).toBe('end')
    expect(again.messages()).toEqual([note(1), note(1), result(1, {})])
    expect(other.streams.stats().backplane).toMatchObject({ forwarded: 0 })
  })

  it.each<[Name, (args: unknown[]) => boolean]>([
    ['setHeader', ([name]) => name === 'Link'],
    ['writeHead', () => true]
  ])('%s of an early head: the call ends', async (name, isIt) => {
    const closed = gate()
    const endpoint = (_req: IncomingMessage, res: ServerResponse) =>
      void res.on('close', () => closed.open())
    const { url, streams } = await serve(endpoint, { upgradeAfter: 1 }, [throwingAt(name, isIt)])
    await expect(post(url, callTool(1, 'any'), THROWING)).rejects.toThrow()
    await closed.opened
    expect(streams.stats()).toMatchObject({ live: 0, connections: 0 })
  })
})
