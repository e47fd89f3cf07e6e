// Request bodies as they may come, and as an endpoint may read them.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import { IncomingMessage, request, ServerResponse } from 'node:http'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { finished } from 'node:stream/promises'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { until } from '../../helpers/happenings.js'
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

const storage = new AsyncLocalStorage<string>()

describe('the async context of a middleware in front', () => {
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

/** How an endpoint may read; each gives the text. */
const READERS: Record<string, (req: IncomingMessage, res: ServerResponse) => Promise<string>> = {
  'as an iterable': req => text(req),
  'by `data`': req =>
    new Promise((resolve, reject) => {
      let all = ''
      req.on('data', chunk => (all += String(chunk)))
      req.on('end', () => resolve(all)).on('error', reject)
    }),
  'by `readable`': req =>
    new Promise((resolve, reject) => {
      let all = ''
      req.on('readable', () => {
        for (let chunk; (chunk = req.read()) !== null;) all += String(chunk)
      })
      req.on('end', () => resolve(all)).on('error', reject)
    }),
  'by a pipe': req => text(req.pipe(new PassThrough())),
  'as a stream of the web': req => text(Readable.toWeb(req)),
  'paused, and later': async req => {
    req.pause()
    await new Promise(setImmediate)
    return text(req)
  },
  'by express.json': (req, res) =>
    new Promise((resolve, reject) => {
      const parsed = req as express.Request
      express.json({ limit: '1mb' })(parsed, res as express.Response, error =>
        error === undefined ? resolve(JSON.stringify(parsed.body)) : reject(error)
      )
    })
}

describe('a body that the middleware has read', () => {
  interface Sent {
    parts: readonly string[]
    options?: McpStreamsOptions
    reader?: keyof typeof READERS
    headers?: Record<string, string>
    /** Called while the middleware waits for the second part. */
    meanwhile?: (req: IncomingMessage) => void
  }

  /** What the endpoint finds, and the body that it reads. */
  async function found({ parts, options, reader, headers, meanwhile }: Sent) {
    const seen: unknown[] = []
    const stores: unknown[] = []
    let arrived: IncomingMessage | undefined
    const front: express.RequestHandler = (req, _res, next) => {
      arrived = req
      storage.run('of this request', () => next())
    }
    const { url, streams } = await serve(
      async (req, res) => {
        stores.push(storage.getStore())
        seen.push([req.readableFlowing, req.readableDidRead, req.complete])
        seen.push(await READERS[reader ?? 'as an iterable']!(req, res))
        res.writeHead(200, { 'Content-Type': 'application/json' }).end('{}')
      },
      options,
      [front]
    )
    const sent = request(url, { method: 'POST', headers: { ...HEADERS, ...JSON_BODY, ...headers } })
    const response = once(sent, 'response') as Promise<[IncomingMessage]>
    if (headers !== undefined) {
      sent.flushHeaders()
      await once(sent, 'continue')
    }
    for (const [i, part] of parts.entries()) {
      if (i === 1 && meanwhile !== undefined) {
        await until(() => streams.stats().bytes > 0)
        meanwhile(arrived!)
      }
      await new Promise(resolve => sent.write(part, resolve))
      await new Promise(setImmediate)
    }
    sent.end()
    const [answered] = await response
    await text(answered)
    expect(stores).toEqual(['of this request'])
    return { status: answered.statusCode, seen }
  }

  const message = JSON.stringify(ofLength(10))
  const large = JSON.stringify(ofLength(300_000))
  const parts = [large.slice(0, 100_000), large.slice(100_000, 250_000), large.slice(250_000)]

  it.each<[which: string, parts: string[]]>([
    ['whole', [message]],
    ['whole, and larger than a request may hold', [large]],
    ['in two packets', [message.slice(0, 10), message.slice(10)]],
    ['in packets that are larger each', parts]
  ])('%s, lies there as if nobody had', async (_which, parts) => {
    const { status, seen } = await found({ parts })
    expect(status).toBe(200)
    expect(seen).toEqual([[null, false, true], parts.join('')])
  })

  describe.each(Object.keys(READERS))('in several packets, is read %s', reader => {
    it('whole', async () => {
      const { seen } = await found({ parts, reader })
      expect(seen.at(-1)).toBe(large)
    })

    it('where its client waits for a word', async () => {
      const { seen } = await found({ parts, reader, headers: { Expect: '100-continue' } })
      expect(seen.at(-1)).toBe(large)
    })

    it('up to a limit, to its end', async () => {
      const { seen } = await found({ parts, reader, options: { maxBodyBytes: 50_000 } })
      expect(seen.at(-1)).toBe(large)
    })
  })

  it('in several packets, comes by no method of ours', async () => {
    const own: unknown[][] = []
    const meanwhile = (req: IncomingMessage) => {
      const methods: object = IncomingMessage.prototype
      const names = Object.getOwnPropertyNames(req) as (keyof IncomingMessage)[]
      own.push(names.filter(name => name in methods && typeof req[name] === 'function'))
    }
    await found({ parts, meanwhile })
    expect(own).toEqual([[]])
  })

  it('in several packets, is whole for who begins to read it meanwhile, and for those behind', async () => {
    const begun: Promise<string>[] = []
    const reader = 'by `data`'
    const { seen } = await found({
      parts,
      reader,
      meanwhile: req => begun.push(READERS[reader]!(req, new ServerResponse(req)))
    })
    expect(await Promise.all(begun)).toEqual([large])
    expect(seen.at(-1)).toBe(large)
  })
})
