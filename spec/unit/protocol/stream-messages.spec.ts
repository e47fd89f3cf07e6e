// The messages of the Streams draft: written as in the draft, and parsed strictly.

import { describe, expect, it } from '@jest/globals'
import {
  createNotification,
  cursorOf,
  endNotification,
  isStreamMethod,
  pollResult,
  readStreamRequest,
  resultResponse,
  type StreamMethod
} from '../../../lib/protocol/stream-messages.js'
import { streamId } from '../streams/fakes.js'

const ID = '550e8400-e29b-41d4-a716-446655440000'
const readAs = (message: object) => readStreamRequest(message as { method: StreamMethod })
const read = (message: object) => {
  const result = readAs(message)
  return result.kind === 'request' ? result.request : undefined
}

describe('the messages in the draft', () => {
  it('are written in the same way', () => {
    expect(JSON.parse(createNotification(ID, { min: 5, max: 3600 }))).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/stream/create',
      params: { stream: { streamId: ID, resumeInterval: { min: 5, max: 3600 } } }
    })
    expect(JSON.parse(endNotification(ID))).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/stream/end',
      params: { streamId: ID }
    })
    expect(resultResponse(2, {})).toBe('{"jsonrpc":"2.0","id":2,"result":{}}')
  })

  it('can be parsed', () => {
    const params = { streamId: ID }
    expect(read({ jsonrpc: '2.0', method: 'stream/resume', params })).toEqual({
      method: 'stream/resume',
      id: undefined,
      streamId: ID,
      cursor: undefined
    })
    expect(
      read({ jsonrpc: '2.0', id: 2, method: 'stream/poll', params: { ...params, cursor: 7 } })
    ).toEqual({
      method: 'stream/poll',
      id: 2,
      streamId: ID,
      cursor: 7
    })
    expect(read({ jsonrpc: '2.0', id: 'all', method: 'stream/poll/all' })).toMatchObject({
      id: 'all'
    })
  })
})

it.each(['stream/resume', 'stream/poll', 'stream/poll/all'])('%s is for the streams', method => {
  expect(isStreamMethod({ method })).toBe(true)
})

it.each([
  undefined,
  5,
  'stream',
  'stream/',
  'stream/polls',
  'Stream/poll',
  'notifications/stream/end'
])('%p is not', method => {
  expect(isStreamMethod({ method })).toBe(false)
})

it.each([
  { method: 'stream/poll', params: { streamId: ID } },
  { id: null, method: 'stream/resume', params: { streamId: ID } },
  { id: 1, method: 'stream/poll' },
  { id: 1, method: 'stream/poll', params: [ID] },
  { id: 1, method: 'stream/poll/all', params: 'x' }
])('%j is refused', message => {
  expect(readAs(message).kind).toBe('refused')
})

it('a cursor is an event id of the stream, with or without a count, or a number of messages', () => {
  const stream = { id: streamId(1), last: 12 }
  const good = [0, 12, `${stream.id}.0`, `${stream.id}.12`, `${stream.id}.7.3`]
  expect(good.map(value => cursorOf(stream, value))).toEqual([0, 12, 0, 12, 7])
  const bad = [
    -1,
    13,
    1.5,
    NaN,
    Infinity,
    '12',
    `${stream.id}.13`,
    `${streamId(2)}.1`,
    stream.id,
    null,
    undefined,
    {}
  ]
  for (const value of bad) expect(cursorOf(stream, value)).toBeUndefined()
})

it('a poll is about what lies after the cursor, or else after what was written', () => {
  const stream = { id: ID, isEnded: true, last: 9, written: 5, lastRequest: 3, lastError: 9 }
  const poll = (cursor?: number) => Object.values(pollResult(stream, cursor)).slice(1)
  expect(poll()).toEqual(['completed', true, false, true])
  expect(poll(2)).toEqual(['completed', true, true, true])
  expect(poll(9)).toEqual(['completed', false, false, false])
  expect(pollResult({ ...stream, isEnded: false }).status).toBe('live')
})
