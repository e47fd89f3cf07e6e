// What a client notes of the blocks that it hands up.

import { describe, expect, it } from '@jest/globals'
import { notesOf } from '../../../lib/client/unbroken-body.js'

const NOTHING = { hasData: false, messages: [] }
const read = (text: string) => notesOf(new TextEncoder().encode(text))
const data = (message: object) => `data: ${JSON.stringify(message)}\n\n`

describe('of blocks', () => {
  it.each<[string, object]>([
    ['id: 1\ndata: x\n\nid: 2\ndata:\n\n', { id: '2', hasData: true }],
    ['id: 1\r\ndata: x\r\n\r\nid\r\n\r\n', { id: '', hasData: true }],
    ['id: 1\rid: 3\rretry: 20\r\r', { id: '3', retry: 20 }],
    ['\ufeffid: 1\n\n', { id: '1' }],
    ['id: 1\n\nid: a\0b\n\n', { id: '1' }],
    ['retry: 1x\n\nretry\n\n: retry: 5\n\n', {}],
    ['data\n\n', {}],
    ['event: prime\ndata: {}\n\n', { hasData: true }]
  ])('%j are noted id, reconnection time, and whether there was anything', (text, notes) => {
    expect(read(text)).toEqual({ ...NOTHING, ...notes })
  })

  it('are noted the messages that answer a request, make one or take one back', () => {
    const answer = { jsonrpc: '2.0', id: 1, result: {} }
    const failure = { jsonrpc: '2.0', id: 'a', error: {} }
    const request = { jsonrpc: '2.0', id: 2, method: 'elicitation/create' }
    const method = 'notifications/cancelled'
    const cancelled = { jsonrpc: '2.0', method, params: { requestId: 2 } }
    const other = { method, params: { requestId: 3 }, jsonrpc: '2.0' }
    const text = [
      data(answer),
      data(failure),
      data(request),
      data(cancelled),
      data(other),
      data({ jsonrpc: '2.0', method: 'notifications/progress', params: { requestId: 9 } }),
      'data: {"jsonrpc":"2.0",\ndata: "id":4,"result":{}}\n\n',
      `event: other\n${data({ jsonrpc: '2.0', id: 5, result: {} })}`,
      'data: no JSON\n\n'
    ].join('')
    for (const blocks of [text, text.replaceAll('\n', '\r\n'), text.replaceAll('\n', '\r')])
      expect(read(blocks)).toEqual({
        hasData: true,
        messages: [answer, failure, request, cancelled, other, { ...answer, id: 4 }]
      })
  })
})
