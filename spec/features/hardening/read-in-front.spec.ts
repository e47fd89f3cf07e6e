// Code in front that reads a request's body as it comes, such as a metric of sizes, an audit log or
// a tracing agent: those behind the middleware get the body as they would without it, and a call is
// as durable as any other.

import { describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { PassThrough } from 'node:stream'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { Hub } from '../../helpers/backplane/memory.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { callTool, ended, get, headersFor, initialize, post, result } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'
import { serve, streamUrl } from '../../helpers/serve.js'

const HEADERS = headersFor({ version: '2025-11-25' })
const SSE = { 'Content-Type': 'text/event-stream' }
const blockOf = (message: unknown) => `data: ${JSON.stringify(message)}\n\n`

/** How code in front reads. */
const FRONTS: Record<string, RequestHandler> = {
  'a listener for `data`': (req, _res, next) => {
    req.on('data', () => undefined)
    next()
  },
  'a pipe': (req, _res, next) => {
    req.pipe(new PassThrough().resume())
    next()
  },
  '`resume`': (req, _res, next) => {
    req.resume()
    next()
  },
  'a listener for `end`': (req, _res, next) => {
    req.on('end', () => undefined)
    next()
  }
}
const METRIC = FRONTS['a listener for `data`']!

/** How those behind us read. */
const READERS: Record<string, RequestHandler> = {
  'express.json()': express.json({ limit: '1mb' }),
  'express.text()': (req, res, next) =>
    express.text({ type: '*/*', limit: '1mb' })(req, res, () => {
      req.body = JSON.parse(req.body as string)
      next()
    }),
  'a listener for `data`': (req, _res, next) => {
    let text = ''
    req.on('data', chunk => (text += String(chunk)))
    req.on('end', () => {
      req.body = JSON.parse(text)
      next()
    })
  },
  '`for await`': async (req, _res, next) => {
    let text = ''
    for await (const chunk of req) text += String(chunk)
    req.body = JSON.parse(text)
    next()
  }
}

/** An endpoint behind a reader, and the bodies that have reached it. */
function endpointBehind(
  reader: RequestHandler,
  answer: (message: { id?: number; method?: string }, res: express.Response) => unknown
) {
  const bodies: { id?: number; method?: string }[] = []
  const endpoint: RequestHandler = (req, res, next) =>
    reader(req, res, error => {
      if (error !== undefined) return next(error)
      bodies.push(req.body as object)
      answer(req.body as object, res)
    })
  return { bodies, endpoint: endpoint as (req: unknown, res: unknown) => unknown }
}

describe.each(Object.entries(FRONTS))('behind %s', (_name, front) => {
  describe.each(Object.entries(READERS))('a body reaches %s', (_reader, reader) => {
    it.each([100, 200_000])('whole (%d characters)', async size => {
      const { bodies, endpoint } = endpointBehind(reader, ({ id }, res) =>
        res.json(result(id!, {}))
      )
      const { url } = await serve(endpoint, {}, [front])
      const message = callTool(1, 'any', { pad: 'x'.repeat(size) })
      const response = await post(url, message, HEADERS)
      expect(await response.ended).toBe('end')
      expect([response.status, JSON.parse(response.text)]).toEqual([200, result(1, {})])
      expect(bodies).toEqual([message])
    })
  })
})

describe('a call whose body is read in front as it comes', () => {
  it('is resumed, and owed an answer', async () => {
    const go = gate()
    const { bodies, endpoint } = endpointBehind(express.json(), async ({ id }, res) => {
      res.writeHead(200, SSE).write(blockOf({ jsonrpc: '2.0', method: 'notifications/x' }))
      await go.opened
      res.end(id === 1 ? blockOf(result(1, { done: true })) : '')
    })
    const { url } = await serve(endpoint, {}, [METRIC])
    const cut = [await post(url, callTool(1, 'any'), HEADERS)]
    cut.push(await post(url, callTool(2, 'any'), HEADERS))
    for (const response of cut) {
      await response.nextMessage()
      response.destroy()
    }
    go.open()
    const again = await Promise.all(cut.map(response => get(streamUrl(response, url), HEADERS)))
    for (const response of again) expect(await response.ended).toBe('end')
    expect(again[0]!.messages().at(-1)).toEqual(result(1, { done: true }))
    expect(again[1]!.messages().at(-1)).toMatchObject({
      id: 2,
      error: { data: { reason: 'no-response' } }
    })
    expect(bodies).toHaveLength(2)
  })

  it('may be slow in JSON', async () => {
    const go = gate()
    const { endpoint } = endpointBehind(express.json(), async ({ id }, res) => {
      await go.opened
      res.json(result(id!, {}))
    })
    const { url } = await serve(endpoint, { upgradeAfter: 20 }, [METRIC])
    const response = await post(url, callTool(1, 'any'), { ...HEADERS, prefer: 'rel=stream' })
    expect(response.headers['content-type']).toBe('text/event-stream')
    go.open()
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([result(1, {})])
  })

  it.each(['json', 'sse'])('agrees upon a revision (%s)', async kind => {
    const { endpoint } = endpointBehind(express.json(), ({ id, method }, res) => {
      if (id === undefined || method === undefined) return void res.sendStatus(202)
      const value = method === 'initialize' && { protocolVersion: '2025-11-25', capabilities: {} }
      res.setHeader('Mcp-Session-Id', 'a-session')
      if (kind === 'json' && method === 'initialize') return void res.json(result(id, value))
      res.writeHead(200, SSE).end(blockOf(result(id, value)))
    })
    const { url } = await serve(endpoint, {}, [METRIC])
    await ended(post(url, initialize('2025-11-25')))
    // The primer of that revision, although the request does not name it.
    const response = await ended(
      post(url, callTool(1, 'any'), headersFor({ session: 'a-session' }))
    )
    expect(response.text).toMatch(/^id: \S+\nretry: \d+\ndata:\n\n/)
  })

  it('does not run twice under its key, which is announced', async () => {
    const { bodies, endpoint } = endpointBehind(express.json(), ({ id }, res) =>
      res.json(result(id!, { runs: bodies.length }))
    )
    const { url } = await serve(endpoint, {}, [METRIC])
    const headers = { ...HEADERS, prefer: 'rel=stream', 'idempotency-key': 'k'.repeat(20) }
    for (let i = 0; i < 2; i++) {
      const response = await ended(post(url, callTool(1, 'any'), headers))
      expect(response.headers['preference-applied']).toContain('rel=stream')
      expect(JSON.parse(response.text)).toEqual(result(1, { runs: 1 }))
    }
    expect(bodies).toHaveLength(1)
  })

  it('ends by a notification that is read in the same way', async () => {
    const { endpoint } = endpointBehind(express.json(), ({ id }, res) =>
      id === undefined ? res.sendStatus(202) : res.writeHead(200, SSE).write(': \n\n')
    )
    const { url, streams } = await serve(endpoint, {}, [METRIC])
    const headers = { ...HEADERS, ...headersFor({ auth: 'me' }) }
    await post(url, callTool(1, 'any'), headers)
    await until(() => streams.stats().live === 1)
    const params = { requestId: 1 }
    await post(url, { jsonrpc: '2.0', method: 'notifications/cancelled', params }, headers)
    await until(() => streams.stats().live === 0)
  })

  it('passes untouched where it is not MCP, nor its head says so', async () => {
    const answer = blockOf({ data: { answer: 42 } })
    const { endpoint } = endpointBehind(express.json(), (_message, res) =>
      res.writeHead(200, SSE).end(answer)
    )
    const { url } = await serve(endpoint, {}, [METRIC])
    const response = await ended(
      openStream(url, {
        body: { query: '{ answer }' },
        headers: { accept: 'application/json, text/event-stream' }
      })
    )
    expect([response.text, response.headers.link]).toEqual([answer, undefined])
  })
})

describe('a body that flows in front while the middleware waits', () => {
  const later = async () => {
    await new Promise(resolve => setImmediate(resolve))
    return 'somebody'
  }
  const waiting: [string, () => McpStreamsOptions][] = [
    ['for the owner', () => ({ owner: later })],
    ['for another instance', () => ({ backplane: new Hub().option() })]
  ]

  it.each(waiting)('%s, reaches the endpoint whole', async (_for, options) => {
    const sizes: number[] = []
    const front: RequestHandler = (req, _res, next) => {
      let size = 0
      req.on('data', (chunk: Buffer) => (size += chunk.length))
      req.on('end', () => sizes.push(size))
      next()
    }
    const { bodies, endpoint } = endpointBehind(express.json({ limit: '1mb' }), ({ id }, res) =>
      res.json(result(id!, {}))
    )
    const { url } = await serve(endpoint, options(), [front])
    const message = callTool(1, 'any', { pad: 'x'.repeat(200_000) })
    const response = await ended(
      post(url, message, {
        ...HEADERS,
        prefer: 'rel=stream',
        'idempotency-key': 'k'.repeat(20)
      })
    )
    expect(response.status).toBe(200)
    expect(bodies).toEqual([message])
    expect(sizes).toEqual([Buffer.byteLength(JSON.stringify(message))])
  })

  it('is read by the middleware where that answers', async () => {
    const answers: unknown[] = []
    const asked = { jsonrpc: '2.0', id: 7, method: 'elicitation/create', params: {} }
    const { endpoint } = endpointBehind(express.json({ limit: '1mb' }), (message, res) => {
      if (message.method !== undefined) return void res.writeHead(200, SSE).write(blockOf(asked))
      answers.push(message)
      res.sendStatus(202)
    })
    const { url } = await serve(endpoint, { owner: later }, [METRIC])
    const call = await post(url, callTool(1, 'any'), HEADERS)
    await call.nextMessage()
    const answer = result(7, { pad: 'x'.repeat(200_000) })
    const turn = await post(streamUrl(call, url), [answer], HEADERS)
    expect(turn.status).toBe(200)
    expect(answers).toEqual([answer])
  })
})

it('a key that is announced counts for a body that nobody in front of the endpoint can read', async () => {
  let runs = 0
  const { url } = await serve((_req, res) => {
    runs++
    res.writeHead(200, { 'Content-Type': 'application/json' }).end('{}')
  })
  const send = (type: string, body: Buffer | string) =>
    openStream(url, {
      body,
      headers: {
        ...HEADERS,
        'content-type': type,
        prefer: 'rel=stream',
        'idempotency-key': 'k'.repeat(20)
      }
    })
  for (let i = 0; i < 2; i++)
    await (
      await send('text/plain', JSON.stringify(callTool(1, 'x')))
    ).ended
  expect(runs).toBe(1)
})
