// What is kept of calls: counted, for a time, and no more than it takes to give their results.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import type { RequestHandler } from 'express'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { CallStore } from '../../../lib/calls/call-store.js'
import { Call } from '../../../lib/calls/call.js'
import type { CallReply } from '../../../lib/calls/call-reply.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { closeAll } from '../../helpers/listen.js'
import { serve } from '../../helpers/serve.js'
import { until } from '../../helpers/happenings.js'
import { answerJson, ask, report, serveTokens, SOON, TEXT, tokenOf } from './setup.js'

afterEach(closeAll)

const reply = {
  acceptsEvents: false,
  isOver: false,
  isAskingClient: false,
  watch() {},
  send() {},
  answer() {}
}

describe('stats()', () => {
  it('count calls that run and results that are kept, in bytes, and those that had to make room', async () => {
    const { url, endpoint, streams } = await serveTokens({ maxBytes: 2000, maxStreamBytes: 2000 })
    const text = 'x'.repeat(1200)
    const first = await ask(url, report(1, { resumeToken: null }))
    expect(streams.stats()).toMatchObject({ calls: 1, bytes: 0, evictions: 0, live: 0 })
    answerJson(endpoint.calls[0]!, { content: [{ type: 'text', text }] })
    await ask(url, report(2, { resumeToken: tokenOf(first) }))
    expect(streams.stats()).toMatchObject({ calls: 1, evictions: 0 })
    expect(streams.stats().bytes).toBeGreaterThan(text.length)

    const second = await ask(url, report(3, { resumeToken: null }))
    expect(streams.stats()).toMatchObject({ calls: 2, evictions: 0 })
    answerJson(endpoint.calls[1]!, { content: [{ type: 'text', text }] })
    await ask(url, report(4, { resumeToken: tokenOf(second) }))
    expect(streams.stats()).toMatchObject({ calls: 1, evictions: 1 })
    expect(streams.stats().bytes).toBeLessThan(2000)
  })

  it('count nothing of a call that had its result at once', async () => {
    const { url, endpoint, streams } = await serveTokens({ resumeTokens: { after: 5000 } })
    const answer = ask(url, report(1, { resumeToken: null }))
    answerJson(await endpoint.calls.nth(1), TEXT)
    await answer
    expect(streams.stats()).toMatchObject({ calls: 0, bytes: 0 })
  })
})

describe('a result', () => {
  afterEach(() => void jest.useRealTimers())

  const facts = { owner: '', sessionId: undefined, scope: '', method: 'tools/call', parameters: '' }
  const limits = {
    maxCalls: 9,
    maxCallBytes: 999,
    maxBytes: 999,
    window: 10_000,
    abandonAfter: 60_000
  }

  function keep(calls: CallStore): void {
    const call = new Call(facts, calls, token => token)
    call.join(undefined, reply as unknown as CallReply, 5)
    jest.advanceTimersByTime(5)
    call.join(call.tokens[0], reply as unknown as CallReply, 1000)
    call.settle({ kind: 'response', requestId: 'x', text: '{}', message: {}, headers: {} })
  }

  it('is let go when its time is over, whether or not anybody comes', () => {
    jest.useFakeTimers()
    const calls = new CallStore(limits)
    keep(calls)
    expect(calls.counts()).toMatchObject({ calls: 1, evictions: 0 })
    expect(calls.counts().bytes).toBeGreaterThan(0)
    jest.advanceTimersByTime(9_000)
    expect(calls.counts().calls).toBe(1)
    jest.advanceTimersByTime(4_000)
    expect(calls.counts()).toEqual({ calls: 0, bytes: 0, evictions: 0 })
    expect(jest.getTimerCount()).toBe(0)
  })

  it('needs no timer when the process is about to end', () => {
    jest.useFakeTimers()
    const calls = new CallStore(limits)
    keep(calls)
    calls.beginClosing(1000)
    expect(jest.getTimerCount()).toBe(0)
    keep(calls)
    expect(jest.getTimerCount()).toBe(0)
  })

  it('is kept without the requests that it came by', async () => {
    setFlagsFromString('--expose-gc')
    const collectGarbage = runInNewContext('gc') as () => void
    const requests: WeakRef<object>[] = []
    const see: RequestHandler = (req, _res, next) => {
      requests.push(new WeakRef(req))
      next()
    }
    const endpoint = rawEndpoint(() => undefined, { stateless: true })
    const { url, streams } = await serve(endpoint, { resumeTokens: { after: SOON } }, [see])
    const CALLS = 10
    for (let n = 0; n < CALLS; n++) {
      const first = await ask(url, report(1, { resumeToken: null, 'express-mcp-streams/wait': 0 }))
      answerJson(endpoint.calls.at(-1)!, TEXT)
      await ask(url, report(2, { resumeToken: tokenOf(first) }))
    }
    expect(streams.stats().calls).toBe(CALLS)
    expect(requests).toHaveLength(3 * CALLS)
    endpoint.calls.length = endpoint.requests.length = 0
    // The last ones may be in the hands of their sockets.
    await until(() => {
      collectGarbage()
      return requests.filter(request => request.deref() !== undefined).length < CALLS / 2
    })
    expect(streams.stats().calls).toBe(CALLS)
  })
})

describe('a call is found by the request that waits for it', () => {
  const LIMITS = { maxCalls: 999, maxCallBytes: 99, maxBytes: 999, window: 1, abandonAfter: 60_000 }
  const ME = {
    owner: 'me',
    sessionId: 's',
    scope: '',
    method: 'tools/call',
    parameters: ''
  }

  function running(store: CallStore, requestId: string | number, facts = ME): Call {
    const call = new Call(facts, store, token => token)
    call.join(undefined, { ...reply, requestId } as unknown as CallReply, 60_000)
    return call
  }

  it('of its own session and owner, while it runs', () => {
    const store = new CallStore(LIMITS)
    const [a, b] = [running(store, 7), running(store, '7')]
    running(store, 8, { ...ME, owner: 'you' })
    running(store, 9, { ...ME, sessionId: 't' })
    expect(store.findByRequests([7, 7, 8, 9, '7'], 'me', 's')).toEqual([a, b])
    expect(store.findByRequests([], 'me', 's')).toEqual([])
    a.cancel()
    expect(store.findByRequests([7, '7'], 'me', 's')).toEqual([b])
    store.close()
  })

  it('not at all where several calls have one for the same', () => {
    const store = new CallStore(LIMITS)
    for (const id of [7, 7, 7]) running(store, id)
    const other = running(store, 8)
    expect(store.findByRequests([7, 8], 'me', 's')).toEqual([other])
    store.close()
  })

  it('with one look at each, however many are named', () => {
    const store = new CallStore(LIMITS)
    let looks = 0
    for (let id = 0; id < 100; id++)
      Object.defineProperty(running(store, id), 'requestIds', {
        get: () => (looks++, new Set([id]))
      })
    const ids = Array.from({ length: 1000 }, (_, id) => id)
    expect(store.findByRequests(ids, 'me', 's')).toHaveLength(100)
    expect(looks).toBe(100)
    store.close()
  })
})
