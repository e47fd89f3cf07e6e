// What the inspector tells who looks, what it never tells, and what it costs.

import { describe, expect, it, jest } from '@jest/globals'
import { channel, subscribe, unsubscribe } from 'node:diagnostics_channel'
import express, { type RequestHandler } from 'express'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { mcpStreams } from '../../../lib/index.js'
import { inspector } from '../../../lib/inspector/index.js'
import { Hub } from '../../helpers/backplane/memory.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { until } from '../../helpers/happenings.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { callTool, ended, get, headersFor, post, request } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { streamId, streamUrl } from '../../helpers/serve.js'
import { cut, open, Viewer } from './setup.js'

const headers = headersFor({
  version: '2025-11-25',
  session: 'secret-session',
  auth: 'secret-token'
})
const DIGEST = expect.stringMatching(/^[0-9a-f]{8}$/)

/** The requests of several updates, each as it was told last. */
async function requestsUntil(viewer: Viewer, isSo: (all: Json[]) => boolean): Promise<Json[]> {
  const all = new Map<number, Json>()
  await viewer.until(({ requests, isWhole }) => {
    if (isWhole) all.clear()
    for (const request of requests) all.set(request.id, request)
    return isSo([...all.values()])
  })
  return [...all.values()]
}

describe('the inspector tells', () => {
  it('what is decided on each request, in the words of the debug log', async () => {
    const { url, page, endpoint } = await open()
    const viewer = await Viewer.open(page)
    await viewer.next()
    const response = await post(url, callTool(1, 'report'), headers)
    response.destroy()
    const own = streamUrl(response, url)
    const resumed = await requestsUntil(viewer, all => all[0]?.isBroken === true)
    expect(resumed).toHaveLength(1)
    const again = await get(own, headers)
    endpoint.calls[0]!.result({})
    await again.ended

    const all = await requestsUntil(viewer, all => all.some(({ method }) => method === 'GET'))
    const [name] = resumed[0].streams
    expect(name).toEqual(DIGEST)
    expect(resumed[0]).toMatchObject({
      method: 'POST',
      status: 200,
      isBroken: true,
      lines: [
        `stream ${name} created`,
        `stream ${name} answers tools/call report`,
        `stream ${name}: connection lost after event 0`
      ]
    })
    const resuming = all.find(({ method }) => method === 'GET')
    expect(resuming.lines[0]).toBe(`stream ${name} resumed after event 0`)
  })

  it('how a request ended that nothing was decided on', async () => {
    const { url, page } = await open({
      script: ({ res, message }) => {
        res.setHeader('Content-Type', 'application/json')
        res.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result: {} }))
      }
    })
    const viewer = await Viewer.open(page)
    await viewer.next()
    await ended(post(url, callTool(1, 'x'), headers))
    const [request] = await requestsUntil(viewer, ([first]) => first?.took !== undefined)
    expect(request).toMatchObject({ method: 'POST', status: 200, isBroken: false, lines: [] })
  })

  it('what a timer decides, with the request that it is about', async () => {
    const { url, page, endpoint } = await open({
      options: { upgradeAfter: 100 },
      script: () => undefined
    })
    const viewer = await Viewer.open(page)
    await viewer.next()
    const response = await post(url, callTool(1, 'slow'), { ...headers, prefer: 'rel=stream' })
    const all = await requestsUntil(viewer, ([first]) => first?.lines.length === 3)
    expect(all).toHaveLength(1)
    expect(all[0].lines[1]).toBe('POST has waited long enough: event stream in the meantime')
    endpoint.calls[0]!.res.setHeader('Content-Type', 'application/json')
    endpoint.calls[0]!.res.end('{"jsonrpc":"2.0","id":1,"result":{}}')
    await response.ended
    const { stats } = await viewer.until(({ stats }) => stats.finished === 1)
    expect(stats.upgrades).toBe(1)
  })

  it('what was decided without a request', async () => {
    const { url, page, streams } = await open()
    const response = await post(url, callTool(1, 'x'), headers)
    const viewer = await Viewer.open(page)
    await viewer.next()
    // Its request was not seen.
    const { name } = streams.stats({ streams: 1 }).streams[0]!
    response.destroy()
    const [entry] = await requestsUntil(viewer, all => all.length === 1)
    expect(entry).toMatchObject({
      method: '',
      lines: [`stream ${name}: connection lost after event 0`]
    })
  })

  it('nothing of another instance’s requests', async () => {
    const [one, other] = [mcpStreams(), mcpStreams()]
    for (const streams of [one, other]) closeLater(() => streams.close({ drain: 0 }))
    const endpoint = rawEndpoint(({ result }) => result({})) as RequestHandler
    const app = express()
      .use('/mcp-streams', inspector(one))
      .use('/other', other, endpoint)
      .use('/mcp', one, endpoint)
    const { url } = await listen(app)
    const viewer = await Viewer.open(`${url}/mcp-streams/`)
    await viewer.next()
    await ended(post(`${url}/other`, callTool(1, 'not here'), headers))
    await ended(post(`${url}/mcp`, callTool(2, 'here'), headers))
    const all = await requestsUntil(viewer, ([first]) => first?.took !== undefined)
    expect(all).toHaveLength(1)
    expect(all[0].lines).toContainEqual(expect.stringMatching(/answers tools\/call here$/))
  })

  it('streams by what their clients do, limits and how full they are', async () => {
    const { url, page, endpoint } = await open({ options: { maxStreams: 50 } })
    const away = await post(url, callTool(1, 'x'), headers)
    await post(url, callTool(2, 'x'), headers)
    await post(url, callTool(3, 'x'), headers)
    endpoint.calls[2]!.result({})
    endpoint.calls[0]!.emit({ data: 'x'.repeat(1000) })
    await away.nextMessage()
    away.destroy()
    const viewer = await Viewer.open(page)
    const { stats } = await viewer.until(({ stats }) => stats.away === 1)
    expect(stats.streams).toMatchObject([
      { kind: 'request', state: 'live', events: 1, connections: 1, away: expect.any(Number) },
      { kind: 'request', state: 'live', events: 0, connections: 1 },
      { kind: 'request', state: 'completed', events: 1, connections: 1 }
    ])
    const [first, second] = stats.streams
    expect(first).toMatchObject({ name: DIGEST, owner: DIGEST, age: expect.any(Number) })
    expect(first.bytes).toBeGreaterThan(1000)
    expect([second.away, second.owner]).toEqual([undefined, first.owner])
    expect(stats.limits).toMatchObject({
      maxStreams: { used: 3, max: 50 },
      maxBytes: { used: stats.bytes },
      maxStreamBytes: { used: first.bytes, max: 16 * 1024 * 1024 },
      bodies: { used: 0 },
      keyed: { used: 0 },
      calls: { used: 0 }
    })
  })

  it('the other instances, and whether they live', async () => {
    const hub = new Hub()
    const { page, streams } = await open({ options: { backplane: hub.option() } })
    const other = mcpStreams({ backplane: hub.option() })
    closeLater(() => other.close({ drain: 0 }))
    const viewer = await Viewer.open(page)
    const isAlive = ({ stats }: Json) => stats.instances[0]?.state === 'alive'
    const { stats } = await viewer.until(isAlive)
    expect(stats.instances).toHaveLength(1)
    expect(stats.instances[0].tag).toBe(other.stats({ streams: 0 }).instance)
    expect(stats.instance).toBe(streams.stats({ streams: 0 }).instance)
    await other.close({ drain: 0 })
    await viewer.until(({ stats }) => stats.instances.length === 0)
  })

  it('a chart that goes on, with a gap where nobody has looked', async () => {
    const { url, page } = await open()
    await post(url, callTool(1, 'x'), headers)
    const first = await Viewer.open(page)
    const { points } = await first.next()
    expect(points).toEqual([
      { at: expect.any(Number), running: 1, waiting: 0, cuts: 0, mended: 0, failed: 0 }
    ])
    const later = await first.until(({ points }) => points.length > 0)
    expect(later.points[0].at - points[0].at).toBeGreaterThanOrEqual(5000)
    first.leave()
    await until(() => !channel('mcp-streams:decision').hasSubscribers)
    const second = await Viewer.open(page)
    expect((await second.next()).points).toHaveLength(2)
  })
})

describe('the inspector never tells', () => {
  it('ids, sessions, tokens, owners or bodies', async () => {
    const { url, page } = await open({
      options: { owner: () => 'secret-owner' },
      script: ({ open, emit, message, result }) => {
        open()
        emit({ data: 'secret-event' })
        if (message.id === 2) result({})
      }
    })
    const viewer = await Viewer.open(page)
    const message = callTool(1, 'report', { code: 'secret-argument' })
    const response = await post(url, message, headers)
    await response.nextMessage()
    const id = streamId(response)
    response.destroy()
    await get(streamUrl(response, url), { ...headers, 'last-event-id': `${id}.r1.1` })
    await ended(get(`${url}?stream=${'secret'.repeat(3)}xyz`, headers))
    const uri = 'db://secret-user:secret@secret@host/row?key=secret-key#secret'
    await ended(post(url, request(2, 'resources/read', { uri }), headers))
    await viewer.until(({ stats }) => stats.refusals === 1 && stats.resumes === 1)
    viewer.leave()
    const whole = await Viewer.open(page)
    const update = await whole.next()
    expect(update.requests).toHaveLength(4)
    expect(update.requests[3].lines[1]).toMatch(/ answers resources\/read db:\/\/host\/row$/)
    for (const { response } of [viewer, whole]) {
      expect(response.text).not.toMatch(/secret/)
      expect(response.text).not.toContain(id.slice(0, 6))
    }
  })
})

describe('the inspector costs', () => {
  const CHANNELS = ['mcp-streams:decision', 'mcp-streams:request'].map(name => channel(name))
  const watched = () => CHANNELS.map(({ hasSubscribers }) => hasSubscribers)

  it('nothing while nobody looks', async () => {
    const { url, page, streams } = await open()
    const asked = jest.spyOn(streams, 'stats')
    await post(url, callTool(1, 'x'), headers)
    await ended(get(page))
    expect(watched()).toEqual([false, false])
    const viewers = [await Viewer.open(page), await Viewer.open(page)]
    await viewers[1]!.next()
    expect(watched()).toEqual([true, true])
    viewers[0]!.leave()
    await viewers[1]!.next()
    expect(watched()).toEqual([true, true])
    viewers[1]!.leave()
    await until(() => watched().every(is => !is))
    const { length } = asked.mock.calls
    for (let id = 2; id < 5; id++) await post(url, callTool(id, 'x'), headers)
    await new Promise(resolve => setTimeout(resolve, 5000))
    expect(asked.mock.calls).toHaveLength(length)
  })

  it('a hundred requests at the most', async () => {
    const { url, page } = await open({ script: ({ result }) => result({}) })
    const viewer = await Viewer.open(page)
    await viewer.next()
    for (let id = 1; id <= 130; id++) await ended(post(url, callTool(id, `n${id}`), headers))
    const other = await Viewer.open(page)
    const { requests } = await other.next()
    expect(requests).toHaveLength(100)
    expect(requests.at(-1).lines[1]).toMatch(/ answers tools\/call n130$/)
  })

  it('four updates a second at the most, whatever happens', async () => {
    const { url, page } = await open({ script: ({ result }) => result({}) })
    const viewer = await Viewer.open(page)
    const begun = (await viewer.next()).at
    for (let id = 1; id <= 200; id++) await ended(post(url, callTool(id, 'x'), headers))
    const last = await viewer.until(({ stats }) => stats.finished === 200)
    const { length } = viewer.response.events
    expect(length - 1).toBeLessThanOrEqual((last.at - begun) / 250 + 1)
  })

  it('eight viewers at the most', async () => {
    const { page } = await open()
    const viewers: Viewer[] = []
    for (let i = 0; i < 9; i++) viewers.push(await Viewer.open(page))
    expect(viewers.map(({ response }) => response.status)).toEqual([
      ...Array<number>(8).fill(200),
      503
    ])
    viewers[0]!.leave()
    await until(async () => (await Viewer.open(page)).response.status === 200)
  })

  it('no memory for a viewer that reads nothing, who is told all once it reads again', async () => {
    const { url, page, server } = await open({ script: ({ result }) => result({}) })
    const responses: ServerResponse[] = []
    server.on('request', (req, res) => {
      if (req.url?.endsWith('/events') === true) responses.push(res)
    })
    const slow = await Viewer.open(page)
    await slow.next()
    const quick = await Viewer.open(page)
    const [res] = responses as [ServerResponse]
    const { write } = res
    let writes = 0
    res.write = ((text: string) => {
      writes++
      Reflect.apply(write, res, [text])
      return false
    }) as typeof write
    const call = (id: number) => ended(post(url, callTool(id, 'x'), headers))
    await call(1)
    await until(() => writes === 1)
    for (let id = 2; id <= 20; id++) await call(id)
    await quick.until(({ stats }) => stats.finished === 20)
    await quick.next()
    expect(writes).toBe(1)
    res.write = write
    res.emit('drain')
    const { requests, isWhole } = await slow.until(({ stats }) => stats.finished === 20)
    expect([requests.length, isWhole]).toEqual([20, true])
  })

  it('no running call when the server ends, although a viewer reads nothing', async () => {
    const { url, page, server, streams } = await open({ script: ({ result }) => result({}) })
    const responses: ServerResponse[] = []
    server.on('request', (req, res) => {
      if (req.url?.endsWith('/events') === true) responses.push(res)
    })
    const stalled = await Viewer.open(page)
    await stalled.next()
    const [res] = responses as [ServerResponse]
    res.write = () => false
    const closed = once(res, 'close')
    await streams.close({ drain: 0 })
    await ended(post(url, callTool(1, 'x'), headers))
    await closed
    expect(await stalled.response.ended).toBe('aborted')
  })

  it('no time when the server ends: who looks is disconnected', async () => {
    const { page, streams, server } = await open()
    const viewer = await Viewer.open(page)
    await viewer.next()
    const closed = new Promise(resolve => server.close(resolve))
    await streams.close({ drain: 0 })
    await closed
    expect(await viewer.response.ended).toBe('end')
  })
})

describe('cutting a connection', () => {
  const acting = () => open({ inspecting: { actions: true } })

  async function called() {
    const opened = await acting()
    const response = await post(opened.url, callTool(1, 'x'), headers)
    const viewer = await Viewer.open(opened.page)
    const { token, stats } = await viewer.next()
    return { ...opened, response, token, name: stats.streams[0].name as string }
  }

  it('makes the client come back, and loses nothing', async () => {
    const { url, page, response, endpoint, token, name } = await called()
    endpoint.calls[0]!.emit({
      jsonrpc: '2.0',
      method: 'notifications/message',
      params: { data: 1 }
    })
    await response.nextMessage()
    const answer = await ended(cut(page, name, { 'X-CSRF-Token': token }))
    expect([answer.status, answer.text]).toEqual([204, ''])
    expect(await response.ended).not.toBe('end')
    const resumed = await get(streamUrl(response, url), headers)
    endpoint.calls[0]!.result({ done: true })
    await resumed.ended
    expect(resumed.messages().at(-1)).toMatchObject({ id: 1, result: { done: true } })
    expect(endpoint.calls).toHaveLength(1)
  })

  it.each<[why: string, headers: Record<string, string>]>([
    ['without the token', {}],
    ['with another token', { 'X-CSRF-Token': 'x'.repeat(32) }],
    ['from a page of another site', { 'Sec-Fetch-Site': 'same-site' }],
    ['from another origin', { Origin: 'http://evil.example' }]
  ])('is refused %s', async (_why, sent) => {
    const { page, response, token, name } = await called()
    const isOfPage = !('X-CSRF-Token' in sent) && Object.keys(sent).length > 0
    const answer = await ended(
      cut(page, name, { ...(isOfPage && { 'X-CSRF-Token': token }), ...sent })
    )
    expect(answer.status).toBe(403)
    expect(response.ending).toBeUndefined()
  })

  it('is refused without the option, which has no token to show', async () => {
    const { url, page, streams } = await open()
    const response = await post(url, callTool(1, 'x'), headers)
    const { token } = await (await Viewer.open(page)).next()
    expect(token).toBeNull()
    const { name } = streams.stats({ streams: 1 }).streams[0]!
    for (const given of ['', 'null', 'undefined']) {
      const answer = await ended(cut(page, name, { 'X-CSRF-Token': given }))
      expect([answer.status, answer.text]).toEqual([
        403,
        'Not without the option `actions: true`\n'
      ])
    }
    expect(response.ending).toBeUndefined()
  })

  it('says so where there is none', async () => {
    const { page, response, token, name } = await called()
    for (const other of ['', 'ffffffff', streamId(response), name.slice(1)]) {
      const answer = await ended(cut(page, other, { 'X-CSRF-Token': token }))
      expect([answer.status, answer.text]).toEqual([
        404,
        'No such connection: it has ended, or it is on another wire\n'
      ])
    }
    expect(response.ending).toBeUndefined()
  })
})

describe('what the inspector is fed by', () => {
  it('stats({ streams }) refuses what it does not know', () => {
    const streams = mcpStreams()
    for (const [given, message] of [
      [{}, 'stats: `streams` must be a whole number from 0 to 1000'],
      [{ streams: 1001 }, 'stats: `streams` must be a whole number from 0 to 1000'],
      [{ streams: -1 }, 'stats: `streams` must be a whole number from 0 to 1000'],
      [{ streams: 1, limits: true }, 'stats: unknown option `limits`']
    ] as const)
      expect(() => streams.stats(given as { streams: number })).toThrow(new TypeError(message))
    expect(streams.stats({ streams: 0 })).toMatchObject({
      ...streams.stats(),
      streams: [],
      away: 0,
      instances: [],
      isClosing: false
    })
  })

  it('stats({ streams }) lists the newest, as many as it is told', async () => {
    const { url, streams } = await open()
    const names: string[] = []
    for (let id = 1; id <= 3; id++) {
      await post(url, callTool(id, 'x'), headers)
      names.push(streams.stats({ streams: 1 }).streams[0]!.name)
    }
    expect(new Set(names).size).toBe(3)
    const listed = streams.stats({ streams: 2 }).streams.map(({ name }) => name)
    expect(listed).toEqual([names[2], names[1]])
    expect(streams.stats({ streams: 0 }).streams).toEqual([])
  })

  it('mcp-streams:decision has the lines of the debug log, and no ids', async () => {
    const lines: string[] = []
    const listener = (message: unknown) => lines.push((message as { line: string }).line)
    subscribe('mcp-streams:decision', listener)
    closeLater(() => unsubscribe('mcp-streams:decision', listener))
    const { url } = await open({ script: ({ result }) => result({}) })
    const response = await ended(post(url, callTool(1, 'x'), headers))
    expect(lines).toHaveLength(3)
    expect(lines[0]).toMatch(/^stream [0-9a-f]{8} created$/)
    expect(lines.join()).not.toContain(streamId(response).slice(0, 6))
  })
})
