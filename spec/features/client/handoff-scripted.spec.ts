// The client's half of the hand-off, request by request: answers are kept until the server waits
// for them, and go in one POST.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { resumableFetch, type ResumableFetchOptions } from '../../../lib/client/index.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import {
  acquainted,
  block,
  cut,
  FAST,
  greeting,
  KNOWN,
  LISTEN,
  open,
  POST,
  readAll,
  reset,
  response,
  scripted,
  type ServerAnswer,
  status,
  whole
} from './scripted.js'

afterEach(() => void jest.restoreAllMocks())

const ask = (id: string, requestId: string | number): string =>
  block(
    id,
    JSON.stringify({ method: 'elicitation/create', params: {}, jsonrpc: '2.0', id: requestId })
  )
const takeBack = (id: string, requestId: string | number): string =>
  block(
    id,
    JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } })
  )
const answerTo = (id: string | number) => ({ jsonrpc: '2.0', id, result: { action: 'accept' } })
const posted = (messages: unknown): RequestInit => ({ ...POST, body: JSON.stringify(messages) })
const often = <T>(count: number, ...values: T[]): T[] =>
  Array.from({ length: count }, () => values).flat()
const accepted: ServerAnswer = status(202)
const theirTurn: ServerAnswer = status(204)

/**
 * A call whose first connection asks what is given and ends; then the given answers. `KNOWN`: the
 * server hands off.
 */
async function calling(
  first: string,
  answers: ServerAnswer[],
  options: ResumableFetchOptions = {},
  headers: Record<string, string> = KNOWN
) {
  const { url, requests } = await scripted(greeting, whole(first, headers), ...answers)
  const fetch = await acquainted(url, options)
  const body = readAll(await fetch(url, POST))
  // By the third request the client has read what it is asked.
  const answer = async (messages: unknown): Promise<Response> => {
    await requests.nth(3)
    return fetch(url, posted(messages))
  }
  return { requests, body, answer }
}

describe("a client's answer to a question that came on a stream", () => {
  it('gets 202 at once, and is posted to the stream URL once the server answers 204', async () => {
    const { requests, body, answer } = await calling(ask('1', 0), [theirTurn, whole(response('2'))])
    const taken = await answer(answerTo(0))
    expect([taken.status, await taken.text()]).toEqual([202, ''])
    expect((await body).text).toBe(ask('1', 0) + response('2'))
    expect(requests.slice(2).map(({ method, url }) => `${method} ${url}`)).toEqual([
      'GET /mcp?stream=S',
      'POST /mcp?stream=S'
    ])
    expect(JSON.parse(requests[3]!.body)).toEqual([answerTo(0)])
    expect(requests[3]!.headers).toMatchObject({
      'content-type': 'application/json',
      prefer: 'rel=stream',
      'last-event-id': '1'
    })
  })

  it('is asked for again where the connection was lost with the question and all ids', async () => {
    const { url, requests } = await scripted(
      greeting,
      cut('', KNOWN),
      cut(': the turn is lost\n'),
      theirTurn,
      whole(ask('1', 0) + response('2'))
    )
    const fetch = await acquainted(url)
    expect((await readAll(await fetch(url, POST))).text).toContain(ask('1', 0) + response('2'))
    expect(requests.slice(2).map(({ method }) => method)).toEqual(['GET', 'GET', 'GET'])
  })

  it('is posted together with the answers to all other open questions', async () => {
    const { requests, body, answer } = await calling(ask('1', 1) + ask('2', 2) + ask('3', 3), [
      theirTurn,
      whole(response('4'))
    ])
    for (const id of [3, 1]) await answer(answerTo(id))
    expect(requests.length).toBe(3)
    await answer(answerTo(2))
    await body
    expect(JSON.parse(requests[3]!.body)).toEqual([answerTo(1), answerTo(2), answerTo(3)])
  })

  it('does not wait for a question that the server has cancelled', async () => {
    const { requests, body, answer } = await calling(ask('1', 1) + ask('2', 2) + takeBack('3', 1), [
      theirTurn,
      whole(response('4'))
    ])
    await answer(answerTo(2))
    await body
    expect(JSON.parse(requests[3]!.body)).toEqual([answerTo(2)])
  })

  it('is posted with the next turn where its question comes in that', async () => {
    const link = { ...KNOWN, Link: '<?stream=S~1>; rel="stream"' }
    const { requests, body, answer } = await calling(ask('1', 1), [
      theirTurn,
      whole(ask('2', 2), link),
      theirTurn,
      whole(response('3'))
    ])
    await answer(answerTo(1))
    await requests.nth(5)
    await answer(answerTo(2))
    expect((await body).text).toBe(ask('1', 1) + ask('2', 2) + response('3'))
    expect(requests.slice(4).map(({ method, url, body: sent }) => [method, url, sent])).toEqual([
      ['GET', '/mcp?stream=S~1', ''],
      ['POST', '/mcp?stream=S~1', JSON.stringify([answerTo(2)])]
    ])
  })

  it('is given once, however often its question is repeated', async () => {
    const { requests, body, answer } = await calling(ask('1', 1), [
      whole(ask('1', 1)),
      theirTurn,
      whole(response('2'))
    ])
    await answer(answerTo(1))
    await body
    expect(JSON.parse(requests[4]!.body)).toEqual([answerTo(1)])
  })

  it('goes to the call that asked first, where two calls ask under the same id', async () => {
    const other = whole(ask('1', 0), { ...KNOWN, Link: '<?stream=T>; rel="stream"' })
    const rest = [theirTurn, theirTurn, whole(response('2')), whole(response('2'))]
    const { url, requests } = await scripted(greeting, whole(ask('1', 0), KNOWN), other, ...rest)
    const fetch = await acquainted(url)
    const calls = [await fetch(url, POST), await fetch(url, POST)]
    const bodies = calls.map(readAll)
    await requests.nth(5)
    for (const name of ['first', 'second'])
      await fetch(url, posted({ ...answerTo(0), result: { name } }))
    await Promise.all(bodies)
    const sent = requests
      .slice(5)
      .map(({ url: link, body }) => [link, JSON.parse(body)[0].result.name])
    expect(sent.toSorted()).toEqual([
      ['/mcp?stream=S', 'first'],
      ['/mcp?stream=T', 'second']
    ])
  })
})

describe('an answer is posted to the endpoint at once', () => {
  it('where the server has said `handoff=never`', async () => {
    const headers = { 'Preference-Applied': 'rel=stream; handoff=never' }
    const { url, requests } = await scripted(
      greeting,
      open(ask('1', 1), headers),
      accepted,
      status(204)
    )
    const fetch = await acquainted(url)
    const reader = (await fetch(url, POST)).body!.getReader()
    await reader.read()
    expect((await fetch(url, posted(answerTo(1)))).status).toBe(202)
    expect(requests[2]).toMatchObject({
      method: 'POST',
      url: '/mcp',
      body: JSON.stringify(answerTo(1))
    })
    await reader.cancel()
    await requests.nth(4)
  })

  /** A call to a server that has said nothing of itself, and asks; then the given answers. */
  const unknown = async (...answers: ServerAnswer[]) => {
    let end = () => {}
    const asking: ServerAnswer = (res, req) => {
      open(ask('1', 1))(res, req)
      end = () => res.end()
    }
    const { url, requests } = await scripted(asking, ...answers)
    const fetch = resumableFetch(FAST)
    const reader = (await fetch(url, POST)).body!.getReader()
    await reader.read()
    return { url, requests, fetch, reader, end: () => end() }
  }
  const later = (ms: number): void => {
    const now = performance.now()
    jest.spyOn(performance, 'now').mockImplementation(() => now + ms)
  }
  const sent = ({ method, url, body }: { method: string; url: string; body: string }) => [
    method,
    url,
    body
  ]

  it('where the server has not disconnected in time, and so are those that follow', async () => {
    const { url, requests, fetch, reader } = await unknown(
      accepted,
      open(ask('2', 2)),
      accepted,
      status(204)
    )
    later(6000)
    expect((await fetch(url, posted(answerTo(1)))).status).toBe(202)
    expect(sent(await requests.nth(2))).toEqual(['POST', '/mcp', JSON.stringify(answerTo(1))])
    const second = (await fetch(url, POST)).body!.getReader()
    await second.read()
    await fetch(url, posted(answerTo(2)))
    expect(sent(requests[3]!)).toEqual(['POST', '/mcp', JSON.stringify(answerTo(2))])
    await reader.cancel()
    await second.cancel()
    await requests.nth(6)
  })

  it('with the newest credentials, and not with the abort signal of the call that brought them', async () => {
    const { url, requests, fetch, reader } = await unknown(accepted, status(204))
    later(6000)
    const answered = fetch(url, posted(answerTo(1)))
    const headers = { ...POST.headers, authorization: 'fresh', 'mcp-method': 'tools/call' }
    const aborted = fetch(url, { ...POST, headers, signal: AbortSignal.abort() })
    await expect(aborted).rejects.toThrow('aborted')
    expect((await answered).status).toBe(202)
    const request = await requests.nth(2)
    expect(sent(request)).toEqual(['POST', '/mcp', JSON.stringify(answerTo(1))])
    expect(request.headers.authorization).toBe('fresh')
    expect(request.headers['mcp-method']).toBeUndefined()
    await reader.cancel()
    await requests.nth(3)
  })

  it('and once more to the stream URL, where the server disconnects late after all', async () => {
    const { url, requests, fetch, reader, end } = await unknown(
      accepted,
      theirTurn,
      whole(response('2'))
    )
    later(6000)
    await fetch(url, posted(answerTo(1)))
    await requests.nth(2)
    end()
    expect(new TextDecoder().decode((await reader.read()).value)).toBe(response('2'))
    expect(sent(requests[3]!)).toEqual(['POST', '/mcp?stream=S', JSON.stringify([answerTo(1)])])
  })

  it('but is kept where it comes before the server has shown what it does', async () => {
    const { url, requests, fetch, reader, end } = await unknown(theirTurn, whole(response('2')))
    expect((await fetch(url, posted(answerTo(1)))).status).toBe(202)
    end()
    expect(new TextDecoder().decode((await reader.read()).value)).toBe(response('2'))
    expect(requests.slice(1).map(sent)).toEqual([
      ['GET', '/mcp?stream=S', ''],
      ['POST', '/mcp?stream=S', JSON.stringify([answerTo(1)])]
    ])
  })

  it('a while ago: a call that is over by then ends, and asks no more', async () => {
    const asking: ServerAnswer = (res, req) => open(ask('1', 1), KNOWN)(res, req)
    let end = () => {}
    const held: ServerAnswer = (res, req) => {
      asking(res, req)
      end = () => res.end()
    }
    const { url, requests } = await scripted(greeting, held, accepted, ...often(8, theirTurn))
    const fetch = await acquainted(url)
    const reader = (await fetch(url, POST)).body!.getReader()
    await reader.read()
    await fetch(url, posted([answerTo(1), answerTo('stranger')]))
    later(31_000)
    end()
    const { value } = await reader.read()
    expect(new TextDecoder().decode(value)).toContain('"reason":"no-response"')
    await expect(reader.read()).rejects.toMatchObject({ code: 'no-response' })
    expect(requests).toHaveLength(4)
  })

  it('where it comes with others, and is not waited for: a server that has not taken it yet is asked again', async () => {
    let polls = 0
    const slow: ServerAnswer = (res, req) => {
      if (req.method === 'POST') accepted(res, req)
      else (++polls < 3 ? theirTurn : whole(response('2')))(res, req)
    }
    const { requests, body, answer } = await calling(ask('1', 1), often(6, slow))
    await answer([answerTo(1), answerTo('stranger')])
    expect((await body).text).toBe(ask('1', 1) + response('2'))
    const posts = requests.filter(({ method }) => method === 'POST')
    expect(posts.map(({ url }) => url)).toEqual(['/mcp', '/mcp', '/mcp'])
  })

  it.each<[string, (string | number)[], (string | number)[]]>([
    ['a thousand requests have come since its own', [1, 2], often(1000, 3).map((n, i) => n + i)],
    [
      'its id is very long, and so is that of a request since',
      ['x'.repeat(1025)],
      ['y'.repeat(1025)]
    ]
  ])('where %s, whether it came before them or comes later', async (_name, first, rest) => {
    const asked = gate()
    const asking = (ids: (string | number)[]) =>
      ids.map(id => ask(`e${id}`.slice(0, 9), id)).join('')
    const next: ServerAnswer = async (res, req) => {
      await asked.opened
      whole(asking(rest))(res, req)
    }
    const other: ServerAnswer = (res, req) => {
      if (req.url === '/mcp') accepted(res, req)
      else (req.method === 'GET' ? theirTurn : whole(response('last')))(res, req)
    }
    const { requests, body, answer } = await calling(asking(first), [next, ...often(9, other)])
    const straight = () => requests.slice(2).filter(({ url }) => url === '/mcp')
    await answer(answerTo(first[0]!))
    expect(straight()).toEqual([])
    asked.open()
    await until(() => straight().length === 1)
    if (first.length > 1) await answer(answerTo(first[1]!))
    await answer(rest.map(answerTo))
    expect((await body).text).toContain(response('last'))
    expect(straight().map(request => JSON.parse(request.body))).toEqual(first.map(answerTo))
    const { url, body: sent } = requests.at(-1)!
    expect([url, JSON.parse(sent)]).toEqual(['/mcp?stream=S', rest.map(answerTo)])
  })

  it('where the question came on a listen channel', async () => {
    const { url, requests } = await scripted(
      greeting,
      open(ask('1', 1), KNOWN),
      accepted,
      status(204)
    )
    const fetch = await acquainted(url)
    const reader = (await fetch(url, LISTEN)).body!.getReader()
    await reader.read()
    await fetch(url, posted(answerTo(1)))
    expect(requests[2]).toMatchObject({ method: 'POST', url: '/mcp' })
    await reader.cancel()
    await requests.nth(4)
  })

  it.each<[string, unknown]>([
    ['nobody has asked for', answerTo('stranger')],
    ['comes with one that nobody has asked for', [answerTo(1), answerTo('stranger')]],
    [
      'comes with a notification',
      [answerTo(1), { jsonrpc: '2.0', method: 'notifications/initialized' }]
    ]
  ])('where it %s', async (_name, messages) => {
    const { url, requests } = await scripted(
      greeting,
      open(ask('1', 1), KNOWN),
      accepted,
      status(204)
    )
    const fetch = await acquainted(url)
    const reader = (await fetch(url, POST)).body!.getReader()
    await reader.read()
    await fetch(url, posted(messages))
    expect(requests[2]).toMatchObject({
      method: 'POST',
      url: '/mcp',
      body: JSON.stringify(messages)
    })
    await reader.cancel()
    await requests.nth(4)
  })

  it('where it belongs to another session', async () => {
    const { url, requests } = await scripted(
      greeting,
      open(ask('1', 1), KNOWN),
      accepted,
      status(204)
    )
    const fetch = await acquainted(url)
    const reader = (await fetch(url, POST)).body!.getReader()
    await reader.read()
    const other = { ...POST.headers, 'mcp-session-id': 'other' }
    await fetch(url, { ...posted(answerTo(1)), headers: other })
    expect(requests[2]).toMatchObject({ method: 'POST', url: '/mcp' })
    await reader.cancel()
    await requests.nth(4)
  })
})

describe('the POST of the answers to the stream URL', () => {
  it('has each answer byte for byte, with numbers that JavaScript cannot hold', async () => {
    const { url, requests } = await scripted(
      greeting,
      whole(ask('1', 1) + ask('2', 2), KNOWN),
      theirTurn,
      whole(response('3'))
    )
    const fetch = await acquainted(url)
    const body = readAll(await fetch(url, POST))
    await requests.nth(3)
    const written = [1, 2].map(
      id => `{"jsonrpc":"2.0", "id":${id},"result":{"content":{"n":9007199254740993,"m":1.10}}}`
    )
    for (const text of written) expect((await fetch(url, { ...POST, body: text })).status).toBe(202)
    await body
    expect(requests[3]!.body).toBe(`[${written.join()}]`)
  })

  it.each<[string, ServerAnswer]>([
    ['is lost', reset],
    ['meets a gateway without a server', status(502)],
    ['is told to come later', status(503, { 'Retry-After': '0' })],
    ['is cut off in its head', (_res, req) => void req.socket.end('HTTP/1.1 200 OK\r\nContent-')]
  ])('is sent again where it %s', async (_name, trouble) => {
    const { requests, body, answer } = await calling(ask('1', 1), [
      theirTurn,
      trouble,
      whole(response('2'))
    ])
    await answer(answerTo(1))
    expect((await body).text).toBe(ask('1', 1) + response('2'))
    expect(requests[4]!.body).toBe(requests[3]!.body)
  })

  it('is sent once more with fresh headers after 401', async () => {
    let token = 0
    const headers = () => ({ Authorization: `Bearer ${++token}` })
    const { requests, body, answer } = await calling(
      ask('1', 1),
      [theirTurn, status(401), whole(response('2'))],
      {
        headers
      }
    )
    await answer(answerTo(1))
    expect((await body).error).toBeUndefined()
    expect(requests.slice(3).map(({ headers: { authorization } }) => authorization)).toEqual([
      'Bearer 2',
      'Bearer 3'
    ])
  })

  it.each<[string, ServerAnswer]>([
    ['stream-unknown', status(404)],
    ['events-evicted', status(410)],
    ['refused', status(400)],
    ['no-response', status(204)]
  ])('ends the call with %s where the server says so', async (code, refusal) => {
    const { body, answer } = await calling(ask('1', 1), [theirTurn, refusal])
    await answer(answerTo(1))
    const { text, error } = await body
    expect(error).toMatchObject({ name: 'ResumptionError', code })
    expect(text).toContain(`"reason":"${code}"`)
  })

  /**
   * A call that asks, however often it is sent: a busy machine may take a slow answer for a lost
   * one. `turn` answers its stream URL.
   */
  const thinking = async (turn: ServerAnswer, maxRetries = 20, idleTimeout = 100) => {
    const either: ServerAnswer = (res, req) =>
      (req.url === '/mcp' ? whole(ask('1', 1), KNOWN) : turn)(res, req)
    const { url, requests } = await scripted(greeting, ...often(200, either))
    const fetch = await acquainted(url, { idleTimeout, maxRetries })
    const body = readAll(await fetch(url, POST))
    const sent = (method: string) =>
      requests.filter(request => request.method === method && request.url !== '/mcp')
    return { body, sent, answer: () => fetch(url, posted(answerTo(1))) }
  }
  const whoever: ServerAnswer = (res, req) =>
    (req.method === 'GET' ? theirTurn : whole(response('2')))(res, req)

  it('comes after any time to think, with a poll of the stream now and then', async () => {
    const { body, sent, answer } = await thinking(whoever)
    await until(() => sent('GET').length === 3)
    expect(sent('POST')).toEqual([])
    await answer()
    expect((await body).text).toBe(ask('1', 1) + response('2'))
    expect(JSON.parse(sent('POST')[0]!.body)).toEqual([answerTo(1)])
  })

  it.each([Infinity, 2 ** 40])('waits no shorter where a silence of %d ms is borne', async most => {
    const timers = jest.spyOn(globalThis, 'setTimeout')
    const { body, sent, answer } = await thinking(whoever, 20, most)
    await until(() => sent('GET').length === 1)
    await answer()
    expect((await body).text).toBe(ask('1', 1) + response('2'))
    // What a timer cannot wait for it waits for a millisecond only.
    const delays = timers.mock.calls.map(([, delay = 0]) => delay)
    expect(delays.filter(delay => delay >= 2 ** 31)).toEqual([])
  })

  it('may be waited for over more lost connections than maxRetries allows in a row', async () => {
    let polls = 0
    const lossy: ServerAnswer = (res, req) =>
      (++polls % 2 === 0 && polls < 12 ? reset : whoever)(res, req)
    const { body, answer } = await thinking(lossy, 4)
    await Promise.race([until(() => polls >= 12), body])
    await answer()
    expect((await body).text).toBe(ask('1', 1) + response('2'))
  })

  it('is given up after maxRetries losses', async () => {
    const { requests, body, answer } = await calling(
      ask('1', 1),
      [theirTurn, reset, reset, reset, reset],
      {
        maxRetries: 2
      }
    )
    await answer(answerTo(1))
    expect((await body).error).toMatchObject({ code: 'retries-exhausted' })
    expect(requests.slice(2).map(({ method }) => method)).toEqual(['GET', 'POST', 'POST', 'POST'])
  })

  it('is not made where the server has gone on without the answer', async () => {
    const rest = takeBack('2', 1) + response('3')
    let polls = 0
    const { body, sent } = await thinking((res, req) =>
      (++polls === 1 ? theirTurn : whole(rest))(res, req)
    )
    expect((await body).text).toBe(ask('1', 1) + rest)
    expect(sent('POST')).toEqual([])
  })

  it('is not made for a call that is aborted while it waits: its stream is cancelled', async () => {
    const nothing = [theirTurn, theirTurn, theirTurn]
    const { url, requests } = await scripted(
      greeting,
      whole(ask('1', 1), KNOWN),
      theirTurn,
      status(204),
      ...nothing
    )
    let received = 0
    const fetch = await acquainted(url, {
      fetch: async (...request) => {
        const answer = await globalThis.fetch(...request)
        received++
        return answer
      }
    })
    const abort = new AbortController()
    const body = readAll(await fetch(url, { ...POST, signal: abort.signal }))
    await requests.nth(3)
    // The client has read that it is its turn.
    await until(() => received === 3)
    await new Promise(setImmediate)
    abort.abort(new Error('changed my mind'))
    expect((await body).error).toEqual(new Error('changed my mind'))
    expect(await requests.nth(4)).toMatchObject({ method: 'DELETE', url: '/mcp?stream=S' })
    // An answer that comes all the same is the server's to refuse.
    await fetch(url, posted(answerTo(1)))
    // And nothing else comes: a server that says 204 to it would be asked without end.
    expect(requests.slice(4).map(({ method, url: asked }) => `${method} ${asked}`)).toEqual([
      'POST /mcp'
    ])
  })
})
