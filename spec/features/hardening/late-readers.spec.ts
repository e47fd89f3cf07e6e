// A body that has come whole is there for who reads it, although its client has gone meanwhile.

import { expect, it } from '@jest/globals'
import type { IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { callTool, get, headersFor, post, result } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'

const ANNOUNCED = headersFor({
  version: '2025-11-25',
  prefer: 'rel=stream',
  accept: 'application/json, text/event-stream'
})
const CALL = callTool(7, 'slow')

/** As libraries of the time before promises do. */
const byEvents = (req: IncomingMessage): Promise<string> =>
  new Promise((resolve, reject) => {
    let whole = ''
    req.on('data', chunk => (whole += String(chunk)))
    req.on('end', () => resolve(whole)).on('error', reject)
  })

it.each<
  [how: string, read: (req: IncomingMessage) => Promise<string>, upgradeAfter: number | null]
>([
  ['as an iterable, after a head of ours', text, 1],
  ['by events, after a head of ours', byEvents, 1],
  ['as an iterable, after its own head', text, null],
  ['by events, after its own head', byEvents, null]
])('an endpoint reads it %s', async (_how, read, upgradeAfter) => {
  const admitted = gate()
  const { url, streams } = await serve(
    async (req, res) => {
      if (upgradeAfter === null)
        res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(':\n\n')
      await admitted.opened
      const { id } = JSON.parse(await read(req)) as typeof CALL
      const answer = JSON.stringify(result(id, {}))
      if (upgradeAfter === null) return res.end(`data: ${answer}\n\n`)
      return res.writeHead(200, { 'Content-Type': 'application/json' }).end(answer)
    },
    { upgradeAfter }
  )
  const first = await post(url, CALL, ANNOUNCED)
  const { id } = await first.next()
  first.destroy()
  await until(() => streams.stats().connections === 0)
  admitted.open()
  const second = await get(streamUrl(first, url), { ...ANNOUNCED, 'last-event-id': id! })
  expect(await second.ended).toBe('end')
  expect(second.messages()).toEqual([result(7, {})])
})
