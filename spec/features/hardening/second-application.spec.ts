// An application inside an application: Express gives a response another prototype with each that it
// enters, whatever has become of its client by then.

import { expect, it } from '@jest/globals'
import express from 'express'
import express4 from 'express4'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { type Handler } from '../../helpers/listen.js'
import { callTool, get, headersFor, post, result } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'

const ANNOUNCED = headersFor({
  version: '2025-11-25',
  prefer: 'rel=stream',
  accept: 'application/json, text/event-stream'
})

it.each<[name: string, create: () => Handler & { use(handler: Handler): unknown }]>([
  ['Express 5', express as never],
  ['Express 4', express4 as never]
])('an endpoint in one of %s sees no close of a client that has gone before', async (_, create) => {
  const admitted = gate()
  const seen: unknown[] = []
  const inner = create()
  inner.use((_req, res) => {
    seen.push(res.closed, res.errored, res.writableEnded, res.writableFinished)
    res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(result(7, {})))
    seen.push(res.writableEnded)
  })
  const outer: Handler = async (req, res) => {
    await admitted.opened
    inner(req, res)
  }
  const { url, streams } = await serve(outer, { upgradeAfter: 1 })

  const first = await post(url, callTool(7, 'slow'), ANNOUNCED)
  const { id } = await first.next()
  first.destroy()
  await until(() => streams.stats().connections === 0)
  admitted.open()
  const second = await get(streamUrl(first, url), { ...ANNOUNCED, 'last-event-id': id! })
  expect(await second.ended).toBe('end')
  expect(second.messages()).toEqual([result(7, {})])
  expect(seen).toEqual([false, null, false, false, true])
})
