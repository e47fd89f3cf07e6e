// `currentStream().disconnect()`: the connection closes at will, the stream goes on, towards
// clients that come back.

import { describe, expect, it } from '@jest/globals'
import { setImmediate as turn } from 'node:timers/promises'
import { currentStream, type CurrentStream, type McpStreamsOptions } from '../../../lib/index.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful, sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler, sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { gate } from '../../helpers/gate.js'
import { happenings, until } from '../../helpers/happenings.js'
import {
  callTool,
  eventId,
  get,
  headersFor,
  initialize,
  initializeSession,
  notification,
  post,
  postModern
} from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve, streamId, streamUrl, type Served } from '../../helpers/serve.js'

/** Of a client that has announced that it comes back. */
const POLLING = headersFor({ version: '2025-11-25', prefer: 'rel=stream' })
const NEWS = notification('notifications/message', { level: 'info', data: 'news' })
const block = (message: unknown) => `event: message\ndata: ${JSON.stringify(message)}\n\n`
const RESULT = block({ jsonrpc: '2.0', id: 1, result: {} })

type Script = (call: RawCall, stream: CurrentStream, served: Served) => unknown

/** Serves a handler that gets its stream handed in, and sends it a call. */
async function call(script: Script, options: McpStreamsOptions = {}, headers = POLLING) {
  const endpoint = rawEndpoint(call => script(call, currentStream()!, served))
  const served = await serve(endpoint, options)
  const response = await post(served.url, callTool(1, 'x'), headers)
  return { ...served, endpoint, response, id: streamId(response) }
}

describe('disconnect', () => {
  it('ends the connection with an id to come back with and a time to do so; the stream goes on', async () => {
    const { response, id, url, streams, endpoint } = await call(({ open, emit }, stream) => {
      open()
      emit(NEWS)
      stream.disconnect({ retry: 1234 })
    })
    expect(await response.ended).toBe('end')
    expect(response.text).toBe(
      `id: ${eventId(id, '0.1')}\nretry: 3000\ndata:\n\n` +
        `id: ${eventId(id, 1)}\n${block(NEWS)}` +
        `id: ${eventId(id, '1.2')}\nretry: 1234\ndata:\n\n`
    )
    expect(streams.stats()).toMatchObject({ live: 1, connections: 0 })
    const { result, isClosed } = endpoint.calls[0]!
    expect(isClosed).toBe(false)
    const resumed = await get(streamUrl(response, url), {
      ...POLLING,
      'last-event-id': `${id}.1.2`
    })
    await resumed.next()
    result()
    expect(await resumed.ended).toBe('end')
    expect(resumed.text).toBe(
      `id: ${eventId(id, '1.3')}\nretry: 3000\ndata:\n\nid: ${eventId(id, 2)}\n${RESULT}`
    )
  })

  it('leaves nothing of the connection with the response, which may wait for hours', async () => {
    const { response, endpoint } = await call(({ open, emit }, stream) => {
      open()
      emit(NEWS)
      stream.disconnect()
    })
    const { res } = await endpoint.calls.nth(1)
    expect(await response.ended).toBe('end')
    expect(res.rawListeners('drain')).toEqual([])
  })

  it.each<[when: string, script: Script]>([
    [
      'before the head is written',
      async ({ open }, stream) => {
        stream.disconnect({ retry: 9 })
        await turn()
        open()
      }
    ],
    [
      'in the same breath as the head',
      ({ open }, stream) => {
        open()
        stream.disconnect({ retry: 9 })
      }
    ],
    [
      'after the head has left, before any event',
      async ({ open }, stream) => {
        open()
        await turn()
        stream.disconnect({ retry: 9 })
      }
    ]
  ])('takes effect %s', async (_when, script) => {
    const { response, id, endpoint, url } = await call(script, { resumeInterval: { min: 0 } })
    expect(await response.ended).toBe('end')
    expect(response.text).toBe(
      `id: ${eventId(id, '0.1')}\nretry: 3000\ndata:\n\nid: ${eventId(id, '0.2')}\nretry: 9\ndata:\n\n`
    )
    endpoint.calls[0]!.result()
    const resumed = await get(url, { ...POLLING, 'last-event-id': `${id}.0.2` })
    expect(await resumed.ended).toBe('end')
    expect(resumed.text).toBe(
      `id: ${eventId(id, '0.3')}\nretry: 3000\ndata:\n\nid: ${eventId(id, 1)}\n${RESULT}`
    )
  })

  it.each<[options: McpStreamsOptions, retry: number]>([
    [{}, 1000],
    [{ retry: null }, 1000],
    [{ retry: 5000 }, 1000],
    [{ retry: 50 }, 50],
    [{ resumeInterval: { min: 2 } }, 2000]
  ])(
    'with options %j, it asks for %i ms where the handler does not say',
    async (options, retry) => {
      const { response } = await call(({ open }, stream) => {
        open()
        stream.disconnect()
      }, options)
      await response.ended
      expect(response.blocks.at(-1)!.retry).toBe(retry)
    }
  )

  it.each([-1, 0.5, NaN, Infinity, '10', null])(
    'refuses to tell clients to come back after %p',
    async retry => {
      const thrown: unknown[] = []
      const { response } = await call(({ result }, stream) => {
        try {
          stream.disconnect({ retry: retry as number })
        } catch (error) {
          thrown.push(error)
        }
        result()
      })
      await response.ended
      expect(thrown).toEqual([expect.any(TypeError)])
      expect((thrown[0] as Error).message).toContain('`retry`')
    }
  )

  it('is quiet where there is no connection, and not held against the next one', async () => {
    const { response, id, url, endpoint, streams } = await call(
      async ({ open, emit }, stream, { streams }) => {
        open()
        await turn()
        stream.disconnect()
        stream.disconnect()
        await until(() => streams.stats().connections === 0)
        stream.disconnect()
        emit(NEWS)
      },
      { retry: 20 }
    )
    await response.ended
    expect(response.blocks).toHaveLength(2)
    const resumed = await get(url, { ...POLLING, 'last-event-id': `${id}.0.2` })
    await resumed.take(2)
    endpoint.calls[0]!.result()
    expect(await resumed.ended).toBe('end')
    expect(resumed.messages()).toHaveLength(2)
    expect(streams.stats()).toMatchObject({ live: 0, finished: 1 })
  })

  it('is quiet after the response', async () => {
    const { response, id } = await call(({ result }, stream) => {
      result()
      stream.disconnect()
    })
    expect(await response.ended).toBe('end')
    expect(response.text).toBe(
      `id: ${eventId(id, '0.1')}\nretry: 3000\ndata:\n\nid: ${eventId(id, 1)}\n${RESULT}`
    )
  })

  it('is quiet on a response that is no stream', async () => {
    const endpoint = rawEndpoint(({ res, message }) => {
      currentStream()!.disconnect()
      res.setHeader('Content-Type', 'application/json')
      res.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result: {} }))
    })
    const { url } = await serve(endpoint)
    const response = await post(url, callTool(1, 'x'), POLLING)
    expect(await response.json()).toEqual({ jsonrpc: '2.0', id: 1, result: {} })
  })

  it('can be repeated on each connection, the ids advancing while the cursor stays', async () => {
    const resumed = happenings('resumed')
    const { response, id, url } = await call(
      async ({ open }, stream) => {
        open()
        stream.disconnect()
        for (let n = 1; n <= 3; n++) {
          await resumed.nth(n)
          stream.disconnect()
        }
      },
      { retry: 20 }
    )
    await response.ended
    const ids = response.blocks.map(({ id }) => id)
    for (let n = 1; n <= 3; n++) {
      const resumed = await get(url, { ...POLLING, 'last-event-id': ids.at(-1)! })
      expect(await resumed.ended).toBe('end')
      ids.push(...resumed.blocks.map(({ id }) => id))
    }
    expect(ids).toEqual([1, 2, 3, 4, 5, 6, 7, 8].map(n => `${eventId(id, 0)}.${n}`))
  })

  describe('of a client that reads nothing', () => {
    const flooded = async () => {
      const disconnected = gate()
      const data = 'x'.repeat(64 * 1024)
      const served = await call(async ({ open, write }, stream) => {
        open()
        // More than all the buffers on the way take.
        for (let i = 0; i < 128; i++) write(`data: {"data":"${data}"}\n\n`)
        await turn()
        stream.disconnect()
        disconnected.open()
      })
      served.response.pause()
      await disconnected.opened
      return served
    }

    it('waits for nobody: the stream is without a client from then on', async () => {
      const takenOver = happenings('taken-over')
      const { response, id, url, endpoint } = await flooded()
      endpoint.calls[0]!.result()
      const resumed = await get(streamUrl(response, url), {
        ...POLLING,
        'last-event-id': `${id}.0.1`
      })
      expect(await resumed.ended).toBe('end')
      expect(resumed.messages()).toHaveLength(129)
      expect(takenOver).toEqual([])
    })

    it('ends as cleanly as any once it reads, so that it can go on from there', async () => {
      const { response, url, endpoint, streams } = await flooded()
      expect(streams.stats()).toMatchObject({ live: 1, connections: 1 })
      response.resume()
      expect(await response.ended).toBe('end')
      expect(response.messages().length).toBeLessThan(128)
      const { id, retry } = response.blocks.at(-1)!
      expect(retry).toBe(1000)
      endpoint.calls[0]!.result()
      const resumed = await get(url, { ...POLLING, 'last-event-id': id! })
      expect(await resumed.ended).toBe('end')
      expect(response.messages().length + resumed.messages().length).toBe(129)
      expect(streams.stats()).toMatchObject({ live: 0, connections: 0 })
    })
  })
})

describe('a client that has not shown that it comes back', () => {
  it.each<[client: string, headers: Record<string, string>]>([
    ['of 2025-03-26', headersFor({ version: '2025-03-26' })],
    ['of 2025-06-18', headersFor({ version: '2025-06-18' })],
    ['of no known revision', {}]
  ])('%s stays connected', async (_client, headers) => {
    const { response, id } = await call(
      async ({ open, result }, stream) => {
        stream.disconnect()
        open()
        await turn()
        stream.disconnect({ retry: 1 })
        await turn()
        result()
      },
      {},
      headers
    )
    expect(await response.ended).toBe('end')
    expect(response.text).toBe(
      `event: prime\nid: ${eventId(id, '0.1')}\nretry: 3000\ndata: {}\n\n` +
        `id: ${eventId(id, 1)}\n${RESULT}`
    )
  })

  it('has not agreed upon anything while it initializes', async () => {
    const endpoint = rawEndpoint(({ open, result, message }) => {
      open({ 'Mcp-Session-Id': 's' })
      currentStream()!.disconnect()
      result({ protocolVersion: message.params.protocolVersion })
    })
    const { url } = await serve(endpoint)
    const response = await post(url, initialize('2025-11-25'), POLLING)
    expect(await response.ended).toBe('end')
    expect(response.messages()).toHaveLength(1)
    expect(response.blocks).toHaveLength(1)
  })
})

describe('an older client that has announced itself', () => {
  it.each(['2025-06-18', '2026-07-28'])('is disconnected, at %s', async version => {
    const { response, id } = await call(
      ({ open }, stream) => {
        open()
        stream.disconnect({ retry: 1500 })
      },
      {},
      headersFor({ version, prefer: 'rel=stream' })
    )
    expect(await response.ended).toBe('end')
    const last =
      version === '2025-06-18'
        ? 'event: prime\nid: I\nretry: 1500\ndata: {}\n\n'
        : 'id: I\nretry: 1500\ndata:\n\n'
    expect(response.blocks.at(-1)!.raw).toBe(last.replace('I', eventId(id, '0.2')))
  })
})

/**
 * A tool that disconnects its client first thing and once more each time that it is back, then
 * answers.
 */
function polled(times: number) {
  const resumed = happenings('resumed')
  return async () => {
    currentStream()!.disconnect({ retry: 5 })
    for (let n = 1; n <= times; n++) {
      await resumed.nth(n)
      if (n < times) currentStream()!.disconnect({ retry: 5 })
    }
    return `back ${times} times`
  }
}

const textOf = (result: Json): string => JSON.parse(result.content[0].text)

describe.each([
  ['SDK v1 stateful', sdkV1Stateful],
  ['SDK v1 stateless', sdkV1Stateless],
  ['SDK v2 stateful', sdkV2Stateful],
  ['SDK v2 handler', sdkV2Handler]
])('in a tool of %s', (_name, create) => {
  it('an official client of v1 that is known to come back does so, as often as it takes', async () => {
    const endpoint = create({ onContext: polled(4) })
    const { url, streams } = await serve(endpoint, { retry: 20, handoff: 'always' })
    const { client, errors } = await connectV1(url)
    const result = await client.callTool({ name: 'context', arguments: { key: 'k' } })
    expect(textOf(result)).toBe('back 4 times')
    expect(streams.stats()).toMatchObject({ resumes: 4, live: expect.any(Number) })
    expect(endpoint.log.executions('k')).toBe(1)
    expect(errors).toEqual([])
  })

  it('one of v2 does, too', async () => {
    const endpoint = create({ onContext: polled(2) })
    const { url } = await serve(endpoint, { retry: 20, handoff: 'always' })
    const { client, errors } = await connectV2(url, { era: '2025-11-25' })
    expect(textOf(await client.callTool({ name: 'context', arguments: { key: 'k' } }))).toBe(
      'back 2 times'
    )
    expect(endpoint.log.executions('k')).toBe(1)
    expect(errors).toEqual([])
  })

  it('a client of 2025-06-18 never notices', async () => {
    const endpoint = create({
      onContext: () => {
        currentStream()!.disconnect({ retry: 5 })
        return 'never left'
      }
    })
    const { url, streams } = await serve(endpoint, { retry: 20 })
    const { headers } = await initializeSession(url, '2025-06-18')
    const response = await post(url, callTool(1, 'context'), headers)
    expect(await response.ended).toBe('end')
    expect(response.messages()).toMatchObject([
      { id: 1, result: { content: [{ text: '"never left"' }] } }
    ])
    expect(streams.stats().resumes).toBe(0)
  })
})

describe('in a tool of SDK v2 at 2026-07-28', () => {
  it('a client that has announced itself comes back by the link', async () => {
    const endpoint = sdkV2Handler({ responseMode: 'sse', onContext: polled(1) })
    const { url } = await serve(endpoint, { retry: 20 })
    const response = await postModern(url, callTool(1, 'context'), { prefer: 'rel=stream' })
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([])
    const resumed = await get(streamUrl(response, url), { prefer: 'rel=stream' })
    expect(await resumed.ended).toBe('end')
    expect(resumed.messages()).toMatchObject([
      { id: 1, result: { content: [{ text: '"back 1 times"' }] } }
    ])
  })
})
