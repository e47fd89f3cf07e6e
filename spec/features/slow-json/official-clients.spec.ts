// The official clients, unmodified, in front of an SDK endpoint that answers in JSON and takes its
// time.

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { Revision } from '../../helpers/mcp.js'
import { connectV1, connectV2, type ConnectedV1, type ConnectedV2 } from '../../helpers/clients.js'
import { createCutProxy, type CutBy } from '../../helpers/cut-proxy.js'
import { sdkV1Stateful, sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler, sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { Awaitable } from '../../helpers/gate.js'
import { serve } from '../../helpers/serve.js'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { stopTheClock } from '../limits/setup.js'

type Fetch = typeof fetch
type Connect = (url: string, options: { fetch?: Fetch }) => Promise<ConnectedV1 | ConnectedV2>

const v1 =
  (version: Exclude<Revision, '2026-07-28'>): Connect =>
  (url, options) =>
    connectV1(url, { ...options, version })
const v2 =
  (era: Revision): Connect =>
  (url, options) =>
    connectV2(url, { ...options, era })

const JSON_ONLY = { enableJsonResponse: true }
const ENDPOINTS = {
  'SDK 1.x with sessions': () => sdkV1Stateful(JSON_ONLY),
  'SDK 1.x without sessions': () => sdkV1Stateless(JSON_ONLY),
  'SDK 2.x with sessions': () => sdkV2Stateful(JSON_ONLY),
  'SDK 2.x of 2026-07-28': () => sdkV2Handler()
}
type EndpointName = keyof typeof ENDPOINTS

/** A tool that waits for `log.release`, and the content type of each answer to its calls. */
async function slow(name: EndpointName, options: McpStreamsOptions = {}) {
  const endpoint = ENDPOINTS[name]()
  const served = await serve(endpoint, { upgradeAfter: 20, retry: 10, ...options })
  const proxy = await createCutProxy({ target: Number(new URL(served.url).port) })
  const types = new Awaitable<string | null>()
  const watched: Fetch = async (url, init) => {
    const response = await fetch(url, init)
    if (String(init?.body).includes('"tools/call"'))
      types.push(response.headers.get('content-type'))
    return response
  }
  return {
    ...served,
    endpoint,
    log: endpoint.log,
    proxy,
    proxied: `${proxy.url}/mcp`,
    types,
    fetch: watched
  }
}

interface CallOptions {
  timeout?: number
  resetTimeoutOnProgress?: boolean
  onprogress?: (report: { progress: number; message?: string | undefined }) => void
}

/** Calls the tool that is done when the spec says so. */
async function call(
  { client }: ConnectedV1 | ConnectedV2,
  key: string,
  options?: CallOptions
): Promise<unknown> {
  const params = { name: 'count', arguments: { key, n: 0, paced: true } }
  const result =
    client instanceof Client
      ? await client.callTool(params, undefined, options)
      : await client.callTool(params, options)
  return result.content
}

const DONE = [{ type: 'text', text: 'counted to 0' }]

describe('a stock client of a slow tool', () => {
  it.each<[string, EndpointName, Connect]>([
    ['1.x at 2025-03-26', 'SDK 1.x with sessions', v1('2025-03-26')],
    ['1.x at 2025-06-18', 'SDK 1.x with sessions', v1('2025-06-18')],
    ['1.x at 2025-11-25', 'SDK 1.x with sessions', v1('2025-11-25')],
    ['1.x at 2025-11-25', 'SDK 1.x without sessions', v1('2025-11-25')],
    ['2.x at 2025-11-25', 'SDK 2.x with sessions', v2('2025-11-25')],
    ['2.x at 2026-07-28', 'SDK 2.x of 2026-07-28', v2('2026-07-28')]
  ])('gets its result as an event: %s, %s', async (_, name, connect) => {
    const { url, log, types, fetch } = await slow(name, { keepAlive: 10 })
    const connected = await connect(url, { fetch })
    const result = call(connected, 'k')
    expect(await types.nth(1)).toBe('text/event-stream')
    log.release('k')
    expect(await result).toEqual(DONE)
    expect(log.executions('k')).toBe(1)
    expect(connected.errors).toEqual([])
  })

  it.each<[string, EndpointName, Connect, CutBy]>([
    ['1.x', 'SDK 1.x with sessions', v1('2025-11-25'), 'fin'],
    ['1.x', 'SDK 1.x without sessions', v1('2025-11-25'), 'rst'],
    ['2.x', 'SDK 2.x with sessions', v2('2025-11-25'), 'rst'],
    ['2.x', 'SDK 1.x with sessions', v2('2025-11-25'), 'fin']
  ])(
    'is cut behind the head, comes back by itself, and is cut again: %s, %s',
    async (_, name, connect, by) => {
      const { proxied, proxy, log, streams } = await slow(name)
      const connected = await connect(proxied, {})
      const ids = new Set<string>()
      proxy.plan = ({ message, headers }) => {
        const id = headers['last-event-id']
        if (message?.method !== 'tools/call' && (id === undefined || ids.size > 0)) return undefined
        if (id !== undefined) ids.add(id)
        return { by, afterEvents: 1 }
      }
      const result = call(connected, 'k')
      await proxy.nthCut(2)
      log.release('k')
      expect(await result).toEqual(DONE)
      expect(log.executions('k')).toBe(1)
      expect(streams.stats().resumes).toBeGreaterThanOrEqual(2)
    }
  )
})

describe("progress on the endpoint's behalf", () => {
  beforeEach(stopTheClock)
  afterEach(() => void jest.useRealTimers())

  const TIMEOUT = 1000
  const EVERY = 400

  it.each<[string, EndpointName, Connect]>([
    ['1.x', 'SDK 1.x with sessions', v1('2025-11-25')],
    ['2.x', 'SDK 2.x with sessions', v2('2025-11-25')],
    ['2.x', 'SDK 2.x of 2026-07-28', v2('2026-07-28')]
  ])('keeps the call of a client alive beyond its timeout: %s, %s', async (_, name, connect) => {
    const { url, log } = await slow(name, { progress: { after: EVERY } })
    const connected = await connect(url, {})
    const impatient = call(connected, 'impatient', { timeout: TIMEOUT })
    const failed = expect(impatient).rejects.toThrow(/timed out/i)
    const reports = new Awaitable<number>()
    const result = call(connected, 'k', {
      timeout: TIMEOUT,
      resetTimeoutOnProgress: true,
      onprogress: ({ progress }) => void reports.push(progress)
    })
    await log.calls.nth(2)
    // Each is an event stream by then: five times `upgradeAfter`.
    jest.advanceTimersByTime(100)
    for (let n = 1; n <= 6; n++) {
      jest.advanceTimersByTime(EVERY)
      await reports.nth(n)
    }
    await failed
    log.release('k')
    expect(await result).toEqual(DONE)
    expect([...reports]).toEqual([...new Set(reports)].sort((a, b) => a - b))
    log.release('impatient')
  })
})
