// A client that has gone may come back, for so long; then its endpoint is told, once, and so is
// whoever comes back after all.

import { beforeEach, describe, expect, it, jest } from '@jest/globals'
import { currentStream, type CurrentStream } from '../../../lib/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { gate } from '../../helpers/gate.js'
import { happenings } from '../../helpers/happenings.js'
import { callTool, get, initializeSession, post } from '../../helpers/mcp.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'
import {
  call,
  gist,
  isEvent,
  leave,
  note,
  resume,
  resumeAtEndpoint,
  stopTheClock,
  turn
} from './setup.js'

beforeEach(stopTheClock)
const MAX = 5
const OPTIONS = { resumeInterval: { min: 0, max: MAX }, retry: 10 }

async function world() {
  const errors: unknown[] = []
  const handler = gate<CurrentStream>()
  const events: string[] = []
  const endpoint = rawEndpoint(
    rawCall => {
      const stream = currentStream()!
      stream.signal.addEventListener('abort', () => events.push('abort'))
      rawCall.res.on('close', () => events.push('close'))
      rawCall.res.on('finish', () => events.push('finish'))
      handler.open(stream)
      rawCall.emit(note(1))
    },
    { stateless: true }
  )
  const served = await serve(endpoint, {
    ...OPTIONS,
    onError: (error, { streamId }) => errors.push([(error as { code?: string }).code, streamId])
  })
  const response = await call(served.url, 'my call')
  await response.take(1, isEvent)
  const rawCall = await endpoint.calls.nth(1)
  return {
    ...{ ...served, endpoint, response, rawCall, errors, events },
    ...{
      id: streamId(response),
      link: streamUrl(response, served.url),
      stream: await handler.opened
    }
  }
}

describe('a call whose client has gone', () => {
  it('goes on until `resumeInterval.max`, and then its endpoint gets one close and one abort', async () => {
    const w = await world()
    const abandoned = happenings('abandoned')
    await leave(w.response, w)
    jest.advanceTimersByTime(MAX * 1000 - 1)
    await turn()
    expect([w.events, w.stream.state, w.stream.signal.aborted, w.rawCall.res.destroyed]).toEqual([
      [],
      'live',
      false,
      false
    ])
    expect(w.rawCall.emit(note(2))).toBe(true)

    jest.advanceTimersByTime(1)
    await w.rawCall.closed
    expect(w.stream.state).toBe('abandoned')
    expect(w.stream.signal).toMatchObject({ aborted: true, reason: { name: 'AbortError' } })
    expect(w.streams.stats()).toMatchObject({ live: 0, finished: 0, bytes: 0, connections: 0 })
    expect(w.errors).toEqual([['abandoned', w.id]])
    expect(abandoned).toHaveLength(1)

    // What it still does is of no consequence.
    expect(w.rawCall.res.destroyed).toBe(true)
    expect(w.rawCall.emit(note(3))).toBe(false)
    w.rawCall.result()
    w.rawCall.res.destroy()
    jest.advanceTimersByTime(60_000)
    for (let i = 0; i < 5; i++) await turn()
    expect(w.events.filter(event => event !== 'finish').sort()).toEqual(['abort', 'close'])
    expect(abandoned).toHaveLength(1)
  })

  it('answers 410 on its URL to a client that comes back too late', async () => {
    const w = await world()
    await leave(w.response, w)
    jest.advanceTimersByTime(MAX * 1000)
    for (const cursor of [undefined, `${w.id}.0.1`, `${w.id}.1`]) {
      const late = await resume(w.link, cursor)
      expect([late.status, (await late.json()).error.data.reason]).toEqual([410, 'stream-expired'])
    }
  })

  it('gives a stock client that comes back too late an error for its call, and then 204', async () => {
    const w = await world()
    await leave(w.response, w)
    jest.advanceTimersByTime(MAX * 1000)
    const late = await resumeAtEndpoint(w.url, `${w.id}.1`)
    expect([late.status, late.headers['content-type']]).toEqual([200, 'text/event-stream'])
    expect(await late.ended).toBe('end')
    expect(gist(late.messages())).toEqual([['my call', 'abandoned']])
    expect(
      (await resumeAtEndpoint(w.url, late.blocks.at(-1)!.id ?? late.blocks[0]!.id!)).status
    ).toBe(204)
    expect(w.endpoint.calls).toHaveLength(1)
  })

  it('has the whole time again after each connection', async () => {
    const w = await world()
    await leave(w.response, w)
    for (let i = 0; i < 3; i++) {
      jest.advanceTimersByTime(MAX * 1000 - 1)
      const again = await resume(w.link, `${w.id}.1`)
      jest.advanceTimersByTime(MAX * 10_000)
      expect(w.stream.state).toBe('live')
      await leave(again, w)
    }
    jest.advanceTimersByTime(MAX * 1000)
    expect(w.stream.state).toBe('abandoned')
  })

  it('is never abandoned while its client is connected, however long it is silent', async () => {
    const w = await world()
    jest.advanceTimersByTime(100 * MAX * 1000)
    expect(w.stream.state).toBe('live')
    w.rawCall.result()
    await w.response.ended
    expect(gist(w.response.messages())).toEqual([1, ['my call', 'result']])
  })

  it('is abandoned also where a stranger asks for it', async () => {
    const w = await world()
    await leave(w.response, w)
    jest.advanceTimersByTime(MAX * 1000 - 1)
    const foreign = await resume(w.link, `${w.id}.1`, { authorization: 'Bearer other' })
    expect(foreign.status).toBe(404)
    jest.advanceTimersByTime(1)
    expect(w.stream.state).toBe('abandoned')
  })

  it('that ends while its client is away has not been abandoned', async () => {
    const w = await world()
    await leave(w.response, w)
    w.rawCall.result()
    await w.rawCall.closed
    jest.advanceTimersByTime(MAX * 1000 - 1)
    expect(w.stream.state).toBe('completed')
    expect([w.errors, w.stream.signal.aborted]).toEqual([[], false])
    const rest = await resume(w.link, `${w.id}.1`)
    await rest.ended
    expect(gist(rest.messages())).toEqual([['my call', 'result']])
  })
})

describe('the usual recipe, `res.on("close")`,', () => {
  it('ends a tool of the SDK when it is abandoned, not when its socket dies', async () => {
    const endpoint = sdkV1Stateful()
    const served = await serve(endpoint, OPTIONS)
    const { headers } = await initializeSession(served.url, '2025-11-25')
    const response = await post(served.url, callTool(1, 'hang', { key: 'x' }), headers)
    await endpoint.log.calls.nth(1)
    await leave(response, served)
    jest.advanceTimersByTime(MAX * 1000 - 1)
    await turn()
    expect(served.streams.stats().live).toBe(1)
    jest.advanceTimersByTime(1)
    expect(served.streams.stats().live).toBe(0)
    expect((await resume(streamUrl(response, served.url), undefined, headers)).status).toBe(410)
  })
})

describe('a listen channel whose client has gone', () => {
  it('is abandoned too, and a fresh one reaches the endpoint', async () => {
    let channels = 0
    const endpoint = rawEndpoint(
      rawCall => {
        if (channels > 0) return rawCall.res.writeHead(409).end()
        channels++
        void rawCall.closed.then(() => channels--)
        return rawCall.open()
      },
      { session: 'session' }
    )
    const served = await serve(endpoint, OPTIONS)
    const { headers } = await initializeSession(served.url, '2025-11-25')
    const listening = await get(served.url, headers)
    const channel = await endpoint.calls.nth(1)
    await leave(listening, served)
    jest.advanceTimersByTime(MAX * 1000 - 1)
    const again = await get(served.url, headers)
    expect(streamId(again)).toBe(streamId(listening))
    await leave(again, served)
    jest.advanceTimersByTime(MAX * 1000)
    await channel.closed
    // The endpoint answers a client that resumes what is over, as it answers any GET.
    const fresh = await resumeAtEndpoint(served.url, `${streamId(listening)}.0.1`, headers)
    await endpoint.calls.nth(3)
    expect(streamId(fresh)).not.toBe(streamId(listening))
  })
})

describe('when the server shuts down', () => {
  it('a call without a client ends soon: it has as long as a client needs to come back twice', async () => {
    const w = await world()
    await leave(w.response, w)
    const second = await call(w.url, 'second')
    const secondCall = await w.endpoint.calls.nth(2)
    const down = w.streams.close()
    jest.advanceTimersByTime(2 * 10 + 1000 - 1)
    expect(w.stream.state).toBe('live')
    jest.advanceTimersByTime(1)
    await w.rawCall.closed
    expect(w.stream.state).toBe('abandoned')
    // One with a client goes on.
    expect(w.streams.stats()).toMatchObject({ live: 1, connections: 1 })
    expect([secondCall.isClosed, secondCall.emit(note(2))]).toEqual([false, true])
    secondCall.result()
    expect(await second.ended).toBe('end')
    await secondCall.closed
    await down
    expect(w.streams.stats()).toMatchObject({ live: 0, connections: 0, finished: 1 })
  })
})
