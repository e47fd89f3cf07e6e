// An endpoint that ends its response without the blank line behind its last event: what is pending,
// and is a whole message, is the message.

import { describe, expect, it } from '@jest/globals'
import { resources } from '../../../lib/resources/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { callTool, headersFor, notification, post, request, result } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'

const HEADERS = headersFor({ version: '2025-11-25' })
const RESULT = JSON.stringify(result(1, { text: 'late' }))
const NOTE = notification('notifications/message', { level: 'info', data: 'first' })

/** The client's messages of a response that ends with such text. */
async function answered(text: string, headers: Record<string, string> = HEADERS) {
  const endpoint = rawEndpoint(call => {
    call.emit(NOTE)
    call.write(text)
    call.res.end()
  })
  const { url, streams } = await serve(endpoint)
  const response = await post(url, callTool(1, 'any'), headers)
  expect(await response.ended).toBe('end')
  expect(streams.stats().live).toBe(0)
  return response.messages()
}

describe('a last event without its blank line', () => {
  it.each([
    ['no line end', `data: ${RESULT}`],
    ['LF', `data: ${RESULT}\n`],
    ['CRLF', `data: ${RESULT}\r\n`],
    ['CR', `data: ${RESULT}\r`],
    ['a type', `event: message\ndata: ${RESULT}`],
    ['an id of the endpoint', `id: 7\ndata: ${RESULT}`],
    ['two lines', `data: ${RESULT.slice(0, 17)}\ndata: ${RESULT.slice(17)}`],
    ['the start of another field', `data: ${RESULT}\nda`]
  ])('is given to the client (%s)', async (_name, text) => {
    expect(await answered(text)).toEqual([NOTE, JSON.parse(RESULT)])
  })

  it.each([
    ['half a message', `data: ${RESULT.slice(0, -1)}`],
    ['no JSON', 'data: done'],
    ['another type', `event: other\ndata: ${RESULT}`],
    ['no event', ': a comment']
  ])('is dropped where it is %s', async (_name, text) => {
    expect(await answered(text)).toEqual([
      NOTE,
      expect.objectContaining({
        id: 1,
        error: expect.objectContaining({ data: { reason: 'no-response' } })
      })
    ])
  })

  it('is the answer of a call that its client collects with tokens', async () => {
    const endpoint = rawEndpoint(call => {
      call.write(`data: ${JSON.stringify(result(call.message.id, { text: 'late' }))}`)
      call.res.end()
    })
    const { url } = await serve(endpoint, { resumeTokens: {} })
    const response = await post(url, callTool(1, 'any'), {
      ...HEADERS,
      accept: 'application/json',
      prefer: 'respond-async, wait=10'
    })
    await response.ended
    expect(JSON.parse(response.text)).toMatchObject({ id: 1, result: { text: 'late' } })
  })

  it('is marked as others are', async () => {
    const listed = result(1, { resources: [{ uri: 'file:///x', name: 'x' }] })
    const endpoint = rawEndpoint(call => {
      call.write(`data: ${JSON.stringify(listed)}`)
      call.res.end()
    })
    const { url } = await serve(endpoint, {
      resources: resources({ open: () => undefined, streamable: true })
    })
    const response = await post(url, request(1, 'resources/list'), HEADERS)
    await response.ended
    expect(response.messages()).toMatchObject([{ result: { resources: [{ streamable: true }] } }])
  })
})
