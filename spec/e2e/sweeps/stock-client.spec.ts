// The central test, second half: the official client 1.x at 2025-11-25, unmodified, cut at every
// event boundary, twice.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import { currentStream, mcpStreams } from '../../../lib/index.js'
import { connectV1, type ConnectedV1 } from '../../helpers/clients.js'
import {
  createCutProxy,
  type Cut,
  type CutBy,
  type CutProxy,
  type ProxiedRequest
} from '../../helpers/cut-proxy.js'
import { countMessage, sdkV1Stateful, type SdkV1Endpoint } from '../../helpers/endpoints/sdk-v1.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { ended, get, headersFor } from '../../helpers/mcp.js'
import { upTo } from '../../helpers/talk/index.js'

const MESSAGES = 19
/** Characters, message by message: one of more than 200 KB. */
const SIZES = upTo(MESSAGES).map(n => (n === 11 ? 140_000 : (n * 37) % 400))
const FILLER = 'größer €😀 '
const EXPECTED = SIZES.map((size, i) => ({
  progress: i + 1,
  total: MESSAGES,
  message: countMessage(i + 1, size, FILLER)
}))

interface Start {
  /**
   * Asked for each request of a call, told apart by its key; `resumes` counts them, the POST is 0.
   */
  plan: (key: string, resumes: number) => Cut | undefined
  /** Told when it has been cut. */
  onCut: (key: string, resumes: number) => void
}

/** The SDK's endpoint behind the middleware, behind a proxy. */
async function start({ plan, onCut }: Start) {
  const endpoint = sdkV1Stateful()
  const streams = mcpStreams({ retry: 10 })
  const keys = new Map<string, string>()
  const app = express()
    .use('/mcp', express.json(), streams, (req, _res, next) => {
      const { id } = currentStream() ?? {}
      if (id !== undefined && req.body?.method === 'tools/call')
        keys.set(id, req.body.params.arguments.key)
      next()
    })
    .all('/mcp', endpoint)
  const { url, port } = await listen(app)
  closeLater(() => streams.close({ drain: 0 }))

  const resumes = new Map<string, number>()
  const requests = new Map<ProxiedRequest, [key: string, resumes: number]>()
  const proxy = await createCutProxy({
    target: port,
    plan: request => {
      const lastEventId = request.headers['last-event-id']
      const isPost = lastEventId === undefined
      const key = isPost
        ? request.message?.params?.arguments?.key
        : keys.get(lastEventId.slice(0, 21))
      if (key === undefined) return undefined
      const count = isPost ? 0 : (resumes.get(key) ?? 0) + 1
      resumes.set(key, count)
      requests.set(request, [key, count])
      return plan(key, count)
    }
  })
  proxy.on('cut', passage => onCut(...requests.get(passage)!))
  return { endpoint, streams, proxy, keys, url: `${url}/mcp`, proxied: `${proxy.url}/mcp` }
}

/**
 * Silence is nothing that a client hears: its socket dies on it in the end, and the server's does
 * not. This `fetch` is that end, at once.
 */
function fetchThatNotices(proxy: CutProxy): typeof fetch {
  const silent = new Set<string>()
  const open = new Map<string, AbortController>()
  proxy.on('cut', ({ cut, headers }) => {
    if (cut?.by !== 'silence') return
    silent.add(headers['x-fetch']!)
    open.get(headers['x-fetch']!)?.abort()
  })
  let fetches = 0
  return async (url, init) => {
    const name = String(fetches++)
    const headers = new Headers(init?.headers)
    headers.set('x-fetch', name)
    const response = await fetch(url, { ...init, headers })
    if (response.body === null) return response
    const end = new AbortController()
    open.set(name, end)
    if (silent.has(name)) end.abort()
    return new Response(
      response.body.pipeThrough(new TransformStream(), { signal: end.signal }),
      response
    )
  }
}

function count(
  { client }: ConnectedV1,
  key: string,
  progress: object[]
): ReturnType<ConnectedV1['client']['callTool']> {
  const args = { key, n: MESSAGES, size: SIZES, filler: FILLER, paced: true }
  const onprogress = (value: object): void => void progress.push(value)
  return client.callTool({ name: 'count', arguments: args }, undefined, {
    onprogress,
    timeout: 20_000
  })
}

/** Lets a call go on to its end, as far as it has not been let yet. */
const finish = ({ log }: SdkV1Endpoint, key: string): void => log.release(key, MESSAGES + 1)

describe.each<CutBy>(['fin', 'rst', 'silence'])('a stock client, cut by %s', by => {
  // Boundary 1 lies behind the primer, 20 behind the last message before the result.
  const boundaries = upTo(MESSAGES + 1)
  /** Behind its primer, or behind one to three events more: as many as there are. */
  const secondBoundary = (boundary: number): number =>
    Math.min(1 + (boundary % 4), MESSAGES + 2 - boundary)

  it('after every event, and again on the resumed connection, has its result and all progress once, in order', async () => {
    const cuts = new Map<string, number>()
    const { endpoint, streams, proxy, proxied } = await start({
      plan(key, resumes) {
        const boundary = Number(key)
        if (resumes === 0) return { by, afterEvents: boundary }
        return resumes === 1 ? { by, afterEvents: secondBoundary(boundary) } : undefined
      },
      onCut(key, resumes) {
        cuts.set(key, resumes + 1)
        if (resumes === 0) endpoint.log.release(key, secondBoundary(Number(key)) - 1)
        else finish(endpoint, key)
      }
    })
    const client = await connectV1(proxied, { fetch: fetchThatNotices(proxy) })

    const results = await Promise.all(
      boundaries.map(async boundary => {
        const key = String(boundary)
        const progress: object[] = []
        const result = count(client, key, progress)
        // Half of the streams have nothing to say at their cuts; the other half grow on, and are
        // finished, meanwhile.
        if (boundary % 2 === 0) endpoint.log.release(key, boundary - 1)
        else finish(endpoint, key)
        return { key, result: await result, progress }
      })
    )
    for (const { key, result, progress } of results) {
      expect(progress).toEqual(EXPECTED)
      expect(result).toEqual({ content: [{ type: 'text', text: `counted to ${MESSAGES}` }] })
      expect(cuts.get(key)).toBe(2)
      expect(endpoint.log.executions(key)).toBe(1)
    }
    expect(endpoint.log.ended.map(({ state }) => state)).toEqual(boundaries.map(() => 'returned'))
    expect(streams.stats()).toMatchObject({ live: 1, resumes: 2 * boundaries.length })
  })
})

describe('a stock client', () => {
  it('does not come back when it has its result', async () => {
    const { endpoint, proxied, streams } = await start({
      plan: () => ({ by: 'rst', afterEvents: MESSAGES + 2 }),
      onCut: () => {}
    })
    const client = await connectV1(proxied)
    const result = count(client, 'k', [])
    finish(endpoint, 'k')
    await result
    await client.client.ping()
    expect(streams.stats().resumes).toBe(0)
  })

  it('loses a call that is cut between its head and its first id; the link still leads to it', async () => {
    const { endpoint, keys, proxied, url } = await start({
      plan: () => ({ by: 'rst', afterEvents: 0 }),
      onCut: () => {}
    })
    const client = await connectV1(proxied)
    const disconnected = new Promise<Error>(resolve => (client.client.onerror = resolve))
    const result = count(client, 'k', []).catch((error: Error) => error)
    finish(endpoint, 'k')
    expect((await disconnected).message).toContain('SSE stream disconnected')
    const [id] = keys.keys()
    const resumed = await ended(get(`${url}?stream=${id}`, headersFor({ version: '2025-11-25' })))
    expect(resumed.messages()).toHaveLength(MESSAGES + 1)
    expect(endpoint.log.executions('k')).toBe(1)
    await client.close()
    expect(await result).toMatchObject({ message: expect.stringContaining('Connection closed') })
  })
})
