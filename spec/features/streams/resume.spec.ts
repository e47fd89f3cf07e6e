// `stream/resume`: all that is unsent, then live, then the end, then a result; and what comes
// instead where that is not possible.

import { describe, expect, it, jest } from '@jest/globals'
import { currentStream, type CurrentStream } from '../../../lib/index.js'
import { happenings } from '../../helpers/happenings.js'
import { callTool, ended, get, headersFor, post, result } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { stopTheClock } from '../limits/setup.js'
import {
  client,
  create,
  cutAfter,
  draftEndpoint,
  end,
  finish,
  INTERVAL,
  note,
  streamId,
  toolResult,
  UNKNOWN,
  world
} from './setup.js'

/** A client that has resumed and reads nothing, and so much for it that its socket is full. */
async function slow() {
  let stream: CurrentStream | undefined
  const w = await world(({ emit }) => {
    stream = currentStream()
    emit(note(1))
  })
  const id = await cutAfter(2, await w.call(), w)
  const resumed = await w.ask('stream/resume', { streamId: id, cursor: 2 })
  resumed.pause()
  for (let n = 2; n <= 500; n++) {
    w.endpoint.own[0]!.emit(note(n, 30_000))
    if (n % 20 === 0) await new Promise(resolve => setImmediate(resolve))
  }
  return { w, id, resumed, stream: stream! }
}

const answered = (id: string, status: string) => result('ask', { streamId: id, status })

describe('a request with an id', () => {
  it('is answered with a result, after the end', async () => {
    const w = await world()
    const id = await cutAfter(2, await w.call(), w)
    const resumed = await w.ask('stream/resume', { streamId: id, cursor: 2 })
    w.endpoint.own[0]!.emit(note(2))
    expect(await resumed.nextMessage()).toEqual(note(2))
    finish(w.endpoint)
    await resumed.ended
    expect(resumed.messages()).toEqual([note(2), toolResult(), end(id), answered(id, 'completed')])
    // The result is no event of the stream: the cursor stays where it is.
    expect(resumed.events.at(-1)!.id ?? resumed.events.at(-2)!.id).toBe(`${id}.5`)
  })

  it('of a stream that has ended has the rest, and of one that nothing is missing of has the end', async () => {
    const w = await world(({ emit, result }) => (emit(note(1)), result({ content: [] })))
    const response = await ended(w.call())
    const id = streamId(response)
    const resume = async (cursor: unknown) => {
      const resumed = await w.ask('stream/resume', { streamId: id, cursor })
      expect(resumed.status).toBe(200)
      await resumed.ended
      return resumed.messages()
    }
    expect(await resume(2)).toEqual([toolResult(), end(id), answered(id, 'completed')])
    expect(await resume(3)).toEqual([end(id), answered(id, 'completed')])
    expect(await resume(4)).toEqual([end(id), answered(id, 'completed')])
    expect(await resume(`${id}.4`)).toEqual([end(id), answered(id, 'completed')])
  })

  it('of a stream that is closed at will before its end says that there is more to come for', async () => {
    let stream: CurrentStream | undefined
    const w = await world(({ emit }) => {
      stream = currentStream()
      emit(note(1))
    })
    const response = await w.call()
    const id = await cutAfter(2, response, w)
    const resumed = await w.ask('stream/resume', { streamId: id, cursor: 2 })
    w.endpoint.own[0]!.emit(note(2))
    await resumed.nextMessage()
    stream!.disconnect()
    expect(await resumed.ended).toBe('end')
    expect(resumed.messages()).toEqual([note(2), answered(id, 'live')])
  })

  it('that is closed at will, at any revision: who resumes by this method comes back by it', async () => {
    let stream: CurrentStream | undefined
    const endpoint = draftEndpoint(
      ({ emit }) => {
        stream = currentStream()
        emit(note(1))
      },
      { stateless: true }
    )
    const served = await serve(endpoint, { retry: 10 })
    const anyone = client(served.url, headersFor({ version: '2025-06-18' }))
    const id = await cutAfter(1, await anyone.call(), served)
    const resumed = await anyone.ask('stream/resume', { streamId: id, cursor: 1 })
    stream!.disconnect()
    expect(await resumed.ended).toBe('end')
    expect(resumed.messages()).toEqual([answered(id, 'live')])
  })

  it('whose client was slow and was closed at will is not told of an end that it has not reached', async () => {
    const { w, id, resumed, stream } = await slow()
    stream.disconnect({ retry: 20 })
    finish(w.endpoint)
    resumed.resume()
    expect(await resumed.ended).toBe('end')
    const messages = resumed.messages()
    expect(messages.length).toBeLessThan(500)
    expect(messages.at(-1)).toEqual(answered(id, 'live'))
    expect(messages).not.toContainEqual(end(id))
  })

  it('whose client was slow and is taken over is cut off', async () => {
    const { w, id, resumed } = await slow()
    const newer = await w.ask('stream/resume', { streamId: id, cursor: 501 })
    finish(w.endpoint)
    await newer.ended
    expect(newer.messages().slice(-3)).toEqual([toolResult(), end(id), answered(id, 'completed')])
    resumed.resume()
    expect(await resumed.ended).not.toBe('end')
  })

  it('that is taken over says so, and the newer one has the rest', async () => {
    const w = await world()
    const takenOver = happenings('taken-over')
    const id = await cutAfter(2, await w.call(), w)
    const older = await w.ask('stream/resume', { streamId: id, cursor: 2 })
    const newer = await w.ask('stream/resume', { streamId: id, cursor: 2 })
    expect(await older.ended).toBe('end')
    expect(older.messages()).toEqual([answered(id, 'live')])
    finish(w.endpoint)
    await newer.ended
    expect(newer.messages()).toEqual([toolResult(), end(id), answered(id, 'completed')])
    expect(takenOver).toHaveLength(1)
  })

  it('of a stream that is cancelled meanwhile is answered with the error of a stream that is gone', async () => {
    const w = await world()
    const response = await w.call()
    const url = streamUrl(response, w.url)
    const id = await cutAfter(2, response, w)
    const resumed = await w.ask('stream/resume', { streamId: id, cursor: 2 })
    await fetch(url, { method: 'DELETE', headers: w.headers })
    await resumed.ended
    expect(resumed.messages()).toEqual([{ jsonrpc: '2.0', id: 'ask', error: UNKNOWN }])
    expect(await w.answer('stream/resume', { streamId: id })).toMatchObject({ error: UNKNOWN })
  })

  it('of a stream that fails has the error, the end, and a result', async () => {
    const w = await world()
    const id = await cutAfter(2, await w.call(), w)
    const resumed = await w.ask('stream/resume', { streamId: id, cursor: 2 })
    w.endpoint.own[0]!.res.destroy()
    await resumed.ended
    const [error, ...rest] = resumed.messages()
    expect(error).toMatchObject({ id: 'call', error: { data: { reason: 'no-response' } } })
    expect(rest).toEqual([end(id), answered(id, 'completed')])
  })
})

describe('without a cursor', () => {
  it('a client that was cut gets again what its last connection began with, and never less', async () => {
    const w = await world()
    const id = await cutAfter(2, await w.call(), w)
    w.endpoint.own[0]!.emit(note(2))
    const second = await w.ask('stream/resume', { streamId: id, cursor: 2 }, { id: null })
    await cutAfter(1, second, w)
    w.endpoint.own[0]!.emit(note(3))
    // The second connection began behind event 2.
    const third = await w.ask('stream/resume', { streamId: id }, { id: null })
    expect([await third.nextMessage(), await third.nextMessage()]).toEqual([note(2), note(3)])
  })

  it.each(['at will', 'at its end'])(
    'the same behind a clean close %s: the wire may have lost that too',
    async when => {
      const w = await world(({ emit, result }) => {
        emit(note(1))
        if (when === 'at will') currentStream()!.disconnect({ retry: 20 })
        else result({ content: [] })
      })
      const response = await w.call()
      expect(await response.ended).toBe('end')
      const id = streamId(response)
      if (when === 'at will') finish(w.endpoint)
      const resumed = await ended(w.ask('stream/resume', { streamId: id }))
      const all = [create(id, INTERVAL), note(1), toolResult(), end(id)]
      expect(resumed.messages()).toEqual([...all, answered(id, 'completed')])
    }
  )

  it('goes on at the oldest message that is kept: what went out longer ago counts as arrived', async () => {
    stopTheClock()
    const w = await world(undefined, { window: 1000 })
    const response = await w.call()
    const { emit } = w.endpoint.own[0]!
    for (let n = 2; n < 40; n++) emit(note(n, 20_000))
    const id = await cutAfter(20, response, w)
    while (w.streams.stats().bytes > 200_000) {
      jest.advanceTimersByTime(1000)
      await new Promise(resolve => setImmediate(resolve))
    }
    emit(note(40))
    const resumed = await w.ask('stream/resume', { streamId: id })
    const first = await resumed.nextMessage()
    expect(Number.parseInt(first.params?.data, 10)).toBeGreaterThan(1)
    const stale = await w.answer('stream/resume', { streamId: id, cursor: 1 })
    expect(stale.error).toEqual({
      code: -32602,
      message: 'Events after this cursor are no longer kept',
      data: { reason: 'events-evicted' }
    })
  })
})

describe('earlier than min', () => {
  it('a resume is served all the same, with the reconnection time that min is the floor of', async () => {
    const w = await world(undefined, { retry: 10, resumeInterval: { min: 30, max: 60 } })
    const id = await cutAfter(2, await w.call(), w)
    const resumed = await w.ask('stream/resume', { streamId: id, cursor: 1 })
    expect(await resumed.nextMessage()).toEqual(note(1))
    expect(resumed.blocks[0]).toMatchObject({
      id: expect.stringMatching(`^${id}\\.1\\.`),
      retry: 30_000
    })
  })
})

describe('the ways of resuming', () => {
  it('mix: the stream URL, the endpoint, and stream/resume follow one log', async () => {
    const w = await world()
    const response = await w.call()
    const url = streamUrl(response, w.url)
    const id = await cutAfter(2, response, w)
    const { emit } = w.endpoint.own[0]!
    emit(note(2))
    const byUrl = await get(url, { ...w.headers, 'last-event-id': `${id}.1` })
    expect([await byUrl.nextMessage(), await byUrl.nextMessage()]).toEqual([note(1), note(2)])
    const byMethod = await w.ask('stream/resume', { streamId: id, cursor: `${id}.2` })
    expect(await byMethod.nextMessage()).toEqual(note(2))
    expect(byMethod.headers.link).toContain(id)
    const byEndpoint = await get(w.url, {
      ...w.headers,
      'last-event-id': byMethod.events.at(-1)!.id!
    })
    emit(note(3))
    expect(await byEndpoint.nextMessage()).toEqual(note(3))
    finish(w.endpoint)
    await byEndpoint.ended
    expect(byEndpoint.messages().slice(1)).toEqual([toolResult(), end(id)])
  })

  it('stream/resume without a session, of a stateless endpoint', async () => {
    const endpoint = draftEndpoint(({ emit }) => emit(note(1)), { stateless: true })
    const served = await serve(endpoint, { retry: 10, notifications: 'always' })
    const anyone = client(served.url, headersFor({ version: '2025-06-18' }))
    const id = await cutAfter(2, await anyone.call(), served)
    const resumed = await anyone.ask('stream/resume', { streamId: id })
    expect(await resumed.nextMessage()).toEqual(create(id, INTERVAL))
    finish(endpoint)
    await resumed.ended
    expect(resumed.messages().slice(2)).toEqual([toolResult(), end(id), answered(id, 'completed')])
  })

  it('resumes a listen channel', async () => {
    const w = await world(call => call.emit(note(1)))
    const channel = await get(w.url, w.headers)
    const id = await cutAfter(2, channel, w)
    w.endpoint.own[0]!.emit(note(2))
    const resumed = await w.ask('stream/resume', { streamId: id, cursor: 2 })
    expect(await resumed.nextMessage()).toEqual(note(2))
  })
})

it('a client that cannot keep up gets everything, at its pace', async () => {
  const w = await world(undefined, { window: 600_000 })
  const id = await cutAfter(2, await w.call(), w)
  for (let n = 2; n <= 300; n++) w.endpoint.own[0]!.emit(note(n, 20_000))
  const resumed = await w.ask('stream/resume', { streamId: id, cursor: 2 })
  resumed.pause()
  finish(w.endpoint)
  await new Promise(resolve => setImmediate(resolve))
  resumed.resume()
  await resumed.ended
  const messages = resumed.messages()
  expect(messages).toHaveLength(299 + 3)
  expect(messages.slice(-3)).toEqual([toolResult(), end(id), answered(id, 'completed')])
})

it('a request of the server is sent again until it is answered, at the endpoint', async () => {
  const w = await world(({ emit }) =>
    emit({ jsonrpc: '2.0', id: 'q', method: 'elicitation/create', params: {} })
  )
  const id = await cutAfter(2, await w.call(), w)
  const resumed = await w.ask('stream/resume', { streamId: id, cursor: 1 })
  expect(await resumed.nextMessage()).toMatchObject({ method: 'ping' })
  expect(await resumed.nextMessage()).toMatchObject({ id: 'q', method: 'elicitation/create' })
  const accepted = await post(w.url, result('q', { action: 'accept' }), w.headers)
  expect(accepted.status).toBe(202)
  finish(w.endpoint)
  await resumed.ended
  expect(resumed.messages().slice(2)).toEqual([toolResult(), end(id), answered(id, 'completed')])
})

it('a POST that is sent again under its key has the notifications in their place too', async () => {
  const w = await world()
  const headers = { ...w.headers, 'idempotency-key': 'a-key-that-is-long-enough' }
  const first = await post(w.url, callTool('call', 'any'), headers)
  const id = await cutAfter(2, first, w)
  const again = await post(w.url, callTool('call', 'any'), headers)
  finish(w.endpoint)
  await again.ended
  expect(again.messages()).toEqual([create(id, INTERVAL), note(1), toolResult(), end(id)])
})
