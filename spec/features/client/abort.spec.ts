// Nobody wants the rest: the body breaks at once, nothing is waited for, and the server hears of
// it.

import { describe, expect, it } from '@jest/globals'
import { getEventListeners } from 'node:events'
import { resumableFetch, type ResumableFetchOptions } from '../../../lib/client/index.js'
import { Awaitable } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { callTool, result, withEnvelope } from '../../helpers/mcp.js'
import {
  acquainted,
  cut,
  FAST,
  fetchOnce,
  greeting,
  json,
  KNOWN,
  LISTEN,
  note,
  open,
  POST,
  readAll,
  reset,
  response,
  scripted,
  status,
  whole
} from './scripted.js'

/** Long enough to be noticed if it were waited for. */
const LONG = { minTimeout: 20_000, maxTimeout: 20_000 }

describe('aborting a call of resumableFetch', () => {
  it("fails the body with the abort's reason, closes the connection, and sends DELETE with the call's credentials", async () => {
    const { url, requests } = await scripted(open(note('1', 1)), status(204))
    const controller = new AbortController()
    const headers = { ...POST.headers, Authorization: 'Bearer mine', 'Mcp-Session-Id': 'A' }
    const answer = await fetchOnce(url, {}, { ...POST, headers, signal: controller.signal })
    const reading = readAll(answer)
    const reason = new Error('enough')
    setTimeout(() => controller.abort(reason), 10)
    expect(await reading).toEqual({ text: note('1', 1), error: reason })
    await requests[0]!.closed
    expect(await requests.nth(2)).toMatchObject({
      method: 'DELETE',
      url: '/mcp?stream=S',
      headers: { authorization: 'Bearer mine', 'mcp-session-id': 'A', prefer: 'rel=stream' }
    })
  })

  it('takes effect during the pause before a reconnection', async () => {
    const { url, requests } = await scripted(cut(note('1', 1)), status(204))
    const controller = new AbortController()
    const start = performance.now()
    const onReconnect = () => void setTimeout(() => controller.abort(), 10)
    const answer = await fetchOnce(
      url,
      { ...LONG, onReconnect },
      { ...POST, signal: controller.signal }
    )
    expect((await readAll(answer)).error).toMatchObject({ name: 'AbortError' })
    expect(performance.now() - start).toBeLessThan(LONG.minTimeout)
    expect((await requests.nth(2)).method).toBe('DELETE')
  })

  it('takes effect while a reconnection has no response head yet', async () => {
    const { url, requests } = await scripted(cut(note('1', 1)), () => undefined, status(204))
    const controller = new AbortController()
    let reconnections = 0
    const onReconnect = () => void reconnections++
    const answer = await fetchOnce(url, { onReconnect }, { ...POST, signal: controller.signal })
    const reading = readAll(answer)
    const { closed } = await requests.nth(2)
    controller.abort()
    expect((await reading).error).toMatchObject({ name: 'AbortError' })
    await closed
    expect((await requests.nth(3)).method).toBe('DELETE')
    // Nor is an attempt announced that will not be made.
    expect(reconnections).toBe(1)
  })

  it('takes effect while the option `headers` still computes, and opens no connection afterwards', async () => {
    const { url, requests } = await scripted(cut(note('1', 1)), status(204))
    const controller = new AbortController()
    let give!: (headers: Record<string, string>) => void
    const first = new Promise<Record<string, string>>(resolve => (give = resolve))
    const asked = [() => (controller.abort(), first), () => ({ 'X-N': 'delete' })]
    const answer = await fetchOnce(
      url,
      { headers: () => asked.shift()!() },
      { ...POST, signal: controller.signal }
    )
    expect((await readAll(answer)).error).toMatchObject({ name: 'AbortError' })
    expect((await requests.nth(2)).method).toBe('DELETE')
    give({ 'X-N': 'get' })
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(requests.length).toBe(2)
  })

  it('ends the stream also where nobody reads the body', async () => {
    const { url, requests } = await scripted(open(note('1', 1)), status(204))
    const controller = new AbortController()
    const answer = await fetchOnce(url, {}, { ...POST, signal: controller.signal })
    controller.abort()
    expect((await requests.nth(2)).method).toBe('DELETE')
    expect((await readAll(answer)).error).toMatchObject({ name: 'AbortError' })
  })

  it('sends no DELETE once the response has arrived', async () => {
    const { url, requests } = await scripted(open(response('1')), open(response('1')))
    const controller = new AbortController()
    const answer = await fetchOnce(url, {}, { ...POST, signal: controller.signal })
    await answer.body!.getReader().read()
    controller.abort()
    await requests[0]!.closed
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(requests.length).toBe(1)
  })

  it('leaves other calls of the same fetch running', async () => {
    const { url, requests } = await scripted(open(note('1', 1)), async (res, req) => {
      open(note('1', 1))(res, req)
      await new Promise(resolve => setTimeout(resolve, 60))
      res.end(response('2'))
    })
    const fetch = resumableFetch(FAST)
    const controller = new AbortController()
    const doomed = await fetch(url, { ...POST, signal: controller.signal })
    const other = await fetch(url, POST)
    controller.abort()
    expect((await readAll(doomed)).error).toMatchObject({ name: 'AbortError' })
    expect(await readAll(other)).toEqual({ text: note('1', 1) + response('2'), error: undefined })
    await requests.nth(3)
    expect(requests.filter(({ method }) => method === 'DELETE')).toHaveLength(1)
  })

  it('reports no error where the DELETE is lost or refused', async () => {
    for (const answer of [status(500), status(404)]) {
      const { url, requests } = await scripted(open(note('1', 1)), answer)
      const controller = new AbortController()
      await fetchOnce(url, {}, { ...POST, signal: controller.signal })
      controller.abort()
      await requests.nth(2)
    }
  })

  it('before the request is sent rejects, and sends nothing', async () => {
    const { url, requests } = await scripted()
    await expect(
      fetchOnce(url, {}, { ...POST, signal: AbortSignal.abort() })
    ).rejects.toMatchObject({
      name: 'AbortError'
    })
    expect(requests.length).toBe(0)
  })

  it('leaves no listener on a signal that outlives the call', async () => {
    const { url } = await scripted(
      whole(response('1')),
      cut(note('1', 1)),
      status(404),
      open(note('1', 1)),
      status(204)
    )
    const { signal } = new AbortController()
    // Only ours: the fetch underneath has its own ways.
    const ours = new Set<unknown>()
    const { addEventListener, removeEventListener } = signal
    signal.addEventListener = function (
      this: AbortSignal,
      ...args: Parameters<typeof addEventListener>
    ) {
      if (new Error().stack?.split('\n')[2]?.includes('/lib/client/') === true) ours.add(args[1])
      addEventListener.apply(this, args)
    } as typeof addEventListener
    signal.removeEventListener = function (
      this: AbortSignal,
      ...args: Parameters<typeof removeEventListener>
    ) {
      ours.delete(args[1])
      removeEventListener.apply(this, args)
    } as typeof removeEventListener
    const fetch = resumableFetch(FAST)
    await readAll(await fetch(url, { ...POST, signal }))
    await readAll(await fetch(url, { ...POST, signal }))
    const third = await fetch(url, { ...POST, signal })
    expect(ours.size).toBe(1)
    await third.body!.cancel()
    expect(ours.size).toBe(0)
  })
})

describe("an abort signal that outlives its calls, as that of an SDK's transport", () => {
  it('has no listener of ours once a response that is passed on has ended, read or not', async () => {
    const { url } = await scripted(
      greeting,
      status(202, KNOWN),
      status(400, KNOWN, 'no'),
      status(202, KNOWN, 'never mind'),
      reset,
      json(result(1, 'done'), KNOWN)
    )
    const fetch = await acquainted(url)
    const { signal } = new AbortController()
    await fetch(url, { ...POST, signal })
    await (await fetch(url, { ...POST, signal })).text()
    await (await fetch(url, { ...POST, signal })).body!.cancel()
    await (await fetch(url, { ...POST, signal })).text()
    // The end of a body that nobody reads is seen a little later.
    await until(() => getEventListeners(signal, 'abort').length === 0)
  })
})

describe('cancelling the body of a call', () => {
  it('ends its stream on the server by DELETE', async () => {
    const { url, requests } = await scripted(open(note('1', 1)), status(204))
    const answer = await fetchOnce(url)
    await answer.body!.cancel()
    await requests[0]!.closed
    expect(await requests.nth(2)).toMatchObject({ method: 'DELETE', url: '/mcp?stream=S' })
  })

  it('ends the stream of a listen channel, too', async () => {
    const { url, requests } = await scripted(open(note('1', 1)), status(204))
    await (await fetchOnce(url, {}, LISTEN)).body!.cancel()
    expect(await requests.nth(2)).toMatchObject({ method: 'DELETE', url: '/mcp?stream=S' })
  })
})

describe('aborting a call before its response head', () => {
  it('sends DELETE with its Idempotency-Key, to a server that has shown that it knows keys', async () => {
    const { url, requests } = await scripted(greeting, () => undefined, status(204))
    const fetch = await acquainted(`${url}?tenant=a`)
    const controller = new AbortController()
    const pending = fetch(`${url}?tenant=a`, { ...POST, signal: controller.signal })
    const { headers, closed } = await requests.nth(2)
    controller.abort(new Error('enough'))
    await expect(pending).rejects.toThrow('enough')
    await closed
    expect(await requests.nth(3)).toMatchObject({
      method: 'DELETE',
      url: `/mcp?tenant=a&stream=${String(headers['idempotency-key'])}`
    })
  })

  it('sends DELETE with its Idempotency-Key during the pause between two attempts', async () => {
    const { url, requests } = await scripted(greeting, status(503), status(204))
    const controller = new AbortController()
    const onReconnect = () => void setTimeout(() => controller.abort(), 10)
    const fetch = await acquainted(url, { ...LONG, onReconnect })
    const start = performance.now()
    await expect(fetch(url, { ...POST, signal: controller.signal })).rejects.toMatchObject({
      name: 'AbortError'
    })
    expect(performance.now() - start).toBeLessThan(LONG.minTimeout)
    expect((await requests.nth(3)).method).toBe('DELETE')
  })

  it('sends no DELETE to a server that may not know keys, as that would end the session', async () => {
    const { url, requests } = await scripted(() => undefined)
    const controller = new AbortController()
    const pending = fetchOnce(url, {}, { ...POST, signal: controller.signal })
    await requests.nth(1)
    controller.abort()
    await expect(pending).rejects.toMatchObject({ name: 'AbortError' })
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(requests.length).toBe(1)
  })

  it('is told from a failure of the network, after which no DELETE is sent', async () => {
    const { url, requests } = await scripted(greeting)
    const fetch = await acquainted(url, { maxRetries: 0 })
    await expect(fetch('http://127.0.0.1:1/mcp', POST)).rejects.toThrow()
    expect(requests.length).toBe(1)
  })
})

describe('aborting a call whose response cannot be resumed', () => {
  it('still closes its body', async () => {
    const endless = open(note('1', 1), { Link: '' })
    const { url, requests } = await scripted(greeting, endless, json('unused'))
    const fetch = await acquainted(url)
    const controller = new AbortController()
    const answer = await fetch(url, { ...POST, signal: controller.signal })
    controller.abort()
    expect((await readAll(answer)).error).toMatchObject({ name: 'AbortError' })
    await requests[1]!.closed
    expect(requests.length).toBe(2)
  })
})

describe('notifications/cancelled for a call', () => {
  it('lets its stream end without an error and without a reconnection', async () => {
    const { url, requests } = await scripted(async (res, req) => {
      open(note('1', 1))(res, req)
      await requests.nth(2)
      res.end()
    }, status(202))
    const fetch = resumableFetch(FAST)
    const answer = await fetch(url, POST)
    const body = JSON.stringify({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: 1 }
    })
    await fetch(url, { ...POST, body })
    expect(await readAll(answer)).toEqual({ text: note('1', 1), error: undefined })
    expect(requests.length).toBe(2)
  })

  it('does so also before the head of the response', async () => {
    const { url, requests } = await scripted(async (res, req) => {
      await requests.nth(2)
      whole(note('1', 1))(res, req)
    }, status(202))
    const fetch = resumableFetch(FAST)
    const answering = fetch(url, POST)
    await requests.nth(1)
    const body = JSON.stringify({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: 1 }
    })
    await fetch(url, { ...POST, body })
    expect(await readAll(await answering)).toEqual({ text: note('1', 1), error: undefined })
    expect(requests.length).toBe(2)
  })
})

describe('a custom fetch that ignores the abort signal', () => {
  /** Never answers, or never goes on with its body. */
  const deaf = (response?: Response) => () =>
    response === undefined ? new Promise<Response>(() => undefined) : Promise.resolve(response)
  const endless = (headers: Record<string, string>) =>
    new Response(new ReadableStream(), { headers })
  const MODERN = JSON.stringify(withEnvelope(callTool(1, 'any')))
  const JSON_TYPE = { 'Content-Type': 'application/json', ...KNOWN }

  it.each<[string, ResumableFetchOptions, RequestInit]>([
    ['a call', {}, POST],
    ['a call that may be a task', { tasks: true }, { ...POST, body: MODERN }],
    ['a request of another kind', {}, { method: 'DELETE' }]
  ])('does not keep an abort from ending %s', async (_name, options, init) => {
    const controller = new AbortController()
    const { signal } = controller
    const answer = fetchOnce('http://a/mcp', { fetch: deaf(), ...options }, { ...init, signal })
    const reason = new Error('enough')
    controller.abort(reason)
    await expect(answer).rejects.toBe(reason)
  })

  it('does not keep an abort from ending a call to a server with the middleware, before the head or in the body', async () => {
    let next = deaf(new Response(JSON.stringify(result(1, 'hello')), { headers: JSON_TYPE }))
    const fetch = await acquainted('http://a/mcp', {
      fetch: (_url, init) =>
        init?.method === 'DELETE' ? Promise.resolve(new Response(null, { status: 204 })) : next()
    })
    for (const response of [undefined, endless(JSON_TYPE)]) {
      next = deaf(response)
      const controller = new AbortController()
      const { signal } = controller
      const answer = fetch('http://a/mcp', { ...POST, signal })
      const reason = new Error('enough')
      setTimeout(() => controller.abort(reason), 10)
      await expect(answer).rejects.toBe(reason)
    }
  })

  it('does not keep an abort from ending a response that is read because it may be a task', async () => {
    const controller = new AbortController()
    const { signal } = controller
    const fetch = deaf(endless({ 'Content-Type': 'application/json' }))
    const options = { fetch, tasks: true }
    const answer = fetchOnce('http://a/mcp', options, { ...POST, body: MODERN, signal })
    const reason = new Error('enough')
    setTimeout(() => controller.abort(reason), 10)
    await expect(answer).rejects.toBe(reason)
  })

  it('has a response that comes after the abort cancelled', async () => {
    const cancelled = new Awaitable<unknown>()
    let give!: (response: Response) => void
    const fetch = () => new Promise<Response>(resolve => (give = resolve))
    const controller = new AbortController()
    const init = { ...POST, signal: controller.signal }
    const answer = fetchOnce('http://a/mcp', { fetch }, init)
    controller.abort(new Error('enough'))
    await expect(answer).rejects.toThrow('enough')
    give(new Response(new ReadableStream({ cancel: () => void cancelled.push(true) })))
    await cancelled.nth(1)
  })
})
