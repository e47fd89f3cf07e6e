// How many listen channels a session may have is for the endpoint to say: its 409 attaches a GET to
// the one there is.

import { describe, expect, it } from '@jest/globals'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { connectV1 } from '../../helpers/clients.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { rawEndpoint, type RawCall, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { ended, get, initializeSession } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { isMessageBlock, mount, type Mounted, note, numbers, streamIdOf } from './setup.js'

type Listen = (headers?: Record<string, string>) => Promise<OpenStream>

interface Scene extends Mounted {
  endpoint: RawEndpoint
  listen: Listen
}

/** A raw endpoint, and a client in a session with it. */
async function scene(
  script: (call: RawCall, n: number) => unknown,
  options: McpStreamsOptions = {}
): Promise<Scene> {
  let n = 0
  const endpoint = rawEndpoint(call => script(call, ++n), { session: 'the-session' })
  const mounted = await mount(endpoint, options)
  const { headers } = await initializeSession(mounted.url, '2025-11-25')
  return { ...mounted, endpoint, listen: more => get(mounted.url, { ...headers, ...more }) }
}

const opens = (call: RawCall): void => call.open()

function refuses({ res }: RawCall): void {
  res.statusMessage = 'No'
  res.setHeader('Content-Type', 'application/json').setHeader('ETag', '"refusal"')
  res.writeHead(409, { 'Content-Length': 9, 'X-Refusal': 'yes' })
  res.end('"refusal"')
}

async function parked({ streams }: Mounted, connections = 0): Promise<void> {
  while (streams.stats().connections > connections) await new Promise(setImmediate)
}

describe('an endpoint that allows several listen channels per session', () => {
  it('is asked for a new channel by each GET, and each channel has its own messages', async () => {
    const { endpoint, listen, streams } = await scene(opens)
    const both = [await listen(), await listen()]
    expect(new Set(both.map(streamIdOf)).size).toBe(2)
    const [one, two] = endpoint.calls
    one!.emit(note(1))
    two!.emit(note(2))
    await Promise.all(both.map(stream => stream.nextMessage()))
    expect(both.map(stream => numbers(stream.messages()))).toEqual([[1], [2]])
    expect(streams.stats()).toMatchObject({ listening: 2, connections: 2, resumes: 0 })
  })

  it('has each channel kept for a client that comes back with an event id', async () => {
    const { endpoint, listen } = await scene(opens)
    const [one, two] = [await listen(), await listen()]
    endpoint.calls[0]!.emit(note(1))
    endpoint.calls[1]!.emit(note(2))
    const { id } = await two.nextMessage().then(() => two.blocks.at(-1)!)
    two.destroy()
    endpoint.calls[1]!.emit(note(3))
    const again = await listen({ 'last-event-id': id! })
    expect(streamIdOf(again)).toBe(streamIdOf(two))
    expect((await again.nextMessage()).params.data).toBe(3)
    expect((await one.nextMessage()).params.data).toBe(1)
  })

  it('is not asked for another channel while one without a client has messages left', async () => {
    const mounted = await scene(opens)
    const { endpoint, listen } = mounted
    const one = await listen()
    const two = await listen()
    two.destroy()
    await parked(mounted, 1)
    endpoint.calls[1]!.emit(note(1))
    const again = await listen()
    expect(streamIdOf(again)).toBe(streamIdOf(two))
    expect((await again.nextMessage()).params.data).toBe(1)
    expect(endpoint.calls).toHaveLength(2)
    // All are followed now, and none of them is taken over.
    const third = await listen()
    expect([streamIdOf(one), streamIdOf(two)]).not.toContain(streamIdOf(third))
    expect(mounted.streams.stats()).toMatchObject({ listening: 3, connections: 3 })
  })

  it('but not any more: its 409 attaches to a channel that nobody follows, and reaches the client where there is none', async () => {
    const mounted = await scene((call, n) => (n < 3 ? opens(call) : refuses(call)))
    const { endpoint, listen } = mounted
    const one = await listen()
    const two = await listen()
    const refused = await ended(listen())
    expect([refused.status, refused.text, refused.headers['x-refusal']]).toEqual([
      409,
      '"refusal"',
      'yes'
    ])
    one.destroy()
    await parked(mounted, 1)
    const again = await listen()
    expect([again.status, streamIdOf(again)]).toEqual([200, streamIdOf(one)])
    endpoint.calls[0]!.emit(note(1))
    endpoint.calls[1]!.emit(note(2))
    expect((await again.nextMessage()).params.data).toBe(1)
    expect((await two.nextMessage()).params.data).toBe(2)
  })
})

describe('an endpoint that allows one listen channel per session', () => {
  it('is not asked while its channel has messages left', async () => {
    const mounted = await scene((call, n) => (n === 1 ? opens(call) : refuses(call)))
    const one = await mounted.listen()
    one.destroy()
    await parked(mounted)
    mounted.endpoint.calls[0]!.emit(note(1))
    const again = await mounted.listen()
    expect((await again.nextMessage()).params.data).toBe(1)
    expect(streamIdOf(again)).toBe(streamIdOf(one))
    expect(mounted.endpoint.calls).toHaveLength(1)
  })

  it('is asked once; its 409 does not reach the client, and its response closes as usual', async () => {
    const heard: string[] = []
    const mounted = await scene((call, n) => {
      if (n === 1) return opens(call)
      for (const event of ['finish', 'close']) call.res.on(event, () => heard.push(event))
      refuses(call)
      heard.push(`${call.res.headersSent} ${call.res.writableEnded}`)
    })
    const { endpoint, listen } = mounted
    const one = await listen()
    one.destroy()
    await parked(mounted)
    const again = await listen()
    endpoint.calls[0]!.emit(note(1))
    await endpoint.calls[1]!.closed
    expect(heard).toEqual(['true true', 'finish', 'close'])
    expect([again.status, again.headers['content-type']]).toEqual([200, 'text/event-stream'])
    for (const name of ['x-refusal', 'etag', 'content-length'])
      expect(again.headers).not.toHaveProperty(name)
    expect(again.headers['mcp-session-id']).toBe('the-session')
    expect(again.headers['transfer-encoding']).toBe('chunked')
    expect(streamIdOf(again)).toBe(streamIdOf(one))
    expect((await again.nextMessage()).params.data).toBe(1)
    endpoint.calls[0]!.emit(note(2))
    expect((await again.nextMessage()).params.data).toBe(2)
    again.destroy()
    expect((await listen()).status).toBe(200)
    expect(endpoint.calls).toHaveLength(2)
  })

  it('may leave its 409 without an end: it sees the close when the client leaves', async () => {
    const mounted = await scene((call, n) => {
      if (n === 1) return opens(call)
      call.res.writeHead(409)
      call.res.write('I am ')
    })
    const { endpoint, listen } = mounted
    const one = await listen()
    const again = await listen()
    expect(streamIdOf(again)).toBe(streamIdOf(one))
    expect(endpoint.calls[1]!.isClosed).toBe(false)
    again.destroy()
    await endpoint.calls[1]!.closed
    await parked(mounted)
    endpoint.calls[0]!.emit(note(1))
    expect((await (await listen()).nextMessage()).params.data).toBe(1)
  })

  it('has its channel go on where the client leaves while it is asked', async () => {
    let ask!: () => void
    const mounted = await scene((call, n) => {
      if (n === 1) opens(call)
      else ask = () => refuses(call)
    })
    const { endpoint, listen, streams } = mounted
    const one = await listen()
    const leaving = new AbortController()
    const left = fetch(mounted.url, {
      signal: leaving.signal,
      headers: {
        accept: 'text/event-stream',
        'mcp-session-id': 'the-session',
        'mcp-protocol-version': '2025-11-25'
      }
    }).catch(() => undefined)
    const { closed } = await endpoint.calls.nth(2)
    leaving.abort()
    await left
    await closed
    ask()
    endpoint.calls[0]!.emit(note(1))
    expect((await one.nextMessage()).params.data).toBe(1)
    expect(streams.stats()).toMatchObject({ listening: 1, connections: 1, resumes: 0 })
  })

  it('that ends the old one to open another gives a new channel', async () => {
    const { endpoint, listen } = await scene((call, n) => {
      if (n > 1) endpoint.calls[n - 2]!.res.end()
      opens(call)
    })
    const one = await listen()
    const two = await listen()
    await one.ended
    expect(streamIdOf(two)).not.toBe(streamIdOf(one))
    endpoint.calls[1]!.emit(note(1))
    expect((await two.nextMessage()).params.data).toBe(1)
  })

  it('has two clients that both follow it: the newer one has the messages until it leaves', async () => {
    const mounted = await scene((call, n) => (n === 1 ? opens(call) : refuses(call)), {
      keepAlive: 100
    })
    const { endpoint, listen, streams } = mounted
    const older = await listen()
    const newer = await listen()
    endpoint.calls[0]!.emit(note(1))
    expect((await newer.nextMessage()).params.data).toBe(1)
    // Neither is ended, so neither comes back in the other's place.
    for (const stream of [older, newer])
      while (stream.text.split(': keep-alive').length < 4) await new Promise(setImmediate)
    expect(older.messages()).toEqual([])
    expect(streams.stats()).toMatchObject({ listening: 1, connections: 2, resumes: 1 })
    newer.destroy()
    expect(await older.ended).toBe('end')
    endpoint.calls[0]!.emit(note(2))
    const again = await listen({ 'last-event-id': older.blocks.findLast(({ id }) => id)!.id! })
    await again.take(2, isMessageBlock)
    expect(numbers(again.messages())).toEqual([1, 2])
  })

  it('has a client that comes back for an ended channel attached to the present one', async () => {
    const mounted = await scene((call, n) => (n < 3 ? opens(call) : refuses(call)))
    const { endpoint, listen } = mounted
    const one = await listen()
    endpoint.calls[0]!.emit(note(1))
    await one.nextMessage()
    endpoint.calls[0]!.res.end()
    await one.ended
    const two = await listen()
    two.destroy()
    await parked(mounted)
    const again = await listen({ 'last-event-id': one.blocks.at(-1)!.id! })
    expect([again.status, streamIdOf(again)]).toEqual([200, streamIdOf(two)])
    endpoint.calls[1]!.emit(note(2))
    expect((await again.nextMessage()).params.data).toBe(2)
  })

  it.each([401, 404, 405, 500])('has any other answer passed on: %d', async status => {
    const { listen, endpoint } = await scene((call, n) =>
      n === 1 ? opens(call) : call.res.writeHead(status).end('no')
    )
    await listen()
    for (const n of [2, 3]) {
      const refused = await ended(listen())
      expect([refused.status, refused.text]).toEqual([status, 'no'])
      expect(endpoint.calls).toHaveLength(n)
    }
  })
})

describe('the endpoint of the SDK', () => {
  it('reports a conflict of channels once for all sessions of an owner', async () => {
    const endpoint = sdkV1Stateful()
    const { url, streams } = await mount(endpoint)
    const errors: Error[] = []
    for (let n = 0; n < 3; n++) {
      const { transport } = await connectV1(url)
      const { sessionId } = transport
      while (streams.stats().connections <= n) await new Promise(setImmediate)
      endpoint.sessions.get(sessionId!)!.transport.onerror = error => errors.push(error)
      const headers = { 'mcp-session-id': sessionId!, 'mcp-protocol-version': '2025-11-25' }
      expect((await get(url, headers)).status).toBe(200)
    }
    expect(errors).toHaveLength(1)
  })
})
