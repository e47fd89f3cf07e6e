// Request bodies as they may come, and as an endpoint may read them.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { finished } from 'node:stream/promises'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { callTool, result } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import type { Middleware } from '../mounting/frameworks.js'
import {
  type Behave,
  blockOf,
  HEADERS,
  note,
  NODE,
  NOTE,
  RESULT,
  serveCase,
  SSE_TYPE
} from '../endpoint/setup.js'

describe('a body that is nested very deeply', () => {
  it.each([5000, 100_000])('(%i arrays) is served also under a key', async depth => {
    const { url, expectNeighbourUnharmed } = await serveCase(async (res, req) => {
      await finished(req.resume())
      res.writeHead(200, SSE_TYPE).end(RESULT)
    })
    const params = '['.repeat(depth) + ']'.repeat(depth)
    const response = await openStream(url, {
      body: `{"jsonrpc":"2.0","id":1,"method":"any","params":${params}}`,
      headers: { ...HEADERS, 'idempotency-key': 'a key of length and more' }
    })
    expect(await response.ended).toBe('end')
    expect([response.status, response.messages()]).toEqual([200, [result(1, {})]])
    await expectNeighbourUnharmed()
  })
})

describe('an endpoint that writes its head first and reads its body then', () => {
  it.each<[how: string, behave: Behave]>([
    [
      'chunk by chunk',
      async (res, req) => {
        res.writeHead(200, SSE_TYPE)
        let body = ''
        for await (const chunk of req) body += String(chunk)
        res.write(blockOf(note(JSON.parse(body).method)))
        res.end(RESULT)
      }
    ],
    [
      'until it is finished',
      async (res, req) => {
        res.writeHead(200, SSE_TYPE)
        let body = ''
        req.on('data', chunk => (body += String(chunk)))
        await finished(req)
        res.write(blockOf(note(JSON.parse(body).method)))
        res.end(RESULT)
      }
    ]
  ])('%s, comes to its end', async (_how, behave) => {
    const { call } = await serveCase(behave)
    const response = await call()
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([note('tools/call'), result(1, {})])
  })
})

describe('the async context of a middleware in front', () => {
  const storage = new AsyncLocalStorage<string>()
  const inFront: Middleware = (_req, _res, next) => storage.run('of this request', () => next())

  it.each<[who: string, parser: Middleware[]]>([
    ['an endpoint that reads the raw body', []],
    ['an endpoint behind express.json', [express.json() as Middleware]]
  ])('reaches %s', async (_who, parser) => {
    const seen: unknown[] = []
    const { call } = await serveCase(
      async (res, req) => {
        seen.push(storage.getStore())
        if (parser.length === 0) await finished(req.resume())
        seen.push(storage.getStore())
        res.writeHead(200, SSE_TYPE).end(NOTE + RESULT)
      },
      {},
      ([streams, ...rest]) => NODE([inFront, streams!, ...parser, ...rest])
    )
    const response = await call()
    expect(await response.ended).toBe('end')
    // Of the neighbour's request nothing is noted.
    expect(seen).toEqual(['of this request', 'of this request'])
  })
})

const JSON_BODY = { 'content-type': 'application/json' }
const ofLength = (length: number) => callTool(1, 'x'.repeat(length))

describe('a body that the middleware has read', () => {
  /** What the endpoint finds, and the body that it reads. */
  async function found(parts: readonly string[], options: McpStreamsOptions = {}) {
    const seen: unknown[] = []
    const { url } = await serve(async (req, res) => {
      seen.push([req.readableFlowing, req.readableDidRead, req.complete])
      seen.push(await text(req))
      res.writeHead(200, { 'Content-Type': 'application/json' }).end('{}')
    }, options)
    const sent = request(url, { method: 'POST', headers: { ...HEADERS, ...JSON_BODY } })
    const response = once(sent, 'response') as Promise<[IncomingMessage]>
    for (const part of parts) {
      await new Promise(resolve => sent.write(part, resolve))
      await new Promise(setImmediate)
    }
    sent.end()
    const [answered] = await response
    await text(answered)
    return { status: answered.statusCode, seen }
  }

  const message = JSON.stringify(ofLength(10))
  const large = JSON.stringify(ofLength(300_000))

  it.each<[which: string, parts: string[]]>([
    ['whole', [message]],
    ['whole, and larger than a request may hold', [large]],
    ['in two packets', [message.slice(0, 10), message.slice(10)]],
    ['in packets that are larger each', [large.slice(0, 100_000), large.slice(100_000)]]
  ])('%s, lies there as if nobody had', async (_which, parts) => {
    const { status, seen } = await found(parts)
    expect(status).toBe(200)
    expect(seen).toEqual([[null, false, true], parts.join('')])
  })

  it('up to a limit, comes to its end', async () => {
    const { seen } = await found([large.slice(0, 100_000), large.slice(100_000)], {
      maxBodyBytes: 50_000
    })
    expect(seen.at(-1)).toBe(large)
  })
})
