// The numbers on `/metrics`, with prom-client: the lines between the marks are those of the README.

import { expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { Counter, Gauge, register } from 'prom-client'
import { mcpStreams, type McpStreamsStats } from '../../../lib/index.js'
import { Hub } from '../../helpers/backplane/memory.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { callTool, get, headersFor, post } from '../../helpers/mcp.js'
import { streamUrl } from '../../helpers/serve.js'

it('go up and down with the streams', async () => {
  closeLater(() => register.clear())
  const streams = mcpStreams({ backplane: new Hub().option() })
  closeLater(() => streams.close({ drain: 0 }))
  const endpoint = rawEndpoint(({ emit, open, message }) =>
    message.id === 1 ? open() : emit({ jsonrpc: '2.0' })
  )
  const app = express()
  app.use('/mcp', streams)
  app.all('/mcp', endpoint as RequestHandler)

  // #region README
  const totals = /^(resumes|lost|recover|upgrades|repeats|evict|refusals|failures|revivals|idled)/
  // They begin at 0: otherwise the first failure of its kind is no increase.
  const failures = {
    'no-response': 0,
    overflow: 0,
    'event-too-large': 0,
    abandoned: 0,
    'request-evicted': 0,
    'session-ended': 0,
    closing: 0
  }
  for (const name of Object.keys(streams.stats()) as (keyof McpStreamsStats)[]) {
    const collect = (): void => {
      const value =
        name === 'failures' ? { ...failures, ...streams.stats()[name] } : streams.stats()[name]
      metric.reset()
      if (typeof value === 'number') metric.inc(value)
      else for (const [reason, count] of Object.entries(value)) metric.inc({ reason }, count)
    }
    const words = name.replace(/[A-Z]/g, letter => ` ${letter.toLowerCase()}`)
    const snake = words.replaceAll(' ', '_')
    const help = `MCP streams: ${words} (McpStreamsStats.${name})`
    const options = { help, labelNames: ['reason'], collect }
    const metric = totals.test(name)
      ? new Counter({ name: `mcp_streams_${snake}_total`, ...options })
      : new Gauge({ name: `mcp_streams_${snake}`, ...options })
  }
  app.get(
    '/metrics',
    async (_req, res) => void res.type(register.contentType).send(await register.metrics())
  )
  // #endregion

  const { url } = await listen(app)
  const headers = headersFor({ version: '2025-11-25' })
  expect(await scrape(url)).toEqual({
    mcp_streams_live: 0,
    mcp_streams_answering: 0,
    mcp_streams_listening: 0,
    mcp_streams_waiting: 0,
    mcp_streams_finished: 0,
    mcp_streams_calls: 0,
    mcp_streams_keyed: 0,
    mcp_streams_tasks: 0,
    mcp_streams_transfers: 0,
    mcp_streams_connections: 0,
    mcp_streams_bytes: 0,
    mcp_streams_undelivered: 0,
    mcp_streams_remembered: 0,
    'mcp_streams_backplane{reason="up"}': 1,
    ...Object.fromEntries(REASONS.map(reason => [failed(reason), 0])),
    mcp_streams_resumes_total: 0,
    mcp_streams_revivals_total: 0,
    mcp_streams_idled_total: 0,
    mcp_streams_lost_connections_total: 0,
    mcp_streams_recoveries_total: 0,
    mcp_streams_recovery_time_total: 0,
    mcp_streams_upgrades_total: 0,
    mcp_streams_repeats_total: 0,
    mcp_streams_evictions_total: 0,
    mcp_streams_refusals_total: 0,
    mcp_streams_refusals_for_room_total: 0
  })

  await post(`${url}/mcp`, callTool(1, 'x'), headers)
  const second = await post(`${url}/mcp`, callTool(2, 'x'), headers)
  await second.nextMessage()
  const own = streamUrl(second, `${url}/mcp`)
  await get(own, headers)
  await get(own, { authorization: 'somebody else' })
  const expected = {
    mcp_streams_live: 2,
    mcp_streams_connections: 2,
    mcp_streams_bytes: streams.stats().bytes,
    mcp_streams_resumes_total: 1,
    mcp_streams_refusals_total: 1
  }
  expect(await scrape(url)).toMatchObject(expected)
  // A scrape changes nothing, however often.
  expect(await scrape(url)).toMatchObject(expected)

  endpoint.calls[0]!.result({})
  endpoint.calls[1]!.res.end()
  expect(await scrape(url)).toMatchObject({
    mcp_streams_live: 0,
    mcp_streams_finished: 2,
    [failed('no-response')]: 1
  })
})

/** How a stream may fail: the first of `StreamFault`. */
const REASONS = [
  ...['no-response', 'overflow', 'event-too-large', 'abandoned'],
  ...['request-evicted', 'session-ended', 'closing']
]
const failed = (reason: string): string => `mcp_streams_failures_total{reason="${reason}"}`

/** Without the figures of the backplane, but whether it is there. */
async function scrape(url: string): Promise<Record<string, number>> {
  const response = await get(`${url}/metrics`)
  await response.ended
  expect(response.headers['content-type']).toMatch(/^text\/plain; ?version=0\.0\.4/)
  expect(response.text).toContain('# HELP mcp_streams_lost_connections_total MCP streams: lost c')
  const samples = response.text
    .split('\n')
    .filter(line => line !== '' && !/^#|^mcp_streams_backplane(?!.*"up")/.test(line))
  return Object.fromEntries(
    samples.map(sample => [sample.split(' ')[0], Number(sample.split(' ')[1])])
  )
}
