// With a backplane, what a client holds from one instance is good at every other.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import { Hub } from '../../helpers/backplane/memory.js'
import { rawEndpoint, type RawCall, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { until } from '../../helpers/happenings.js'
import { callTool, del, get, headersFor, post, request, result } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { openStream, type Json, type OpenStream } from '../../helpers/open-stream.js'
import { anywhere, at, gist, lastId, note, VERSION } from './setup.js'

describe('a stream of another instance', () => {
  it('is resumed by its URL, each message once and in order', async () => {
    const all = await anywhere()
    const { first, call, link } = await all.call()
    call.emit(note('one'))
    await first.nextMessage()
    first.destroy()
    call.emit(note('two'))
    const second = await get(at(link, all, 1), headersFor({ lastEventId: lastId(first) }))
    expect(second.headers.link).toContain('rel="stream"')
    expect((await second.nextMessage()).params.data).toBe('two')
    second.destroy()
    call.emit(note('three'))
    const third = await get(at(link, all, 2), headersFor({ lastEventId: lastId(second) }))
    await third.nextMessage()
    call.result()
    await third.ended
    expect([...gist(first), ...gist(second), ...gist(third)]).toEqual(['one', 'two', 'three', 1])
  })

  it('is resumed by an event id at the endpoint', async () => {
    const all = await anywhere()
    const { first, call } = await all.call()
    call.emit(note('one'))
    await first.nextMessage()
    first.destroy()
    const second = await get(
      all.urls[2] as string,
      headersFor({ version: VERSION, lastEventId: lastId(first) })
    )
    call.emit(note('two'))
    call.result()
    await second.ended
    expect(gist(second)).toEqual(['two', 1])
    expect(all.endpoints[2]?.requests.length).toBe(0)
  })

  it('is for its owner only there, too: others get the same answer as for an unknown stream', async () => {
    const all = await anywhere()
    const { link } = await all.call({ authorization: 'Bearer one' })
    const ask = async (url: string, auth: string) => {
      const response = await get(url, headersFor({ auth }))
      if (response.status === 200) return { status: 200, text: '' }
      await response.ended
      return { status: response.status, text: response.text }
    }
    const name = new URL(link).searchParams.get('stream') as string
    const unknown = at(link.replace(name, `${name.slice(0, 5)}aaaaaaaaaaaaaaaa`), all, 1)
    expect(await ask(at(link, all, 1), 'two')).toEqual(await ask(unknown, 'two'))
    expect((await ask(at(link, all, 1), 'two')).status).toBe(404)
    expect((await ask(at(link, all, 1), 'one')).status).toBe(200)
  })

  it('is cancelled by DELETE', async () => {
    const all = await anywhere()
    const { first, call, link } = await all.call({ prefer: 'rel=stream' })
    const response = await del(at(link, all, 1))
    expect(response.status).toBeLessThan(300)
    await first.ended
    await call.closed
  })

  it('is polled and resumed by methods', async () => {
    const all = await anywhere()
    const { first, call, link } = await all.call()
    call.emit(note('one'))
    await first.nextMessage()
    const streamId = new URL(link).searchParams.get('stream')
    const poll = await post(all.urls[1] as string, request(7, 'stream/poll', { streamId }), {
      ...headersFor({ version: VERSION })
    })
    await poll.ended
    expect(JSON.parse(poll.text)).toMatchObject({ id: 7, result: { streamId } })
    const resumed = await post(all.urls[2] as string, request(8, 'stream/resume', { streamId }), {
      ...headersFor({ version: VERSION })
    })
    call.result()
    await resumed.ended
    expect(gist(resumed)).toContain(1)
  })

  it('is polled where somebody in front has read the body of the request', async () => {
    const hub = new Hub()
    const endpoint = rawEndpoint(({ message, result }) => message?.method === 'ping' && result(), {
      stateless: true
    })
    const [home, away] = await Promise.all([
      serve(endpoint, { backplane: hub.option() }),
      serve(endpoint, { backplane: hub.option() }, [express.json()])
    ])
    const headers = headersFor({ version: VERSION })
    const opened = post(home.url, callTool(1, 'any'), headers)
    const call = await endpoint.calls.nth(1)
    call.open()
    const streamId = new URL(streamUrl(await opened, home.url)).searchParams.get('stream')
    const poll = await post(away.url, request(7, 'stream/poll', { streamId }), headers)
    await poll.ended
    expect(JSON.parse(poll.text)).toMatchObject({ id: 7, result: { streamId } })
  })

  it('is abandoned at its own instance when its client leaves', async () => {
    const all = await anywhere({ resumeInterval: { min: 0, max: 0.2 } })
    const { first, call, link } = await all.call()
    first.destroy()
    const second = await get(at(link, all, 1))
    second.destroy()
    await call.closed
    expect(all.members[0]?.streams.stats().connections).toBe(0)
  })

  it('is relayed whole, however large it is', async () => {
    const all = await anywhere()
    const { first, call, link } = await all.call()
    first.destroy()
    const texts = Array.from({ length: 60 }, (_, i) => `${i}`.padEnd(100_000, 'x'))
    const second = await get(at(link, all, 1))
    for (const text of texts) {
      if (!call.emit(note(text))) await new Promise(resolve => call.res.once('drain', resolve))
    }
    call.result()
    await second.ended
    expect(gist(second)).toEqual([...texts, 1])
  })

  it('is relayed whole where backplane messages are lost, doubled and reordered', async () => {
    const all = await anywhere({}, { drops: 0.2, doubles: 0.2, reorders: 0.2, seed: 5 })
    const { first, call, link } = await all.call()
    first.destroy()
    const second = await get(at(link, all, 1))
    const texts = Array.from({ length: 30 }, (_, i) => `${i}`.padEnd(10_000, 'x'))
    for (const text of texts) {
      call.emit(note(text))
      await new Promise(resolve => setImmediate(resolve))
    }
    call.result()
    await second.ended
    expect(gist(second)).toEqual([...texts, 1])
  })
})

describe('a call of another instance', () => {
  const report = (id: number, meta: object) => {
    const message: Json = callTool(id, 'report')
    message.params._meta = meta
    return message
  }
  const json = ({ res, message }: RawCall): void =>
    void res
      .writeHead(200, { 'Content-Type': 'application/json' })
      .end(JSON.stringify(result(message.id, { content: [] })))

  const ended = async (opening: Promise<OpenStream>): Promise<OpenStream> => {
    const opened = await opening
    await opened.ended
    return opened
  }

  it('is collected with its resume token', async () => {
    const all = await anywhere({ resumeTokens: { after: 40 } })
    const version = headersFor({ version: VERSION })
    const first = await post(all.urls[0] as string, report(1, { resumeToken: null }), version)
    const { nextResumeToken } = JSON.parse((await first.untilEnd(), first.text)).result._meta ?? {
      ...JSON.parse(first.text).result
    }
    expect(nextResumeToken).toHaveLength(21)
    const again = post(all.urls[1] as string, report(2, { resumeToken: nextResumeToken }), version)
    json(await (all.endpoints[0] as RawEndpoint).calls.nth(1))
    const second = await again
    await second.ended
    expect(JSON.parse(second.text)).toMatchObject({ id: 2, result: { content: [] } })
    expect(all.endpoints[1]?.requests.length).toBe(0)
  })

  it('is cancelled by its Idempotency-Key before there is an answer', async () => {
    const all = await anywhere()
    const key = 'a-key-that-nobody-guesses'
    const headers = { ...headersFor({ version: VERSION }), prefer: 'rel=stream' }
    const first = post(all.urls[0]!, callTool(1, 'any'), { ...headers, 'idempotency-key': key })
    const lost = first.catch(() => undefined)
    const call = await all.endpoints[0]!.calls.nth(1)
    const stranger = { ...headers, authorization: 'Bearer two' }
    expect((await del(`${all.urls[1]!}?stream=${key}`, stranger)).status).toBe(404)
    expect(call.isClosed).toBe(false)
    expect((await del(`${all.urls[1]!}?stream=${key}`, headers)).status).toBe(204)
    await call.closed
    await lost
  })

  it('is not begun elsewhere for as long as it runs, and is remembered for a while after', async () => {
    const window = 60_000
    const all = await anywhere({ window, resumeInterval: { max: window / 1000 } })
    const headers = {
      ...headersFor({ version: VERSION }),
      'idempotency-key': 'a-key-that-nobody-guesses'
    }
    const left = (): number => {
      const [, entry] = [...all.hub.keys].find(([key]) => key.startsWith('k:'))!
      return entry.until - Date.now()
    }
    const first = post(all.urls[0]!, callTool(1, 'any'), headers)
    const call = await all.endpoints[0]!.calls.nth(1)
    expect(left()).toBeGreaterThan(100 * window)
    json(call)
    await (
      await first
    ).ended
    expect(left()).toBeLessThanOrEqual(window)
    expect(left()).toBeGreaterThan(window / 2)
  })

  it('is remembered for the whole window again after each repetition at any instance', async () => {
    const all = await anywhere()
    const headers = {
      ...headersFor({ version: VERSION }),
      'idempotency-key': 'a-key-that-nobody-guesses'
    }
    const end = (): number => {
      const [, entry] = [...all.hub.keys].find(([key]) => key.startsWith('k:'))!
      return entry.until
    }
    const first = post(all.urls[0]!, callTool(1, 'any'), headers)
    json(await all.endpoints[0]!.calls.nth(1))
    await ended(first)
    for (const url of all.urls) {
      const earlier = end()
      const askedAt = Date.now()
      await until(() => Date.now() > askedAt + 1)
      await ended(post(url, callTool(1, 'any'), headers))
      expect(end()).toBeGreaterThan(earlier)
    }
    expect(all.endpoints.map(({ calls }) => calls.length)).toEqual([1, 0, 0])
  })

  it('does not run again elsewhere as long as its answer is kept, however short the window', async () => {
    const all = await anywhere({ window: 1 })
    const headers = {
      ...headersFor({ version: VERSION }),
      'idempotency-key': 'a-key-that-nobody-guesses'
    }
    const first = post(all.urls[0]!, callTool(1, 'any'), headers)
    json(await all.endpoints[0]!.calls.nth(1))
    const { text } = await ended(first)
    const answeredAt = Date.now()
    await until(() => Date.now() > answeredAt + 1)
    const again = await ended(post(all.urls[1]!, callTool(1, 'any'), headers))
    expect(JSON.parse(again.text)).toEqual(JSON.parse(text))
    expect(all.endpoints.map(({ calls }) => calls.length)).toEqual([1, 0, 0])
  })

  it('gets repetitions under its Idempotency-Key, and nothing runs twice', async () => {
    const all = await anywhere()
    const headers = {
      ...headersFor({ version: VERSION }),
      'idempotency-key': 'a-key-that-nobody-guesses'
    }
    const first = post(all.urls[0] as string, callTool(1, 'any'), headers)
    const call = await (all.endpoints[0] as RawEndpoint).calls.nth(1)
    const second = post(all.urls[1] as string, callTool(1, 'any'), headers)
    const third = post(all.urls[2] as string, callTool(1, 'any'), headers)
    call.open()
    call.emit(note('one'))
    call.result()
    const answers = await Promise.all([first, second, third])
    for (const answer of answers) await answer.ended
    // The newest connection is given all of it.
    expect(answers.map(gist)).toContainEqual(['one', 1])
    expect(all.endpoints.map(({ calls }) => calls.length)).toEqual([1, 0, 0])
  })
})

describe('a request that is too large to be forwarded', () => {
  it('is refused', async () => {
    const all = await anywhere({ maxBodyBytes: 1000 })
    const { link } = await all.call({ prefer: 'rel=stream' })
    const response = await openStream(at(link, all, 1), {
      method: 'POST',
      body: [result(1, 'x'.repeat(2000))],
      headers: headersFor({ version: VERSION })
    })
    expect(response.status).toBe(413)
  })
})
