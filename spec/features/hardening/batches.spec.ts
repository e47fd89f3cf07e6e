// Batches: small ones are kept like any call, large ones are between the client and its endpoint,
// and neither costs much time.

import { describe, expect, it, jest } from '@jest/globals'
import { resources } from '../../../lib/resources/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { callTool, cancelled, ended, headersFor, post, request, result } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'

const headers = headersFor({ version: '2025-03-26', auth: 'mine' })
const SSE = { 'Content-Type': 'text/event-stream' }
const blockOf = (message: unknown) => `data: ${JSON.stringify(message)}\n\n`
const batchOf = (count: number) => Array.from({ length: count }, (_, i) => callTool(i, 'x'))

describe('a batch', () => {
  const answersAll = rawEndpoint(({ res, message }) => {
    const messages = message as unknown as { id: number }[]
    res.writeHead(200, SSE).end(messages.map(({ id }) => blockOf(result(id, {}))).join(''))
  })

  it('of 100 requests is kept', async () => {
    const { url } = await serve(answersAll)
    const response = await ended(post(url, batchOf(100), headers))
    expect(response.headers['link']).toMatch(/rel="stream"/)
    expect(response.messages()).toHaveLength(100)
  })

  it('of more passes byte for byte, whatever is in it', async () => {
    const { url, streams } = await serve(answersAll)
    const response = await ended(post(url, batchOf(101), headers))
    expect(response.headers['link']).toBeUndefined()
    expect(response.text).toBe(
      batchOf(101)
        .map(({ id }) => blockOf(result(id as number, {})))
        .join('')
    )
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, bytes: 0 })
  })

  it('of more with a resume token in it is refused like a small one: an old token must not run a tool again', async () => {
    const endpoint = rawEndpoint(({ res }) => void res.writeHead(202).end())
    const { url } = await serve(endpoint)
    const asking = { ...callTool(7, 'x'), params: { name: 'x', _meta: { resumeToken: 't' } } }
    const response = await ended(post(url, [...batchOf(200), asking], headers))
    expect(response.text).toContain('token-in-batch')
    expect(endpoint.calls).toHaveLength(0)
  })

  it('of cancellations looks at each stream of its client once', async () => {
    const endpoint = rawEndpoint(({ open, res, message }) =>
      Array.isArray(message) ? res.writeHead(202).end() : open()
    )
    const { url, streams } = await serve(endpoint)
    for (let id = 0; id < 20; id++) await post(url, callTool(id, 'x'), headers)
    const others = await post(
      url,
      callTool(5, 'x'),
      headersFor({ version: '2025-03-26', auth: 'another' })
    )
    await ended(
      post(
        url,
        Array.from({ length: 15 }, (_, id) => cancelled(id)),
        headers
      )
    )
    for (const { closed } of endpoint.calls.slice(0, 15)) await closed
    expect(streams.stats().live).toBe(6)
    others.destroy()
  })
})

describe('a list that is marked', () => {
  it('is not joined and searched again with each write of its endpoint', async () => {
    const entries = Array.from({ length: 4000 }, (_, i) => ({
      uri: `file:///${i}`,
      name: 'n'.repeat(60)
    }))
    const bytes = Buffer.from(blockOf(result(1, { resources: entries })))
    const endpoint = rawEndpoint(({ res }) => {
      res.writeHead(200, SSE)
      for (let at = 0; at < bytes.length; at += 512) res.write(bytes.subarray(at, at + 512))
      res.end()
    })
    const { url } = await serve(endpoint, {
      resources: resources({ open: () => undefined, streamable: true })
    })
    let joined = 0
    const { concat } = Buffer
    const spy = jest.spyOn(Buffer, 'concat').mockImplementation((list, length) => {
      const all = concat(list, length)
      joined += all.length
      return all
    })
    const response = await ended(post(url, request(1, 'resources/list'), headers))
    spy.mockRestore()
    expect(response.messages()[0]).toMatchObject({
      result: { resources: { length: 4000, 0: { streamable: true } } }
    })
    expect(joined).toBeLessThan(10 * bytes.length)
  })

  it.each(['\n\n', '\r\n\r\n', '\r\r', '\n\r\n'])(
    'is found wherever its writes fall, with %j at its end',
    async end => {
      const list = JSON.stringify(result(1, { resources: [{ uri: 'file:///x', name: 'x' }] }))
      const bytes = Buffer.from(`: first${end}data: ${list}${end}: last${end}`)
      for (let size = 1; size < 8; size++) {
        const endpoint = rawEndpoint(({ res }) => {
          res.writeHead(200, SSE)
          for (let at = 0; at < bytes.length; at += size) res.write(bytes.subarray(at, at + size))
          res.end()
        })
        const { url } = await serve(endpoint, {
          resources: resources({ open: () => undefined, streamable: true })
        })
        const response = await ended(post(url, request(1, 'resources/list'), headers))
        expect(response.messages()).toEqual([
          result(1, { resources: [{ uri: 'file:///x', name: 'x', streamable: true }] })
        ])
      }
    }
  )
})
