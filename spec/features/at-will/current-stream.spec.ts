// `currentStream()`: inside a handler it is the stream of the request that the code works for;
// outside there is none.

import { describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { AsyncLocalStorage } from 'node:async_hooks'
import { EventEmitter } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import {
  currentStream,
  mcpStreams,
  type CurrentStream,
  type McpStreams
} from '../../../lib/index.js'
import { rawEndpoint, type RawCall, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful, sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler, sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { closeLater, listen } from '../../helpers/listen.js'
import {
  callTool,
  del,
  ended,
  headersFor,
  initializeSession,
  post,
  postModern
} from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'
import { sleep } from '../../helpers/sleep.js'

const headers = headersFor({ version: '2025-11-25' })

describe.each([
  ['SDK v1 stateful', sdkV1Stateful, '2025-11-25'],
  ['SDK v1 stateless', sdkV1Stateless, '2025-06-18'],
  ['SDK v2 stateful', sdkV2Stateful, '2025-11-25'],
  ['SDK v2 handler, without sessions', sdkV2Handler, '2025-11-25'],
  [
    'SDK v2 handler',
    (options: object) => sdkV2Handler({ ...options, responseMode: 'sse' }),
    '2026-07-28'
  ]
] as const)('in a tool of %s', (_name, create, version) => {
  it('is the stream that its client can resume', async () => {
    const endpoint = create({
      onContext: async () => {
        const { id, state, signal } = currentStream()!
        await turn()
        return { id, state, aborted: signal.aborted, later: currentStream()?.id }
      }
    })
    const { url } = await serve(endpoint)
    const call = callTool(1, 'context')
    const send = async (): Promise<OpenStream> => {
      if (version === '2026-07-28') return postModern(url, call, { prefer: 'rel=stream' })
      const { headers } = await initializeSession(url, version)
      return post(url, call, headers)
    }
    const responses = await Promise.all([send(), send()])
    for (const response of responses) {
      await response.ended
      const [message] = response.messages()
      const id = streamId(response)
      expect(JSON.parse(message.result.content[0].text)).toEqual({
        id,
        state: 'live',
        aborted: false,
        later: id
      })
    }
    expect(streamId(responses[0]!)).not.toBe(streamId(responses[1]!))
  })
})

describe('currentStream() outside of a call', () => {
  it('is undefined', () => {
    expect(currentStream()).toBeUndefined()
    expect(mcpStreams().current()).toBeUndefined()
  })

  it('is undefined in a handler on a route without the middleware', async () => {
    const seen: unknown[] = []
    const endpoint = rawEndpoint(({ result }) => {
      seen.push(currentStream())
      result()
    })
    const { url } = await listen(
      express()
        .use('/mcp', mcpStreams())
        .all('/bare', endpoint as RequestHandler)
    )
    await ended(post(`${url}/bare`, callTool(1, 'x'), headers))
    expect(seen).toEqual([undefined])
  })

  it('is undefined after the head of a response that becomes no stream', async () => {
    const seen: (CurrentStream | undefined)[] = []
    const { url, streams } = await serve(
      rawEndpoint(({ message, res }) => {
        // Before the head nobody can know.
        seen.push(currentStream())
        res.writeHead(200, { 'Content-Type': 'application/json' })
        seen.push(currentStream(), streams.current())
        res.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result: {} }))
      })
    )
    await ended(post(url, callTool(1, 'x'), headers))
    expect(seen).toEqual([expect.anything(), undefined, undefined])
  })

  it('is undefined where the streams are left to the endpoint', async () => {
    const seen: unknown[] = []
    const { url } = await serve(
      rawEndpoint(async ({ write, result }) => {
        write('id: 1\ndata: {}\n\n')
        seen.push(currentStream())
        result()
      }),
      { eventStore: 'leave' }
    )
    await ended(post(url, callTool(1, 'x'), headers))
    expect(seen).toEqual([undefined])
  })
})

/** One endpoint behind two instances, at `/one` and `/two`. */
async function mountBoth(one: McpStreams, two: McpStreams, endpoint: RawEndpoint): Promise<string> {
  for (const streams of [one, two]) closeLater(() => streams.close({ drain: 0 }))
  const handle = endpoint as RequestHandler
  const app = express().use('/one', one).all('/one', handle).use('/two', two).all('/two', handle)
  return (await listen(app)).url
}

describe('currentStream() inside of a call', () => {
  it('follows the code through promises, timers and emitters', async () => {
    const ids: (string | undefined)[] = []
    const note = () => void ids.push(currentStream()?.id)
    const { url } = await serve(
      rawEndpoint(async ({ result }) => {
        note()
        await turn()
        note()
        await new Promise<void>(resolve => setTimeout(() => resolve(note()), 1))
        process.nextTick(note)
        await sleep(1)
        new EventEmitter().on('x', note).emit('x')
        result()
        note()
      })
    )
    const response = await ended(post(url, callTool(1, 'x'), headers))
    await turn()
    expect(new Set(ids)).toEqual(new Set([streamId(response)]))
    expect(ids).toHaveLength(6)
  })

  it('is of the one instance that the request came through', async () => {
    const [one, two] = [mcpStreams(), mcpStreams()]
    const seen: (string | undefined)[][] = []
    const endpoint = rawEndpoint(({ result }) => {
      seen.push([currentStream()?.id, one.current()?.id, two.current()?.id])
      result()
    })
    const url = await mountBoth(one, two, endpoint)
    const ids: string[] = []
    for (const path of ['/one', '/two']) {
      const response = await ended(post(`${url}${path}`, callTool(1, 'x'), headers))
      ids.push(streamId(response))
    }
    expect(seen).toEqual([
      [ids[0], ids[0], undefined],
      [ids[1], undefined, ids[1]]
    ])
  })

  it('is of the outer instance where two are mounted in a row', async () => {
    const [outer, inner] = [mcpStreams(), mcpStreams()]
    for (const streams of [outer, inner]) closeLater(() => streams.close({ drain: 0 }))
    const seen: unknown[] = []
    const endpoint = rawEndpoint(({ result }) => {
      seen.push(outer.current()?.id, inner.current()?.id)
      result()
    })
    const { url } = await listen(
      express()
        .use('/mcp', outer, inner)
        .all('/mcp', endpoint as RequestHandler)
    )
    const response = await ended(post(`${url}/mcp`, callTool(1, 'x'), headers))
    expect(seen).toEqual([streamId(response), undefined])
    expect(response.headers.link).not.toContain(',')
  })
})

/**
 * An endpoint whose handler shows the stream that it got, before and after its head, and is then
 * held.
 */
async function watched(options: Parameters<typeof serve>[1] = {}) {
  const streams: CurrentStream[] = []
  const early: AbortSignal[] = []
  const endpoint = rawEndpoint(({ open, emit }) => {
    const stream = currentStream()!
    streams.push(stream)
    early.push(stream.signal)
    open()
    emit({ jsonrpc: '2.0', method: 'notifications/x' })
  })
  const served = await serve(endpoint, { retry: 20, ...options })
  const response = await post(served.url, callTool(1, 'x'), headers)
  await response.nextMessage()
  const [stream, call] = [streams[0]!, endpoint.calls[0] as RawCall]
  return { ...served, response, stream, call, signals: [early[0]!, stream.signal] }
}

const aborted = (signal: AbortSignal) =>
  new Promise<void>(resolve => signal.addEventListener('abort', () => resolve()))

describe('state and signal', () => {
  it('are those of a live stream, whether a client is connected or not', async () => {
    const { response, stream, signals, streams } = await watched()
    expect(stream.state).toBe('live')
    response.reset()
    await response.ended
    await until(() => streams.stats().connections === 0)
    expect(stream.state).toBe('live')
    expect(signals.map(signal => signal.aborted)).toEqual([false, false])
  })

  it('do not take a completed stream for an aborted one', async () => {
    const { response, stream, call, signals } = await watched()
    call.result()
    await response.ended
    await call.closed
    expect(stream.state).toBe('completed')
    expect(signals.map(signal => signal.aborted)).toEqual([false, false])
    expect(stream.signal.aborted).toBe(false)
  })

  it.each<
    [state: string, how: string, end: (watch: Awaited<ReturnType<typeof watched>>) => unknown]
  >([
    ['cancelled', 'DELETE of the stream URL', ({ response, url }) => del(streamUrl(response, url))],
    ['failed', 'an endpoint that ends without a response', ({ call }) => void call.res.end()],
    ['failed', 'an endpoint that destroys its response', ({ call }) => void call.res.destroy()],
    ['abandoned', 'a client that does not come back', ({ response }) => response.destroy()]
  ])('say %s after %s, also to who asked before the head', async (state, _how, end) => {
    const watch = await watched({ resumeInterval: { max: 0.03 } })
    const isAborted = Promise.all(watch.signals.map(aborted))
    await end(watch)
    await isAborted
    expect(watch.stream.state).toBe(state)
    for (const { reason } of [...watch.signals, watch.stream.signal]) {
      expect(reason).toMatchObject({ name: 'AbortError', message: `The stream was ${state}` })
    }
    await watch.call.closed
  })

  it('are independent of other calls', async () => {
    const go = gate()
    const states: unknown[] = []
    const { url } = await serve(
      rawEndpoint(async ({ open, message, result }) => {
        const stream = currentStream()!
        open()
        if (message.id === 1) return
        await go.opened
        states.push(stream.state, stream.signal.aborted)
        result()
      })
    )
    const [first, second] = [
      await post(url, callTool(1, 'x'), headers),
      await post(url, callTool(2, 'x'), headers)
    ]
    await del(streamUrl(first, url))
    go.open()
    await second.ended
    expect(states).toEqual(['live', false])
  })
})

it('a connection that is kept alive is written to outside of other calls', async () => {
  const calls = new AsyncLocalStorage<string>()
  const seen: (string | undefined)[] = []
  const endpoint = rawEndpoint(call => void call.open())
  const { url } = await serve(endpoint, { keepAlive: 20 }, [
    (req, res, next) => {
      const { write } = res
      res.write = (...args: unknown[]) => {
        if (Buffer.from(args[0] as Uint8Array).at(0) === 0x3a) seen.push(calls.getStore())
        return Reflect.apply(write, res, args) as boolean
      }
      calls.run(req.get('Authorization')!, next)
    }
  ])
  const two = await Promise.all(
    ['one', 'two'].map(auth =>
      post(url, callTool(1, 'any'), { ...headers, ...headersFor({ auth }) })
    )
  )
  await until(() => seen.length >= 4)
  for (const response of two) response.destroy()
  expect(new Set(seen)).toEqual(new Set([undefined]))
})
