// What cannot be right gets an error that names what was wrong, and costs nothing that lasts.

import { beforeEach, describe, expect, it } from '@jest/globals'
import { post } from '../../helpers/mcp.js'
import { cutAfter, UNKNOWN, world, type World } from './setup.js'

const LONG = 'x'.repeat(1024 * 1024)

describe('bad input', () => {
  let w: World
  let id: string

  beforeEach(async () => {
    w = await world()
    id = await cutAfter(2, await w.call(), w)
  })

  const send = async (body: unknown): Promise<[status: number, answer: unknown]> => {
    const response = await post(w.url, body, w.headers)
    return [response.status, await response.json()]
  }
  const error = (code: number, message: string, reason: string, requestId: unknown = 1) => ({
    jsonrpc: '2.0',
    id: requestId,
    error: { code, message, data: { reason } }
  })

  it.each([
    ['no params', undefined, 'stream/poll needs a streamId'],
    ['no streamId', {}, 'stream/poll needs a streamId'],
    ['a number', { streamId: 5 }, 'stream/poll needs a streamId that is a string'],
    ['null', { streamId: null }, 'stream/poll needs a streamId that is a string'],
    ['an object', { streamId: { toString: 'x' } }, 'stream/poll needs a streamId that is a string'],
    ['params that are a list', ['x'], 'The params of stream/poll must be an object'],
    ['params that are a text', 'x', 'The params of stream/poll must be an object'],
    ['params that are null', null, 'The params of stream/poll must be an object']
  ])('is refused: %s', async (_name, params, message) => {
    const asked = w.endpoint.requests.length
    expect(await send({ jsonrpc: '2.0', id: 1, method: 'stream/poll', params })).toEqual([
      200,
      error(-32602, message, 'invalid-params')
    ])
    // Nobody had to be asked about that.
    expect(w.endpoint.requests).toHaveLength(asked)
  })

  it.each([
    ['stream/resume', null, 'The id of stream/resume must be a string or a number'],
    ['stream/poll', {}, 'The id of stream/poll must be a string or a number'],
    ['stream/poll', undefined, 'stream/poll must be a request, with an id'],
    ['stream/poll/all', undefined, 'stream/poll/all must be a request, with an id']
  ])('is refused by status: %s with the id %p', async (method, requestId, message) => {
    expect(await send({ jsonrpc: '2.0', id: requestId, method, params: { streamId: id } })).toEqual(
      [400, error(-32600, message, 'invalid-request', null)]
    )
  })

  it.each([
    '',
    'x',
    '../..',
    'x'.repeat(21),
    'x'.repeat(64),
    `${'x'.repeat(21)}~3`,
    '__proto__',
    LONG
  ])('is an unknown stream: %#', async streamId => {
    for (const method of ['stream/poll', 'stream/resume']) {
      expect(await send({ jsonrpc: '2.0', id: 1, method, params: { streamId } })).toEqual([
        200,
        { jsonrpc: '2.0', id: 1, error: UNKNOWN }
      ])
    }
    const [status] = await send({ jsonrpc: '2.0', method: 'stream/resume', params: { streamId } })
    expect(status).toBe(400)
  })

  it('is an id of another spelling: what the stream URL calls a turn', async () => {
    expect(
      (
        await send({
          jsonrpc: '2.0',
          id: 1,
          method: 'stream/poll',
          params: { streamId: `${id}~1` }
        })
      )[1]
    ).toEqual({
      jsonrpc: '2.0',
      id: 1,
      error: UNKNOWN
    })
  })

  it.each([
    -1,
    0.5,
    3,
    1e300,
    '2',
    '',
    'x',
    null,
    {},
    [],
    true,
    LONG,
    `${'x'.repeat(21)}.1`,
    'ID.3',
    'ID.-1',
    'ID.01'
  ])('is a cursor that is none: %#', async cursor => {
    const asked = typeof cursor === 'string' ? cursor.replace('ID', id) : cursor
    for (const method of ['stream/poll', 'stream/resume']) {
      const body = { jsonrpc: '2.0', id: 1, method, params: { streamId: id, cursor: asked } }
      const message =
        'cursor must be an event id of this stream, or the number of its messages that the client has'
      expect(await send(body)).toEqual([200, error(-32602, message, 'invalid-cursor')])
    }
  })

  it('is a Last-Event-ID beyond the last event; one of another stream is not about this one', async () => {
    const poll = (lastEventId: string) =>
      w.answer('stream/poll', { streamId: id }, { headers: { 'last-event-id': lastEventId } })
    expect((await poll(`${id}.9`)).error.data).toEqual({ reason: 'invalid-cursor' })
    expect((await poll(`${'x'.repeat(21)}.9`)).result).toMatchObject({ pendingMessages: false })
    expect((await poll('rubbish')).result).toMatchObject({ pendingMessages: false })
  })

  it.each([
    ['a batch of one', (one: object) => [one]],
    [
      'a batch with another request',
      (one: object) => [{ jsonrpc: '2.0', id: 2, method: 'ping' }, one]
    ],
    ['a batch with rubbish', (one: object) => [null, 5, one]]
  ])('is %s: none of it reaches the endpoint', async (_name, batch) => {
    const asked = w.endpoint.requests.length
    const one = { jsonrpc: '2.0', id: 1, method: 'stream/poll', params: { streamId: id } }
    const message = 'A stream method must be a message of its own, not part of a batch'
    expect(await send(batch(one))).toEqual([400, error(-32600, message, 'invalid-request', null)])
    expect(w.endpoint.requests).toHaveLength(asked)
  })

  it('is a request id of 1 MB, which is answered under that id', async () => {
    const [status, answer] = await send({
      jsonrpc: '2.0',
      id: LONG,
      method: 'stream/poll',
      params: { streamId: id }
    })
    expect([status, (answer as { id: string }).id.length]).toEqual([200, LONG.length])
  })

  it('leaves nothing behind, whatever it was', async () => {
    const before = w.streams.stats()
    for (const streamId of [LONG, 5, 'x'.repeat(21)])
      for (const method of ['stream/poll', 'stream/resume', 'stream/poll/all'])
        await send({ jsonrpc: '2.0', id: 1, method, params: { streamId, cursor: LONG } })
    const { refusals, ...rest } = w.streams.stats()
    expect(rest).toEqual({ ...before, refusals: undefined })
    expect(refusals).toBe(before.refusals + 4)
  })
})
