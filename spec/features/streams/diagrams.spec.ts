// The sequence diagrams of the Streams draft, one spec each, named after its sections.

import { describe, expect, it, jest } from '@jest/globals'
import { ended } from '../../helpers/mcp.js'
import { stopTheClock } from '../limits/setup.js'
import {
  create,
  cutAfter,
  end,
  finish,
  INTERVAL,
  note,
  toolResult,
  UNKNOWN,
  world
} from './setup.js'

describe('Disconnection and Resumption', () => {
  it('resuming sends the unsent messages, then the end', async () => {
    const w = await world()
    const id = await cutAfter(2, await w.call(), w)
    w.endpoint.own[0]!.emit(note(2))
    finish(w.endpoint)
    const resumed = await w.ask('stream/resume', { streamId: id, cursor: `${id}.2` }, { id: null })
    expect(resumed.status).toBe(200)
    expect(resumed.headers['content-type']).toBe('text/event-stream')
    await resumed.ended
    expect(resumed.messages()).toEqual([note(2), toolResult(), end(id)])
    expect(w.endpoint.own).toHaveLength(1)
  })

  it("the draft's example, without an id and without a cursor: what may have been lost is sent again", async () => {
    const w = await world()
    const id = await cutAfter(2, await w.call(), w)
    const resumed = await w.ask('stream/resume', { streamId: id }, { id: null })
    expect([await resumed.nextMessage(), await resumed.nextMessage()]).toEqual([
      create(id, INTERVAL),
      note(1)
    ])
    w.endpoint.own[0]!.emit(note(2))
    expect(await resumed.nextMessage()).toEqual(note(2))
    finish(w.endpoint)
    await resumed.ended
    expect(resumed.messages().slice(3)).toEqual([toolResult(), end(id)])
  })

  it('an id that is no stream gets an error', async () => {
    const { answer } = await world()
    expect(
      await answer('stream/resume', { streamId: '550e8400-e29b-41d4-a716-446655440000' })
    ).toEqual({
      jsonrpc: '2.0',
      id: 'ask',
      error: UNKNOWN
    })
  })
})

describe('Streamable HTTP Considerations', () => {
  it('Last-Event-ID is the point from which a client resumes and polls', async () => {
    const w = await world()
    const response = await w.call()
    const id = await cutAfter(2, response, w)
    const headers = { 'last-event-id': response.blocks.at(-1)!.id! }
    expect(headers['last-event-id']).toBe(`${id}.2`)
    expect(
      (await w.answer('stream/poll', { streamId: id }, { headers })).result.pendingMessages
    ).toBe(false)
    finish(w.endpoint)
    expect(
      (await w.answer('stream/poll', { streamId: id }, { headers })).result.pendingMessages
    ).toBe(true)
    const resumed = await ended(w.ask('stream/resume', { streamId: id }, { id: null, headers }))
    expect(resumed.messages()).toEqual([toolResult(), end(id)])
  })
})

describe('Abandonment', () => {
  it('a client that waits longer than max gets an error', async () => {
    stopTheClock()
    const w = await world(undefined, { resumeInterval: { min: 0, max: 3600 } })
    const id = await cutAfter(2, await w.call(), w)
    jest.advanceTimersByTime(3_600_000 - 1)
    expect(w.streams.stats().live).toBe(1)
    jest.advanceTimersByTime(1)
    await w.endpoint.own[0]!.closed
    for (const method of ['stream/resume', 'stream/poll']) {
      expect(await w.answer(method, { streamId: id })).toEqual({
        jsonrpc: '2.0',
        id: 'ask',
        error: UNKNOWN
      })
    }
  })

  it.each(['stream/poll', 'stream/poll/all'])('%s in time keeps it', async method => {
    stopTheClock()
    const w = await world(undefined, { resumeInterval: { min: 0, max: 3600 } })
    const id = await cutAfter(2, await w.call(), w)
    jest.advanceTimersByTime(3_000_000)
    await w.answer(method, { streamId: id })
    jest.advanceTimersByTime(3_600_000 - 1)
    expect(w.streams.stats().live).toBe(1)
    jest.advanceTimersByTime(1)
    expect(w.streams.stats().live).toBe(0)
  })
})
