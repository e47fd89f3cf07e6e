// The numbers on `/metrics`, with prom-client: the lines between the marks are those of the README.

import { afterEach, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { Counter, Gauge, register } from 'prom-client'
import { mcpStreams } from '../../../lib/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { closeAll, closeLater, listen } from '../../helpers/listen.js'
import { callTool, get, headersFor, post } from '../../helpers/mcp.js'
import { streamUrl } from '../../helpers/serve.js'

afterEach(closeAll)

it('go up and down with the streams', async () => {
  closeLater(() => register.clear())
  const streams = mcpStreams()
  closeLater(() => streams.close({ drain: 0 }))
  const endpoint = rawEndpoint(({ emit, open, message }) =>
    message.id === 1 ? open() : emit({ jsonrpc: '2.0' })
  )
  const app = express()
  app.use('/mcp', streams)
  app.all('/mcp', endpoint as RequestHandler)

  // #region README
  const help = 'See McpStreamsStats'
  const now = [
    'live',
    'answering',
    'listening',
    'waiting',
    'finished',
    'calls',
    'keyed',
    'transfers'
  ] as const
  for (const name of [...now, 'connections', 'bytes', 'remembered'] as const) {
    const collect = (): void => gauge.set(streams.stats()[name])
    const gauge = new Gauge({ name: `mcp_streams_${name}`, help, collect })
  }
  for (const name of ['resumes', 'evictions', 'refusals'] as const) {
    const collect = (): void => (counter.reset(), counter.inc(streams.stats()[name]))
    const counter = new Counter({ name: `mcp_streams_${name}_total`, help, collect })
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
    mcp_streams_transfers: 0,
    mcp_streams_connections: 0,
    mcp_streams_bytes: 0,
    mcp_streams_remembered: 0,
    mcp_streams_resumes_total: 0,
    mcp_streams_evictions_total: 0,
    mcp_streams_refusals_total: 0
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

  for (const { result } of endpoint.calls) result({})
  expect(await scrape(url)).toMatchObject({ mcp_streams_live: 0, mcp_streams_finished: 2 })
})

async function scrape(url: string): Promise<Record<string, number>> {
  const response = await get(`${url}/metrics`)
  await response.ended
  expect(response.headers['content-type']).toMatch(/^text\/plain; ?version=0\.0\.4/)
  const samples = response.text.split('\n').filter(line => line !== '' && !line.startsWith('#'))
  return Object.fromEntries(
    samples.map(sample => [sample.split(' ')[0], Number(sample.split(' ')[1])])
  )
}
