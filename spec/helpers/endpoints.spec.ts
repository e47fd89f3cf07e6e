// The endpoints and clients on their own, without the middleware: what other specs build on.

import { afterEach, describe, expect, it } from '@jest/globals'
import express from 'express'
import { connectV1, connectV2 } from './clients.js'
import { createCutProxy } from './cut-proxy.js'
import {
  countMessage,
  sdkV1Stateful,
  sdkV1Stateless,
  type SdkV1Options
} from './endpoints/sdk-v1.js'
import { sdkV2Handler, sdkV2Stateful } from './endpoints/sdk-v2.js'
import { gate, rawEndpoint } from './endpoints/raw.js'
import type { ToolLog } from './endpoints/tool-log.js'
import { closeAll, listen, type Handler } from './listen.js'
import { callTool, del, get, headersFor, initializeSession, post, postModern } from './mcp.js'
import type { Json } from './open-stream.js'

afterEach(closeAll)

type Endpoint = Handler & { log: ToolLog }
type Factory = (options: Pick<SdkV1Options, 'onContext'>) => Endpoint

const mount: [string, (endpoint: Endpoint) => Handler][] = [
  ['node:http', endpoint => endpoint],
  ['Express with express.json()', endpoint => express().use(express.json()).all('/', endpoint)]
]
const endpoints: [string, Factory][] = [
  ['SDK v1 stateful', sdkV1Stateful],
  ['SDK v1 stateless', sdkV1Stateless],
  ['SDK v2 stateful', sdkV2Stateful],
  ['SDK v2 handler, legacy', sdkV2Handler]
]

describe.each(endpoints)('%s', (name, create) => {
  it.each(mount)('counts by progress and by log messages, on %s', async (_mount, mounted) => {
    const endpoint = create({})
    const { url } = await listen(mounted(endpoint))
    const { headers, sessionId } = await initializeSession(url, '2025-11-25')
    expect(sessionId !== undefined).toBe(name.includes('stateful'))
    const args = { key: 'k', n: 2, size: [3, 0], filler: 'ü€' }
    const byProgress = await post(url, callTool(1, 'count', args, 'token'), headers)
    expect(byProgress.headers['content-type']).toBe('text/event-stream')
    expect(await byProgress.ended).toBe('end')
    const [first, second, last] = byProgress.messages()
    expect(first.params).toEqual({
      progressToken: 'token',
      progress: 1,
      total: 2,
      message: countMessage(1, 3, 'ü€')
    })
    expect(first.params.message).toBe('1 ü€ü')
    expect(second.params.message).toBe('2')
    expect(last).toMatchObject({ id: 1, result: { content: [{ text: 'counted to 2' }] } })
    const byLog = await post(url, callTool(2, 'count', { n: 1 }), headers)
    await byLog.ended
    expect(byLog.messages().map(message => message.method)).toEqual([
      'notifications/message',
      undefined
    ])
    expect(endpoint.log.executions('k')).toBe(1)
    expect(endpoint.log.ended.map(call => call.state)).toEqual(['returned', 'returned'])
  })

  it('has the other tools', async () => {
    const seen: unknown[] = []
    const endpoint = create({
      onContext: args => {
        seen.push(args)
        return { here: true }
      }
    })
    const { url } = await listen(endpoint)
    const { headers } = await initializeSession(url, '2025-06-18')
    const text = async (tool: string, args: object) => {
      const stream = await post(url, callTool(tool, tool, args), headers)
      await stream.ended
      const [message]: Json[] = stream.messages()
      return message.result.content[0].text
    }
    expect(await text('slow', { ms: 1 })).toBe('slow but sure')
    expect(await text('fail', {})).toBe('this tool always fails')
    expect(await text('context', { args: { a: 1 } })).toBe('{"here":true}')
    expect(seen).toEqual([{ a: 1 }])

    // Not awaited yet: the handler of v2 sends no head before its first event.
    const answer = post(url, callTool(9, 'count', { key: 'p', n: 1, paced: true }), headers)
    const call = await endpoint.log.calls.nth(4)
    expect(call.sent).toBe(0)
    endpoint.log.release('p')
    const paced = await answer
    expect((await paced.nextMessage()).method).toBe('notifications/message')
    expect([call.sent, call.state]).toEqual([1, 'running'])
    endpoint.log.release('p')
    expect(await paced.nextMessage()).toMatchObject({ id: 9 })
  })
})

describe.each(endpoints.filter(([name]) => name.includes('stateful')))('%s', (_name, create) => {
  it('aborts what hangs when it is cancelled', async () => {
    const endpoint = create({})
    const { url } = await listen(endpoint)
    const { client } = await connectV1(url)
    const abort = new AbortController()
    const call = client.callTool({ name: 'hang', arguments: { key: 'h' } }, undefined, {
      signal: abort.signal
    })
    const started = await endpoint.log.calls.nth(1)
    abort.abort()
    await expect(call).rejects.toThrow()
    expect(await endpoint.log.ended.nth(1)).toBe(started)
    expect(started.state).toBe('aborted')
    expect(endpoint.log.aborted('h')).toBe(1)
  })
})

describe.each(['2025-03-26', '2025-06-18', '2025-11-25'] as const)(
  'the official clients at %s',
  version => {
    it.each([
      ['v1', sdkV1Stateful, (url: string) => connectV1(url, { version, onElicit })],
      ['v2', sdkV2Stateful, (url: string) => connectV2(url, { era: version, onElicit })]
    ] as const)('%s', async (_name, create, connect) => {
      const endpoint = create()
      const versions: unknown[] = []
      const { url } = await listen((req, res) => {
        versions.push(req.headers['mcp-protocol-version'])
        return endpoint(req, res)
      })
      const { client, errors } = await connect(url)
      const result: Json = await client.callTool({ name: 'elicit', arguments: {} })
      expect(JSON.parse(result.content[0].text)).toMatchObject({
        action: 'accept',
        content: { answer: 'Ada' }
      })
      expect(new Set(versions.slice(1))).toEqual(new Set([version]))
      expect(errors).toEqual([])
    })
  }
)

const onElicit = () => ({ action: 'accept' as const, content: { answer: 'Ada' } })

describe('SDK v2 at 2026-07-28', () => {
  it('serves the official client', async () => {
    const endpoint = sdkV2Handler()
    const { url } = await listen(express().use(express.json()).all('/mcp', endpoint))
    const { client } = await connectV2(`${url}/mcp`, { onElicit })
    const progress: unknown[] = []
    await client.callTool(
      { name: 'count', arguments: { n: 2 } },
      { onprogress: ({ message }) => progress.push(message) }
    )
    expect(progress).toEqual(['1', '2'])
    const result: Json = await client.callTool({ name: 'elicit', arguments: {} })
    expect(JSON.parse(result.content[0].text)).toMatchObject({ content: { answer: 'Ada' } })
  })

  it('aborts a call whose response is', async () => {
    const endpoint = sdkV2Handler({ responseMode: 'sse', legacy: 'reject' })
    const { url } = await listen(endpoint)
    const stream = await postModern(url, callTool(1, 'count', { n: 1 }, 7))
    await stream.ended
    expect(stream.messages()).toHaveLength(2)
    endpoint.log.release('p')
    const paced = await postModern(url, callTool(2, 'count', { key: 'p', paced: true }, 8))
    await paced.nextMessage()
    const { signal } = await endpoint.log.calls.nth(2)
    expect(signal.aborted).toBe(false)
    paced.destroy()
    await new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }))
    expect(endpoint.log.aborted('p')).toBe(1)
  })
})

describe('sessions', () => {
  it.each([
    ['v1', sdkV1Stateful],
    ['v2', sdkV2Stateful]
  ] as const)('of SDK %s begin with initialize and end with DELETE', async (_name, create) => {
    const endpoint = create()
    const { url } = await listen(endpoint)
    expect((await post(url, callTool(1, 'count'))).status).toBe(400)
    expect((await get(url, headersFor({ session: 'no' }))).status).toBe(404)
    expect(endpoint.sessions.size).toBe(0)
    const { headers, sessionId } = await initializeSession(url, '2025-11-25')
    expect([...endpoint.sessions.keys()]).toEqual([sessionId])
    const channel = await get(url, headers)
    await endpoint.sessions
      .get(sessionId!)!
      .server.sendLoggingMessage({ level: 'info', data: 'hi' })
    expect((await channel.nextMessage()).params.data).toBe('hi')
    expect((await del(url, headers)).status).toBe(200)
    expect(await channel.ended).toBe('end')
    expect(endpoint.sessions.size).toBe(0)
  })

  it('answer in JSON where that is asked for', async () => {
    const { url } = await listen(sdkV1Stateful({ enableJsonResponse: true }))
    const { headers, response } = await initializeSession(url, '2025-11-25')
    expect(response.headers['content-type']).toBe('application/json')
    expect(await (await post(url, callTool(1, 'count'), headers)).json()).toMatchObject({ id: 1 })
  })
})

describe('closeAll', () => {
  it.each([
    ['v1', sdkV1Stateful, (url: string) => connectV1(url, { onElicit: never })],
    ['v2', sdkV2Stateful, (url: string) => connectV2(url, { era: '2025-11-25', onElicit: never })],
    ['v2 at 2026-07-28', sdkV2Handler, (url: string) => connectV2(url, { onElicit: never })]
  ] as const)(
    'leaves nothing of SDK %s behind, whatever still waits',
    async (_name, create, connect) => {
      const endpoint = create()
      const { url } = await listen(endpoint)
      const { port } = await createCutProxy({ target: Number(new URL(url).port) })
      const { client } = await connect(`http://127.0.0.1:${port}/`)
      const calls = ['hang', 'elicit'].map(name =>
        client.callTool({ name, arguments: {} }).catch(() => 'closed')
      )
      const counted = client
        .callTool({ name: 'count', arguments: { paced: true } })
        .catch(() => 'closed')
      await endpoint.log.calls.nth(3)
      await closeAll()
      expect(await Promise.all([...calls, counted])).toEqual(['closed', 'closed', 'closed'])
      // The spec's environment fails this file if a socket, a server or a timer is left.
    }
  )
})

const never = () => new Promise<never>(() => {})

describe('rawEndpoint', () => {
  it('writes what the script says, when it says so', async () => {
    const go = gate()
    const endpoint = rawEndpoint(
      async ({ message, open, emit, write, result }) => {
        if (!message) return open()
        open({ 'X-Custom': '1' })
        await go.opened
        write(': comment\n\n')
        emit({ jsonrpc: '2.0', method: 'notifications/message', params: { data: 1 } })
        result({ ok: true })
      },
      { session: 's' }
    )
    const { url } = await listen(endpoint)
    const { headers } = await initializeSession(url, '2025-11-25')
    expect(headers).toMatchObject({ 'mcp-session-id': 's', 'mcp-protocol-version': '2025-11-25' })
    const stream = await post(url, callTool(5, 'x'), headers)
    expect(stream.headers['x-custom']).toBe('1')
    expect(stream.blocks).toEqual([])
    go.open()
    expect((await stream.next()).comments).toEqual(['comment'])
    expect(await stream.nextMessage()).toMatchObject({ params: { data: 1 } })
    expect(await stream.nextMessage()).toEqual({ jsonrpc: '2.0', id: 5, result: { ok: true } })
    await (
      await endpoint.calls.nth(1)
    ).closed

    const channel = await get(url, headers)
    channel.destroy()
    const call = await endpoint.calls.nth(2)
    await call.closed
    expect(endpoint.requests).toHaveLength(4)
  })
})
