// The sequence diagrams of the Streams draft, one spec each, named after its sections.

import { describe, expect, it, jest } from '@jest/globals'
import { callTool, notification, post } from '../../helpers/mcp.js'
import { stopTheClock } from '../limits/setup.js'
import {
  create,
  cutAfter,
  end,
  finish,
  INTERVAL,
  note,
  streamId,
  toolResult,
  UNKNOWN,
  world
} from './setup.js'

describe('Lifecycle', () => {
  it('creation first, then messages, then termination', async () => {
    const { call, endpoint } = await world()
    const response = await call()
    const id = streamId(response)
    expect(await response.nextMessage()).toEqual(create(id, INTERVAL))
    expect(await response.nextMessage()).toEqual(note(1))
    endpoint.own[0]!.emit(note(2))
    finish(endpoint)
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([
      create(id, INTERVAL),
      note(1),
      note(2),
      toolResult(),
      end(id)
    ])
  })
})

describe('Creation', () => {
  it('is told before the endpoint has said anything, with the stream id of the stream URL and the interval in seconds', async () => {
    const { call } = await world(({ open }) => open(), { resumeInterval: { min: 5, max: 3600 } })
    const response = await call()
    expect(await response.nextMessage()).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/stream/create',
      params: { stream: { streamId: streamId(response), resumeInterval: { min: 5, max: 3600 } } }
    })
    // [Creation] min: Minimum seconds a client should wait before resuming the stream
    expect(response.blocks[0]).toMatchObject({ retry: 5000 })
    expect(response.blocks.at(-1)!.id).toBe(`${streamId(response)}.1`)
  })
})

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
    const resumed = await w.ask('stream/resume', { streamId: id }, { id: null, headers })
    await resumed.ended
    expect(resumed.messages()).toEqual([toolResult(), end(id)])
  })
})

describe('Polling', () => {
  it('tells the state without sending messages; then the client decides to resume', async () => {
    const w = await world()
    const id = await cutAfter(2, await w.call(), w)
    const poll = async () => (await w.answer('stream/poll', { streamId: id }, { id: 2 })) as unknown
    const live = {
      streamId: id,
      status: 'live',
      pendingMessages: false,
      hasRequest: false,
      hasError: false
    }
    expect(await poll()).toEqual({ jsonrpc: '2.0', id: 2, result: live })
    w.endpoint.own[0]!.emit(note(2))
    expect(await poll()).toEqual({
      jsonrpc: '2.0',
      id: 2,
      result: { ...live, pendingMessages: true }
    })
    finish(w.endpoint)
    const completed = { ...live, status: 'completed', pendingMessages: true }
    expect(await poll()).toEqual({ jsonrpc: '2.0', id: 2, result: completed })

    const resumed = await w.ask('stream/resume', { streamId: id, cursor: `${id}.2` }, { id: null })
    await resumed.ended
    expect(resumed.messages()).toEqual([note(2), toolResult(), end(id)])
    expect(await poll()).toEqual({
      jsonrpc: '2.0',
      id: 2,
      result: { ...completed, pendingMessages: false }
    })
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

describe('Termination', () => {
  it.each(['completed', 'failed'])('is told last: %s', async how => {
    const { call, endpoint } = await world()
    const response = await call()
    await response.nextMessage()
    if (how === 'completed') finish(endpoint)
    else endpoint.own[0]!.res.destroy()
    await response.ended
    const [last, before] = response.messages().reverse()
    expect(last).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/stream/end',
      params: { streamId: streamId(response) }
    })
    expect(before).toMatchObject(
      how === 'completed' ? toolResult() : { error: { data: { reason: 'no-response' } } }
    )
  })
})

describe('Using Streams with Tool Calls', () => {
  it('create, progress and other messages, the result, end', async () => {
    const progress = (n: number) =>
      notification('notifications/progress', { progressToken: 't', progress: n })
    const { url, headers } = await world(({ emit, result }) => {
      emit(progress(1))
      emit(note(1))
      emit(progress(2))
      result({ content: [] })
    })
    const response = await post(url, callTool(3, 'any', {}, 't'), headers)
    const id = streamId(response)
    await response.ended
    const all = [create(id, INTERVAL), progress(1), note(1), progress(2), toolResult(3), end(id)]
    expect(response.messages()).toEqual(all)
    // Each is an event of the stream, in its place for whoever resumes.
    expect(response.events.slice(1).map(block => block.id)).toEqual(
      all.map((_, i) => `${id}.r3.${i + 1}`)
    )
  })
})
