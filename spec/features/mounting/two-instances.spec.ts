// Two instances of the middleware in one application: each keeps to its own route, options and
// streams.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import { currentStream } from '../../../lib/index.js'
import { gate } from '../../helpers/gate.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { listen } from '../../helpers/listen.js'
import { callTool, ended, get, headersFor, notification, post } from '../../helpers/mcp.js'
import { streamId, streamUrl } from '../../helpers/serve.js'
import { createStreams } from './frameworks.js'

const HEADERS = headersFor({ version: '2025-11-25' })
const news = (data: string) => notification('notifications/message', { level: 'info', data })

describe('two instances on two routes', () => {
  async function serveTwo() {
    const go = gate()
    const patient = createStreams({ retry: 7000 })
    const plain = createStreams({ retry: null, primer: 'never' })
    const endpoint = rawEndpoint(async call => {
      call.emit(news('before'))
      await go.opened
      call.emit(news('after'))
      call.result({
        mine: [patient, plain].map(streams => streams.current()?.id === currentStream()?.id)
      })
    })
    const app = express().use('/patient', patient, endpoint).use('/plain', plain, endpoint)
    const { url } = await listen(app)
    return { go, patient, plain, patientUrl: `${url}/patient`, plainUrl: `${url}/plain` }
  }

  it('have different options', async () => {
    const { go, patientUrl, plainUrl } = await serveTwo()
    const [first, second] = await Promise.all([
      post(patientUrl, callTool(1, 'x'), HEADERS),
      post(plainUrl, callTool(1, 'x'), HEADERS)
    ])
    go.open()
    await Promise.all([first.ended, second.ended])
    expect(first.blocks[0]).toMatchObject({ retry: 7000, data: '' })
    expect(second.blocks.map(block => block.retry)).toEqual([undefined, undefined, undefined])
    expect(second.blocks[0]!.data).toContain('before')
    expect(first.messages().slice(0, 2)).toEqual(second.messages().slice(0, 2))
  })

  it('do not know of each other’s streams', async () => {
    const { go, patient, plain, patientUrl, plainUrl } = await serveTwo()
    const first = await post(patientUrl, callTool(1, 'x'), HEADERS)
    await first.nextMessage()
    first.destroy()
    const strange = await get(`${plainUrl}?stream=${streamId(first)}`, HEADERS)
    expect(strange.status).toBe(404)
    expect(patient.stats()).toMatchObject({ live: 1, refusals: 0, resumes: 0 })
    expect(plain.stats()).toMatchObject({ live: 0, refusals: 1, bytes: 0 })

    const second = await get(streamUrl(first, patientUrl), HEADERS)
    go.open()
    await second.ended
    expect(second.messages()).toMatchObject([
      { params: { data: 'before' } },
      { params: { data: 'after' } },
      { id: 1 }
    ])
    // `current()` of an instance is blind for what is not its own.
    expect(second.messages().at(-1).result).toEqual({ mine: [true, false] })
  })

  it('close one by one', async () => {
    const { go, patient, patientUrl, plainUrl } = await serveTwo()
    const [first, second] = await Promise.all([
      post(patientUrl, callTool(1, 'x'), HEADERS),
      post(plainUrl, callTool(1, 'x'), HEADERS)
    ])
    await second.nextMessage()
    await patient.close({ drain: 0 })
    expect(await first.ended).toBe('end')
    go.open()
    await second.ended
    expect(second.messages()).toHaveLength(3)
  })
})

it('two instances on one route: the one in front has it', async () => {
  const outer = createStreams()
  const inner = createStreams()
  const endpoint = rawEndpoint(call =>
    call.result({ isOuter: outer.current() !== undefined, isInner: inner.current() !== undefined })
  )
  const { url } = await listen(express().use('/mcp', outer, inner, endpoint))
  const response = await ended(post(`${url}/mcp`, callTool(1, 'x'), HEADERS))
  expect(response.messages()).toMatchObject([{ id: 1, result: { isOuter: true, isInner: false } }])
  expect(String(response.headers['link']).match(/rel="stream"/g)).toHaveLength(1)
  expect(response.text.match(/^id:/gm)).toHaveLength(2)
  expect(inner.stats()).toMatchObject({ live: 0, finished: 0 })
  const again = await ended(get(streamUrl(response, `${url}/mcp`), HEADERS))
  expect(again.messages()).toEqual(response.messages())
})

it.each(['root', 'route'])(
  'one at the root and one on a route: the one in front has it, here that of the %s',
  async front => {
    const root = createStreams({ retry: 7000 })
    const route = createStreams({ retry: 10 })
    const endpoint = rawEndpoint(call =>
      call.result([root, route].map(streams => streams.current() !== undefined))
    )
    const app = express()
    if (front === 'root') app.use(root).use('/mcp', route)
    else app.use('/mcp', route).use(root)
    const { url } = await listen(app.all(['/mcp', '/other'], endpoint))
    const response = await ended(post(`${url}/mcp`, callTool(1, 'x'), HEADERS))
    expect(response.blocks[0]!.retry).toBe(front === 'root' ? 7000 : 10)
    expect(response.messages()).toMatchObject([{ result: [front === 'root', front === 'route'] }])
    const again = await ended(get(streamUrl(response, `${url}/mcp`), HEADERS))
    expect(again.messages()).toEqual(response.messages())
    // What is on no other route is the root's.
    const other = await ended(post(`${url}/other`, callTool(1, 'x'), HEADERS))
    expect(other.messages()).toMatchObject([{ result: [true, false] }])
  }
)

it('the same instance on two routes serves both', async () => {
  const streams = createStreams()
  const endpoint = rawEndpoint(call => call.result((call.req as express.Request).originalUrl))
  const { url } = await listen(express().use(['/a', '/b'], streams, endpoint))
  for (const path of ['/a', '/b']) {
    const response = await ended(post(`${url}${path}`, callTool(1, 'x'), HEADERS))
    const again = await ended(get(streamUrl(response, `${url}${path}`), HEADERS))
    expect(again.messages()).toEqual([{ jsonrpc: '2.0', id: 1, result: path }])
  }
})
