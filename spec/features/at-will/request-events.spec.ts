// An endpoint that works by the events of its request and of its response is inside its call there
// too, and may end it from there.

import { describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { currentStream, type CurrentStream } from '../../../lib/index.js'
import { Awaitable } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { callTool, get, headersFor, notification, post } from '../../helpers/mcp.js'
import { serve, streamId } from '../../helpers/serve.js'

const headers = headersFor({ version: '2025-11-25', session: 's' })
const NOTE = `data: ${JSON.stringify(notification('notifications/x'))}\n\n`

type Then = (req: IncomingMessage, res: ServerResponse) => void

/** The ways to hear a request to its end that are not promises. */
const WAYS: Record<string, (req: IncomingMessage, then: () => void) => unknown> = {
  "on('end')": (req, then) => req.on('data', () => undefined).on('end', then),
  "once('close')": (req, then) => req.resume().once('close', then),
  "on('readable')": (req, then) =>
    req.on('readable', () => {
      while (req.read() !== null);
      if (req.readableEnded || req.complete) then()
    })
}

/** An endpoint that begins in a listener of its request, once. */
const begunBy =
  (way: string, then: Then) =>
  (req: IncomingMessage, res: ServerResponse): void => {
    let hasBegun = false
    WAYS[way]!(req, () => {
      if (hasBegun) return
      hasBegun = true
      res.writeHead(200, { 'Content-Type': 'text/event-stream' })
      res.write(NOTE)
      then(req, res)
    })
  }

describe.each(Object.keys(WAYS))('an endpoint that reads its request by %s', way => {
  it('is inside its call', async () => {
    const seen = new Awaitable<CurrentStream | undefined>()
    const { url } = await serve(
      begunBy(way, (_req, res) => void (seen.push(currentStream()), res.end()))
    )
    const response = await post(url, callTool(1, 'any'), headers)
    await response.ended
    expect((await seen.nth(1))?.id).toBe(streamId(response))
  })

  it.each<[string, Then]>([
    ['its socket', req => void setTimeout(() => req.socket.destroy(), 1)],
    ['its response', (_req, res) => void setTimeout(() => res.destroy(), 1)]
  ])('may end it by destroying %s', async (_what, then) => {
    const { url, streams } = await serve(begunBy(way, then))
    const response = await post(url, callTool(1, 'any'), headers)
    expect(await response.ended).toBe('end')
    expect(response.messages().at(-1)).toMatchObject({
      id: 1,
      error: { data: { reason: 'no-response' } }
    })
    expect(streams.stats()).toMatchObject({ live: 0, finished: 1 })
  })
})

it.each<[string, (req: IncomingMessage, read: () => void) => unknown]>([
  ['as it comes', (_req, read) => read()],
  ['when all of it is there', (req, read) => until(() => req.complete).then(read)]
])('is not where somebody in front hears the same event, read %s', async (_when, begin) => {
  const seen: unknown[] = []
  const endpoint = begunBy("on('end')", (_req, res) => void res.end())
  const { url } = await serve((req, res) => void begin(req, () => endpoint(req, res)), {}, [
    (req, _res, next) => {
      req.on('end', () => seen.push(currentStream()))
      next()
    }
  ])
  await (
    await post(url, callTool(1, 'any'), headers)
  ).ended
  expect(seen).toEqual([undefined])
})

describe('somebody in front is outside of the call that ends', () => {
  /** Whose streams are seen in front when the response finishes and closes. */
  async function seenInFront(
    endpoint: Then,
    front: (res: ServerResponse, hear: (event: string) => void) => void,
    more: Record<string, string> = {}
  ): Promise<unknown[]> {
    const seen = new Awaitable<[event: string, stream: unknown]>()
    const { url } = await serve(endpoint, {}, [
      (_req, res, next) => {
        front(res, event => seen.push([event, currentStream()]))
        next()
      }
    ])
    await (
      await post(url, callTool(1, 'any'), { ...headers, ...more })
    ).ended
    await seen.nth(2)
    return [...seen]
  }

  const listen = (res: ServerResponse, hear: (event: string) => void): void => {
    for (const event of ['finish', 'close']) res.on(event, () => hear(event))
  }

  const patchEmit = (res: ServerResponse, hear: (event: string) => void): void => {
    const { emit } = res
    res.emit = (event: string, ...args: unknown[]) => {
      if (event === 'finish' || event === 'close') hear(event)
      return emit.call(res, event, ...args)
    }
  }

  const destroyed: Then = (_req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    res.write(NOTE)
    void Promise.resolve().then(() => res.destroy())
  }
  const ended: Then = (_req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    res.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id: 1, result: {} })}\n\n`)
  }
  const json: Then = (_req, res) => {
    res.writeHead(200, { 'Content-Type': 'application/json' })
    res.end(JSON.stringify({ jsonrpc: '2.0', id: 1, result: {} }))
  }
  const OUTSIDE = ['finish', 'close'].map(event => [event, undefined])

  it.each<[string, Then]>([
    ['that the endpoint ends', ended],
    ['that the endpoint destroys', destroyed],
    ['that is left alone', json]
  ])('where it hears a response %s', async (_what, endpoint) => {
    expect(await seenInFront(endpoint, listen)).toEqual(OUTSIDE)
    expect(await seenInFront(endpoint, patchEmit)).toEqual(OUTSIDE)
  })

  it('where it hears one that is kept under a key', async () => {
    expect(await seenInFront(json, listen, { 'Idempotency-Key': 'k' })).toEqual(OUTSIDE)
  })
})

it('is inside its call when its response drains, and when it closes', async () => {
  const seen = new Awaitable<[event: string, id: string | undefined]>()
  const { url } = await serve(
    (_req, res) => {
      for (const event of ['drain', 'finish', 'close'])
        res.once(event, () => seen.push([event, currentStream()?.id]))
      res.writeHead(200, { 'Content-Type': 'text/event-stream' })
      while (res.write(`: ${'x'.repeat(60_000)}\ndata: {"x":"${'y'.repeat(60_000)}"}\n\n`));
      res.once('drain', () => res.end())
    },
    { maxStreamBytes: 1e6 }
  )
  const response = await post(url, callTool(1, 'any'), headers)
  await response.ended
  await seen.nth(3)
  const id = streamId(response)
  expect([...seen]).toEqual(['drain', 'finish', 'close'].map(event => [event, id]))
})

describe('an endpoint that destroys its request', () => {
  /** It writes its head, and destroys its request when it is told to. */
  async function opened(method: 'GET' | 'POST') {
    const calls = new Awaitable<() => void>()
    const served = await serve((req, res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' })
      res.write(NOTE)
      let resolve!: () => void
      const promise = new Promise<void>(done => (resolve = done))
      void promise.then(() => req.destroy())
      calls.push(resolve)
    })
    const response = await (method === 'GET'
      ? get(served.url, headers)
      : post(served.url, callTool(1, 'any'), headers))
    await response.nextMessage()
    return { ...served, response, destroy: await calls.nth(1) }
  }

  it.each(['GET', 'POST'] as const)(
    'of which it has not read the body ends its stream: %s',
    async method => {
      const { response, destroy, streams } = await opened(method)
      destroy()
      expect(await response.ended).toBe('end')
      expect(streams.stats()).toMatchObject({ live: 0, connections: 0 })
    }
  )

  it.each(['GET', 'POST'] as const)(
    'ends its stream also where its client has left: %s',
    async method => {
      const { response, destroy, streams } = await opened(method)
      response.reset()
      await until(() => streams.stats().connections === 0)
      destroy()
      await until(() => streams.stats().live === 0)
    }
  )

  it('that it has read ends nothing, as ever', async () => {
    const requests = new Awaitable<[IncomingMessage, ServerResponse]>()
    const { url, streams } = await serve(
      begunBy("on('end')", (req, res) => {
        req.destroy()
        requests.push([req, res])
      })
    )
    const response = await post(url, callTool(1, 'any'), headers)
    const [req, res] = await requests.nth(1)
    if (!req.closed) await once(req, 'close')
    expect(streams.stats()).toMatchObject({ live: 1, connections: 1 })
    res.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id: 1, result: {} })}\n\n`)
    await response.ended
    expect(response.messages().at(-1)).toMatchObject({ id: 1, result: {} })
  })
})
