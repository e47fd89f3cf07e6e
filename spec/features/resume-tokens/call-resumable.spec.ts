// `callResumable` against a scripted client: what it sends, what it makes of the answers, and when
// it gives up.

import { describe, expect, it, jest } from '@jest/globals'
import {
  callResumable,
  type CallResumableOptions,
  resumableFetch
} from '../../../lib/client/index.js'
import { connectV1 } from '../../helpers/clients.js'
import { createCutProxy, type Direction } from '../../helpers/cut-proxy.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { stopTheClock, turn } from '../limits/setup.js'

type Answer = object | Error

/** A client that gives one answer after the other, and keeps what it was asked. */
function scripted(...answers: Answer[]) {
  const requests: object[] = []
  const options: Record<string, unknown>[] = []
  const client = {
    async request(
      request: object,
      _schema: unknown,
      given: Record<string, unknown>
    ): Promise<unknown> {
      requests.push(structuredClone(request))
      options.push(given)
      const answer = answers.shift()
      if (answer === undefined) throw new Error('asked once too often')
      if (answer instanceof Error) throw answer
      return answer
    }
  }
  return { client, requests, options }
}

const REQUEST = { method: 'tools/call', params: { name: 'report', _meta: { trace: 1 } } }
const more = (nextResumeToken: string, result: object = { content: [] }) => ({
  ...result,
  _meta: { nextResumeToken }
})
const DONE = { content: [{ type: 'text', text: 'done' }] }
const lost = (): Error => new TypeError('fetch failed')

const ASKING = { 'express-mcp-streams/wait': null }

describe('callResumable', () => {
  it('asks for tokens, and repeats its request with each that it gets, changing nothing else', async () => {
    const { client, requests } = scripted(more('a'), more('b'), DONE)
    expect(await callResumable(client, REQUEST)).toEqual(DONE)
    expect(requests).toEqual(
      [undefined, 'a', 'b'].map(resumeToken => ({
        method: 'tools/call',
        params: { name: 'report', _meta: { trace: 1, ...ASKING, resumeToken } }
      }))
    )
    // [Resuming] A first request has none: what it is for is asked in words of our own.
    expect((requests[0] as Json).params._meta).not.toHaveProperty('resumeToken')
    expect(REQUEST.params._meta).toEqual({ trace: 1 })
  })

  it('works for a request without parameters, and with a server that gives no tokens', async () => {
    const { client, requests } = scripted(DONE)
    expect(await callResumable(client, { method: 'own/method' })).toEqual(DONE)
    expect(requests).toEqual([{ method: 'own/method', params: { _meta: ASKING } }])
  })

  it('tells the server how long it may take, and waits a little longer itself', async () => {
    const { client, requests, options } = scripted(more('a'), DONE, DONE, DONE)
    await callResumable(client, REQUEST, { wait: 4000 })
    expect(requests).toEqual(
      [undefined, 'a'].map(resumeToken => ({
        ...REQUEST,
        params: {
          ...REQUEST.params,
          _meta: { trace: 1, 'express-mcp-streams/wait': 4000, resumeToken }
        }
      }))
    )
    expect(options[0]).toMatchObject({ timeout: 14_000 })
    await callResumable(client, REQUEST, { wait: 4000, timeout: 5000 })
    expect(options[2]).toMatchObject({ timeout: 5000 })
    await callResumable(client, REQUEST)
    expect(options[3]).not.toHaveProperty('timeout')
  })

  it('passes other options and the schema on to the client’s `request`', async () => {
    const schemas: unknown[] = []
    const mine = { '~standard': {} }
    const { client, options } = scripted(more('a'), DONE)
    const listening = {
      request: (request: object, schema: unknown, given: Record<string, unknown>) => (
        schemas.push(schema),
        client.request(request, schema, given)
      )
    }
    const onprogress = (): void => undefined
    await callResumable(listening, REQUEST, {
      onprogress,
      maxTotalTimeout: 9,
      resultSchema: mine
    })
    for (const given of options)
      expect(given).toEqual({ onprogress, maxTotalTimeout: 9, signal: expect.any(AbortSignal) })
    expect(schemas).toEqual([mine, mine])
  })

  it('calls onPartial for parts of the result, and not for empty answers', async () => {
    const empty = [
      more('a'),
      more('b', {
        completion: { values: [] },
        resultType: 'complete',
        ttlMs: 0,
        cacheScope: 'private'
      }),
      more('c', {})
    ]
    const parts = [more('d', DONE), more('e', { content: [], structuredContent: { n: 0 } })]
    const { client } = scripted(...empty, ...parts, DONE)
    const heard: unknown[] = []
    await callResumable(client, REQUEST, {
      onPartial: async part => {
        await new Promise(setImmediate)
        heard.push(part)
      }
    })
    expect(heard).toEqual(parts)
  })

  it('pauses where a server answers at once without a result', async () => {
    const pauses: unknown[] = []
    const spy = jest.spyOn(globalThis, 'setTimeout').mockImplementation(((
      done: () => void,
      delay: number
    ) => {
      pauses.push(delay)
      setImmediate(done)
    }) as never)
    const now = jest.spyOn(performance, 'now').mockReturnValue(0)
    try {
      await callResumable(
        scripted(...['a', 'b', 'c', 'd', 'e', 'f'].map(token => more(token)), DONE).client,
        REQUEST
      )
      await callResumable(scripted(more('g', DONE), DONE).client, REQUEST)
    } finally {
      spy.mockRestore()
      now.mockRestore()
    }
    expect(pauses).toEqual([100, 200, 400, 800, 1000, 1000, 50])
  })

  it('rejects with the error that onPartial throws', async () => {
    const { client, requests } = scripted(more('a', DONE), DONE)
    const onPartial = () => Promise.reject(new Error('disk full'))
    await expect(callResumable(client, REQUEST, { onPartial })).rejects.toThrow('disk full')
    expect(requests).toHaveLength(1)
  })

  it.each([
    ['an error of the network', lost()],
    ['a timeout of version 1', Object.assign(new Error('timed out'), { code: -32001 })],
    ['a timeout of version 2', Object.assign(new Error('timed out'), { code: 'REQUEST_TIMEOUT' })],
    ['a status of a gateway', Object.assign(new Error('HTTP 504'), { code: 504 })],
    [
      'a status that says "not now"',
      Object.assign(new Error('HTTP 429'), { code: 'HTTP', status: 429 })
    ]
  ])('repeats a request with a token after %s', async (_name, error) => {
    const { client, requests } = scripted(more('a'), error, more('b'), error, DONE)
    expect(await callResumable(client, REQUEST)).toEqual(DONE)
    const tokens = requests.map(
      request => (request as typeof REQUEST & { params: { _meta: object } }).params._meta
    )
    expect(tokens).toEqual(
      [undefined, 'a', 'a', 'b', 'b'].map(resumeToken => ({ trace: 1, ...ASKING, resumeToken }))
    )
  })

  it('never repeats a request without a token: it may have run', async () => {
    const { client, requests } = scripted(lost(), DONE)
    await expect(callResumable(client, REQUEST)).rejects.toThrow('fetch failed')
    expect(requests).toHaveLength(1)
  })

  it.each([
    [
      'what the server says of the token',
      Object.assign(new Error('Invalid params'), { code: -32602 })
    ],
    ['what the server says of the call', Object.assign(new Error('overflow'), { code: -31000 })],
    ['a status that will not change', Object.assign(new Error('HTTP 401'), { code: 401 })],
    ['a result that is not valid', Object.assign(new Error('bad'), { code: 'INVALID_RESULT' })],
    ['a result that a schema refuses', Object.assign(new Error('bad'), { issues: [] })]
  ])('does not repeat it after %s', async (_name, error) => {
    const { client, requests } = scripted(more('a'), error, DONE)
    await expect(callResumable(client, REQUEST)).rejects.toBe(error)
    expect(requests).toHaveLength(2)
  })

  it('gives up after maxRetries losses in a row', async () => {
    const { client, requests } = scripted(more('a'), lost(), more('b'), lost(), lost())
    await expect(callResumable(client, REQUEST, { maxRetries: 1 })).rejects.toThrow('fetch failed')
    expect(requests).toHaveLength(5)
    const once = scripted(more('a'), lost())
    await expect(callResumable(once.client, REQUEST, { maxRetries: 0 })).rejects.toThrow(
      'fetch failed'
    )
  })

  it('makes no further request once it has been aborted', async () => {
    const reason = new Error('enough')
    const before = scripted(DONE)
    await expect(
      callResumable(before.client, REQUEST, { signal: AbortSignal.abort(reason) })
    ).rejects.toBe(reason)
    expect(before.requests).toHaveLength(0)

    const controller = new AbortController()
    const { client, requests, options } = scripted(more('a', DONE), DONE)
    const call = callResumable(client, REQUEST, {
      signal: controller.signal,
      onPartial: () => controller.abort(reason)
    })
    await expect(call).rejects.toBe(reason)
    expect(requests).toHaveLength(1)
    // The request that has been answered is none of its business any more.
    expect((options[0]!['signal'] as AbortSignal).aborted).toBe(false)
  })

  it('ends a pause at once when it is aborted', async () => {
    stopTheClock()
    try {
      const controller = new AbortController()
      const { client, requests } = scripted(more('a'), lost(), DONE)
      const call = callResumable(client, REQUEST, { signal: controller.signal })
      const ended = expect(call).rejects.toThrow('enough')
      // The second request fails, and the pause is that before the third.
      while (requests.length < 2) {
        jest.advanceTimersByTime(10)
        await turn()
      }
      await turn()
      controller.abort(new Error('enough'))
      await ended
      expect(requests).toHaveLength(2)
    } finally {
      jest.useRealTimers()
    }
  })

  it.each<[string, unknown]>([
    ['onPartial', 'log'],
    ['wait', '4s'],
    ['wait', -1],
    ['timeout', NaN],
    ['maxRetries', null]
  ])('refuses a bad `%s`', async (name, value) => {
    const { client, requests } = scripted(DONE)
    const call = callResumable(client, REQUEST, { [name]: value } as CallResumableOptions)
    await expect(call).rejects.toThrow(TypeError)
    await expect(
      callResumable(client, REQUEST, { [name]: value } as CallResumableOptions)
    ).rejects.toThrow(`\`${name}\``)
    expect(requests).toHaveLength(0)
  })
})

describe('the official client', () => {
  it('notices no cut with resumableFetch, whichever request or response it falls into', async () => {
    const endpoint = sdkV1Stateful({ enableJsonResponse: true })
    const { server } = await serve(endpoint, { resumeTokens: { after: 20 } })
    const proxy = await createCutProxy({ target: (server.address() as { port: number }).port })
    const { client, errors } = await connectV1(`${proxy.url}/mcp`, {
      fetch: resumableFetch({ minTimeout: 1 })
    })
    const call = (key: string, name: string, args: object) =>
      callResumable(client, { method: 'tools/call', params: { name, arguments: { key, ...args } } })
    await call('uncut', 'slow', { ms: 60 })

    const seen = new Map<string, number>()
    proxy.plan = ({ message }) => {
      const key: string | undefined = message?.params?.arguments?.key
      if (key === undefined) return undefined
      const [exchange, direction, offset] = key.split(' ') as [string, Direction, string]
      const n = (seen.get(key) ?? 0) + 1
      seen.set(key, n)
      // By then there have been three exchanges, whatever the pace.
      if (n === 3) endpoint.log.release(key)
      return n === Number(exchange)
        ? { by: 'rst', direction, afterBytes: Number(offset) }
        : undefined
    }
    const keys = [1, 2, 3].flatMap(exchange =>
      [0, 80, 160, 240, 320].flatMap(offset =>
        ['request', 'response'].map(direction => `${exchange} ${direction} ${offset}`)
      )
    )
    const results = await Promise.all(keys.map(key => call(key, 'count', { n: 0, paced: true })))
    for (const { content } of results)
      expect(content).toEqual([{ type: 'text', text: 'counted to 0' }])
    expect(keys.filter(key => endpoint.log.executions(key) !== 1)).toEqual([])
    expect(proxy.cuts.length).toBe(keys.length)
    expect(errors).toEqual([])
  })
})
