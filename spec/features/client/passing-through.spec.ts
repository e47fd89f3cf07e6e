// What is none of its business stays as it was: other servers, other requests, other answers.

import { describe, expect, it } from '@jest/globals'
import { resumableFetch } from '../../../lib/client/index.js'
import { gate } from '../../helpers/gate.js'
import { result } from '../../helpers/mcp.js'
import {
  acquainted,
  cut,
  FAST,
  greeting,
  json,
  KNOWN,
  note,
  POST,
  readAll,
  reset,
  response,
  scripted,
  status,
  whole,
  type ServerAnswer
} from './scripted.js'

/** A fetch that remembers what came from underneath. */
function observed() {
  const answers: Response[] = []
  const inits: (RequestInit | undefined)[] = []
  const fetch = resumableFetch({
    ...FAST,
    fetch: async (input, init) => {
      inits.push(init)
      const answer = await globalThis.fetch(input, init)
      answers.push(answer)
      return answer
    }
  })
  return { fetch, answers, inits }
}

/** Cut off in the middle of its body. */
const half: ServerAnswer = async res => {
  res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': '100' })
  res.write('{"half')
  await new Promise(resolve => setTimeout(resolve, 10))
  res.socket?.resetAndDestroy()
}

describe('a response', () => {
  it.each<[string, ServerAnswer]>([
    ['in JSON', json({ jsonrpc: '2.0', id: 1, result: {} })],
    ['without a body', status(202)],
    ['204', status(204)],
    ['that is a redirect', status(302, { Location: '/other' })],
    ['401', status(401, { 'WWW-Authenticate': 'Bearer' })],
    [
      '404 with a link',
      status(404, { Link: '<?stream=S>; rel="stream"', 'Content-Type': 'text/event-stream' })
    ],
    ['503 of a server that is not known', status(503, { 'Retry-After': '0' })],
    ['in JSON, with a link', json({}, { Link: '<?stream=S>; rel="stream"' })],
    ['that is an event stream without a link', whole(response('1'), { Link: '' })]
  ])('%s is the very object that the fetch underneath has given', async (_name, answer) => {
    const { url, requests } = await scripted(answer)
    const { fetch, answers } = observed()
    const given = await fetch(url, { ...POST, redirect: 'manual' })
    expect(given).toBe(answers[0])
    await given.text()
    expect(requests.length).toBe(1)
  })
})

describe('a request', () => {
  it.each<[string, RequestInit | undefined]>([
    ['without init', undefined],
    ['for JSON', { headers: { Accept: 'application/json' } }],
    ['DELETE, which ends a session', { method: 'DELETE', headers: POST.headers }],
    ['HEAD', { method: 'HEAD', headers: POST.headers }],
    ['POST without a word of event streams', { method: 'POST', body: 'grant_type=refresh_token' }]
  ])('%s goes out with the init that came', async (_name, init) => {
    const { url } = await scripted(status(200))
    const { fetch, inits, answers } = observed()
    expect(await fetch(url, init)).toBe(answers[0])
    expect(inits[0]).toEqual(init ?? {})
  })

  it('announces itself, and keeps what it prefers besides', async () => {
    const { url, requests } = await scripted(status(202), status(202))
    const fetch = resumableFetch()
    await fetch(url, POST)
    await fetch(url, { ...POST, headers: { ...POST.headers, Prefer: 'respond-async' } })
    expect(requests.map(({ headers }) => headers['prefer'])).toEqual([
      'rel=stream',
      'respond-async, rel=stream'
    ])
  })

  it('has an Idempotency-Key that is unique and unguessable', async () => {
    const { url, requests } = await scripted(...Array.from({ length: 50 }, () => status(202)))
    const fetch = resumableFetch()
    for (let i = 0; i < 50; i++) await fetch(url, POST)
    const keys = requests.map(({ headers }) => headers['idempotency-key'] as string)
    expect(new Set(keys).size).toBe(50)
    for (const key of keys) expect(key).toMatch(/^\d{20,48}$/)
  })

  it('leaves the headers and the init of its caller alone', async () => {
    const { url } = await scripted(status(202))
    const headers = new Headers(POST.headers)
    const init = Object.freeze({ ...POST, headers })
    await resumableFetch()(url, init)
    expect([...headers]).toEqual([...new Headers(POST.headers)])
  })
})

it('a response to a relative URL, by a custom fetch whose responses have no URL, is passed on', async () => {
  const fetch = resumableFetch({ fetch: () => Promise.resolve(Response.json(result(1, 'done'))) })
  expect(await (await fetch('/mcp', POST)).json()).toMatchObject({ id: 1 })
})

describe('a server that has not shown that it knows Idempotency-Keys', () => {
  it.each([
    ['whose answer is lost', reset],
    ['whose answer is cut off', half],
    ['whose gateway is in trouble', status(502)]
  ])('and %s gets no request twice', async (_name, answer) => {
    const { url, requests } = await scripted(answer, json('twice'))
    const fetch = resumableFetch(FAST)
    await fetch(url, POST)
      .then(
        given => given.text(),
        () => undefined
      )
      .catch(() => undefined)
    expect(requests.length).toBeLessThan(2)
  })

  it('is resumed from all the same, if it gives a stream link', async () => {
    const { url, requests } = await scripted(
      cut(note('1', 1)),
      whole(response('2')),
      reset,
      json('twice')
    )
    const fetch = resumableFetch(FAST)
    expect((await readAll(await fetch(url, POST))).text).toBe(note('1', 1) + response('2'))
    await expect(fetch(url, POST)).rejects.toThrow()
    expect(requests.length).toBe(3)
  })

  it('is not trusted for what another server has shown', async () => {
    const known = await scripted(greeting)
    const unknown = await scripted(reset, json('twice'))
    const fetch = await acquainted(known.url)
    await expect(fetch(unknown.url, POST)).rejects.toThrow()
    expect(unknown.requests.length).toBe(1)
  })

  it('is not trusted for another value of Preference-Applied', async () => {
    const { url } = await scripted(
      json({}, { 'Preference-Applied': 'respond-async, rel="next stream"' }),
      reset,
      json('twice')
    )
    const fetch = await acquainted(url)
    await expect(fetch(url, POST)).rejects.toThrow()
  })
})

describe('a server that has shown that it knows Idempotency-Keys', () => {
  it('gets a lost request again, byte for byte, until it answers', async () => {
    const { url, requests } = await scripted(
      greeting,
      status(503),
      status(502),
      status(504),
      json('answer', KNOWN)
    )
    const fetch = await acquainted(url)
    expect(await (await fetch(url, POST)).json()).toBe('answer')
    const [, first, ...rest] = requests
    for (const { method, url, headers, body } of rest) {
      expect({ method, url, headers, body }).toEqual({
        method: 'POST',
        url: first!.url,
        headers: first!.headers,
        body: first!.body
      })
    }
    expect(rest.length).toBe(3)
  })

  it('is recognised by its URL, whatever the query', async () => {
    const { url } = await scripted(greeting, reset, json('answer'))
    const fetch = await acquainted(`${url}?tenant=a`)
    expect(await (await fetch(`${url}?tenant=b#c`, POST)).json()).toBe('answer')
  })

  it('is given up after maxRetries, with the last answer or the last error', async () => {
    const { url, requests } = await scripted(
      greeting,
      status(502),
      status(503, {}, 'last'),
      status(502),
      reset
    )
    const fetch = await acquainted(url, { maxRetries: 1 })
    const answer = await fetch(url, POST)
    expect([answer.status, await answer.text()]).toEqual([503, 'last'])
    await expect(fetch(url, POST)).rejects.toMatchObject({ name: 'TypeError' })
    expect(requests.length).toBe(5)
  })

  it('gets the request again where its JSON answer was cut off', async () => {
    const { url, requests } = await scripted(
      greeting,
      half,
      json({ whole: true }, { 'X-Custom': 'kept' })
    )
    const fetch = await acquainted(url)
    const answer = await fetch(url, POST)
    expect([answer.url, answer.headers.get('x-custom'), await answer.json()]).toEqual([
      url,
      'kept',
      { whole: true }
    ])
    expect(requests.length).toBe(3)
  })

  it('gets the request again after silence, before the head or inside a JSON body', async () => {
    const half: ServerAnswer = res => {
      res.writeHead(200, { 'Content-Type': 'application/json' })
      res.write('{"half')
    }
    const { url, requests } = await scripted(greeting, () => undefined, half, json('answer'))
    const fetch = await acquainted(url, { idleTimeout: 100 })
    expect(await (await fetch(url, POST)).json()).toBe('answer')
    await Promise.all(requests.map(({ closed }) => closed))
  })

  it.each<[string, ServerAnswer]>([
    ['without a type', status(200)],
    ['in JSON', status(200, { 'Content-Type': 'application/json' })],
    ['of a type that was cut off', status(200, { 'Content-Type': 't' })],
    ['of another', status(200, { 'Content-Type': 'application/j' })],
    [
      'of a stream whose link was cut off',
      status(200, { 'Content-Type': 'text/event-stream', Link: '<?stre', ...KNOWN })
    ]
  ])(
    'gets the request again for a head without a body, %s, as browsers make one of a partial head',
    async (_name, empty) => {
      const { url, requests } = await scripted(greeting, empty, empty, json('answer'))
      const fetch = await acquainted(url)
      expect(await (await fetch(url, POST)).json()).toBe('answer')
      expect(requests.length).toBe(4)
    }
  )

  it.each([{}, { 'Content-Length': '0' }, { 'Content-Type': 'application/json' }])(
    'is not asked again for nothing behind a head where nothing was asked: %j',
    async headers => {
      const { url, requests } = await scripted(greeting, status(200, headers))
      const fetch = await acquainted(url)
      const body = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })
      const answer = await fetch(url, { ...POST, body })
      expect([answer.status, await answer.text(), requests.length]).toEqual([200, '', 2])
    }
  )

  it('has its response passed on as it is, where a proxy removes its links', async () => {
    const bare = (text: string): ServerAnswer => whole(text, { ...KNOWN, Link: '' })
    const { url, requests } = await scripted(
      greeting,
      bare(response('1')),
      cut(note('2', 2), { ...KNOWN, Link: '' })
    )
    const fetch = await acquainted(url)
    expect(await (await fetch(url, POST)).text()).toBe(response('1'))
    const { text, error } = await readAll(await fetch(url, POST))
    expect([text, error]).toMatchObject([note('2', 2), { name: 'TypeError' }])
    expect(requests.length).toBe(3)
  })

  it('may be silent for longer than idleTimeout behind a head without a link', async () => {
    const opened = gate()
    const body = new ReadableStream({
      async pull(controller) {
        await opened.opened
        controller.enqueue(new TextEncoder().encode(response('1')))
        controller.close()
      }
    })
    const headers = { 'Content-Type': 'text/event-stream', ...KNOWN }
    const answers = [Response.json({}, { headers: KNOWN }), new Response(body, { headers })]
    const fetch = resumableFetch({
      ...FAST,
      idleTimeout: 10,
      fetch: () => Promise.resolve(answers.shift()!)
    })
    await (await fetch('/mcp', POST)).text()
    const answer = fetch('/mcp', POST)
    await new Promise(resolve => setTimeout(resolve, 30))
    opened.open()
    expect(await (await answer).text()).toBe(response('1'))
  })

  it('may take longer than idleTimeout for a JSON body, as long as bytes come', async () => {
    const slow: ServerAnswer = async res => {
      res.writeHead(200, { 'Content-Type': 'application/json' })
      for (const part of ['"', 'a', 'b', 'c', '"']) {
        res.write(part)
        await new Promise(resolve => setTimeout(resolve, 100))
      }
      res.end()
    }
    const { url, requests } = await scripted(greeting, slow)
    const fetch = await acquainted(url, { idleTimeout: 400 })
    expect(await (await fetch(url, POST)).json()).toBe('abc')
    expect(requests.length).toBe(2)
  })

  it('has the connection closed of an answer that was given up', async () => {
    const { url, requests } = await scripted(
      greeting,
      res => res.writeHead(502).flushHeaders(),
      json(result(1, 'done'), KNOWN)
    )
    const fetch = await acquainted(url)
    expect(await (await fetch(url, POST)).json()).toMatchObject({ id: 1 })
    await requests[1]!.closed
  })

  it('that stays silent fails the call with an error that says so', async () => {
    const { url } = await scripted(
      greeting,
      () => undefined,
      () => undefined
    )
    const fetch = await acquainted(url, { idleTimeout: 50, maxRetries: 1 })
    await expect(fetch(url, POST)).rejects.toThrow('Silence')
  })

  it('gets anything but a POST once only', async () => {
    const { url, requests } = await scripted(greeting, reset, json('twice'))
    const fetch = await acquainted(url)
    await expect(fetch(url, { headers: POST.headers })).rejects.toThrow()
    expect(requests.length).toBe(2)
  })

  it('gets a request once only, whose body cannot be sent twice or is too long', async () => {
    const { url, requests } = await scripted(greeting, status(503), status(503), status(503))
    const fetch = await acquainted(url)
    for (const body of [
      new Blob([POST.body]),
      new TextEncoder().encode(POST.body),
      JSON.stringify('x'.repeat(2 ** 20))
    ])
      expect((await fetch(url, { ...POST, body })).status).toBe(503)
    expect(requests.slice(1).map(({ headers }) => headers['idempotency-key'])).toEqual([
      undefined,
      undefined,
      undefined
    ])
  })

  it('may answer with a status that `new Response()` refuses', async () => {
    const { url, requests } = await scripted(greeting, status(799, KNOWN, 'odd'))
    const answer = await (await acquainted(url))(url, POST)
    expect([answer.status, await answer.text(), requests.length]).toEqual([799, 'odd', 2])
  })

  it('gives other answers as it would without us', async () => {
    const { url } = await scripted(
      greeting,
      status(404, {}, 'no session'),
      status(400),
      status(429),
      status(202)
    )
    const fetch = await acquainted(url)
    const answers = []
    for (let i = 0; i < 4; i++) answers.push((await fetch(url, POST)).status)
    expect(answers).toEqual([404, 400, 429, 202])
  })
})
