// `stats()`: what is held now, and what has been since the start.

import { describe, expect, it } from '@jest/globals'
import supertest from 'supertest'
import { mcpStreams, type McpStreamsOptions, type McpStreamsStats } from '../../../lib/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { until } from '../../helpers/happenings.js'
import { callTool, del, get, headersFor, post } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'

const headers = headersFor({ version: '2025-11-25' })
const NOTHING: McpStreamsStats = {
  live: 0,
  answering: 0,
  listening: 0,
  waiting: 0,
  finished: 0,
  calls: 0,
  tasks: 0,
  keyed: 0,
  transfers: 0,
  connections: 0,
  bytes: 0,
  remembered: 0,
  resumes: 0,
  evictions: 0,
  undelivered: 0,
  lostConnections: 0,
  recoveries: 0,
  recoveryTime: 0,
  upgrades: 0,
  repeats: 0,
  refusals: 0,
  refusalsForRoom: 0,
  revivals: 0,
  idled: 0,
  failures: {},
  backplane: {}
}

async function served(options?: McpStreamsOptions) {
  const endpoint = rawEndpoint(({ open }) => open())
  const { url, streams } = await serve(endpoint, options)
  const call = async (id: number) => {
    const response = await post(url, callTool(id, 'x'), headers)
    return { response, own: streamUrl(response, url), endpoint: endpoint.calls.at(-1)! }
  }
  return { url, call, stats: () => streams.stats() }
}

describe('stats', () => {
  it('are nothing at first', () => {
    expect(mcpStreams().stats()).toEqual(NOTHING)
  })

  it('follow the life of a stream', async () => {
    const { call, stats } = await served()
    const { response, own, endpoint } = await call(1)
    expect(stats()).toEqual({ ...NOTHING, live: 1, answering: 1, connections: 1 })

    const data = 'x'.repeat(1000)
    endpoint.emit({ data })
    expect(stats().bytes).toBeGreaterThan(data.length)
    await response.nextMessage()

    response.destroy()
    await until(() => stats().connections === 0)
    expect(stats()).toMatchObject({ live: 1, connections: 0, resumes: 0 })
    expect(stats()).toMatchObject({ lostConnections: 1, recoveries: 0, undelivered: 0 })
    endpoint.emit({ data })
    expect(stats().undelivered).toBeGreaterThan(data.length)

    const resumed = await get(own, headers)
    expect(stats()).toMatchObject({ live: 1, connections: 1, resumes: 1 })
    expect(stats()).toMatchObject({ lostConnections: 1, recoveries: 1, undelivered: 0 })
    const { recoveryTime } = stats()
    endpoint.result({})
    await resumed.ended
    expect(stats()).toMatchObject({ live: 0, finished: 1, connections: 0 })

    await get(own, headers)
    expect(stats()).toMatchObject({ finished: 1, resumes: 2 })
    await del(own, headers)
    expect(stats()).toEqual({
      ...NOTHING,
      resumes: 2,
      lostConnections: 1,
      recoveries: 1,
      recoveryTime,
      remembered: expect.any(Number)
    })
  })

  it('count no listen channel whose client leaves among the connections that were lost', async () => {
    const { url, stats } = await served()
    for (let n = 1; n <= 2; n++) {
      const listening = await get(url, headers)
      await until(() => stats().connections === 1)
      listening.destroy()
      await until(() => stats().connections === 0)
    }
    expect(stats()).toMatchObject({ lostConnections: 0, recoveries: 0, recoveryTime: 0 })
  })

  it('hold as many bytes as the events of all streams, give or take the room in their last pages', async () => {
    const { call, stats } = await served()
    const calls = [await call(1), await call(2), await call(3)]
    const data = 'x'.repeat(100_000)
    for (const { endpoint } of calls) for (let i = 0; i < 10; i++) endpoint.emit({ data })
    expect(stats().bytes).toBeGreaterThan(3_000_000)
    expect(stats().bytes).toBeLessThan(3_300_000)
    for (const { own } of calls) await del(own, headers)
    expect(stats()).toEqual({ ...NOTHING, remembered: expect.any(Number) })
  })

  it('count apart what is remembered of streams that are gone, with the ids that their client has chosen', async () => {
    const { url, call, stats } = await served({ maxStreams: 4 })
    const { own } = await call(1)
    expect(stats().remembered).toBe(0)
    await del(own, headers)
    const one = stats().remembered
    expect(one).toBeGreaterThan(0)
    const long = await post(url, { ...callTool(1, 'x'), id: 'i'.repeat(1000) }, headers)
    await del(streamUrl(long, url), headers)
    expect(stats()).toMatchObject({ bytes: 0, remembered: expect.any(Number) })
    expect(stats().remembered).toBeGreaterThanOrEqual(2 * one + 999)
    // As many as `maxStreams`: the oldest are forgotten.
    for (let i = 0; i < 4; i++) await del((await call(1)).own, headers)
    expect(stats().remembered).toBe(4 * one)
  })

  it('count what had to make room, and what found none', async () => {
    const { call, stats, url } = await served({ maxStreams: 2 })
    const first = await call(1)
    first.endpoint.result({})
    await call(2)
    expect(stats()).toMatchObject({ live: 1, finished: 1, evictions: 0, refusals: 0 })
    await call(3)
    expect(stats()).toMatchObject({ live: 2, finished: 0, evictions: 1, refusals: 0 })
    const untaken = await post(url, callTool(4, 'x'), headers)
    expect(untaken.headers.link).toBeUndefined()
    expect(stats()).toMatchObject({ live: 2, evictions: 1, refusals: 1, connections: 2 })
    await supertest(first.own).get('').set(headers).expect(410)
    await supertest(`${url}?stream=${'x'.repeat(21)}`)
      .get('')
      .set(headers)
      .expect(404)
    expect(stats()).toMatchObject({ refusals: 3, refusalsForRoom: 1, resumes: 0 })
  })

  it('count failures by their reasons', async () => {
    const { call, stats } = await served()
    for (const id of [1, 2]) (await call(id)).endpoint.res.end()
    await until(() => stats().live === 0)
    expect(stats().failures).toEqual({ 'no-response': 2 })
  })

  it('are of one instance', async () => {
    const [one, two] = [await served(), await served()]
    await one.call(1)
    expect(one.stats()).toMatchObject({ live: 1, connections: 1 })
    expect(two.stats()).toEqual(NOTHING)
  })

  it('are a picture of their moment', async () => {
    const { call, stats } = await served()
    const before = stats()
    await call(1)
    expect(before).toEqual(NOTHING)
  })
})
