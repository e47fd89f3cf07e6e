// One body over many connections: what it hands up, when it comes back, and what it says of it.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { resumableFetch, type Reconnection } from '../../../lib/client/index.js'
import {
  acquainted,
  block,
  cut,
  FAST,
  fetchOnce,
  greeting,
  LINK,
  LISTEN,
  note,
  open,
  POST,
  readAll,
  reset,
  response,
  scripted,
  status,
  whole,
  type ServerAnswer
} from './scripted.js'

afterEach(() => void jest.restoreAllMocks())

describe('an event stream with a link', () => {
  it('is given to the caller as one response, with the head of the first', async () => {
    const { url, requests } = await scripted(
      cut(note('1', 1), { 'Mcp-Session-Id': 'of the session', 'X-Custom': 'kept' }),
      whole(note('2', 2) + response('3'))
    )
    const answer = await fetchOnce(url)
    expect(answer).toBeInstanceOf(Response)
    expect(answer.status).toBe(200)
    expect(answer.ok).toBe(true)
    expect(answer.url).toBe(url)
    expect(answer.headers.get('mcp-session-id')).toBe('of the session')
    expect(answer.headers.get('x-custom')).toBe('kept')
    expect(await readAll(answer)).toEqual({
      text: note('1', 1) + note('2', 2) + response('3'),
      error: undefined
    })
    const [, resumed] = requests
    expect(resumed).toMatchObject({ method: 'GET', url: '/mcp?stream=S' })
    expect(resumed?.headers).toMatchObject({
      accept: 'text/event-stream',
      prefer: 'rel=stream',
      'last-event-id': '1'
    })
    expect(resumed?.headers).not.toHaveProperty('content-type')
    expect(resumed?.headers).not.toHaveProperty('idempotency-key')
  })

  it('gives whole events only: one that was cut comes again, once', async () => {
    const torn = note('2', 2)
    for (let length = 0; length < torn.length; length++) {
      const { url } = await scripted(
        cut(note('1', 1) + torn.slice(0, length)),
        whole(torn + response('3'))
      )
      expect((await readAll(await fetchOnce(url))).text).toBe(note('1', 1) + torn + response('3'))
    }
  })

  it('is resumed without an id where none has come', async () => {
    const { url, requests } = await scripted(cut('id: tor'), whole(response('1')))
    expect((await readAll(await fetchOnce(url))).text).toBe(response('1'))
    expect(requests[1]?.headers).not.toHaveProperty('last-event-id')
  })

  it('ends when its responses are there, without another request', async () => {
    const { url, requests } = await scripted(whole(response('1')))
    expect(await readAll(await fetchOnce(url))).toEqual({ text: response('1'), error: undefined })
    expect(requests.length).toBe(1)
  })

  it('is not resumed for a cut behind its last response', async () => {
    const { url, requests } = await scripted(cut(response('1')))
    expect(await readAll(await fetchOnce(url))).toEqual({ text: response('1'), error: undefined })
    expect(requests.length).toBe(1)
  })

  it('ends soon after its last response, also where the connection falls silent', async () => {
    const { url, requests } = await scripted(open(response('1')))
    expect(await readAll(await fetchOnce(url, { idleTimeout: 50 }))).toEqual({
      text: response('1'),
      error: undefined
    })
    await requests[0]!.closed
    expect(requests.length).toBe(1)
  })

  it('waits for the response to each request of a batch', async () => {
    const one = block('1', '{"jsonrpc":"2.0","id":"a","result":{}}')
    const both = block(
      '2',
      '[{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":""}}]'
    )
    const body = JSON.stringify([
      { jsonrpc: '2.0', id: 'a', method: 'x' },
      { jsonrpc: '2.0', method: 'n' },
      { jsonrpc: '2.0', id: 2, method: 'y' }
    ])
    const { url, requests } = await scripted(whole(one), whole(both))
    expect((await readAll(await fetchOnce(url, {}, { ...POST, body }))).text).toBe(one + both)
    expect(requests.length).toBe(2)
  })

  it('takes no request of the server for a response, nor one with another type or in pieces for none', async () => {
    const request = block('1', '{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}')
    const other = 'id: 2\nevent: other\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'
    const pieces = 'id: 3\nevent\ndata: {"jsonrpc":"2.0",\ndata:"id":1,\ndata: "result":{}}\n\n'
    const { url, requests } = await scripted(whole(request + other), whole(pieces))
    expect((await readAll(await fetchOnce(url))).text).toBe(request + other + pieces)
    expect(requests.length).toBe(2)
  })

  it('passes on events that are not JSON', async () => {
    const { url } = await scripted(
      whole(block('1', 'rubbish') + block('2', '{') + 'data\n\n:\n\n'),
      whole(response('3'))
    )
    expect((await readAll(await fetchOnce(url))).text).toBe(
      block('1', 'rubbish') + block('2', '{') + 'data\n\n:\n\n' + response('3')
    )
  })

  it('may use any line ends', async () => {
    for (const end of ['\n', '\r\n', '\r']) {
      const lines = (text: string): string => text.replaceAll('\n', end)
      const { url, requests } = await scripted(
        cut(lines(`${note('1', 1)}id: torn`)),
        whole(lines(response('2')))
      )
      expect((await readAll(await fetchOnce(url))).text).toBe(lines(note('1', 1) + response('2')))
      expect(requests[1]?.headers['last-event-id']).toBe('1')
    }
  })

  it('follows a new link of the same origin, and keeps the old one where a connection names none', async () => {
    const { url, requests } = await scripted(
      cut(note('1', 1)),
      cut(note('2', 2), { Link: '<?stream=T>; rel="stream"' }),
      cut(note('3', 3), { Link: '' }),
      whole(response('4'))
    )
    await readAll(await fetchOnce(url))
    expect(requests.map(request => request.url)).toEqual([
      '/mcp',
      '/mcp?stream=S',
      '/mcp?stream=T',
      '/mcp?stream=T'
    ])
  })

  it('may be a listen channel: 204 ends it, and nothing else', async () => {
    const { url, requests } = await scripted(
      whole(note('1', 1)),
      whole(': nothing\n\n'),
      cut(response('2')),
      status(204)
    )
    const answer = await fetchOnce(url, {}, LISTEN)
    expect((await readAll(answer)).text).toBe(`${note('1', 1)}: nothing\n\n${response('2')}`)
    expect(requests.map(({ headers }) => headers['last-event-id'])).toEqual([
      undefined,
      '1',
      '1',
      '2'
    ])
    expect(requests[0]?.headers).not.toHaveProperty('idempotency-key')
  })

  it('that was itself asked for with an id goes on after that id', async () => {
    const { url, requests } = await scripted(cut(''), status(204))
    const answer = await fetchOnce(
      url,
      {},
      { ...LISTEN, headers: { ...LISTEN.headers, 'Last-Event-ID': 'mine' } }
    )
    await readAll(answer)
    expect(requests[1]?.headers['last-event-id']).toBe('mine')
  })
})

describe('onReconnect', () => {
  it('is told why, when, and from where', async () => {
    const told: Reconnection[] = []
    const { url } = await scripted(
      whole('retry: 7\n\n'),
      cut(note('1', 1)),
      status(503, { 'Retry-After': '0' }),
      status(502),
      reset,
      open(note('2', 2)),
      whole(response('3'))
    )
    const options = {
      idleTimeout: 1000,
      minTimeout: 1,
      maxTimeout: 9,
      onReconnect: (one: Reconnection) => told.push(one)
    }
    expect((await readAll(await fetchOnce(url, options))).error).toBeUndefined()
    expect(told).toEqual([
      { attempt: 1, delay: 7, lastEventId: undefined, reason: 'end' },
      { attempt: 1, delay: 7, lastEventId: '1', reason: 'error' },
      { attempt: 2, delay: expect.any(Number), lastEventId: '1', reason: 'status' },
      { attempt: 3, delay: expect.any(Number), lastEventId: '1', reason: 'status' },
      { attempt: 4, delay: expect.any(Number), lastEventId: '1', reason: 'error' },
      { attempt: 1, delay: 7, lastEventId: '2', reason: 'idle' }
    ])
    // Two requests are a tenth of `minTimeout` apart, whatever the server says.
    expect(told[2]!.delay).toBeLessThanOrEqual(1)
    for (const { delay } of told) expect(delay).toBeLessThanOrEqual(9)
  })

  it('is told whole milliseconds', async () => {
    const delays: number[] = []
    const onReconnect = ({ delay }: Reconnection) => delays.push(delay)
    const options = { minTimeout: 3, maxTimeout: 9.5, timeoutFactor: 1.3, onReconnect }
    const { url } = await scripted(cut(''), reset, reset, reset, reset, reset)
    await readAll(await fetchOnce(url, options))
    const known = await scripted(greeting, reset, reset, reset, reset, reset, reset)
    await (await acquainted(known.url, options))(known.url, POST).catch(() => undefined)
    expect(delays).toHaveLength(10)
    expect(delays.filter(delay => !Number.isInteger(delay))).toEqual([])
  })

  it('is told of a request that is sent again', async () => {
    const told: Reconnection[] = []
    const { url } = await scripted(
      greeting,
      reset,
      status(503, { 'Retry-After': '0' }),
      whole(response('1'))
    )
    const fetch = await acquainted(url, { onReconnect: one => told.push(one) })
    await readAll(await fetch(url, POST))
    expect(told).toEqual([
      { attempt: 1, delay: expect.any(Number), lastEventId: undefined, reason: 'error' },
      { attempt: 2, delay: 0, lastEventId: undefined, reason: 'status' }
    ])
  })

  const broken = new Error('from onReconnect')

  it.each<[string, () => unknown]>([
    [
      'throws',
      () => {
        throw broken
      }
    ],
    ['rejects with', () => Promise.reject(broken)]
  ])('fails the call and breaks the body with what it %s', async (_how, onReconnect) => {
    const { url, requests } = await scripted(cut(note('1', 1)), cut(''))
    const { text, error } = await readAll(await fetchOnce(url, { onReconnect }))
    expect(error).toBe(broken)
    const failure = { code: -31_000, message: broken.message, data: {} }
    const message = JSON.stringify({ jsonrpc: '2.0', id: 1, error: failure })
    expect(text).toBe(`${note('1', 1)}event: message\ndata: ${message}\n\n`)
    expect(requests.filter(({ method }) => method === 'GET')).toEqual([])
  })
})

describe('a server that sends `retry: 0`', () => {
  /** The delays, where each connection takes `lasting` milliseconds. */
  const delaysOf = async (text: (n: number) => string, { lasting = 0, maxTimeout = 1000 } = {}) => {
    let time = performance.now()
    jest.spyOn(performance, 'now').mockImplementation(() => time)
    const answers = Array.from({ length: 7 }, (_, n): ServerAnswer => (res, req) => {
      time += lasting
      whole(`retry: 0\n${text(n)}`)(res, req)
    })
    const { url } = await scripted(...answers, whole(response('last')))
    const delays: number[] = []
    const onReconnect = ({ delay }: Reconnection) => delays.push(delay)
    const { error } = await readAll(
      await fetchOnce(url, { minTimeout: 40, maxTimeout, onReconnect })
    )
    expect(error).toBeUndefined()
    return delays
  }

  it('is asked less and less often, up to a bound, while it has nothing new', async () => {
    const nothing = (n: number) => `id: ${n}\ndata:\n\n`
    expect(await delaysOf(nothing)).toEqual([4, 8, 16, 32, 64, 80, 80])
    expect(await delaysOf(nothing, { maxTimeout: 20 })).toEqual([4, 8, 16, 20, 20, 20, 20])
    // Each counts from the opening of the connection before it, the first from the call's head.
    expect(await delaysOf(nothing, { lasting: 10 })).toEqual([4, 0, 6, 22, 54, 70, 70])
  })

  it('is asked after a short delay where it has something new', async () => {
    expect(await delaysOf(n => note(`${n}`, n))).toEqual(Array(7).fill(4))
  })
})

describe('the option idleTimeout', () => {
  it('starts again with comments and with parts of an event', async () => {
    const { url, requests } = await scripted(async res => {
      open()(res, res.req)
      for (const part of [
        ': alive\n',
        'id: 1\n',
        ': alive\n',
        'da',
        'ta: {"jsonrpc":"2.0","id":1,"result":{}}\n',
        '\n'
      ]) {
        await new Promise(resolve => setTimeout(resolve, 100))
        res.write(part)
      }
      res.end()
    })
    expect((await readAll(await fetchOnce(url, { idleTimeout: 400 }))).error).toBeUndefined()
    expect(requests.length).toBe(1)
  })

  it('covers the time before a response head, too', async () => {
    const { url, requests } = await scripted(
      cut(note('1', 1)),
      () => undefined,
      whole(response('2'))
    )
    expect((await readAll(await fetchOnce(url, { idleTimeout: 100 }))).error).toBeUndefined()
    await requests[1]!.closed
    expect(requests.length).toBe(3)
  })

  it('does not count the time for which the process was asleep: what came meanwhile is read first', async () => {
    const { url, requests } = await scripted(async res => {
      open(note('1', 1))(res, res.req)
      await new Promise(resolve => setTimeout(resolve, 20))
      // On its way, and then nothing runs in this process for longer than silence is borne.
      res.end(response('2'))
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000)
    })
    expect((await readAll(await fetchOnce(url, { idleTimeout: 200 }))).text).toBe(
      note('1', 1) + response('2')
    )
    expect(requests.length).toBe(1)
  })

  it('finds a connection lost that died while the process was asleep', async () => {
    const { url, requests } = await scripted(
      async res => {
        open(note('1', 1))(res, res.req)
        await new Promise(resolve => setTimeout(resolve, 20))
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000)
      },
      whole(response('2'))
    )
    expect((await readAll(await fetchOnce(url, { idleTimeout: 200 }))).text).toBe(
      note('1', 1) + response('2')
    )
    expect(requests.length).toBe(2)
  })

  it('has no effect where it is null', async () => {
    const { url } = await scripted(async res => {
      open()(res, res.req)
      await new Promise(resolve => setTimeout(resolve, 100))
      res.end(response('1'))
    })
    expect((await readAll(await fetchOnce(url, { idleTimeout: null }))).text).toContain(
      response('1')
    )
  })

  it('does not count the time for which the reader of the body does not read', async () => {
    const { url, requests } = await scripted(async res => {
      open(note('1', 1))(res, res.req)
      await new Promise(resolve => setTimeout(resolve, 20))
      res.end(response('2'))
    })
    const answer = await fetchOnce(url, { idleTimeout: 60 })
    await new Promise(resolve => setTimeout(resolve, 200))
    expect((await readAll(answer)).text).toBe(note('1', 1) + response('2'))
    expect(requests.length).toBe(1)
  })
})

describe('the option maxRetries', () => {
  it('counts attempts in a row without a new event only', async () => {
    const rounds = Array.from({ length: 10 }, (_, i) => [
      status(500),
      status(502),
      cut(note(`${i}`, i))
    ]).flat()
    const { url } = await scripted(cut(''), ...rounds, whole(response('end')))
    const { text, error } = await readAll(await fetchOnce(url, { maxRetries: 3 }))
    expect(error).toBeUndefined()
    expect(text.match(/^id: /gm)).toHaveLength(11)
  })

  it('does not count where the server disconnects at will, with a new id each time', async () => {
    const polls = Array.from({ length: 20 }, (_, i) => whole(`id: x.0.${i}\nretry: 1\ndata:\n\n`))
    const { url } = await scripted(...polls, whole(response('end')))
    expect((await readAll(await fetchOnce(url, { maxRetries: 2 }))).error).toBeUndefined()
  })
})

describe('a custom fetch', () => {
  it('may give no body where it is empty: the stream goes on', async () => {
    const { url } = await scripted(cut(note('1', 1)), whole(response('2')))
    let bodies = 0
    const below = async (input: string | URL, init?: RequestInit): Promise<Response> => {
      if (init?.method !== 'GET' || ++bodies > 1) return fetch(input, init)
      return new Response(null, { headers: { 'Content-Type': 'text/event-stream', Link: LINK } })
    }
    const { text, error } = await readAll(await fetchOnce(url, { fetch: below }))
    expect([text, error]).toEqual([note('1', 1) + response('2'), undefined])
    expect(bodies).toBe(2)
  })

  it('is called as a function, with a URL and an init', async () => {
    const { url } = await scripted(cut(note('1', 1)), whole(response('2')))
    const calls: [unknown, RequestInit][] = []
    const fetch = resumableFetch({
      ...FAST,
      fetch(this: unknown, input, init = {}) {
        calls.push([this, init])
        return globalThis.fetch(input, init)
      }
    })
    await readAll(await fetch(new URL(url), { ...POST, credentials: 'include', mode: 'cors' }))
    expect(calls.map(([self]) => self)).toEqual([undefined, undefined])
    expect(calls[1]![1]).toMatchObject({
      method: 'GET',
      redirect: 'manual',
      credentials: 'include',
      mode: 'cors'
    })
    expect(calls[1]![1].body ?? undefined).toBeUndefined()
  })
})
