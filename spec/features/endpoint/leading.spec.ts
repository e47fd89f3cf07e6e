// What an endpoint says before its first event, in the tick of its head: comments, and a
// reconnection time of its own.

import { expect, it } from '@jest/globals'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { callTool, headersFor, post } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'

const RESULT = 'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'

/** The response to a call, as text without its ids. */
async function textOf(
  written: string,
  options = {},
  head: Record<string, string> = {}
): Promise<string> {
  const endpoint = rawEndpoint(({ res }) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream', ...head })
    res.write(written)
    setImmediate(() => res.end(RESULT))
  })
  const { url } = await serve(endpoint, options)
  const response = await post(url, callTool(1, 'any'), headersFor({ version: '2025-11-25' }))
  expect(await response.ended).toBe('end')
  return response.text.replace(/[\w-]{21}/g, 'ID')
}

it('comes after what is ours, so that its reconnection time counts', async () => {
  expect(await textOf(': connected\n\nretry: 500\n\n')).toBe(
    `id: ID.r1.0.1\nretry: 3000\ndata:\n\n: connected\nretry: 500\nid: ID.r1.1\n${RESULT}`
  )
})

it('counts also where there is no primer', async () => {
  expect(await textOf('retry: 500\n\n', { primer: 'never' })).toBe(
    `retry: 3000\nretry: 500\nid: ID.r1.1\n${RESULT}`
  )
})

it('is bounded: what is more than anybody says is left out', async () => {
  const text = await textOf(`${`: ${'x'.repeat(1000)}\n\n`.repeat(1000)}`)
  expect(text.length).toBeLessThan(100_000)
  expect(text.endsWith(RESULT)).toBe(true)
})

it.each(['none', 'identity', 'None'])(
  'a response that says `Content-Encoding: %s` is a stream',
  async encoding => {
    expect(await textOf(': on\n\n', {}, { 'Content-Encoding': encoding })).toContain(
      'id: ID.r1.1\n'
    )
  }
)
