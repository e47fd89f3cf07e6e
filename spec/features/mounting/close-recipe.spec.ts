// `res.on('close', …)` and `req.on('close', …)`: close comes when the stream ends or is abandoned,
// not when a socket dies.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { finished } from 'node:stream'
import supertest from 'supertest'
import { currentStream, type McpStreamsOptions } from '../../../lib/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { Awaitable, gate } from '../../helpers/gate.js'
import { listen } from '../../helpers/listen.js'
import { callTool, ended, get, headersFor, notification, post } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { streamUrl } from '../../helpers/serve.js'
import { createStreams, type Middleware, type Mount, MOUNTS } from './frameworks.js'

const HEADERS = headersFor({ version: '2025-11-25' })
const news = notification('notifications/message', { level: 'info', data: 1 })

/** Notes what a response and its request tell whoever listens. */
class Witness {
  readonly events = new Awaitable<string>()
  readonly #req: IncomingMessage
  readonly #res: ServerResponse

  constructor(req: IncomingMessage, res: ServerResponse) {
    this.#req = req
    this.#res = res
    for (const name of ['close', 'finish', 'error'])
      res.on(name, () => this.events.push(`res ${name}`))
    for (const name of ['close', 'aborted', 'error'])
      req.on(name, () => this.events.push(`req ${name}`))
    finished(res, error => this.events.push(`finished(res)${error ? ' with an error' : ''}`))
  }

  /** What a handler asks before it writes. */
  get flags() {
    const {
      headersSent,
      destroyed,
      closed,
      writableEnded,
      writableFinished,
      finished,
      writable,
      errored
    } = this.#res
    return {
      headersSent,
      destroyed,
      closed,
      writableEnded,
      writableFinished,
      finished,
      writable,
      errored,
      aborted: this.#req.aborted
    }
  }

  /**
   * Of no use in a handler but while its body is unread: Node destroys a request that has been
   * read.
   */
  get isRequestDestroyed(): boolean {
    return this.#req.destroyed
  }
}

const OPEN = {
  headersSent: true,
  destroyed: false,
  closed: false,
  writableEnded: false,
  writableFinished: false,
  finished: false,
  writable: true,
  errored: null,
  aborted: false
}

/**
 * An endpoint that writes one event, and then waits for the spec; and a witness in front of the
 * middleware.
 */
async function serveWitnessed(
  mount: Mount,
  options: McpStreamsOptions = {},
  parser: Middleware[] = []
) {
  const go = gate()
  const streams = createStreams(options)
  const inFront = new Awaitable<Witness>()
  const behind = new Awaitable<Witness>()
  const endpoint: Middleware = async (req, res) => {
    const witness = new Witness(req, res)
    res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    res.write(`data: ${JSON.stringify(news)}\n\n`)
    behind.push(witness)
    await go.opened
    res.end(`data: {"jsonrpc":"2.0","id":1,"result":${currentStream() !== undefined}}\n\n`)
  }
  const watch: Middleware = (req, res, next) => {
    inFront.push(new Witness(req, res))
    next()
  }
  const { url } = await listen(mount([watch, ...parser, streams, endpoint]))
  const response = await post(`${url}/mcp`, callTool(1, 'any'), HEADERS)
  await response.nextMessage()
  return {
    go,
    streams,
    response,
    url: streamUrl(response, `${url}/mcp`),
    inFront: await inFront.nth(1),
    behind: await behind.nth(1),
    others: inFront
  }
}

const CUTS: [string, (response: OpenStream) => void][] = [
  ['a FIN', response => response.destroy()],
  ['an RST', response => response.reset()]
]

describe.each(MOUNTS)('on %s', (_framework, mount) => {
  it.each(CUTS)(
    'the endpoint hears nothing of %s, and closes with its stream',
    async (_cut, cut) => {
      const { go, response, url, inFront, behind } = await serveWitnessed(mount)
      expect(behind.flags).toEqual(OPEN)
      cut(response)
      await inFront.events.nth(2)
      await turns()
      expect(inFront.events).toContain('res close')
      expect(behind.events).toEqual([])
      expect(behind.flags).toEqual(OPEN)
      expect(behind.isRequestDestroyed).toBe(false)

      const second = await get(url, HEADERS)
      expect(behind.events).toEqual([])
      go.open()
      await second.ended
      expect(second.messages()).toEqual([news, { jsonrpc: '2.0', id: 1, result: true }])
      await turns()
      expect(behind.events).toEqual(
        expect.arrayContaining(['res finish', 'res close', 'finished(res)', 'req close'])
      )
      expect(behind.events.filter(name => name === 'res close')).toHaveLength(1)
      expect(behind.events.filter(name => name === 'req close')).toHaveLength(1)
      expect(behind.events).not.toContain('res error')
      expect(behind.events).not.toContain('finished(res) with an error')
      expect(behind.flags).toMatchObject({
        destroyed: true,
        closed: true,
        writableEnded: true,
        writableFinished: true
      })
    }
  )

  it('without a cut, the events are those of a response without the middleware', async () => {
    const { go, response, behind } = await serveWitnessed(mount)
    go.open()
    expect(await response.ended).toBe('end')
    await turns()
    const bare = await bareEvents(mount)
    expect(behind.events).toEqual(bare)
  })

  it('a stream that nobody comes back for is abandoned: then the close comes', async () => {
    const { go, streams, response, behind } = await serveWitnessed(mount, {
      resumeInterval: { min: 0, max: 0.05 }
    })
    response.destroy()
    await behind.events.nth(2)
    await turns()
    expect(streams.stats()).toMatchObject({ live: 0 })
    expect(behind.events).toContain('res close')
    expect(behind.events).toContain('req close')
    expect(behind.events).not.toContain('res finish')
    expect(behind.flags).toMatchObject({ destroyed: true, closed: true, writableEnded: false })
    go.open()
    await turns()
    expect(behind.events.filter(name => name === 'res close')).toHaveLength(1)
  })

  it('a stream that its client cancels closes at once', async () => {
    const { go, response, url, behind } = await serveWitnessed(mount)
    await supertest(url).delete('').set(HEADERS).expect(204)
    await response.ended
    await turns()
    expect(behind.events).toContain('res close')
    expect(behind.events).not.toContain('res finish')
    go.open()
  })

  it('a connection that another takes over ends without a word to the endpoint', async () => {
    const { go, response, url, behind, inFront } = await serveWitnessed(mount)
    const second = await get(url, HEADERS)
    expect(await response.ended).toBe('end')
    await inFront.events.nth(2)
    await turns()
    expect(behind.events).toEqual([])
    expect(behind.flags).toEqual(OPEN)
    go.open()
    await second.ended
  })

  it('a connection that is closed at will ends without a word to the endpoint', async () => {
    const { go, response, url, behind, inFront } = await serveWitnessed(mount, {
      disconnectAfter: 30,
      // Its client is known to come back.
      handoff: 'always'
    })
    expect(await response.ended).toBe('end')
    await inFront.events.nth(2)
    await turns()
    expect(behind.events).toEqual([])
    expect(behind.flags).toEqual(OPEN)
    go.open()
    const second = await ended(get(url, HEADERS))
    expect(second.messages()).toHaveLength(2)
  })

  it('a body that express.json() has read makes no difference', async () => {
    const { go, response, url, behind, inFront } = await serveWitnessed(mount, {}, [
      express.json() as Middleware
    ])
    const early = [...behind.events]
    expect(early.filter(name => name.startsWith('res') || name.startsWith('finished'))).toEqual([])
    response.destroy()
    await inFront.events.nth(2)
    await turns()
    expect(behind.events).toEqual(early)
    const { destroyed, closed, writableEnded, finished, aborted } = behind.flags
    expect([destroyed, closed, writableEnded, finished, aborted]).toEqual([
      false,
      false,
      false,
      false,
      false
    ])
    go.open()
    await ended(get(url, HEADERS))
    await turns()
    expect(behind.events.filter(name => name === 'res close')).toHaveLength(1)
    expect(behind.events.filter(name => name === 'req close')).toHaveLength(1)
  })

  it('the recipe of the SDK: the transport is closed when the stream ends, and not before', async () => {
    const endpoint = sdkV1Stateless()
    const closes: string[] = []
    const watch: Middleware = (_req, res, next) => {
      res.on('close', () => closes.push('close'))
      next()
    }
    const { url } = await listen(mount([createStreams(), watch, endpoint as Middleware]))
    const first = await post(
      `${url}/mcp`,
      callTool(1, 'count', { key: 'k', n: 2, paced: true }, 'token'),
      HEADERS
    )
    endpoint.log.release('k')
    await first.nextMessage()
    first.destroy()
    endpoint.log.release('k', 2)
    const call = await endpoint.log.ended.nth(1)
    expect([call.state, call.signal.aborted]).toEqual(['returned', false])
    const second = await ended(
      get(streamUrl(first, `${url}/mcp`), {
        ...HEADERS,
        'last-event-id': first.events.at(-1)!.id!
      })
    )
    expect(second.messages()).toMatchObject([{ params: { progress: 2 } }, { id: 1, result: {} }])
    await turns()
    expect(closes).toEqual(['close'])
  })

  it('the recipe of the SDK: a stream that is abandoned aborts its tool', async () => {
    const endpoint = sdkV1Stateless()
    const { url } = await listen(
      mount([createStreams({ resumeInterval: { min: 0, max: 0.05 } }), endpoint as Middleware])
    )
    const first = await post(`${url}/mcp`, callTool(1, 'hang', { key: 'k' }), HEADERS)
    await endpoint.log.calls.nth(1)
    first.destroy()
    const call = await endpoint.log.ended.nth(1)
    expect(call.state).toBe('aborted')
  })
})

it('listeners that are added after the cut, or only once, are served as well', async () => {
  const go = gate()
  const heard = new Awaitable<string>()
  const endpoint = rawEndpoint(async call => {
    call.emit(news)
    await go.opened
    call.res.once('close', () => heard.push('once'))
    call.res.prependListener('close', () => heard.push('prepended'))
    call.res.addListener('close', () => heard.push('added'))
    const removed = () => heard.push('removed')
    call.res.on('close', removed).off('close', removed)
    call.result()
  })
  const { url } = await listen(MOUNTS[0]![1]([createStreams(), endpoint as Middleware]))
  const response = await post(`${url}/mcp`, callTool(1, 'any'), HEADERS)
  await response.nextMessage()
  response.destroy()
  go.open()
  await heard.nth(3)
  await turns()
  expect(heard).toEqual(['prepended', 'once', 'added'])
  expect(endpoint.calls[0]!.res.listenerCount('close')).toBe(3)
})

async function bareEvents(mount: Mount): Promise<string[]> {
  let witness: Witness | undefined
  const endpoint: Middleware = (req, res) => {
    witness = new Witness(req, res)
    res.writeHead(200, { 'Content-Type': 'text/event-stream' }).end('data: {}\n\n')
  }
  const { url } = await listen(mount([endpoint]))
  await ended(post(`${url}/mcp`, callTool(1, 'any'), HEADERS))
  await turns()
  return [...witness!.events]
}

/** What was under way has been done. */
async function turns(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise(resolve => setImmediate(resolve))
}
